"""`mqlite serve --workers N`: several processes that behave as one, also when one of them dies."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
import trio

from mqlite_actor.engine.engine import Engine
from mqlite_broker.settings import read_settings
from mqlite_broker.tally import Sums
from mqlite_broker.workers import Workers
from tests.conformance.audit import audit_file
from tests.services.broker_process import BEARER, MOMENT_SECONDS, BrokerProcess, started, started_by
from tests.services.broker_scene import path, raw
from tests.services.door_client import PATIENCE, Client
from tests.services.test_broker_serve import forced, stalled

READY: Final = re.compile(r"worker ready worker=(\d+) pid=(\d+)")

Reply: TypeAlias = dict[str, Any]
"""A JSON object."""

LOST: Final = (EOFError, OSError, trio.BrokenResourceError)
"""How a client learns that its worker is gone."""


def pids(broker: BrokerProcess) -> list[int]:
    """Processes that ever accepted connections, in the order of their start."""
    return [int(found[2]) for line in broker.err.so_far() if (found := READY.search(line))]


@contextmanager
def only(pid: int, others: Sequence[int]) -> Iterator[None]:
    """Newcomers are accepted by one worker: the others stand still meanwhile."""
    stopped = [each for each in others if each != pid and is_running(each)]
    for each in stopped:
        os.kill(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in stopped:
            os.kill(each, signal.SIGCONT)


@asynccontextmanager
async def connected(broker: BrokerProcess, pid: int) -> AsyncIterator[Client]:
    """A connection that this worker serves."""
    with only(pid, pids(broker)):
        client = await broker.connect()
        await ask(client, "AdminService/Status")  # so it was accepted
    async with client:
        yield client


async def ask(client: Client, call: str, request: object = None, *, field: str = BEARER) -> Reply:
    """A call's reply; AssertionError unless it succeeds."""
    answer = await client.ask(raw(path(call), json.dumps(request or {}).encode(), fields=(field,)))
    assert answer.status == 200, answer
    reply: Reply = json.loads(answer.body)
    return reply


async def once(broker: BrokerProcess, call: str, request: object = None) -> Reply:
    """The same on a connection of its own, whichever worker takes it."""
    async with await broker.connect() as client:
        return await ask(client, call, request)


def message(text: str) -> dict[str, Any]:
    return {"queue": "q", "messages": [{"body": base64.b64encode(text.encode()).decode()}]}


def counted(observed: Reply, rpc: str) -> int:
    """How often a call succeeded."""
    return sum(
        row["count"]
        for row in observed["http"]["requests"]
        if row["rpc"] == rpc and row["code"] == "ok"
    )


async def until_ready(broker: BrokerProcess, number: int) -> list[int]:
    """Return when so many workers have ever got ready."""
    with trio.fail_after(PATIENCE):
        while len(found := pids(broker)) < number:
            await trio.to_thread.run_sync(broker.err.wait_for_more)
    return found


