"""Crowds before a real broker: thousands that say nothing, hundreds that wait at the stop, and a
limit of descriptors."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest
import trio

from mqlite_broker import descriptors
from mqlite_broker.settings import Settings, read_settings
from tests.services.broker_process import BEARER, BrokerProcess, started
from tests.services.broker_scene import path, raw
from tests.services.door_client import PATIENCE, Client

CROWD: Final = 2_000
EACH: Final = 500
"""Connections of one process: below the smallest usual limit of descriptors."""

POLLS: Final = 200

PROGRAM: Final = Path(__file__).with_name("crowd.py")


@contextmanager
def crowd(port: int, number: int, *more: str) -> Iterator[None]:
    """So many silent and slow connections while the block runs; `again`: also after their end."""
    with ExitStack() as stack:
        here = []
        for _ in range(number // EACH):
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, str(PROGRAM), str(port), str(EACH), *more],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(process.kill)
            here.append(process)
        for process in here:
            assert process.stdout is not None
            assert process.stdout.readline() == "here\n"
        yield


async def call(client: Client, name: str, request: object) -> dict[str, list[object]]:
    answer = await client.ask(raw(path(name), json.dumps(request).encode(), fields=(BEARER,)))
    assert answer.status == 200, answer
    reply: dict[str, list[object]] = json.loads(answer.body)
    return reply


async def test_two_thousand_silent_or_slow_connections_do_not_stop_a_normal_client(
    tmp_path: Path,
) -> None:
    with started(tmp_path) as broker:
        async with await broker.connect() as early:
            await call(early, "AdminService/CreateQueue", {"name": "q"})
            with crowd(broker.port, CROWD):
                for number in range(5):
                    async with await broker.connect() as client:
                        await call(client, "Send", {"queue": "q", "messages": [{"body": "eA=="}]})
                        reply = await call(client, "Receive", {"queue": "q", "receive_mode": 1})
                        assert len(reply["messages"]) == 1, number
                        assert (await client.ask(raw("/readyz", method="GET"))).status == 200
        broker.stop()


async def test_a_poll_that_waits_outlasts_a_crowd(tmp_path: Path) -> None:
    """Who has asked something is never sent away for newcomers."""
    with started(tmp_path, MQLITE_MAX_CONNECTIONS="50") as broker:
        async with await broker.connect() as poll, await broker.connect() as client:
            await call(client, "AdminService/CreateQueue", {"name": "q"})
            await poll.send(raw(path("Receive"), b'{"queue":"q","wait_time_ms":20000}'
                                , fields=(BEARER,)))  # fmt: skip
            with crowd(broker.port, EACH):
                async with await broker.connect() as late:
                    await call(late, "Send", {"queue": "q", "messages": [{"body": "eA=="}]})
                answer = await poll.answer("POST")
                assert len(json.loads(answer.body)["messages"]) == 1
        broker.stop()


async def polls(broker: BrokerProcess, stack: AsyncExitStack, number: int) -> list[Client]:
    """Connections on which a poll waits, as far as anybody outside can tell."""
    clients = [await stack.enter_async_context(await broker.connect()) for _ in range(number)]
    body = b'{"queue":"q","wait_time_ms":20000}'
    for client in clients:
        await client.send(raw(path("Receive"), body, fields=(BEARER,)))
    return clients


async def let_in(client: Client) -> int:
    """How many requests the broker has read and let in so far."""
    answer = await client.ask(raw(path("AdminService/Observe"), b"{}", fields=(BEARER,)))
    rows = json.loads(answer.body)["http"]["authentication"]
    return int(next(row["count"] for row in rows if row["outcome"] == "success"))


@pytest.mark.promise("T70", "W130")
async def test_a_stop_under_two_hundred_polls_answers_every_one(tmp_path: Path) -> None:
    with started(tmp_path) as broker:
        async with AsyncExitStack() as stack, await broker.connect() as client:
            await call(client, "AdminService/CreateQueue", {"name": "q"})
            waiting = await polls(broker, stack, POLLS)
            asked = 1
            with trio.fail_after(PATIENCE):
                while await let_in(client) - (asked := asked + 1) < POLLS:
                    pass
            began = trio.current_time()
            broker.signal(signal.SIGTERM)
            for each in waiting:
                answer = await each.answer("POST")
                assert (answer.status, answer.body) == (200, b'{"messages":[]}\n')
                assert answer.headers["connection"] == "close"
                assert await each.ended() == b""
        assert broker.ended() == 0
        # Three seconds on an idle machine; this one is asked ten times as much at once.
        assert trio.current_time() - began < 30
        assert broker.err.to_the_end()[-1].endswith("stopped cut=0")


# -- descriptors -----------------------------------------------------------------------------------


def made_room(number: int, soft: int, hard: int, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """What becomes of settings under these limits; what is set is kept in `chosen`."""
    chosen.clear()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: chosen.append(pair))
    return descriptors.make_room(read_settings({"max-connections": str(number)}, {}))


chosen: list[tuple[int, int]] = []


def test_the_limit_of_descriptors_is_raised_as_far_as_connections_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spare = descriptors.SPARE
    assert made_room(960, 1024, 4096, monkeypatch).connections_max == 960
    assert chosen == [], "it fits as it is"
    assert made_room(3000, 1024, 4096, monkeypatch).connections_max == 3000
    assert chosen == [(3000 + spare, 4096)]
    infinite = resource.RLIM_INFINITY
    assert made_room(9000, 1024, infinite, monkeypatch).connections_max == 9000
    assert made_room(9000, infinite, infinite, monkeypatch).warnings == ()


def test_connections_beyond_the_hard_limit_are_left_out_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = made_room(9000, 1024, 4096, monkeypatch)
    assert settings.connections_max == 4096 - descriptors.SPARE
    (warning,) = settings.warnings
    assert "MQLITE_MAX_CONNECTIONS" in warning
    assert chosen == [(4096, 4096)]


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", "100001", "1" * 30, "１"])
def test_a_number_of_connections_that_is_none_is_refused(text: str) -> None:
    for flags, environ in (
        ({"max-connections": text}, {}),
        ({}, {"MQLITE_MAX_CONNECTIONS": text}),
    ):
        with pytest.raises(Exception, match=r"(?i)max.connections"):
            read_settings(flags, environ)
