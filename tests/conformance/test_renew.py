"""Renewal: a live lease grows, a dead one stays dead, and none ever shrinks."""

from __future__ import annotations

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import InvalidArgument, LockLost, NotFound
from mqlite_actor.contract.wire import QueueConfig
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.handles import Sweep

LOCK_MS = 1000
SHORT = QueueConfig(lock_duration_ms=LOCK_MS)
WAYS = ("one", "batch")
each_way = pytest.mark.parametrize("way", WAYS)


async def renewed(handle: Handle, queue: str, message: wire.Message, way: str) -> bool:
    """Renew one lease by either call; whether it worked."""
    if way == "batch":
        (result,) = await asking.renew_batch(handle, queue, [asking.item(message)])
        assert (result.locked_until_ms > 0) == result.ok
        return result.ok
    return await asking.refusal(handle, wire.RenewRequest(**asking.lease(queue, message))) == "ok"


async def deadline(handle: Handle, queue: str) -> int:
    (shown,) = await asking.look(handle, queue, "locked")
    return shown.locked_until_ms


@pytest.mark.promise("E101")
@each_way
@pytest.mark.needs_clock
async def test_a_renewal_starts_the_lock_duration_anew_under_the_same_token(
    handle: Handle, queue: str, clock: ManualClock, way: str
) -> None:
    await asking.make(handle, queue, SHORT)
    await asking.send_one(handle, queue)
    message = await asking.take_one(handle, queue)
    (before,) = await asking.look(handle, queue)
    clock.advance(LOCK_MS - 1)
    assert await renewed(handle, queue, message, way)
    (after,) = await asking.look(handle, queue)
    assert after.locked_until_ms == clock.now_ms() + LOCK_MS
    assert after.delivery_count == before.delivery_count == 1
    clock.advance(LOCK_MS - 1)
    await asking.complete(handle, queue, message)


@pytest.mark.promise("E102", "W113")
@each_way
@pytest.mark.needs_clock
async def test_a_renewal_never_shortens_a_lease(
    handle: Handle, queue: str, clock: ManualClock, way: str
) -> None:
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=60_000))
    await asking.send_one(handle, queue)
    message = await asking.take_one(handle, queue)
    await asking.make(handle, queue, SHORT)
    assert await renewed(handle, queue, message, way)
    assert await deadline(handle, queue) == message.locked_until_ms
    clock.advance(-5000)  # nor does a clock that was set back
    assert await renewed(handle, queue, message, way)
    assert await deadline(handle, queue) == message.locked_until_ms


@each_way
@pytest.mark.needs_clock
async def test_a_renewal_uses_the_present_lock_duration(
    handle: Handle, queue: str, clock: ManualClock, way: str
) -> None:
    await asking.make(handle, queue, SHORT)
    await asking.send_one(handle, queue)
    message = await asking.take_one(handle, queue)
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=60_000))
    assert await renewed(handle, queue, message, way)
    assert await deadline(handle, queue) == clock.now_ms() + 60_000


@pytest.mark.promise("E103", "W106")
@each_way
@pytest.mark.parametrize("is_swept", [False, True], ids=["unswept", "swept"])
@pytest.mark.needs_clock
async def test_an_expired_lease_cannot_be_renewed(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep, way: str, *, is_swept: bool
) -> None:
    await asking.make(handle, queue, SHORT)
    seq = await asking.send_one(handle, queue)
    message = await asking.take_one(handle, queue)
    clock.advance(LOCK_MS)
    if is_swept:
        await sweep()
    assert not await renewed(handle, queue, message, way)
    assert await asking.states(handle, queue) == {seq: "active" if is_swept else "locked"}


@pytest.mark.promise("E104", "W113")
async def test_a_batch_of_live_and_dead_leases_is_answered_one_by_one(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, b"a", b"b", b"c")
    live, done, stale = await asking.take(handle, queue, 3)
    await asking.complete(handle, queue, done)
    await asking.abandon(handle, queue, stale)
    items = [
        asking.item(live),
        asking.item(done),
        asking.item(stale),
        wire.SettleItem(seq_number=stale.seq_number, lock_token=live.lock_token),
        wire.SettleItem(seq_number=live.seq_number),
        wire.SettleItem(),
        asking.item(live),
    ]
    results = await asking.renew_batch(handle, queue, items)
    assert [result.ok for result in results] == [True, False, False, False, False, False, True]
    assert results[0] == results[-1]
    assert all((result.locked_until_ms > 0) == result.ok for result in results)


