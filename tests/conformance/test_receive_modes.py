"""Receive-and-delete, and receiving deferred messages by number."""

from __future__ import annotations

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import LockLost, NotFound
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking

STRICT = QueueConfig(ordering_mode="strict_fifo")


@pytest.mark.promise("E61", "W101")
async def test_receive_and_delete_removes_the_message_and_shows_no_lease(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    seq = await asking.send_one(handle, queue)
    (message,) = await asking.take(handle, queue, mode=1)
    assert (message.seq_number, message.delivery_count) == (seq, 1)
    assert (message.lock_token, message.locked_until_ms) == ("", 0)
    assert (await asking.stats(handle, queue)).total == 0
    with pytest.raises(LockLost):
        await asking.complete(handle, queue, message)


@pytest.mark.promise("W102")
@pytest.mark.parametrize("mode", [-1, 2, 7, 2**62])
async def test_any_other_mode_is_peek_lock(handle: Handle, queue: str, mode: int) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue)
    (message,) = await asking.take(handle, queue, mode=mode)
    assert message.lock_token
    assert (await asking.stats(handle, queue)).locked == 1


@pytest.mark.promise("E62", "W118")
@pytest.mark.parametrize("config", [QueueConfig(), STRICT], ids=["standard", "strict"])
async def test_receive_and_delete_empties_a_lane_in_order(
    handle: Handle, queue: str, config: QueueConfig
) -> None:
    await asking.make(handle, queue, config)
    numbers = await asking.send(
        handle, queue, *(Message(group_id=group) for group in "aabaccb"), Message()
    )
    first = await asking.take(handle, queue, 3, mode=1)
    assert [message.seq_number for message in first] == numbers[:3]
    rest = await asking.take(handle, queue, 100, mode=1)
    assert [message.seq_number for message in rest] == numbers[3:]


async def test_receive_and_delete_stops_at_a_held_message(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue, STRICT)
    numbers = await asking.send_bodies(handle, queue, b"a", b"b", b"c")
    await asking.send_one(handle, queue, at=4_000_000_000_000)
    await asking.send_one(handle, queue)
    removed = await asking.take(handle, queue, 100, mode=1)
    assert [message.seq_number for message in removed] == numbers


async def test_receive_and_delete_after_an_abandon_counts_on(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue)
    await asking.abandon(handle, queue, await asking.take_one(handle, queue))
    (message,) = await asking.take(handle, queue, mode=1)
    assert message.delivery_count == 2


async def test_a_removed_message_is_counted_as_delivered_and_removed(engine: Engine) -> None:
    await asking.make(engine, "q")
    await asking.send_bodies(engine, "q", b"a", b"b", group_id="g")
    await asking.take(engine, "q", 10, mode=1)
    events = engine.statistics()["events"]
    assert (events["q", "delivered"], events["q", "receive_deleted"]) == (2, 2)


async def deferred(handle: Handle, queue: str, number: int, *, ttl_ms: int = 0) -> list[int]:
    """That many deferred messages."""
    numbers = await asking.send(handle, queue, *[Message()] * number, ttl_ms=ttl_ms)
    for message in await asking.take(handle, queue, number):
        await asking.defer(handle, queue, message)
    return numbers


@pytest.mark.promise("E95", "W112")
async def test_deferred_messages_come_in_the_order_asked_for(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    first, second, third = await deferred(handle, queue, 3)
    found = await asking.take_deferred(handle, queue, third, first, third, second)
    assert [message.seq_number for message in found] == [third, first, second]
    assert len({message.lock_token for message in found}) == 3


@pytest.mark.promise("E95", "W112")
async def test_whatever_is_not_deferred_here_is_skipped(handle: Handle, queue: str) -> None:
    other = f"{queue}-other"
    for name in (queue, other):
        await asking.make(handle, name)
    (mine,) = await deferred(handle, queue, 1)
    (foreign,) = await deferred(handle, other, 1)
    active = await asking.send_one(handle, queue)
    scheduled = await asking.send_one(handle, queue, at=4_000_000_000_000)
    asked = (0, -1, 2**62, active, foreign, scheduled, mine)
    found = await asking.take_deferred(handle, queue, *asked)
    assert [message.seq_number for message in found] == [mine]
    assert await asking.states(handle, other) == {foreign: "deferred"}


@pytest.mark.promise("E95")
@pytest.mark.needs_clock
async def test_an_expired_deferred_message_is_skipped_before_the_pass(
    handle: Handle, queue: str, clock: ManualClock
) -> None:
    await asking.make(handle, queue)
    (seq,) = await deferred(handle, queue, 1, ttl_ms=1000)
    clock.advance(1000)
    assert await asking.take_deferred(handle, queue, seq) == []
    clock.advance(-1)
    assert len(await asking.take_deferred(handle, queue, seq)) == 1


@pytest.mark.promise("W112")
async def test_receive_deferred_from_an_unknown_queue_is_not_found(
    handle: Handle, queue: str
) -> None:
    for numbers in ((), (1,)):
        with pytest.raises(NotFound):
            await asking.take_deferred(handle, queue, *numbers)
    await asking.make(handle, queue)
    assert await asking.take_deferred(handle, queue) == []


async def test_receive_deferred_ignores_the_order_of_lanes(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    for _ in range(2):
        await asking.send_one(handle, queue, group_id="g")
    head = await asking.take_one(handle, queue)
    await asking.defer(handle, queue, head)
    (again,) = await asking.take_deferred(handle, queue, head.seq_number)
    assert await asking.take(handle, queue) == []
    await asking.complete(handle, queue, again)
    await asking.take_one(handle, queue)


@pytest.mark.needs_clock
async def test_the_deferred_way_can_pass_the_limit_until_the_next_failure(
    handle: Handle, queue: str, clock: ManualClock
) -> None:
    await asking.make(handle, queue, QueueConfig(max_delivery_count=1, lock_duration_ms=1000))
    (seq,) = await deferred(handle, queue, 1)
    for count in (2, 3):
        (message,) = await asking.take_deferred(handle, queue, seq)
        assert message.delivery_count == count
        assert message.locked_until_ms == clock.now_ms() + 1000
        await asking.defer(handle, queue, message)
    (message,) = await asking.take_deferred(handle, queue, seq)
    await asking.abandon(handle, queue, message)
    (dead,) = await asking.look(handle, queue)
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"


async def test_many_numbers_are_one_call(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    numbers = await deferred(handle, queue, 250)
    request = wire.ReceiveDeferredRequest(queue=queue, seq_numbers=numbers[::-1])
    found = (await handle.call(request)).messages
    assert [message.seq_number for message in found] == numbers[::-1]