def is_running(pid: int) -> bool:
    """Whether a process does anything any more; one that nobody reaps does not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text("utf-8")
    except FileNotFoundError:
        return False


async def test_every_worker_reads_the_sums_of_all_also_of_a_dead_one(tmp_path: Path) -> None:
    with started(tmp_path, "--workers", "2") as broker:
        assert broker.url
        first, second = pids(broker)
        await once(broker, "AdminService/CreateQueue", {"name": "q"})
        async with connected(broker, first) as one, connected(broker, second) as other:
            for number in range(50):
                await ask(one, "Send", message(f"one {number}"))
                await ask(other, "Send", message(f"other {number}"))
            for client in (one, other):
                assert (
                    counted(await ask(client, "AdminService/Observe"), "QueueService/Send") == 100
                )
            os.kill(first, signal.SIGKILL)
            seen = await ask(other, "AdminService/Observe")
            assert counted(seen, "QueueService/Send") == 100
            latency = {row["rpc"]: row["count"] for row in seen["http"]["handler_latency"]}
            assert latency["QueueService/Send"] == 100
            checks = {row["outcome"]: row["count"] for row in seen["http"]["authentication"]}
            # 100 sends, two statuses to get connected, three looks, and the queue.
            assert checks["success"] == 106
        *_, third = await until_ready(broker, 3)
        async with connected(broker, third) as client:
            assert counted(await ask(client, "AdminService/Observe"), "QueueService/Send") == 100
        broker.stop()


async def test_a_killed_worker_loses_nothing_acknowledged_and_is_replaced(tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    doubtful: set[str] = set()
    with started(tmp_path, "--workers", "2") as broker:
        assert broker.url
        victim, _ = pids(broker)
        await once(broker, "AdminService/CreateQueue", {"name": "q"})
        enough = trio.Event()

        async def produce(client: Client, name: int) -> None:
            async with client:
                for number in range(500):
                    text = f"{name}.{number}"
                    doubtful.add(text)
                    try:
                        await ask(client, "Send", message(text))
                    except LOST:
                        return
                    doubtful.discard(text)
                    acknowledged.add(text)
                    if len(acknowledged) > 200:
                        enough.set()
                    if len(acknowledged) > 400:
                        return

        async with trio.open_nursery() as nursery:
            for name in range(8):
                nursery.start_soon(produce, await broker.connect(), name)
            await enough.wait()
            os.kill(victim, signal.SIGKILL)
        await until_ready(broker, 3)
        stored = await stored_texts(broker)
        broker.stop()
    assert acknowledged <= stored <= acknowledged | doubtful
    assert not audit_file(tmp_path / "mq.db")


async def stored_texts(broker: BrokerProcess) -> set[str]:
    """Every body in q."""
    found: set[str] = set()
    start = 0
    while True:
        page = await once(broker, "Peek", {"queue": "q", "from_seq": start, "max": 1000})
        if not page["messages"]:
            return found
        found |= {base64.b64decode(each["body"]).decode() for each in page["messages"]}
        start = page["messages"][-1]["seq_number"] + 1


async def test_a_killed_workers_polls_take_nothing_and_its_clients_keep_their_leases(
    tmp_path: Path,
) -> None:
    with started(tmp_path, "--workers", "2") as broker:
        assert broker.url
        victim, survivor = pids(broker)
        await once(broker, "AdminService/CreateQueue", {"name": "q"})
        await once(broker, "Send", message("held"))
        async with connected(broker, victim) as client, connected(broker, survivor) as other:
            (held,) = (await ask(client, "Receive", {"queue": "q"}))["messages"]
            polling = await poll(broker, victim)
            os.kill(victim, signal.SIGKILL)
            await until_ready(broker, 3)  # then its link has ended
            await ask(other, "Send", message("later"))
            (later,) = (await ask(other, "Receive", {"queue": "q"}))["messages"]
            assert (later["seq_number"], later["delivery_count"]) == (2, 1)
            lease = {key: held[key] for key in ("seq_number", "lock_token")}
            assert await ask(other, "Complete", {"queue": "q", **lease}) == {"ok": True}
            await polling.close()
        broker.stop()


async def poll(broker: BrokerProcess, pid: int) -> Client:
    """A client of this worker whose receive waits for a message."""
    with only(pid, pids(broker)):
        client = await broker.connect()
        body = json.dumps({"queue": "q", "wait_time_ms": 20_000}).encode()
        await client.send(raw(path("Receive"), body, fields=(BEARER,)))
        async with await broker.connect() as second:  # its answer comes after the poll came in
            await ask(second, "AdminService/Status")
    return client


async def test_a_dead_writer_ends_its_workers(tmp_path: Path) -> None:
    with started(tmp_path, "--workers", "2") as broker:
        assert broker.url
        workers = pids(broker)
        await once(broker, "AdminService/CreateQueue", {"name": "q"})
        polling = await poll(broker, workers[0])
        broker.process.kill()
        with trio.fail_after(PATIENCE):
            assert (await polling.answer("POST")).status == 503, "it says that it cannot know"
            while any(is_running(pid) for pid in workers):
                await trio.to_thread.run_sync(broker.err.wait_for_more)
        await polling.close()
    with started(tmp_path, "--workers", "1", MQLITE_ADDR="127.0.0.1:0") as again:
        assert again.url
        assert await stored_texts(again) == set()
        again.stop()


async def ready(client: Client, status: int) -> bytes:
    """The body of /readyz once it has this status."""
    while True:
        with trio.fail_after(PATIENCE):
            answer = await client.ask(raw("/readyz", method="GET", fields=()))
        if answer.status == status:
            return answer.body
        await trio.to_thread.run_sync(threading.Event().wait, MOMENT_SECONDS)


async def test_every_worker_tells_whether_the_writer_can_work(tmp_path: Path) -> None:
    with started(tmp_path, "--workers", "2") as broker:
        assert broker.url
        first, second = pids(broker)
        async with connected(broker, first) as one, connected(broker, second) as other:
            clients = (one, other)
            for client in clients:
                assert await ready(client, 200) == b"ready"
            broker.signal(signal.SIGSTOP)
            with trio.fail_after(PATIENCE):
                for client in clients:
                    assert b"the writer does not answer" in await ready(client, 503)
            broker.signal(signal.SIGCONT)
            with trio.fail_after(PATIENCE):
                for client in clients:
                    assert await ready(client, 200) == b"ready"
        broker.stop()


async def test_a_stop_answers_the_polls_of_every_worker(tmp_path: Path) -> None:
    with started(tmp_path, "--workers", "2") as broker:
        assert broker.url
        await once(broker, "AdminService/CreateQueue", {"name": "q"})
        polls = [await poll(broker, pid) for pid in pids(broker) for _ in range(5)]
        said = await trio.to_thread.run_sync(broker.stop)
        for client in polls:
            assert json.loads((await client.answer("POST")).body) == {"messages": []}
            await client.close()
        assert not any("worker ended" in line for line in said)
        assert said[-1].endswith("stopped cut=0")


async def test_a_second_signal_ends_the_workers_at_once(tmp_path: Path) -> None:
    with started(tmp_path, "--workers", "2") as broker:
        assert broker.url
        async with await stalled(broker):
            assert await forced(broker, signal.SIGTERM, signal.SIGINT) == 130
        assert not any(is_running(pid) for pid in pids(broker))


async def test_a_request_that_is_cut_at_the_stop_is_counted(tmp_path: Path) -> None:
    with started(tmp_path, "--workers", "2") as broker:
        assert broker.url
        async with await stalled(broker):
            broker.signal(signal.SIGTERM)
            assert broker.ended() == 1
        assert broker.err.to_the_end()[-1].endswith("stopped cut=1")


async def test_a_key_works_at_every_worker_and_its_end_is_known_at_once(tmp_path: Path) -> None:
    with started(tmp_path, "--workers", "2") as broker:
        assert broker.url
        first, second = pids(broker)
        key = {"id": "ab" * 16, "name": "k", "permissions": ["listen"]}
        token = (await once(broker, "AuthService/CreateKey", key))["token"]
        field = f"Authorization: Bearer {token}"
        await once(broker, "AdminService/CreateQueue", {"name": "q"})
        async with connected(broker, first) as one, connected(broker, second) as other:
            for client in (one, other):
                assert (await ask(client, "Stats", {"queue": "q"}, field=field))["total"] == 0
                request = raw(path("Send"), json.dumps(message("x")).encode(), fields=(field,))
                assert (await client.ask(request)).status == 403
            await ask(one, "AuthService/RevokeKey", {"id": "ab" * 16})
            for client in (other, one):
                request = raw(path("Stats"), b'{"queue":"q"}', fields=(field,))
                assert (await client.ask(request)).status == 401
        broker.stop()


def shown_to_all(pid: int) -> list[bytes]:
    """What other users can see, and what its user can."""
    return [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")]


async def test_a_worker_tells_no_token_to_the_process_list(tmp_path: Path) -> None:
    with started(tmp_path, "--workers", "1", MQLITE_TOKENS="") as broker:
        token = broker.err.first(r"token=(mqk_[0-9a-f]{64})")[1]
        assert broker.url
        (pid,) = pids(broker)
        for shown in shown_to_all(pid):
            assert token.encode() not in shown
        async with await broker.connect() as client:
            bearer = f"Authorization: Bearer {token}"
            assert (await ask(client, "AdminService/Status", field=bearer))["auth"]
        broker.stop()


def test_a_busy_port_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with started(tmp_path / "a", "--workers", "1") as first:
        address = f"127.0.0.1:{first.port}"
        with started(tmp_path / "b", "--workers", "1", MQLITE_ADDR=address) as second:
            assert second.ended() == 1
            (line,) = (each for each in second.err.to_the_end() if each.startswith("error:"))
            assert line.startswith(f"error: {address} is in use by another program")
        first.stop()


@pytest.mark.parametrize(("program", "code"), [("/bin/false", 1), ("/nowhere/python", -1)])
async def test_workers_that_cannot_start_are_the_starts_failure(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, program: str, code: int
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    settings = read_settings({}, {"MQLITE_TOKENS": "t"})
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    workers = Workers(engine, settings, listeners, sums=Sums(engine.meter), stopping=trio.Event())
    with trio.fail_after(PATIENCE):
        await workers.run(2)
    assert workers.failure is not None
    assert workers.failure.message == f"a worker ended at its start with code {code}"
    assert listeners[0].socket.fileno() == -1, "the address is free again"


@pytest.mark.cold
async def test_what_lies_in_the_current_folder_is_no_module_of_a_worker(tmp_path: Path) -> None:
    for name in ("queue", "ssl", "trio", "msgspec"):
        (tmp_path / f"{name}.py").write_bytes(bytes(16))  # as a backup of that name begins
    program = (sys.executable, "-P", "-m", "mqlite_cli", "serve")  # as the script `mqlite` is
    with started_by(program, tmp_path, "--workers", "1") as broker:
        assert "version" in await once(broker, "AdminService/Status")
        broker.stop()


@pytest.mark.parametrize("text", ["-1", "65", "two", "1.5"])
def test_a_number_of_workers_that_is_none_is_one_line(tmp_path: Path, text: str) -> None:
    with started(tmp_path, MQLITE_WORKERS=text) as broker:
        assert broker.ended() == 1
        assert broker.err.to_the_end() == [
            f"error: invalid_argument: MQLITE_WORKERS={text!r} is no number from 0 to 64"
        ]


def test_memory_cannot_be_shared_by_workers(tmp_path: Path) -> None:
    with started(tmp_path, "--workers", "1", MQLITE_DB=":memory:") as broker:
        assert broker.ended() == 1
        (line,) = broker.err.to_the_end()
        assert line.startswith(
            "error: invalid_argument: --workers=1: a database in memory cannot be shared"
        )
