"""The test kit: fixtures beside any loop, a clock to move, assertions that can be read."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import mqlite_actor as mq
from mqlite_actor.clock import ManualClock
from mqlite_actor.testing import (
    assert_queue,
    assert_queue_async,
    drain,
    drain_async,
)
from mqlite_actor.testing.broker import running_broker
from tests.services.cli_process import clean_environ

TESTS = """
import asyncio

import pytest
import mqlite_actor as mq
from mqlite_actor.testing import assert_queue, drain


def test_blocking(mq_queue, mq_clock):
    mq_queue.create_queue("q", lock_duration=30)
    mq_queue.send("q", ["a", {"b": 1}])
    assert_queue(mq_queue, "q", "a", {"b": 1})
    mq_queue.receive("q")
    mq_clock.advance(30_000)
    mq_queue.run_maintenance()
    assert [m.delivery_count for m in mq_queue.receive("q")] == [2]


async def test_under_trio(mq_queue):
    mq_queue.create_queue("q")
    async with mq.open_embedded(":memory:") as q:
        await q.create_queue("other")
    assert mq_queue.stats("q").total == 0


def test_under_asyncio(mq_broker):
    async def main():
        async with mq.connect(mq_broker.dsn) as q:
            await q.create_queue("q")
            return await q.send_one("q", "a")
    assert asyncio.run(main()) == 1
"""


def test_the_plugin_works_with_pytest_trio_asyncio_and_without_a_loop(tmp_path: Path) -> None:
    (tmp_path / "test_kit.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-o", "trio_mode=true"]
    if not [each for each in entry_points(group="pytest11") if each.name == "mqlite"]:
        command += ["-p", "mqlite_actor.testing.plugin"]  # a tree that is not installed
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "test_kit.py"],
        cwd=tmp_path,
        env=clean_environ({}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_an_assertion_shows_what_is_missing_unasked_or_in_another_order() -> None:
    with mq.open_embedded_sync(":memory:", clock=ManualClock()) as q:
        q.create_queue("q")
        q.send("q", ["a", {"k": 1, "l": 2}, b"\xff"])
        assert_queue(q, "q", "a", {"l": 2, "k": 1}, b"\xff")
        assert_queue(q, "q", b"\xff", "a", {"k": 1, "l": 2}, in_order=False)
        assert_queue(q, "q", state="dead_lettered")
        for bodies, words in (
            (["a", b"\xff"], "not expected: {'k': 1, 'l': 2} (active)"),
            (["a", {"k": 1, "l": 2}, b"\xff", "more"], "missing: b'more'"),
            ([b"\xff", "a", {"k": 1, "l": 2}], "in another order"),
        ):
            with pytest.raises(AssertionError) as caught:
                assert_queue(q, "q", *bodies)
            assert words in str(caught.value)


def test_more_than_a_page_is_compared() -> None:
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        bodies = [str(number) for number in range(2100)]
        q.send_all("q", bodies)
        assert_queue(q, "q", *bodies)


def test_what_lies_in_the_current_folder_is_no_module_of_a_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("queue", "ssl", "trio", "msgspec"):
        (tmp_path / f"{name}.py").write_bytes(bytes(16))
    monkeypatch.chdir(tmp_path)
    with running_broker() as broker, mq.connect_sync(broker.dsn) as q:
        q.create_queue("q")


def test_draining_handles_what_is_there_and_stops_at_an_error() -> None:
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        q.send("q", ["a", "b"])
        seen: list[str] = []
        assert drain(q, "q", lambda message: seen.append(message.text)) == 2
        assert seen == ["a", "b"]
        q.send_one("q", "c")
        with pytest.raises(ZeroDivisionError):
            drain(q, "q", lambda _: 1 // 0)
        assert_queue(q, "q", "c", state="active")


def test_the_same_for_an_async_handle() -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q")
            await q.send("q", ["a", "b"])
            await assert_queue_async(q, "q", "a", "b")

            async def fail(_: mq.ReceivedMessage) -> None:
                raise ZeroDivisionError

            async def handle(_: mq.ReceivedMessage) -> None:
                return

            with pytest.raises(ZeroDivisionError):
                await drain_async(q, "q", fail)
            assert await drain_async(q, "q", handle) == 2

    asyncio.run(main())
