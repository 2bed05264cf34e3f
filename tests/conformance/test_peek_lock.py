"""Receive under a lease: what is given out, in which order, for how long."""

from __future__ import annotations

import re

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import NotFound
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.handles import Sweep

TOKEN = re.compile("[0-9a-f]{32}")


@pytest.mark.promise("E48", "W94")
async def test_a_batch_comes_in_order_with_a_token_of_its_own_for_each(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    numbers = await asking.send_bodies(handle, queue, b"a", b"b", b"c")
    batch = await asking.take(handle, queue, 10)
    assert [message.seq_number for message in batch] == numbers
    assert [message.body for message in batch] == [b"a", b"b", b"c"]
    tokens = {message.lock_token for message in batch}
    assert len(tokens) == 3
    assert all(TOKEN.fullmatch(token) for token in tokens)


@pytest.mark.promise("E49", "W94")
@pytest.mark.needs_clock
@pytest.mark.parametrize("lock_ms", [1, 30_000, 86_400_000])
async def test_a_lease_lasts_the_lock_duration_from_the_claim_on(
    handle: Handle, queue: str, clock: ManualClock, lock_ms: int
) -> None:
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=lock_ms))
    sent_at = clock.now_ms()
    await asking.send_one(handle, queue)
    clock.advance(5)
    message = await asking.take_one(handle, queue)
    assert message.locked_until_ms == clock.now_ms() + lock_ms
    assert message.delivery_count == 1
    assert message.enqueued_at_ms == sent_at


@pytest.mark.promise("W94")
async def test_a_delivery_shows_the_lease_and_neither_state_nor_expiry(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue, QueueConfig(default_ttl_ms=3_600_000))
    await asking.send_one(handle, queue)
    message = await asking.take_one(handle, queue)
    assert (message.state, message.expires_at_ms, message.visible_at_ms) == ("", 0, 0)
    assert message.locked_until_ms > message.enqueued_at_ms > 0


@pytest.mark.promise("E46")
async def test_receive_from_an_unknown_queue_is_not_found(handle: Handle, queue: str) -> None:
    with pytest.raises(NotFound):
        await asking.take(handle, queue)
    with pytest.raises(NotFound):
        await handle.call(wire.ReceiveRequest())


@pytest.mark.promise("W95")
async def test_an_empty_queue_answers_an_empty_list_at_once(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    assert await asking.take(handle, queue, 10) == []


@pytest.mark.promise("E47", "W97")
@pytest.mark.parametrize(
    ("asked", "given"),
    [(-3, 1), (0, 1), (1, 1), (2, 2), (256, 256), (257, 256), (9999, 256)],
)
async def test_the_number_of_messages_is_clamped(
    handle: Handle, queue: str, asked: int, given: int
) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, *[b""] * 260)
    assert len(await asking.take(handle, queue, asked)) == given


async def test_receive_returns_fewer_messages_than_asked_rather_than_waiting(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue)
    request = wire.ReceiveRequest(queue=queue, max_messages=5, wait_time_ms=20_000)
    with trio.fail_after(15):
        assert len((await handle.call(request)).messages) == 1


@pytest.mark.promise("E52")
async def test_concurrent_consumers_never_hold_one_message_at_once(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    numbers = await asking.send_bodies(handle, queue, *[b"x"] * 60)
    taken: list[int] = []

    async def consume() -> None:
        while batch := await asking.take(handle, queue, 3):
            taken.extend(message.seq_number for message in batch)

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(consume)
    assert sorted(taken) == numbers


@pytest.mark.promise("E108", "W108")
@pytest.mark.needs_clock
async def test_an_expired_lock_comes_back_with_its_count_at_the_pass_and_not_before(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep
) -> None:
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=1000))
    seq = await asking.send_one(handle, queue)
    first = await asking.take_one(handle, queue)
    clock.advance(999)
    await sweep()
    assert await asking.states(handle, queue) == {seq: "locked"}
    clock.advance(1)
    assert await asking.take(handle, queue) == []  # over, but not swept yet
    await sweep()
    second = await asking.take_one(handle, queue)
    assert (second.seq_number, second.delivery_count) == (seq, 2)
    assert second.lock_token != first.lock_token


@pytest.mark.promise("E107", "W108")
@pytest.mark.needs_clock
async def test_at_the_delivery_limit_an_expired_lock_is_dead_lettered(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep
) -> None:
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=1000, max_delivery_count=2))
    await asking.send_one(handle, queue)
    for _ in range(2):
        await asking.take_one(handle, queue)
        clock.advance(1000)
        await sweep()
    assert await asking.take(handle, queue) == []
    (dead,) = await asking.look(handle, queue, "dead_lettered")
    assert (dead.dead_letter_reason, dead.delivery_count) == ("MaxDeliveryCountExceeded", 2)
    assert dead.dead_letter_description == ""


@pytest.mark.promise("E107")
async def test_a_message_is_delivered_at_most_the_limit_by_abandons(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue, QueueConfig(max_delivery_count=3))
    await asking.send_one(handle, queue)
    counts = []
    while batch := await asking.take(handle, queue):
        counts.append(batch[0].delivery_count)
        await asking.abandon(handle, queue, batch[0])
    assert counts == [1, 2, 3]


@pytest.mark.promise("E12")
@pytest.mark.needs_clock
@pytest.mark.parametrize("ending", ["abandon", "expiry"])
async def test_a_lowered_limit_counts_for_leases_that_run_already(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep, ending: str
) -> None:
    await asking.make(handle, queue, QueueConfig(max_delivery_count=5))
    seq = await asking.send_one(handle, queue)
    await asking.abandon(handle, queue, await asking.take_one(handle, queue))
    message = await asking.take_one(handle, queue)
    await asking.make(handle, queue, QueueConfig(max_delivery_count=2))
    if ending == "abandon":
        await asking.abandon(handle, queue, message)
    else:
        clock.advance(limits.LOCK_DURATION_MS_DEFAULT)
        await sweep()
    assert await asking.states(handle, queue) == {seq: "dead_lettered"}


@pytest.mark.needs_clock
async def test_a_changed_lock_duration_counts_for_new_leases_only(
    handle: Handle, queue: str, clock: ManualClock
) -> None:
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=5000))
    await asking.send_bodies(handle, queue, b"a", b"b")
    await asking.take_one(handle, queue)
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=100))
    second = await asking.take_one(handle, queue)
    leases = [message.locked_until_ms for message in await asking.look(handle, queue, "locked")]
    assert leases == [clock.now_ms() + 5000, clock.now_ms() + 100]
    assert second.locked_until_ms == leases[1]


@pytest.mark.needs_clock
async def test_a_lease_near_the_end_of_time_is_saturated(
    handle: Handle, queue: str, clock: ManualClock
) -> None:
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=limits.INT64_MAX))
    await asking.send_one(handle, queue)
    message = await asking.take_one(handle, queue)
    assert clock.now_ms() < message.locked_until_ms <= limits.INSTANT_MS_MAX


@pytest.mark.promise("E53")
async def test_ungrouped_messages_of_a_standard_queue_are_never_held_back(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    numbers = await asking.send(handle, queue, *[Message(body=b"x")] * 4)
    first = await asking.take_one(handle, queue)
    await asking.defer(handle, queue, first)
    second = await asking.take_one(handle, queue)
    await asking.abandon(handle, queue, second, delay_ms=3_600_000)
    rest = await asking.take(handle, queue, 10)
    assert [message.seq_number for message in rest] == numbers[2:]
