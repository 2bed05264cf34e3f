"""Messages for later: when they come, which times are refused, and cancelling them."""

from __future__ import annotations

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import InvalidArgument, MqliteError, NotFound
from mqlite_actor.contract.wire import Message
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.handles import Sweep

FAR = 4_000_000_000_000
ROUTES = {"send": wire.SendRequest, "schedule": wire.ScheduleRequest}
each_route = pytest.mark.parametrize("route", ROUTES)


def scheduled(route: str, queue: str, at: int, *bodies: bytes) -> wire.SendRequest:
    batch = [Message(body=body) for body in bodies or (b"x",)]
    return ROUTES[route](queue=queue, messages=batch, scheduled_enqueue_time_ms=at)


@pytest.mark.promise("E28", "W88")
@each_route
@pytest.mark.needs_clock
async def test_a_scheduled_message_is_delivered_at_the_first_pass_at_its_time_and_never_early(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep, route: str
) -> None:
    await asking.make(handle, queue)
    sent_at = clock.now_ms()
    at = sent_at + 2000
    await handle.call(scheduled(route, queue, at))
    (shown,) = await asking.look(handle, queue)
    assert (shown.state, shown.visible_at_ms, shown.enqueued_at_ms) == ("scheduled", at, sent_at)
    clock.set(at - 1)
    await sweep()
    assert await asking.take(handle, queue) == []
    clock.set(at)
    await sweep()
    message = await asking.take_one(handle, queue)
    assert (message.delivery_count, message.enqueued_at_ms) == (1, sent_at)


@pytest.mark.promise("E27", "W89")
@each_route
@pytest.mark.needs_clock
async def test_a_time_that_is_not_in_the_future_is_refused_and_nothing_stored(
    handle: Handle, queue: str, clock: ManualClock, route: str
) -> None:
    await asking.make(handle, queue)
    for at in (-1, limits.INT64_MIN, 1, clock.now_ms() - 1, clock.now_ms()):
        with pytest.raises(InvalidArgument):
            await handle.call(scheduled(route, queue, at, b"a", b"b"))
    assert await asking.states(handle, queue) == {}
    (seq,) = (await handle.call(scheduled(route, queue, clock.now_ms() + 1))).seq_numbers or []
    assert await asking.states(handle, queue) == {seq: "scheduled"}


@pytest.mark.promise("W89")
@each_route
async def test_time_zero_is_now(handle: Handle, queue: str, route: str) -> None:
    await asking.make(handle, queue)
    await handle.call(scheduled(route, queue, 0))
    await asking.take_one(handle, queue)


@each_route
async def test_a_time_after_the_last_instant_is_refused(
    handle: Handle, queue: str, route: str
) -> None:
    await asking.make(handle, queue)
    last = limits.INSTANT_MS_MAX
    with pytest.raises(InvalidArgument, match=str(last)):
        await handle.call(scheduled(route, queue, last + 1))
    await handle.call(scheduled(route, queue, last))


@pytest.mark.promise("E29")
@each_route
async def test_a_scheduled_batch_is_stored_whole_or_not_at_all(
    handle: Handle, queue: str, route: str
) -> None:
    await asking.make(handle, queue)
    big = b"x" * (limits.MESSAGE_BYTES_DEFAULT + 1)
    with pytest.raises(MqliteError):
        await handle.call(scheduled(route, queue, FAR, b"a", big))
    assert await asking.states(handle, queue) == {}
    numbers = (await handle.call(scheduled(route, queue, FAR, b"a", b"b"))).seq_numbers or []
    assert await asking.states(handle, queue) == dict.fromkeys(numbers, "scheduled")


@pytest.mark.promise("E130", "W93")
async def test_cancel_deletes_a_scheduled_message_once(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    seq = await asking.send_one(handle, queue, at=FAR)
    await asking.cancel(handle, queue, seq)
    assert await asking.states(handle, queue) == {}
    with pytest.raises(NotFound):
        await asking.cancel(handle, queue, seq)


@pytest.mark.promise("E130", "W93")
@pytest.mark.needs_clock
async def test_cancel_finds_nothing_but_scheduled_messages_of_this_queue(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep
) -> None:
    other = f"{queue}-other"
    for name in (queue, other):
        await asking.make(handle, name)
    active = await asking.send_one(handle, queue)
    parked = await asking.send_one(handle, queue, at=FAR)
    due = await asking.send_one(handle, other, at=clock.now_ms() + 1)
    clock.advance(1)
    await sweep()
    refused = [(queue, active), (other, parked), (other, due), (queue, 10**9), ("ghost", parked)]
    for name, seq in refused:
        with pytest.raises(NotFound):
            await asking.cancel(handle, name, seq)
    assert await asking.states(handle, queue) == {active: "active", parked: "scheduled"}


@pytest.mark.promise("E131")
async def test_a_stale_cancel_never_hits_a_later_message(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    old = await asking.send_one(handle, queue, at=FAR)
    await asking.cancel(handle, queue, old)
    new = await asking.send_one(handle, queue, at=FAR)
    with pytest.raises(NotFound):
        await asking.cancel(handle, queue, old)
    assert await asking.states(handle, queue) == {new: "scheduled"}
