"""The passes of time: their order, their cadence, and what a failing one does not do.

trio's time stands still here (`mock_clock`) and moves by `jump`; the engine's clock is ours too.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
import trio.testing

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import Closed, StorageFull, Unavailable
from mqlite_actor.engine import commands
from mqlite_actor.engine.engine import Engine, EngineOptions, open_engine
from mqlite_actor.engine.sweeper import Health
from tests.engine.gate import (
    Call,
    Gate,
    bodies,
    create,
    parked,
    sending,
    settled,
    take,
    taking,
    teach,
)

HOUR_MS = 3_600_000
TASKS = ("locks", "scheduled", "ttl", "dedup", "receipts")
COMMANDS = (
    commands.Reap,
    commands.Activate,
    commands.Expire,
    commands.PruneDuplicates,
    commands.PruneReceipts,
)


@pytest.fixture
async def swept(clock: ManualClock, mock_clock: trio.testing.MockClock) -> AsyncIterator[Engine]:
    """An engine whose passes run when trio's time jumps."""
    assert mock_clock.rate == 0
    async with open_engine(":memory:", EngineOptions(clock=clock)) as engine:
        await create(engine, "q", config=wire.QueueConfig(lock_duration_ms=5000))
        await settled()
        yield engine


def health(engine: Engine, task: str) -> Health:
    each: Health = engine.statistics()["maintenance"][task]
    return each


async def jump(engine: Engine, mock_clock: trio.testing.MockClock, seconds: float) -> None:
    """Let time pass, and every pass that is due run to its end."""
    mock_clock.jump(seconds)
    await settled()
    while engine.statistics()["mailbox_commands"] or engine._actor._thread.borrowed_tokens:
        await settled()
    await settled()


def fail(engine: Engine, command: type[Any], error: Exception) -> None:
    """Let this pass fail from now on."""

    def refuse(_tx: object, _request: object, _now_ms: int) -> int:
        raise error

    teach(engine, command, refuse)


# -- order -----------------------------------------------------------------------------------------


@pytest.mark.promise("E112")
async def test_all_passes_run_once_in_the_order_of_the_contract(engine: Engine) -> None:
    order: list[type[Any]] = []

    def note(command: type[Any]) -> None:
        original = engine._table[command]

        def operation(tx: Any, request: Any, now_ms: int) -> object:  # noqa: ANN401 - as the table
            order.append(command)
            return original(tx, request, now_ms)

        teach(engine, command, operation)

    for command in COMMANDS:
        note(command)
    await engine.run_maintenance_once()
    assert order == list(COMMANDS)
    assert [health(engine, task).runs for task in TASKS] == [1] * len(TASKS)


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
    groups = engine.statistics()["groups"]
    await engine.run_maintenance_once()
    assert (await engine.call(wire.StatsRequest(queue="q"))).active == number
    assert engine.statistics()["groups"] - groups == len(TASKS) + 2 + 1
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

    async def look() -> None:
        active_then.append((await engine.call(wire.StatsRequest(queue="q"))).active)

    nursery.start_soon(look)
    await settled()
    stop.release()
    while not active_then:
        await settled()
    assert active_then[0] <= limits.MAINTENANCE_ROWS, "answered after one slice, not after all"


# -- cadence ---------------------------------------------------------------------------------------


