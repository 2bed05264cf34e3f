"""What Observe says of the passes of time: how each is now, and what it was."""

from __future__ import annotations

from typing import Any, Final

import apsw
import trio
from trio.testing import MockClock

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract.errors import MqliteError, StorageFull, Unavailable
from mqlite_actor.engine import commands
from mqlite_actor.engine.diagnostics import Trouble
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.engine.sweeper import Health
from mqlite_actor.semantics.operations import Operation
from mqlite_actor.storage.database import Transaction
from tests.conformance import asking
from tests.engine.gate import Gate, pass_time, settled, teach
from tests.engine.snapshots import TASKS, Document, observe, task

PASSES: Final[tuple[type[Any], ...]] = (
    commands.Reap, commands.Activate, commands.Expire, commands.PruneDuplicates,
    commands.PruneReceipts, commands.Retain,
)  # fmt: skip


async def run_passes(engine: Engine) -> None:
    """All of them, once; the one that fails ends it."""
    try:
        await engine.run_maintenance_once()
    except MqliteError:
        return


async def test_a_task_that_never_ran_is_unknown_and_one_that_ran_is_ok(
    engine: Engine, clock: ManualClock
) -> None:
    keys = (
        "runs", "interrupted", "failures", "consecutive_failures", "last_success_at_ms",
        "last_failure_at_ms", "recovered_at_ms", "last_error_code", "health",
    )  # fmt: skip
    seen = await observe(engine)
    rows = {tuple(row[key] for key in keys) for row in seen["maintenance"]}
    assert rows == {(0, 0, 0, 0, 0, 0, 0, "", "unknown")}
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


def test_a_failure_is_told_of_when_it_begins_changes_its_kind_and_is_over() -> None:
    told: list[Trouble] = []
    health = Health("ttl", told.append)
    health.failed(1, 0.5, Unavailable("x"))
    health.failed(2, 0.5, Unavailable("y"))
    health.failed(3, 0.5, StorageFull("x"))
    health.succeeded(4, 0.25)
    health.succeeded(5, 0.25)
    health.failed(6, 0.5, StorageFull("x"))
    assert told == [
        Trouble(at_ms=1, task="ttl", code="busy", detail="Unavailable"),
        Trouble(at_ms=3, task="ttl", code="full", detail="StorageFull"),
        Trouble(at_ms=3, task="ttl", code="full", recovered_at_ms=4),
        Trouble(at_ms=6, task="ttl", code="full", detail="StorageFull"),
    ]
    health.interrupt(1.0)
    assert (health.runs, health.failures, health.interrupted) == (7, 4, 1)
    assert (health.duration.count, health.duration.sum_seconds) == (7, 3.5)


async def test_how_long_a_pass_takes_is_counted_whatever_its_end(
    engine: Engine, clock: ManualClock, nursery: trio.Nursery
) -> None:
    clock.advance(60_000)
    reclaim = engine._keeper._reclaim

    def slow(operation: Operation) -> Operation:
        def run(tx: Transaction, request: object, now_ms: int) -> object:
            clock.advance(250)
            return operation(tx, request, now_ms)

        return run

    def fail(_tx: object, _request: object, _now_ms: int) -> object:
        raise LookupError

    async def reclaim_slowly() -> int:
        clock.advance(250)
        return await reclaim()

    async def reclaim_in_vain() -> int:
        clock.advance(250)
        raise StorageFull("no room")

    def took() -> list[float]:
        health: dict[str, Health] = engine.statistics()["maintenance"]
        return [each.duration.sum_seconds for each in health.values()]

    for command in PASSES:
        teach(engine, command, slow(engine._table[command]))
    engine._keeper._reclaim = reclaim_slowly
    await engine.run_maintenance_once()
    assert took() == [0.25] * 7
    engine._keeper._reclaim = reclaim_in_vain
    await run_passes(engine)
    assert took() == [0.5] * 7
    teach(engine, commands.Reap, slow(fail))
    await run_passes(engine)
    assert took() == [0.75] + [0.5] * 6
    stop = await Gate(engine, nursery).stop()
    with trio.CancelScope() as scope:
        nursery.start_soon(at_rest, scope, clock)
        await engine.run_maintenance_once()
    stop.release()
    assert took() == [1.75] + [0.5] * 6
    assert engine.statistics()["maintenance"]["locks"].interrupted == 1


async def at_rest(scope: trio.CancelScope, clock: ManualClock) -> None:
    """A second later the scope is cancelled."""
    await settled()
    clock.advance(1000)
    scope.cancel()


async def test_every_pass_can_fail_and_the_snapshot_goes_on(
    clock: ManualClock, mock_clock: MockClock
) -> None:
    """Passes that break for any reason are shown; none takes its siblings or Observe with it."""

    def fail(_tx: object, _request: object, _now_ms: int) -> object:
        raise ZeroDivisionError

    async with open_engine(":memory:", EngineOptions(clock=clock)) as engine:
        await asking.make(engine, "q")
        for each in PASSES:
            teach(engine, each, fail)
        await pass_time(engine, clock, mock_clock, 61)
        seen = await observe(engine)
    rows = [task(seen, name) for name in TASKS if name != "reclaim"]
    assert {(row["health"], row["last_error_code"]) for row in rows} == {("failing", "other")}
    assert {row["runs"] == row["failures"] > 0 for row in rows} == {True}
    assert seen["collection"]["state"] == "available"
