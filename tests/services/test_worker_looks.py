"""What only looks is answered by a worker from the file itself, beside the writer (design.md 4)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import QueueNotFound
from mqlite_actor.engine.beside import Beside, file_of
from mqlite_actor.engine.engine import Engine
from mqlite_actor.engine.meters import StorageMeter
from tests.services.broker_process import BrokerProcess, started
from tests.services.door_client import PATIENCE
from tests.services.test_workers import ask, connected, message, pids


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One for all; two workers."""
    with started(tmp_path_factory.mktemp("looks"), "--workers", "2") as broker:
        assert broker.url
        yield broker


@contextmanager
def standing_still(broker: BrokerProcess) -> Iterator[None]:
    """The writer's process is stopped."""
    os.kill(broker.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.process.pid, signal.SIGCONT)


def reads(observed: dict[str, Any], outcome: str) -> int:
    """Storage calls that read and ended so."""
    return sum(
        row["duration"]["count"]
        for row in observed["storage"]["operations"]
        if (row["operation"], row["outcome"]) == ("read", outcome)
    )


async def test_looks_are_answered_while_the_writer_stands_still(broker: BrokerProcess) -> None:
    managed = await _managed_key(broker)
    async with connected(broker, pids(broker)[0]) as client:
        await ask(client, "AdminService/CreateQueue", {"name": "still"})
        sent = {**message("one"), "queue": "still"}
        await ask(client, "Send", sent)
        with trio.fail_after(PATIENCE), standing_still(broker):
            assert (await ask(client, "Stats", {"queue": "still"}))["active"] == 1
            peeked = await ask(client, "Peek", {"queue": "still"})
            assert [each["body"] for each in peeked["messages"]] == [sent["messages"][0]["body"]]
            listed = await ask(client, "AdminService/ListQueues")
            assert "still" in [each["name"] for each in listed["queues"]]
            counts = await ask(client, "Stats", {"queue": "still"}, field=managed)
            assert counts["active"] == 1
        await ask(client, "Send", sent)
        assert (await ask(client, "Stats", {"queue": "still"}))["active"] == 2


async def _managed_key(broker: BrokerProcess) -> str:
    """A header field that may listen."""
    async with await broker.connect() as client:
        request = {"id": "5" * 32, "name": "looks", "permissions": ["listen"]}
        made = await ask(client, "AuthService/CreateKey", request)
    return f"Authorization: Bearer {made['token']}"


async def test_a_look_sees_every_acknowledged_write_whoever_made_it(broker: BrokerProcess) -> None:
    first, second = pids(broker)
    async with connected(broker, first) as one, connected(broker, second) as other:
        await ask(one, "AdminService/CreateQueue", {"name": "seen"})
        for number in range(1, 26):
            await ask(one, "Send", {**message("x"), "queue": "seen"})
            for client in (one, other):
                assert (await ask(client, "Stats", {"queue": "seen"}))["active"] == number


async def test_looks_of_workers_are_in_the_writer_s_sums(broker: BrokerProcess) -> None:
    first, second = pids(broker)
    async with connected(broker, first) as one, connected(broker, second) as other:
        await ask(one, "AdminService/CreateQueue", {"name": "sums"})
        before = await ask(one, "AdminService/Observe")
        for _ in range(10):
            for client in (one, other):
                await ask(client, "Stats", {"queue": "sums"})
        after = await ask(other, "AdminService/Observe")
    assert reads(after, "ok") - reads(before, "ok") >= 20


# -- a file that is not what it was ----------------------------------------------------------------


async def test_a_file_that_was_replaced_is_left_to_the_writer(engine: Engine, store: Path) -> None:
    await engine.call(wire.CreateQueueRequest(name="q"))
    beside, asked = Beside(file_of(engine), StorageMeter()), wire.StatsRequest(queue="q")
    try:
        assert (await beside.look(asked)).active == 0
        with pytest.raises(QueueNotFound):
            await beside.look(wire.StatsRequest(queue="other"))
        log = f"{store}-wal"
        os.rename(log, f"{log}-aside")  # noqa: PTH104  # at once
        assert await beside.look(asked) is None
        os.rename(f"{log}-aside", log)  # noqa: PTH104  # the same
        assert (await beside.look(asked)).active == 0
    finally:
        beside.close()


async def test_what_does_more_than_look_is_left_to_the_writer(engine: Engine) -> None:
    beside = Beside(file_of(engine), StorageMeter())
    try:
        assert await beside.look(wire.CreateQueueRequest(name="q")) is None
        with pytest.raises(QueueNotFound):
            await engine.call(wire.StatsRequest(queue="q"))
    finally:
        beside.close()


async def test_closed_it_answers_nothing_and_holds_nothing(engine: Engine) -> None:
    await engine.call(wire.CreateQueueRequest(name="q"))
    beside, asked = Beside(file_of(engine), StorageMeter()), wire.StatsRequest(queue="q")
    assert (await beside.look(asked)).active == 0
    beside.close()
    assert await beside.look(asked) is None
