"""A worker process under SIGTERM loses nothing and counts no delivery that no handler saw (B90)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

import mqlite_actor as mq
from mqlite_actor.sdk.stopping import ECHO_SECONDS
from tests.conformance.broker import TOKEN, Broker, running_broker
from tests.services.cli_process import clean_environ
from tests.warm.process import Popen

BOUND_SECONDS = 15.0
FACES = ["trio", "asyncio", "blocking"]


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(f"file:{tmp_path}/mq.db") as broker:
        yield broker


@contextmanager
def worker(
    broker: Broker, face: str, seconds: float
) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    process = Popen(
        [sys.executable, "-m", "tests.sdk.receiving_worker", broker.url, TOKEN, face, str(seconds)],
        env=clean_environ({}),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        with process.stdout as said:
            yield process, said
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def until(said: IO[str], line: str) -> list[str]:
    """The lines up to this one; the worker's end closes the pipe, so this never hangs."""
    found: list[str] = []
    for each in said:
        found.append(each.strip())
        if found[-1] == line:
            return found
    raise AssertionError(f"the worker ended without {line!r}: {found}")


@pytest.mark.parametrize("face", FACES)
def test_a_stopped_worker_finishes_its_slow_handlers_and_leaves_the_rest_untouched(
    own_broker: Broker, face: str
) -> None:
    with mq.connect_sync(own_broker.url, token=TOKEN) as q:
        q.create_queue("q", lock_duration=2, max_delivery_count=2)
        q.send("q", ["slow", "slow", "slow", "later", "later"])
        with worker(own_broker, face, 10) as (process, said):
            lines = [said.readline().strip() for _ in range(3)]
            assert lines == ["saw slow 1"] * 3
            for each in mq.STOP_SIGNALS:  # one wish, as `timeout` and a terminal tell it together
                os.kill(process.pid, each)
            assert until(said, "stopped") == ["did slow"] * 3 + ["stopped"]
            assert process.wait(BOUND_SECONDS) == 0
        counts = q.stats("q")
        assert (counts.active, counts.locked, counts.total) == (2, 0, 2)
        assert [m.delivery_count for m in q.receive("q", max_messages=9)] == [1, 1]


@pytest.mark.parametrize("face", ["trio", "asyncio"])
def test_a_handler_that_does_not_end_in_time_gives_its_message_back_at_once(
    own_broker: Broker, face: str
) -> None:
    with mq.connect_sync(own_broker.url, token=TOKEN) as q:
        q.create_queue("q", max_delivery_count=5)
        q.send("q", ["stuck"])
        with worker(own_broker, face, 0.1) as (process, said):
            assert said.readline() == "saw stuck 1\n"
            os.kill(process.pid, signal.SIGTERM)
            assert until(said, "stopped") == ["stopped"]
            assert process.wait(BOUND_SECONDS) == 0
        (message,) = q.receive("q", max_messages=9)
        assert (message.text, message.delivery_count) == ("stuck", 2)


@pytest.mark.parametrize("face", ["trio", "asyncio"])
def test_a_second_signal_waits_for_no_handler(own_broker: Broker, face: str) -> None:
    with mq.connect_sync(own_broker.url, token=TOKEN) as q:
        q.create_queue("q", max_delivery_count=5)
        q.send("q", ["slow", "stuck"])
        with worker(own_broker, face, 600) as (process, said):
            assert {said.readline(), said.readline()} == {"saw slow 1\n", "saw stuck 1\n"}
            os.kill(process.pid, signal.SIGTERM)
            until(said, "did slow")
            threading.Event().wait(ECHO_SECONDS)
            os.kill(process.pid, signal.SIGTERM)
            until(said, "stopped")
            assert process.wait(BOUND_SECONDS) == 0
        assert q.stats("q").locked == 0


@pytest.mark.parametrize("face", FACES)
def test_an_idle_worker_stops_at_once_and_what_comes_next_is_a_first_delivery(
    own_broker: Broker, face: str
) -> None:
    with mq.connect_sync(own_broker.url, token=TOKEN) as q:
        q.create_queue("q")
        q.send("q", ["quick"])
        with worker(own_broker, face, 10) as (process, said):
            until(said, "did quick")
            os.kill(process.pid, signal.SIGTERM)
            until(said, "stopped")
            assert process.wait(BOUND_SECONDS) == 0
        q.send_one("q", "next")
        assert [m.delivery_count for m in q.receive("q", max_messages=9, wait=5)] == [1]
