"""What falls due is done at once, not at the next whole second, and never early.

Both clocks stand still and move together by `pass_time`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from tests.engine.gate import (
    STEP,
    Call,
    bodies,
    create,
    is_busy,
    parked,
    pass_time,
    sending,
    settled,
    take,
    taking,
)

HOUR_MS = 3_600_000
SHORT = wire.QueueConfig(lock_duration_ms=300)

Time = trio.testing.MockClock


@pytest.fixture
async def swept(clock: ManualClock, mock_clock: Time) -> AsyncIterator[Engine]:
    """An engine whose passes run when time passes, and have looked once."""
    async with open_engine(":memory:", EngineOptions(clock=clock)) as engine:
        await create(engine, "q", config=SHORT)
        await pass_time(engine, clock, mock_clock, STEP)
        yield engine


async def schedule(engine: Engine, at_ms: int, *names: bytes) -> None:
    batch = [wire.Message(body=name) for name in names]
    await engine.call(
        wire.ScheduleRequest(queue="q", messages=batch, scheduled_enqueue_time_ms=at_ms)
    )


def runs(engine: Engine, task: str) -> int:
    number: int = engine.statistics()["maintenance"][task].runs
    return number


# -- cadence ---------------------------------------------------------------------------------------


async def test_every_pass_looks_right_after_opening_and_then_at_its_cadence(
    swept: Engine, clock: ManualClock, mock_clock: Time
) -> None:
    tasks = ("locks", "scheduled", "ttl", "dedup", "receipts", "retention")
    assert [runs(swept, task) for task in tasks] == [1] * 6
    await pass_time(swept, clock, mock_clock, 59)
    counted = {task: runs(swept, task) for task in tasks}
    assert 50 <= counted["locks"] <= 60
    assert 50 <= counted["scheduled"] <= 60
    assert counted["ttl"] == 6
    assert [counted[task] for task in ("dedup", "receipts", "retention")] == [1] * 3
    await pass_time(swept, clock, mock_clock, 3)
    assert [runs(swept, task) for task in ("dedup", "receipts", "retention")] == [2] * 3


async def test_an_engine_with_nothing_to_do_hardly_does_anything(
    swept: Engine, clock: ManualClock, mock_clock: Time
) -> None:
    await schedule(swept, clock.now_ms() + 100 * HOUR_MS, b"far")
    groups = swept.statistics()["groups"]
    await pass_time(swept, clock, mock_clock, 10)
    assert swept.statistics()["groups"] - groups <= 2 * 10 + 1


# -- due -------------------------------------------------------------------------------------------


@pytest.mark.promise("E28")
async def test_a_scheduled_message_comes_at_its_time_and_not_before(
    swept: Engine, clock: ManualClock, mock_clock: Time, nursery: trio.Nursery
) -> None:
    call = Call(swept, taking("q", wait_ms=20_000))
    nursery.start_soon(call.run)
    await parked(swept, "q", 1)
    await schedule(swept, clock.now_ms() + 400, b"x")
    await pass_time(swept, clock, mock_clock, 0.35)
    assert not call.ended.is_set()
    await pass_time(swept, clock, mock_clock, 2 * STEP)
    assert [message.body for message in call.reply.messages] == [b"x"]


@pytest.mark.promise("E108")
async def test_an_expired_lease_is_ended_at_its_time(
    swept: Engine, clock: ManualClock, mock_clock: Time, nursery: trio.Nursery
) -> None:
    await swept.call(sending("q", b"x"))
    await take(swept, "q")
    call = Call(swept, taking("q", wait_ms=20_000))
    nursery.start_soon(call.run)
    await parked(swept, "q", 1)
    await pass_time(swept, clock, mock_clock, 0.25)
    assert not call.ended.is_set()
    await pass_time(swept, clock, mock_clock, 2 * STEP)
    assert [message.delivery_count for message in call.reply.messages] == [2]


async def test_a_renewed_lease_is_not_ended_at_its_old_time(
    swept: Engine, clock: ManualClock, mock_clock: Time
) -> None:
    await swept.call(sending("q", b"x"))
    held = (await take(swept, "q"))[0]
    await pass_time(swept, clock, mock_clock, 0.2)
    renewal = wire.RenewRequest(queue="q", seq_number=held.seq_number, lock_token=held.lock_token)
    await swept.call(renewal)
    await pass_time(swept, clock, mock_clock, 0.25)
    assert await bodies(swept, "q", "locked") == [b"x"]
    await pass_time(swept, clock, mock_clock, 3 * STEP)
    assert await bodies(swept, "q", "active") == [b"x"]


@pytest.mark.promise("E109")
async def test_a_message_past_its_time_goes_at_once_not_within_ten_seconds(
    swept: Engine, clock: ManualClock, mock_clock: Time
) -> None:
    await swept.call(wire.SendRequest(queue="q", messages=[wire.Message()], ttl_ms=400))
    await pass_time(swept, clock, mock_clock, 0.35)
    assert await bodies(swept, "q", "active") == [b""]
    await pass_time(swept, clock, mock_clock, 2 * STEP)
    assert await bodies(swept, "q", "dead_lettered") == [b""]


async def test_the_nearest_of_many_times_counts_in_whatever_order_they_were_set(
    swept: Engine, clock: ManualClock, mock_clock: Time
) -> None:
    start = clock.now_ms()
    for later in (HOUR_MS, 400, 200, 600):
        await schedule(swept, start + later, b"%d" % later)
    seen: list[list[bytes]] = []
    for _ in range(3):
        await pass_time(swept, clock, mock_clock, 0.2 + STEP / 2)
        seen.append(await bodies(swept, "q", "active"))
    assert seen == [[b"200"], [b"400", b"200"], [b"400", b"200", b"600"]]


async def test_a_delayed_retry_comes_at_its_time(
    swept: Engine, clock: ManualClock, mock_clock: Time
) -> None:
    await swept.call(sending("q", b"x"))
    held = (await take(swept, "q"))[0]
    await swept.call(
        wire.AbandonRequest(
            queue="q", seq_number=held.seq_number, lock_token=held.lock_token, delay_ms=400
        )
    )
    await pass_time(swept, clock, mock_clock, 0.35)
    assert await take(swept, "q") == []
    await pass_time(swept, clock, mock_clock, 2 * STEP)
    assert [message.delivery_count for message in await take(swept, "q")] == [2]


async def test_all_that_is_due_together_is_done_together(
    swept: Engine, clock: ManualClock, mock_clock: Time
) -> None:
    number = 2 * limits.MAINTENANCE_ROWS + 10
    await schedule(swept, clock.now_ms() + 200, *[b"x"] * number)
    await pass_time(swept, clock, mock_clock, 0.2 + 2 * STEP)
    assert (await swept.call(wire.StatsRequest(queue="q"))).active == number


async def test_a_time_that_was_refused_wakes_nobody(
    swept: Engine, clock: ManualClock, mock_clock: Time
) -> None:
    before = runs(swept, "scheduled")
    with pytest.raises(InvalidArgument):
        await schedule(swept, clock.now_ms(), b"past")
    with pytest.raises(InvalidArgument):
        await schedule(swept, limits.INSTANT_MS_MAX + 1, b"never")
    await pass_time(swept, clock, mock_clock, 0.5)
    assert runs(swept, "scheduled") == before


async def test_what_was_due_while_nobody_ran_is_done_right_after_opening(
    clock: ManualClock, mock_clock: Time, store: object
) -> None:
    options = EngineOptions(clock=clock, background=False)
    async with open_engine(str(store), options) as engine:
        await create(engine, "q", config=SHORT)
        await schedule(engine, clock.now_ms() + 1000, b"x")
    clock.advance(HOUR_MS)
    async with open_engine(str(store), EngineOptions(clock=clock)) as engine:
        await pass_time(engine, clock, mock_clock, 2 * STEP)
        assert [message.body for message in await take(engine, "q")] == [b"x"]


# -- a wall clock that jumps -----------------------------------------------------------------------


async def test_a_wall_clock_that_steps_back_stops_no_pass_and_no_wait(
    swept: Engine, clock: ManualClock, mock_clock: Time, nursery: trio.Nursery
) -> None:
    await swept.call(sending("q", b"held"))
    held = (await take(swept, "q"))[0]
    call = Call(swept, taking("q", wait_ms=20_000))
    nursery.start_soon(call.run)
    await parked(swept, "q", 1)
    clock.advance(-2 * HOUR_MS)
    before = runs(swept, "locks")
    await pass_time(swept, clock, mock_clock, 19)
    assert runs(swept, "locks") > before + 15
    assert not call.ended.is_set()
    await pass_time(swept, clock, mock_clock, 2)
    assert call.reply.messages == []
    assert await bodies(swept, "q", "locked") == [b"held"], "the lease just lasts longer"
    await swept.call(
        wire.RenewRequest(queue="q", seq_number=held.seq_number, lock_token=held.lock_token)
    )
    still = (await swept.call(wire.PeekRequest(queue="q"))).messages[0]
    assert still.locked_until_ms == held.locked_until_ms, "renewing never shortens"
    assert (await swept.call(wire.StatsRequest(queue="q"))).oldest_message_age_ms == 0


async def test_a_wall_clock_that_steps_forward_ends_leases_within_a_second_in_order(
    swept: Engine, clock: ManualClock, mock_clock: Time, nursery: trio.Nursery
) -> None:
    await create(swept, "q", config=wire.QueueConfig(lock_duration_ms=HOUR_MS))
    await swept.call(sending("q", b"1", b"2", group_id="g"))
    await schedule(swept, clock.now_ms() + HOUR_MS, b"3")
    await take(swept, "q", 2)
    call = Call(swept, taking("q", 10, wait_ms=20_000))
    nursery.start_soon(call.run)
    await parked(swept, "q", 1)
    clock.advance(2 * HOUR_MS)
    await settled()
    assert not call.ended.is_set(), "a wait is measured by the other clock"
    await pass_time(swept, clock, mock_clock, 1 + 2 * STEP)
    together = call.reply.messages + await take(swept, "q", 10)
    assert [message.body for message in together] == [b"1", b"3"], "2 waits behind 1"
    assert not is_busy(swept)
