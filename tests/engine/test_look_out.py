"""What a look leaves behind in the counters, the log and the loop, answered or not."""

from __future__ import annotations

import logging
from time import perf_counter

import apsw
import pytest
import trio

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import Internal, MqliteError, QueueNotFound, StorageFailed
from mqlite_actor.engine.engine import Engine
from tests.engine.gate import create, teach
from tests.engine.snapshots import observe

STATS = wire.StatsRequest(queue="q")


async def test_an_outage_is_told_once_a_refusal_never_and_a_mistake_with_its_cause(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    cause: Exception = apsw.IOError("on purpose")

    def fail(*_: object) -> object:
        raise cause

    await create(engine, "q")
    with caplog.at_level(logging.ERROR, "mqlite.engine"):
        for _ in range(2):
            with pytest.raises(QueueNotFound):
                await engine.call(wire.StatsRequest(queue="nowhere"))
        assert caplog.records == []
        teach(engine, wire.StatsRequest, fail)
        for _ in range(2):
            engine._store.healthy = True  # else the writer is asked next, and opens the file anew
            with pytest.raises(StorageFailed):
                await engine.call(STATS)
        (record,) = caplog.records
        assert record.getMessage().endswith("(on purpose)")
        assert record.exc_info is None
        cause = LookupError()
        engine._store.healthy = True
        with pytest.raises(Internal):
            await engine.call(STATS)
        assert caplog.records[-1].exc_info is not None


async def test_how_long_looks_took_is_counted_and_who_was_cancelled_before_took_none(
    engine: Engine,
) -> None:
    started = perf_counter()
    await create(engine, "q")
    await engine.call(STATS)
    with pytest.raises(MqliteError):
        await engine.call(wire.StatsRequest(queue="nowhere"))
    with trio.CancelScope() as scope:
        scope.cancel()
        await engine.call(STATS)
    assert scope.cancelled_caught
    rows = (await observe(engine))["storage"]["operations"]
    took = perf_counter() - started
    reads = [row["duration"] for row in rows if row["operation"] == "read"]
    assert [each["count"] for each in reads if each["count"]] == [2, 1], "Observe's own"
    assert all(0 < each["sum_seconds"] < took for each in reads if each["count"])


async def test_the_loop_turns_between_two_small_looks(
    engine: Engine, nursery: trio.Nursery
) -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    await create(engine, "q")
    nursery.start_soon(turn)
    for _ in range(20):
        await engine.call(STATS)
    assert turns >= 10, "nearly at each: a look of which all is cached never waits for anything"
    nursery.cancel_scope.cancel()
