"""What Observe says of the passes of time: how each is now, and what it was."""

from __future__ import annotations

import apsw
from trio.testing import MockClock

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.engine import commands
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from tests.conformance import asking
from tests.engine.gate import pass_time, teach
from tests.engine.snapshots import TASKS, Document, observe, task


async def run_passes(engine: Engine) -> None:
    """All of them, once; the one that fails ends it."""
    try:
        await engine.run_maintenance_once()
    except MqliteError:
        return


async def test_a_task_that_never_ran_is_unknown_and_one_that_ran_is_ok(
    engine: Engine, clock: ManualClock
) -> None:
    seen = await observe(engine)
    assert {(row["runs"], row["health"]) for row in seen["maintenance"]} == {(0, "unknown")}
    await engine.run_maintenance_once()
    seen = await observe(engine)
    for row in seen["maintenance"]:
        assert (row["runs"], row["health"]) == (1, "ok")
        assert row["last_success_at_ms"] == clock.now_ms()
        assert (row["last_failure_at_ms"], row["last_error_code"]) == (0, "")
        assert row["recovered_at_ms"] == 0


async def test_health_says_how_a_task_is_now_and_failures_what_it_was(
    engine: Engine, clock: ManualClock
) -> None:
    reap = engine._table[commands.Reap]

    def fail(_tx: object, _request: object, _now_ms: int) -> object:
        raise apsw.FullError

    def shown(seen: Document) -> tuple[object, ...]:
        row = task(seen, "locks")
        keys = ("runs", "failures", "consecutive_failures", "health", "recovered_at_ms")
        return tuple(row[key] for key in keys)

    teach(engine, commands.Reap, fail)
    await run_passes(engine)
    await run_passes(engine)
    failed_at = clock.now_ms()
    seen = await observe(engine)
    assert shown(seen) == (2, 2, 2, "failing", 0)
    assert task(seen, "locks")["last_failure_at_ms"] == failed_at
    assert task(seen, "locks")["last_error_code"] == "full"

    clock.advance(1_000)
    teach(engine, commands.Reap, reap)
    await run_passes(engine)
    assert shown(await observe(engine)) == (3, 2, 0, "recovered", failed_at + 1_000)
    clock.advance(1_000)
    await run_passes(engine)
    seen = await observe(engine)
    assert shown(seen) == (4, 2, 0, "recovered", failed_at + 1_000), "the first success counts"
    assert task(seen, "locks")["last_success_at_ms"] == failed_at + 2_000


async def test_a_task_that_fails_again_has_not_recovered_since(
    engine: Engine, clock: ManualClock
) -> None:
    reap = engine._table[commands.Reap]

    def fail(_tx: object, _request: object, _now_ms: int) -> object:
        raise apsw.FullError

    for operation in (fail, reap, fail):
        clock.advance(1_000)
        teach(engine, commands.Reap, operation)
        await run_passes(engine)
    row = task(await observe(engine), "locks")
    assert (row["health"], row["recovered_at_ms"]) == ("failing", 0)


async def test_every_pass_can_fail_and_the_snapshot_goes_on(
    clock: ManualClock, mock_clock: MockClock
) -> None:
    """Passes that break for any reason are shown; none takes its siblings or Observe with it."""
    passes = (
        commands.Reap, commands.Activate, commands.Expire, commands.PruneDuplicates,
        commands.PruneReceipts, commands.Retain,
    )  # fmt: skip

    def fail(_tx: object, _request: object, _now_ms: int) -> object:
        raise ZeroDivisionError

    async with open_engine(":memory:", EngineOptions(clock=clock)) as engine:
        await asking.make(engine, "q")
        for each in passes:
            teach(engine, each, fail)
        await pass_time(engine, clock, mock_clock, 61)
        seen = await observe(engine)
    rows = [task(seen, name) for name in TASKS if name != "reclaim"]
    assert {(row["health"], row["last_error_code"]) for row in rows} == {("failing", "other")}
    assert {row["runs"] == row["failures"] > 0 for row in rows} == {True}
    assert seen["collection"]["state"] == "available"