@pytest.mark.promise("E105", "W113")
@pytest.mark.needs_clock
async def test_a_batch_answers_with_the_deadline_that_is_stored(
    handle: Handle, queue: str, clock: ManualClock
) -> None:
    await asking.make(handle, queue, SHORT)
    await asking.send_one(handle, queue)
    message = await asking.take_one(handle, queue)
    clock.advance(600)
    (result,) = await asking.renew_batch(handle, queue, [asking.item(message)])
    assert result.locked_until_ms == clock.now_ms() + LOCK_MS == await deadline(handle, queue)


@pytest.mark.promise("W113")
async def test_an_unknown_queue_matters_only_if_a_token_was_given(
    handle: Handle, queue: str
) -> None:
    assert await asking.renew_batch(handle, queue, []) == []
    (result,) = await asking.renew_batch(handle, queue, [wire.SettleItem(seq_number=1)])
    assert not result.ok
    with pytest.raises(NotFound):
        await asking.renew_batch(handle, queue, [wire.SettleItem(1, "0" * 32)])
    with pytest.raises(NotFound):
        await handle.call(wire.RenewRequest(queue=queue, seq_number=1, lock_token="0" * 32))


@pytest.mark.promise("E106")
@each_way
@pytest.mark.needs_clock
async def test_a_renewal_that_races_with_the_pass_is_kept_or_lost_but_never_both(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep, way: str
) -> None:
    await asking.make(handle, queue, SHORT)
    await asking.send_one(handle, queue)
    kept = []
    for early_ms in (1, 0):
        message = await asking.take_one(handle, queue)
        clock.advance(LOCK_MS - early_ms)
        answers: list[bool] = []

        async def renew(message: wire.Message = message, answers: list[bool] = answers) -> None:
            answers.append(await renewed(handle, queue, message, way))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(renew)
            nursery.start_soon(sweep)
        locked = (await asking.stats(handle, queue)).locked
        assert answers == [locked == 1]
        kept += answers
        if locked:
            await asking.abandon(handle, queue, message)
    assert kept == [True, False]


@pytest.mark.needs_clock
async def test_a_renewal_near_the_end_of_time_is_saturated(
    handle: Handle, queue: str, clock: ManualClock
) -> None:
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=limits.INT64_MAX))
    await asking.send_one(handle, queue)
    message = await asking.take_one(handle, queue)
    clock.advance(1)
    await asking.renew(handle, queue, message)
    assert await deadline(handle, queue) <= limits.INSTANT_MS_MAX


async def test_a_renewal_of_a_settled_lease_is_lost(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue)
    message = await asking.take_one(handle, queue)
    await asking.defer(handle, queue, message)
    with pytest.raises(LockLost):
        await asking.renew(handle, queue, message)


@pytest.mark.promise("E104")
async def test_a_batch_has_a_bound_and_may_be_as_long_as_it(handle: Handle, queue: str) -> None:
    items = [wire.SettleItem(1, "0" * 32)] * (limits.RENEW_BATCH_MAX + 1)
    await asking.make(handle, queue)
    reply = await handle.call(wire.RenewBatchRequest(queue=queue, messages=items[1:]))
    assert [result.ok for result in reply.results] == [False] * limits.RENEW_BATCH_MAX
    with pytest.raises(InvalidArgument, match=f"at most {limits.RENEW_BATCH_MAX}"):
        await handle.call(wire.RenewBatchRequest(queue=queue, messages=items))


@pytest.mark.promise("E104")
@pytest.mark.parametrize("token", ["", "no token", "0" * 32])
async def test_what_was_not_renewed_has_no_deadline(handle: Handle, queue: str, token: str) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, b"x")
    held = asking.item(await asking.take_one(handle, queue))
    items = [held, wire.SettleItem(held.seq_number, token)]
    good, bad = await asking.renew_batch(handle, queue, items)
    assert good.ok
    assert (bad.ok, bad.locked_until_ms) == (False, 0)