async def test_the_first_pass_comes_a_period_after_opening_and_then_each_period(
    swept: Engine, mock_clock: trio.testing.MockClock
) -> None:
    assert [health(swept, task).runs for task in TASKS] == [0] * 5
    for second in range(1, 4):
        await jump(swept, mock_clock, 1)
        assert [health(swept, task).runs for task in TASKS] == [second, second, 0, 0, 0]
    await jump(swept, mock_clock, 7)
    assert health(swept, "ttl").runs == 1
    await jump(swept, mock_clock, 50)
    assert [health(swept, task).runs for task in ("dedup", "receipts")] == [1, 1]


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
    tried_at: list[int] = []
    runs = 0
    with caplog.at_level(logging.ERROR, "mqlite.maintenance"):
        for second in range(1, 64):
            await jump(swept, mock_clock, 1)
            if health(swept, "locks").runs > runs:
                runs = health(swept, "locks").runs
                tried_at.append(second)
    assert tried_at == [1, 3, 7, 15, 31, 61], "doubled each time, up to half a minute"
    locks = health(swept, "locks")
    assert (locks.failures, locks.consecutive_failures, locks.last_error) == (
        6,
        6,
        "storage_full",
    )
    assert locks.last_failure_at_ms == clock.now_ms()
    assert locks.recovered_at_ms == 0
    assert health(swept, "scheduled").runs == 63
    assert health(swept, "scheduled").failures == 0
    ours = [record for record in caplog.records if record.name == "mqlite.maintenance"]
    assert len(ours) == 1, "one line an outage, not one a try"
    await swept.call(sending("q", b"foreground goes on"))

    teach(swept, commands.Reap, reap)
    await jump(swept, mock_clock, 30)
    locks = health(swept, "locks")
    assert (locks.consecutive_failures, locks.failures) == (0, 6)
    assert locks.recovered_at_ms == locks.last_success_at_ms == clock.now_ms()
    assert await bodies(swept, "q", "active") == [b"held", b"foreground goes on"]
    runs = locks.runs
    await jump(swept, mock_clock, 1)
    assert health(swept, "locks").runs == runs + 1, "at its old cadence again"


@pytest.mark.promise("E118")
@pytest.mark.parametrize("command", COMMANDS)
async def test_no_pass_can_end_the_engine_or_its_siblings(
    swept: Engine, mock_clock: trio.testing.MockClock, command: type[Any]
) -> None:
    fail(swept, command, RuntimeError("a fault of ours"))
    await jump(swept, mock_clock, 60)
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
        mock_clock.jump(1)
        await settled()
        assert engine.statistics()["mailbox_commands"] == 2
        engine.close()
        await settled()
        stop.release()
    locks = health(engine, "locks")
    assert (locks.runs, locks.interrupted, locks.failures) == (1, 1, 0)
    with pytest.raises(Closed):
        await engine.run_maintenance_once()


# -- a wall clock that jumps -----------------------------------------------------------------------


async def test_a_wall_clock_that_steps_back_stops_no_pass_and_no_wait(
    swept: Engine,
    clock: ManualClock,
    mock_clock: trio.testing.MockClock,
    nursery: trio.Nursery,
) -> None:
    await swept.call(sending("q", b"held"))
    held = (await take(swept, "q"))[0]
    call = Call(swept, taking("q", wait_ms=20_000))
    nursery.start_soon(call.run)
    await parked(swept, "q", 1)
    clock.advance(-2 * HOUR_MS)
    for _ in range(19):
        await jump(swept, mock_clock, 1)
    assert health(swept, "locks").runs == 19
    assert not call.ended.is_set()
    await jump(swept, mock_clock, 1)
    assert call.ended.is_set()
    assert call.reply.messages == []
    assert await bodies(swept, "q", "locked") == [b"held"], "the lease just lasts longer"
    await swept.call(
        wire.RenewRequest(queue="q", seq_number=held.seq_number, lock_token=held.lock_token)
    )
    still = (await swept.call(wire.PeekRequest(queue="q"))).messages[0]
    assert still.locked_until_ms == held.locked_until_ms, "renewing never shortens"
    assert (await swept.call(wire.StatsRequest(queue="q"))).oldest_message_age_ms == 0


async def test_a_wall_clock_that_steps_forward_ends_leases_at_the_next_pass_in_order(
    swept: Engine,
    clock: ManualClock,
    mock_clock: trio.testing.MockClock,
    nursery: trio.Nursery,
) -> None:
    await swept.call(sending("q", b"1", b"2", group_id="g"))
    later = clock.now_ms() + HOUR_MS
    await swept.call(
        wire.ScheduleRequest(
            queue="q", messages=[wire.Message(body=b"3")], scheduled_enqueue_time_ms=later
        )
    )
    await take(swept, "q", 2)
    call = Call(swept, taking("q", 10, wait_ms=20_000))
    nursery.start_soon(call.run)
    await parked(swept, "q", 1)
    clock.advance(2 * HOUR_MS)
    await settled()
    assert not call.ended.is_set(), "a wait is measured by the other clock"
    await jump(swept, mock_clock, 1)
    together = call.reply.messages + await take(swept, "q", 10)
    assert [message.body for message in together] == [b"1", b"3"], "2 waits behind 1"
