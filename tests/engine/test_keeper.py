"""The log stays short beside a busy writer, grows only under a reader, and is cut back after it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import trio
import trio.testing

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import StorageFailed
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from tests.engine.gate import bodies, bounded, create, sending, settled, until
from tests.storage.fault_vfs import Fault, faulty
from tests.storage.foreign import start_holder, stop
from tests.storage.writer import snapshot

DUE, MOST = 20, 60
BODY = bytes(20_000)


@pytest.fixture
def short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints from twenty pages on, a cut at sixty."""
    monkeypatch.setattr(limits, "CHECKPOINT_PAGES", DUE)
    monkeypatch.setattr(limits, "LOG_PAGES_MAX", MOST)
    monkeypatch.setattr(limits, "CHECKPOINT_PAUSE_SECONDS", 0.001)


def move(path: Path, name: str) -> Path:
    """Rename a file within its folder."""
    return path.rename(path.with_name(name))


async def send_much(engine: Engine, number: int) -> None:
    for _ in range(number):
        await engine.call(sending("q", BODY))


async def test_a_log_that_writers_keep_from_its_end_is_cut_after_each_checkpoint(
    engine: Engine, short_log: None
) -> None:
    """A checkpoint beside writers that never rest is behind when it ends, and moving what came in
    meanwhile is the writer's part. How often that is depends on the disk (in memory 27 of 370 times
    were seen); that it is done does not.
    """
    assert short_log is None
    await create(engine, "q")
    sent = 0

    async def write() -> None:
        nonlocal sent
        while sent < 3000 or engine._keeper.checkpoints < 3:
            await send_much(engine, 1)
            sent += 1

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(write)
    assert engine._keeper.truncations > 0
    assert engine._keeper.failures == 0


@pytest.mark.parametrize("synchronous", ["NORMAL", "FULL"])
async def test_a_reader_that_stays_lets_the_log_grow_and_its_end_cuts_it(
    store: Path, clock: ManualClock, short_log: None, synchronous: str
) -> None:
    assert short_log is None
    options = EngineOptions(clock=clock, background=False, synchronous=synchronous)
    async with open_engine(str(store), options) as engine:
        await create(engine, "q")
        reader = start_holder(store, "BEGIN", "SELECT * FROM messages")
        try:
            await send_much(engine, 60)
            await settled()
            assert engine._store.log_pages > MOST
        finally:
            stop(reader)
        with bounded():
            while engine._store.log_pages > MOST:
                await send_much(engine, 1)
    assert sorted(snapshot(store.parent)) == ["mq.db", "mq.db.lock"]


async def test_a_checkpoint_that_fails_is_reported_once_and_stops_nobody(
    store: Path, clock: ManualClock, short_log: None, caplog: pytest.LogCaptureFixture
) -> None:
    assert short_log is None
    with faulty() as vfs:
        options = EngineOptions(clock=clock, background=False)
        async with open_engine(str(store), options) as engine:
            await create(engine, "q")
            with caplog.at_level(logging.ERROR, "mqlite.maintenance"):
                vfs.arm(Fault("write", 1, lasting=True, ending="mq.db"))
                await send_much(engine, 30)
                await until(lambda: engine._keeper.failures > 1)
                vfs.disarm()
                await until(lambda: engine._keeper.failures == 0)
            assert len(caplog.records) == 1
            await send_much(engine, 30)
            assert len(await bodies(engine, "q")) == 60


async def test_a_short_log_is_left_alone(engine: Engine) -> None:
    await create(engine, "q")
    await send_much(engine, 3)
    await settled()
    assert engine._keeper.checkpoints == 0
    assert 0 < engine._store.log_pages < limits.CHECKPOINT_PAGES


async def test_a_file_that_is_replaced_is_noticed_within_a_second_even_by_an_idle_engine(
    store: Path,
    clock: ManualClock,
    mock_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    options = EngineOptions(clock=clock, background=False)
    async with open_engine(str(store), options) as engine:
        await create(engine, "q")
        await settled()
        away = move(store, "away.db")
        with caplog.at_level(logging.ERROR, "mqlite"):
            for _ in range(3):
                mock_clock.jump(1)
                await settled()
        assert len(caplog.records) == 1
        assert "moved, deleted or replaced" in caplog.records[0].getMessage()
        with pytest.raises(StorageFailed):
            await engine.call(sending("q", b"x"))
        move(away, store.name)
        await engine.call(sending("q", b"y"))
        assert await bodies(engine, "q") == [b"y"]


async def test_memory_has_nothing_to_keep(clock: ManualClock) -> None:
    async with open_engine(":memory:", EngineOptions(clock=clock)) as engine:
        await create(engine, "q")
        with trio.move_on_after(0.01):
            await send_much(engine, 10_000)
        assert engine._keeper.checkpoints == engine._keeper.failures == 0
        assert engine._store.truncate_log()
