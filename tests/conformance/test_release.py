"""Release: what was taken and will not be handled goes back as if it had not been delivered."""

from __future__ import annotations

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import ext, limits, wire
from mqlite_actor.contract.errors import InvalidArgument, LockLost
from mqlite_actor.contract.wire import QueueConfig, SettleItem
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.handles import Sweep


async def release(
    handle: Handle, queue: str, *items: SettleItem, attempt_id: str = ""
) -> list[bool]:
    request = ext.ReleaseRequest(queue, list(items), attempt_id)
    reply = await handle.call(request)
    assert [each.seq_number for each in reply.results] == [each.seq_number for each in items]
    return [each.ok for each in reply.results]


async def test_a_released_message_was_never_delivered(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue, b"x")
    before = await asking.look(handle, queue)
    (message,) = await handle.receive(queue)
    await message.release()
    assert await asking.look(handle, queue) == before
    assert (await asking.take_one(handle, queue)).delivery_count == 1


async def test_the_last_delivery_of_a_message_can_be_released_for_ever(
    handle: Handle, queue: str
) -> None:
    """With Abandon the innocent rest of a batch would die with the message that kills consumers."""
    await asking.make(handle, queue, QueueConfig(max_delivery_count=1))
    numbers = await asking.send_bodies(handle, queue, b"poison", b"innocent", b"innocent")
    for _ in range(5):
        poison, *rest = await handle.receive(queue, max_messages=3)
        assert await handle.release(rest) == [True, True]
        await poison.release()
    assert await asking.states(handle, queue) == dict.fromkeys(numbers, "active")


@pytest.mark.parametrize("ordering", ["standard", "group_fifo", "strict_fifo"])
async def test_a_released_message_takes_its_old_place_in_line(
    handle: Handle, queue: str, ordering: str
) -> None:
    await asking.make(handle, queue, QueueConfig(ordering_mode=ordering))
    await asking.send_bodies(handle, queue, b"1", b"2", group_id="g")
    for _ in range(3):
        (first,) = await handle.receive(queue, max_messages=10)
        assert first.body == b"1"
        await first.release()
    (first,) = await handle.receive(queue, max_messages=10)
    await first.complete()
    assert (await asking.take_one(handle, queue)).body == b"2"


async def test_each_item_is_answered_for_itself(handle: Handle, queue: str) -> None:
    other = f"{queue}-other"
    for name in (queue, other):
        await asking.make(handle, name)
        await asking.send_bodies(handle, name, b"a", b"b", b"c")
    held, settled, _ = await asking.take(handle, queue, 3)
    await asking.complete(handle, queue, settled)
    elsewhere = await asking.take_one(handle, other)
    answers = await release(
        handle,
        queue,
        asking.item(held),
        asking.item(settled),
        asking.item(elsewhere),
        SettleItem(held.seq_number, "0" * 32),
        SettleItem(held.seq_number, "no token"),
        SettleItem(10**9, held.lock_token),
        asking.item(held),
    )
    assert answers == [True, False, False, False, False, False, True]
    assert (await asking.stats(handle, other)).locked == 1


async def test_an_identical_release_is_answered_alike_and_takes_nothing_back(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue)
    first = await asking.take_one(handle, queue)
    assert await release(handle, queue, asking.item(first)) == [True]
    second = await asking.take_one(handle, queue)
    assert await release(handle, queue, asking.item(first)) == [True]
    assert (await asking.stats(handle, queue)).locked == 1
    with pytest.raises(LockLost):
        await asking.complete(handle, queue, first)
    await asking.complete(handle, queue, second)


@pytest.mark.needs_clock
async def test_after_the_lease_nothing_is_released(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep
) -> None:
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=1000))
    await asking.send_one(handle, queue)
    (message,) = await handle.receive(queue)
    clock.advance(1000)
    with pytest.raises(LockLost):
        await message.release()
    await sweep()
    assert (await asking.take_one(handle, queue)).delivery_count == 2


async def test_a_released_attempt_claims_anew(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, b"a", b"b")
    taken = await handle.receive(queue, max_messages=2, attempt_id="try")
    assert await handle.release(taken, attempt_id="try") == [True, True]
    again = await handle.receive(queue, max_messages=2, attempt_id="try")
    assert [each.delivery_count for each in again] == [1, 1]
    assert not {each.lock_token for each in again} & {each.lock_token for each in taken}
    for each in again:
        await each.complete()


async def test_the_record_of_other_leases_stays(handle: Handle, queue: str) -> None:
    """A stranger's release under the same id must not let a batch be claimed twice."""
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, b"a", b"b")
    kept = await handle.receive(queue, attempt_id="try")
    others = await handle.receive(queue)
    assert await handle.release(others, attempt_id="try") == [True]
    again = await handle.receive(queue, attempt_id="try")
    assert [each.lock_token for each in again] == [each.lock_token for each in kept]


async def test_a_message_that_was_deferred_is_active_again(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    seq = await asking.send_one(handle, queue)
    await asking.defer(handle, queue, await asking.take_one(handle, queue))
    (message,) = await handle.receive_deferred(queue, [seq])
    assert message.delivery_count == 2
    await message.release()
    assert (await asking.take_one(handle, queue)).delivery_count == 2


async def test_an_unknown_queue_and_an_empty_list_release_nothing(
    handle: Handle, queue: str
) -> None:
    assert await release(handle, queue, SettleItem(1, "0" * 32)) == [False]
    assert await release(handle, queue) == []
    assert await handle.release([]) == []


async def test_more_than_512_items_are_refused(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    items = [SettleItem(1, "0" * 32)] * (limits.RELEASE_BATCH_MAX + 1)
    assert len(await release(handle, queue, *items[1:])) == limits.RELEASE_BATCH_MAX
    with pytest.raises(InvalidArgument, match="512"):
        await release(handle, queue, *items)


async def test_a_waiting_receive_gets_what_is_released(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue)
    (message,) = await handle.receive(queue)
    await message.release()
    reply = await handle.call(wire.ReceiveRequest(queue=queue, wait_time_ms=15_000))
    assert len(reply.messages) == 1
