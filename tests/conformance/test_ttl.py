"""Messages that do not live for ever: when their time ends, who notices, what becomes of them."""

from __future__ import annotations

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import LockLost
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.handles import Sweep

FAR = 4_000_000_000_000


@pytest.mark.promise("E30", "W90", "W91")
@pytest.mark.parametrize(
    ("queue_ttl", "own_ttl", "effective"),
    [
        (0, 0, 0),
        (0, 1000, 1000),
        (5000, 0, 5000),
        (5000, 1000, 1000),
        (5000, 9000, 5000),
        (5000, 5000, 5000),
        (5000, -1, 5000),
        (0, -1, 0),
        (0, limits.INT64_MIN, 0),
    ],
)
@pytest.mark.needs_clock
async def test_the_time_to_live_is_the_messages_own_within_the_queues(
    handle: Handle, queue: str, clock: ManualClock, queue_ttl: int, own_ttl: int, effective: int
) -> None:
    await asking.make(handle, queue, QueueConfig(default_ttl_ms=queue_ttl))
    await asking.send_one(handle, queue, ttl_ms=own_ttl)
    (shown,) = await asking.look(handle, queue)
    assert shown.expires_at_ms == (clock.now_ms() + effective if effective else 0)


@pytest.mark.promise("W91")
@pytest.mark.parametrize("at", [0, FAR])
async def test_an_endless_time_to_live_is_saturated_and_the_message_delivered(
    handle: Handle, queue: str, at: int
) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue, ttl_ms=limits.INT64_MAX, at=at)
    (shown,) = await asking.look(handle, queue)
    assert FAR < shown.expires_at_ms <= limits.INSTANT_MS_MAX
    if not at:
        await asking.take_one(handle, queue)


@pytest.mark.needs_clock
async def test_a_message_of_a_batch_can_have_a_time_to_live_of_its_own(
    handle: Handle, queue: str, clock: ManualClock
) -> None:
    await asking.make(handle, queue)
    await asking.send(handle, queue, Message(ttl_ms=7), Message(), Message(ttl_ms=-1), ttl_ms=5)
    shown = [message.expires_at_ms - clock.now_ms() for message in await asking.look(handle, queue)]
    assert shown == [7, 5, 5]


@pytest.mark.promise("E31", "W90")
@pytest.mark.needs_clock
async def test_the_time_to_live_of_a_scheduled_message_begins_at_its_time(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep
) -> None:
    await asking.make(handle, queue)
    at = clock.now_ms() + 10_000
    seq = await asking.send_one(handle, queue, at=at, ttl_ms=1000)
    (shown,) = await asking.look(handle, queue)
    assert shown.expires_at_ms == at + 1000
    clock.set(at + 999)
    await sweep()
    assert await asking.states(handle, queue) == {seq: "active"}
    clock.advance(1)
    await sweep()
    assert await asking.states(handle, queue) == {seq: "dead_lettered"}


@pytest.mark.promise("E14")
@pytest.mark.needs_clock
async def test_stored_messages_keep_their_expiry_when_the_default_changes(
    handle: Handle, queue: str, clock: ManualClock
) -> None:
    await asking.make(handle, queue, QueueConfig(default_ttl_ms=5000))
    await asking.send_one(handle, queue)
    await asking.make(handle, queue, QueueConfig(default_ttl_ms=1000))
    await asking.send_one(handle, queue)
    await asking.make(handle, queue)
    await asking.send_one(handle, queue)
    now = clock.now_ms()
    shown = [message.expires_at_ms for message in await asking.look(handle, queue)]
    assert shown == [now + 5000, now + 1000, 0]


@pytest.mark.promise("E111", "W92")
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.needs_clock
async def test_a_claim_never_returns_an_expired_message_even_before_the_pass(
    handle: Handle, queue: str, clock: ManualClock, mode: int
) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue, b"short", ttl_ms=1000)
    await asking.send_one(handle, queue, b"long", ttl_ms=1001)
    clock.advance(1000)
    assert [m.body for m in await asking.take(handle, queue, 10, mode=mode)] == [b"long"]


@pytest.mark.promise("E111")
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.needs_clock
async def test_a_claim_looks_behind_any_number_of_expired_messages(
    handle: Handle, queue: str, clock: ManualClock, mode: int
) -> None:
    await asking.make(handle, queue, QueueConfig(default_ttl_ms=1000))
    for _ in range(3):
        await asking.send_bodies(handle, queue, *[b"old"] * 1000)
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, b"fresh", b"last")
    clock.advance(1000)
    found = await asking.take(handle, queue, 10, mode=mode)
    assert [message.body for message in found] == [b"fresh", b"last"]


@pytest.mark.promise("E109", "E110", "W92", "W134")
@pytest.mark.parametrize("expired", ["dead letter", "discarded"])
@pytest.mark.needs_clock
async def test_the_pass_takes_expired_messages_of_every_state(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep, expired: str
) -> None:
    keeps = expired == "dead letter"
    await asking.make(handle, queue, QueueConfig(dead_letter_on_expire=keeps))
    end = clock.now_ms() + 5000
    numbers = await asking.send(handle, queue, *[Message()] * 4, ttl_ms=5000)
    numbers.append(await asking.send_one(handle, queue, at=end - 1, ttl_ms=1))
    active, *held = await asking.take(handle, queue, 4)
    await asking.abandon(handle, queue, active)
    await asking.defer(handle, queue, held[0])
    await asking.abandon(handle, queue, held[1], delay_ms=FAR)
    clock.set(end - 1)
    before = ["active", "deferred", "scheduled", "locked", "scheduled"]
    assert await asking.states(handle, queue) == dict(zip(numbers, before, strict=True))
    clock.set(end)
    await sweep()
    after = dict.fromkeys(numbers, "dead_lettered") if keeps else {}
    assert await asking.states(handle, queue) == after
    reasons = [message.dead_letter_reason for message in await asking.look(handle, queue)]
    assert reasons == ["TTLExpired"] * len(after)
    with pytest.raises(LockLost):
        await asking.complete(handle, queue, held[2])


@pytest.mark.needs_clock
async def test_under_a_live_lease_an_expired_message_can_be_settled_until_the_pass(
    handle: Handle, queue: str, clock: ManualClock
) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue, ttl_ms=1000)
    message = await asking.take_one(handle, queue)
    clock.advance(2000)
    await asking.complete(handle, queue, message)
    assert await asking.states(handle, queue) == {}


@pytest.mark.parametrize(("limit", "reason"), [(1, "MaxDeliveryCountExceeded"), (2, "TTLExpired")])
@pytest.mark.needs_clock
async def test_when_lock_and_life_end_together_the_lock_is_looked_at_first(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep, limit: int, reason: str
) -> None:
    config = QueueConfig(lock_duration_ms=1000, default_ttl_ms=1000, max_delivery_count=limit)
    await asking.make(handle, queue, config)
    await asking.send_one(handle, queue)
    await asking.take_one(handle, queue)
    clock.advance(1000)
    await sweep()
    (dead,) = await asking.look(handle, queue)
    assert dead.dead_letter_reason == reason


@pytest.mark.needs_clock
async def test_expiry_of_a_head_lets_its_lane_go_on(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep
) -> None:
    await asking.make(handle, queue, QueueConfig(ordering_mode="strict_fifo"))
    await asking.send_one(handle, queue, b"1", ttl_ms=1000)
    await asking.send_one(handle, queue, b"2")
    await asking.take_one(handle, queue)
    clock.advance(1000)
    await sweep()
    assert (await asking.take_one(handle, queue)).body == b"2"
