"""How the MCP server ends, and what it leaves: nothing locked, nothing lost (fault B86)."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio
from mcp.shared.exceptions import MCPDeprecationWarning

from mqlite_actor import connect, open_embedded
from mqlite_actor.contract import wire
from mqlite_mcp.session import Session
from mqlite_mcp.tools import TOOLS
from tests.conformance.broker import BOUND_SECONDS, Broker
from tests.services.broker_process import TOKEN, started
from tests.services.cli_process import clean_environ
from tests.services.mcp_process import (
    INITIALIZE,
    PROGRAM,
    Lines,
    agent,
    await_exit,
    endpoint_of,
    environ_for,
    lease,
    lines,
    result,
    silent,
)

as_users_do = pytest.mark.cold  # what an end takes apart is there then as a start has made it


@pytest.fixture
def queue() -> str:
    return f"mcp-{secrets.token_hex(6)}"


async def held_and_polled(it: Lines, queue: str) -> dict[str, Any]:
    """Let a server hold one message of `queue` and wait for another; the held one."""
    it.begin()
    it.call("held", "receive", queue=queue)
    (message,) = result(it.answer())["structuredContent"]["messages"]
    it.call("poll", "receive", queue=f"{queue}-empty", wait_time_ms=20_000)
    it.say({"jsonrpc": "2.0", "id": "sync", "method": "ping"})
    assert it.answer()["id"] == "sync"
    found: dict[str, Any] = message
    return found


async def assert_given_back(broker: Broker, queue: str) -> None:
    """What was held can be had at once, and nothing is lost to a poll that has gone."""
    async with connect(broker.url, token=broker.token) as handle:
        await handle.send_one(f"{queue}-empty", b"late")
        for name, count in ((queue, 2), (f"{queue}-empty", 1)):
            (message,) = await handle.receive(name, wait=10)
            assert message.delivery_count == count, name


async def made(broker: Broker, queue: str) -> None:
    async with connect(broker.url, token=broker.token) as handle:
        for name in (queue, f"{queue}-empty"):
            await handle.create_queue(name, lock_duration=3600)
        await handle.send_one(queue, b"one")


@as_users_do
@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_the_end_gives_back_what_the_agent_held(
    broker: Broker, tmp_path: Path, queue: str, number: signal.Signals | None
) -> None:
    await made(broker, queue)
    with lines(tmp_path, **environ_for(broker)) as it:
        await held_and_polled(it, queue)
        if number is None:
            assert it.process.stdin is not None
            it.process.stdin.close()
        else:
            it.process.send_signal(number)
        assert it.process.wait(BOUND_SECONDS) == 0
    await assert_given_back(broker, queue)


async def test_what_was_deferred_is_deferred_again() -> None:
    async with open_embedded(":memory:") as handle:
        await handle.create_queue("q", lock_duration=3600)
        await handle.send_one("q", b"aside")
        (message,) = await handle.receive("q")
        await message.defer()
        session = Session(handle, TOOLS)
        request = wire.ReceiveDeferredRequest(queue="q", seq_numbers=[message.seq_number])
        with trio.CancelScope() as scope:
            scope.cancel()  # it comes between the claim and its answer
            await session._ask(request)
        assert scope.cancelled_caught
        assert (await handle.stats("q")).deferred == 1
        await session._ask(request)
        assert (await handle.stats("q")).locked == 1
        assert await session.leases.give_back(handle, seconds=BOUND_SECONDS) == 0
        assert (await handle.stats("q")).deferred == 1


async def test_leases_can_be_kept_for_a_session_that_comes_later(
    broker: Broker, tmp_path: Path, queue: str
) -> None:
    await made(broker, queue)
    async with agent(tmp_path, "--keep-leases", **environ_for(broker)) as it:
        message = await it.one(queue)
    async with agent(tmp_path, **environ_for(broker)) as it:
        assert await it.ok("complete", **lease(queue, message)) == {"ok": True}


def polled_and_held(queue: str) -> list[dict[str, Any]]:
    """What a parent says to its server: a long poll, and a receive that is answered."""
    poll = {"name": "receive", "arguments": {"queue": f"{queue}-empty", "wait_time_ms": 20_000}}
    hold = {"name": "receive", "arguments": {"queue": queue}}
    return [
        INITIALIZE,
        {"jsonrpc": "2.0", "id": "poll", "method": "tools/call", "params": poll},
        {"jsonrpc": "2.0", "id": "hold", "method": "tools/call", "params": hold},
    ]


def orphan(folder: Path, calls: list[dict[str, Any]], environ: dict[str, str]) -> int:
    """The id of a server whose parent made these calls, read two answers, and was killed."""
    program = (
        "import json, subprocess, threading\n"
        f"child = subprocess.Popen({list(PROGRAM)!r}, stdin=-1, stdout=-1, stderr=-3, bufsize=0)\n"
        f"for each in {calls!r}:\n"
        "    child.stdin.write(json.dumps(each).encode() + b'\\n')\n"
        "child.stdout.readline(), child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "threading.Event().wait()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=clean_environ(environ),
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        try:
            assert parent.stdout is not None
            return int(parent.stdout.readline())
        finally:
            parent.kill()


@as_users_do
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux's process descriptors")
async def test_a_killed_parent_takes_the_server_along_and_loses_nothing(
    broker: Broker, tmp_path: Path, queue: str
) -> None:
    await made(broker, queue)
    await_exit(orphan(tmp_path, polled_and_held(queue), environ_for(broker)))
    await assert_given_back(broker, queue)


@as_users_do
def test_a_broker_that_never_answers_does_not_keep_it(tmp_path: Path) -> None:
    with silent() as mute, lines(tmp_path, MQLITE_ENDPOINT=endpoint_of(mute)) as it:
        it.begin()
        it.call(1, "receive", queue="q", wait_time_ms=20_000)
        it.call(2, "send", queue="q", body="x")
        with closing(mute.accept()[0]), closing(mute.accept()[0]):
            assert it.process.stdin is not None
            it.process.stdin.close()
            assert it.process.wait(BOUND_SECONDS) == 0


@pytest.mark.promise("T82")
async def test_a_killed_broker_is_an_answer_and_a_new_one_is_found(tmp_path: Path) -> None:
    with started(tmp_path) as first:
        port = first.port
        environ = {"MQLITE_ENDPOINT": first.url, "MQLITE_TOKEN": TOKEN}
        async with agent(tmp_path, mode="legacy", **environ) as it:
            await it.ok("create_queue", name="q")
            async with trio.open_nursery() as nursery:
                codes: list[str] = []

                async def poll() -> None:
                    refused = await it.refused("receive", queue="q", wait_time_ms=20_000)
                    codes.append(refused["code"])

                nursery.start_soon(poll)
                await it.ok("stats", queue="q")
                first.process.kill()
            assert codes[0] in ("outcome_unknown", "unavailable")
            refused = await it.refused("stats", queue="q")
            assert refused["code"] == "unavailable"
            assert "again" in refused["mend"]
            with pytest.warns(MCPDeprecationWarning, match="ping"):
                await it.client.send_ping()
            with started(tmp_path, MQLITE_ADDR=f"127.0.0.1:{port}") as second:
                assert second.port == port
                assert (await it.ok("stats", queue="q"))["total"] == 0


@as_users_do
async def test_a_file_of_its_own_is_free_again_when_it_ends(tmp_path: Path) -> None:
    async with agent(tmp_path, "--db", "mq.db") as it:
        await it.ok("create_queue", name="q")
        await it.ok("send", queue="q", body="kept")
        await it.one("q")
    async with open_embedded(f"file:{tmp_path / 'mq.db'}") as handle:
        (message,) = await handle.receive("q")
        assert message.text == "kept"


CALLS = int(os.environ.get("MQLITE_MCP_CALLS", "100"))


def weight(process_id: int) -> tuple[int, int]:
    """Descriptors and threads of a process."""
    base = Path("/proc") / str(process_id)
    return len(list((base / "fd").iterdir())), len(list((base / "task").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts in /proc")
async def test_many_calls_leave_nothing_behind(broker: Broker, tmp_path: Path, queue: str) -> None:
    await made(broker, queue)
    with lines(tmp_path, **environ_for(broker)) as it:
        it.begin()
        weights: list[tuple[int, int]] = []
        kinds: list[tuple[str, dict[str, object]]] = [
            ("send", {"queue": queue, "body": "x"}),
            ("peek", {"queue": queue}),
            ("stats", {"queue": queue}),
            ("stats", {"queue": 1}),
        ]
        name = "notifications/cancelled"
        cancelled = {"jsonrpc": "2.0", "method": name, "params": {"requestId": "poll"}}
        for number in range(CALLS):
            tool, arguments = kinds[number % len(kinds)]
            it.call(number, tool, **arguments)
            assert it.answer()["id"] == number
            it.call("poll", "receive", queue=f"{queue}-empty", wait_time_ms=20_000)
            it.say(cancelled)
            if number in (CALLS // 4, CALLS - 1):
                weights.append(weight(it.process.pid))
        early, late = weights
        # A cancelled poll keeps its connection until the broker has noticed: some may be under way.
        assert late[0] <= early[0] + 8
        assert late[1] <= early[1] + 2
        assert it.end() == (0, "")
