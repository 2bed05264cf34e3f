"""The passes of time: their order, their slices, and what a failing one does not do.

Both clocks stand still here and move together by `pass_time`; see tests/engine/gate.py.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
import trio
import trio.testing

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import Closed, StorageFull, Unavailable
from mqlite_actor.engine import commands
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.engine.sweeper import Health
from mqlite_actor.semantics import peek
from mqlite_actor.storage.database import Transaction
from tests.engine.gate import (
    Custom,
    Gate,
    bodies,
    create,
    pass_time,
    sending,
    settled,
    take,
    teach,
)
from tests.engine.local import local

HOUR_MS = 3_600_000
MULTIPLY = """
WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ?)
INSERT OR REPLACE INTO messages (id, queue_id, state, delivery_count, visible_at, locked_until,
  lock_token, enqueued_at, expires_at, body)
SELECT n, (SELECT queue_id FROM messages LIMIT 1), 3, 1, 0, 1, zeroblob(16), 0, 0, x'' FROM c"""

TASKS = ("locks", "scheduled", "ttl", "dedup", "receipts", "retention")
COMMANDS = (
    commands.Reap,
    commands.Activate,
    commands.Expire,
    commands.PruneDuplicates,
    commands.PruneReceipts,
    commands.Retain,
)


@pytest.fixture
async def swept(clock: ManualClock, mock_clock: trio.testing.MockClock) -> AsyncIterator[Engine]:
    """An engine whose passes run when time passes, and have looked once."""
    assert mock_clock.rate == 0
    async with open_engine(":memory:", EngineOptions(clock=clock)) as engine:
        await create(engine, "q", config=wire.QueueConfig(lock_duration_ms=5000))
        await pass_time(engine, clock, mock_clock, 0.05)
        yield engine


def health(engine: Engine, task: str) -> Health:
    each: Health = engine.statistics()["maintenance"][task]
    return each


def fail(engine: Engine, command: type[Any], error: Exception) -> None:
    """Let this pass fail from now on."""

    def refuse(_tx: object, _request: object, _now_ms: int) -> int:
        raise error

    teach(engine, command, refuse)


# -- order -----------------------------------------------------------------------------------------


@pytest.mark.promise("E112")
async def test_all_passes_run_once_in_the_order_of_the_contract(engine: Engine) -> None:
    order: list[type[Any]] = []
    reclaim = engine._keeper._reclaim

    async def note_reclaim() -> int:
        order.append(commands.Reclaim)
        return await reclaim()

    engine._keeper._reclaim = note_reclaim

    def note(command: type[Any]) -> None:
        original = engine._table[command]

        def operation(tx: Any, request: Any, now_ms: int) -> object:  # noqa: ANN401 - as the table
            order.append(command)
            return original(tx, request, now_ms)

        teach(engine, command, operation)

    for command in COMMANDS:
        note(command)
    await engine.run_maintenance_once()
    assert order == [*COMMANDS, commands.Reclaim]
    assert list(engine.statistics()["maintenance"]) == [*TASKS, "reclaim"]
    assert [each.runs for each in engine.statistics()["maintenance"].values()] == [1] * 7


@pytest.mark.promise("E112")
async def test_a_lease_that_is_over_is_ended_before_its_message_expires(
    engine: Engine, clock: ManualClock
) -> None:
    """At the last delivery the reason is the delivery count, not the time to live."""
    await create(engine, "q", config=wire.QueueConfig(lock_duration_ms=5000, max_delivery_count=1))
    await engine.call(wire.SendRequest(queue="q", messages=[wire.Message()], ttl_ms=5000))
    await take(engine, "q")
    clock.advance(5000)
    await engine.run_maintenance_once()
    dead = (await engine.call(wire.PeekRequest(queue="q"))).messages[0]
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"


async def test_a_pass_works_through_more_than_a_slice(engine: Engine, clock: ManualClock) -> None:
    await create(engine, "q", config=wire.QueueConfig(lock_duration_ms=5000))
    number = 2 * limits.MAINTENANCE_ROWS + 1
    await engine.call(sending("q", *[b"x"] * number))
    for _ in range(3):
        await take(engine, "q", limits.RECEIVE_MESSAGES_MAX)
    clock.advance(5000)
    await engine.run_maintenance_once()
    assert (await engine.call(wire.StatsRequest(queue="q"))).active == number
    assert health(engine, "locks").runs == 1


async def test_foreground_work_goes_between_the_slices(
    engine: Engine, clock: ManualClock, nursery: trio.Nursery
) -> None:
    await create(engine, "q", config=wire.QueueConfig(lock_duration_ms=5000))
    await engine.call(sending("q", *[b"x"] * limits.RECEIVE_MESSAGES_MAX * 4))
    for _ in range(4):
        await take(engine, "q", limits.RECEIVE_MESSAGES_MAX)
    clock.advance(5000)
    stop = await Gate(engine, nursery).stop()
    nursery.start_soon(engine.run_maintenance_once)
    await settled()
    active_then: list[int] = []

    def count(tx: Transaction, _request: object, now_ms: int) -> wire.EmptyResponse:
        active_then.append(peek.stats(tx, wire.StatsRequest(queue="q"), now_ms).active)
        return wire.EmptyResponse()

    teach(engine, Custom, count)
    nursery.start_soon(engine.call, Custom())
    await settled()
    stop.release()
    while not active_then:
        await settled()
    assert active_then[0] <= limits.MAINTENANCE_ROWS, "answered after one slice, not after all"


@pytest.mark.promise("E119")
async def test_a_hundred_thousand_due_leases_never_hold_a_send_for_more_than_a_slice(
    engine: Engine, clock: ManualClock, nursery: trio.Nursery
) -> None:
    """Counted in groups, not in seconds: a send shares the writer with one slice at a time."""
    await create(engine, "q")
    await create(engine, "other")
    await engine.call(sending("q", *[b""] * 1000))
    local(engine).run(
        [
            (MULTIPLY, (100_000,)),
            ("UPDATE counts SET active = 0, locked = 100000 WHERE locked + active = 1000", ()),
            ("UPDATE counters SET value = 100000 WHERE name = 'seq'", ()),
        ]
    )
    engine._store.ledger.forget()
    clock.advance(1)
    done = trio.Event()

    async def sweep() -> None:
        await engine.run_maintenance_once()
        done.set()

    nursery.start_soon(sweep)
    waits: list[int] = []
    while not done.is_set():
        before = engine.statistics()["groups"]
        await engine.call(sending("other", b"x"))
        waits.append(engine.statistics()["groups"] - before)
    assert len(waits) > 100_000 / limits.MAINTENANCE_ROWS / 2
    assert max(waits) <= 3
    stats = await engine.call(wire.StatsRequest(queue="q"))
    assert (stats.active, stats.locked) == (100_000, 0)


async def test_each_pass_looks_at_its_cadence_and_at_once_when_something_falls_due_before(
    swept: Engine, clock: ManualClock, mock_clock: trio.testing.MockClock
) -> None:
    await pass_time(swept, clock, mock_clock, 0.05)  # past the pause of each pass
    before = {task: health(swept, task).runs for task in TASKS}

    def since() -> list[int]:
        return [health(swept, task).runs - before[task] for task in TASKS]

    later = wire.ScheduleRequest(
        queue="q", messages=[wire.Message()], scheduled_enqueue_time_ms=clock.now_ms() + 200
    )
    await swept.call(later)
    for seconds, runs in ((0.15, [0, 0]), (0.1, [0, 1]), (1.5, [1, 2])):
        await pass_time(swept, clock, mock_clock, seconds)
        assert since() == [*runs, 0, 0, 0, 0]


# -- failure ---------------------------------------------------------------------------------------


@pytest.mark.promise("E108", "E118")
async def test_a_failing_pass_is_counted_backs_off_and_recovers_while_others_go_on(
    swept: Engine,
    clock: ManualClock,
    mock_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    reap = swept._table[commands.Reap]
    await swept.call(sending("q", b"held"))
    await take(swept, "q")
    clock.advance(5000)
    fail(swept, commands.Reap, StorageFull("no room"))
    before = health(swept, "scheduled").runs
    tried_at: list[float] = []
    with caplog.at_level(logging.ERROR, "mqlite.maintenance"):
        failures = 0
        for step in range(4 * 75):
            await pass_time(swept, clock, mock_clock, 0.25)
            if health(swept, "locks").failures > failures:
                failures = health(swept, "locks").failures
                tried_at.append(step / 4)
                assert "task=locks failed: no room" in caplog.text, "told at the first"
    pauses = [later - earlier for earlier, later in pairwise(tried_at)]
    assert [round(pause) for pause in pauses] == [2, 4, 8, 16, 30], "doubled, up to half a minute"
    locks = health(swept, "locks")
    assert (locks.failures, locks.consecutive_failures) == (6, 6)
    assert (locks.last_error, locks.recovered_at_ms) == ("full", 0)
    assert clock.now_ms() - 30_000 < locks.last_failure_at_ms <= clock.now_ms()
    assert health(swept, "scheduled").runs >= before + 60
    assert health(swept, "scheduled").failures == 0
    ours = [record for record in caplog.records if record.name == "mqlite.maintenance"]
    assert len(ours) == 1, "one line an outage, not one a try"
    await swept.call(sending("q", b"foreground goes on"))

    teach(swept, commands.Reap, reap)
    await pass_time(swept, clock, mock_clock, 30)
    locks = health(swept, "locks")
    assert (locks.consecutive_failures, locks.failures) == (0, 6)
    assert 0 < locks.recovered_at_ms <= locks.last_success_at_ms
    assert await bodies(swept, "q", "active") == [b"held", b"foreground goes on"]
    runs = locks.runs
    await pass_time(swept, clock, mock_clock, 1.5)
    assert health(swept, "locks").runs > runs, "at its old cadence again"


@pytest.mark.promise("E118")
@pytest.mark.parametrize("command", COMMANDS)
async def test_no_pass_can_end_the_engine_or_its_siblings(
    swept: Engine,
    clock: ManualClock,
    mock_clock: trio.testing.MockClock,
    command: type[Any],
) -> None:
    fail(swept, command, RuntimeError("a fault of ours"))
    await pass_time(swept, clock, mock_clock, 61)
    runs = {task: health(swept, task) for task in TASKS}
    broken = TASKS[COMMANDS.index(command)]
    assert {task for task in TASKS if runs[task].failures} == {broken}
    assert {task for task in TASKS if runs[task].runs} == set(TASKS)
    await swept.call(sending("q", b"x"))


async def test_run_once_raises_what_a_pass_raises_after_counting_it(engine: Engine) -> None:
    fail(engine, commands.Activate, Unavailable("not now"))
    with pytest.raises(Unavailable):
        await engine.run_maintenance_once()
    assert health(engine, "scheduled").consecutive_failures == 1
    assert health(engine, "locks").consecutive_failures == 0


async def test_a_pass_that_closing_interrupts_is_no_failure(
    clock: ManualClock, mock_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    async with open_engine(":memory:", EngineOptions(clock=clock)) as engine:
        stop = await Gate(engine, nursery).stop()
        mock_clock.jump(0.01)
        await settled()
        assert engine.statistics()["mailbox_commands"] == len(TASKS)
        engine.close()
        await settled()
        stop.release()
    locks = health(engine, "locks")
    assert (locks.runs, locks.interrupted, locks.failures) == (1, 1, 0)
    with pytest.raises(Closed):
        await engine.run_maintenance_once()
