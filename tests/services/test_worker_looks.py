"""What only looks is answered by a worker from the file itself, beside the writer (design.md 4)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio

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
