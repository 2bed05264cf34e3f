"""Peek and Stats: what is shown, in which order and how much, and that looking changes nothing."""

from __future__ import annotations

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import NotFound
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking

FAR = 4_000_000_000_000
STATES = ("active", "locked", "scheduled", "deferred", "dead_lettered")


async def one_of_each(handle: Handle, queue: str) -> dict[str, int]:
    """A message in each state; state to number."""
    await asking.make(handle, queue)
    numbers = await asking.send_bodies(handle, queue, b"1", b"22", b"333", b"4444")
    dead, aside, held, back = await asking.take(handle, queue, 4)
    await asking.reject(handle, queue, dead, reason="r", description="d")
    await asking.defer(handle, queue, aside)
    await asking.abandon(handle, queue, back)
    later = await asking.send_one(handle, queue, b"55555", at=FAR)
    return {
        "dead_lettered": numbers[0],
        "deferred": numbers[1],
        "locked": held.seq_number,
        "active": numbers[3],
        "scheduled": later,
    }


async def peek(
    handle: Handle, queue: str, *, from_seq: int = 0, state: str = "", limit: int = 0
) -> list[Message]:
    request = wire.PeekRequest(queue=queue, from_seq=from_seq, state=state, max=limit)
    return (await handle.call(request)).messages


@pytest.mark.promise("E132", "W115")
async def test_peek_shows_every_state_by_number_and_never_a_token(
    handle: Handle, queue: str
) -> None:
    numbers = await one_of_each(handle, queue)
    shown = await peek(handle, queue)
    assert [message.seq_number for message in shown] == sorted(numbers.values())
    assert {message.state: message.seq_number for message in shown} == numbers
    assert {message.lock_token for message in shown} == {""}
    assert [message.delivery_count for message in shown] == [1, 1, 1, 1, 0]
    by_state = {message.state: message for message in shown}
    assert by_state["locked"].locked_until_ms > 0
    assert by_state["scheduled"].visible_at_ms == FAR
    dead = by_state["dead_lettered"]
    assert (dead.dead_letter_reason, dead.dead_letter_description) == ("r", "d")
    assert by_state["active"].locked_until_ms == 0


@pytest.mark.promise("E132", "W115")
@pytest.mark.parametrize("state", STATES)
async def test_peek_can_be_asked_for_one_state(handle: Handle, queue: str, state: str) -> None:
    numbers = await one_of_each(handle, queue)
    assert [message.seq_number for message in await peek(handle, queue, state=state)] == [
        numbers[state]
    ]


@pytest.mark.promise("E132", "W115")
@pytest.mark.parametrize("state", ["completed", "Active", "ready", "waiting", "bogus", " "])
async def test_an_unknown_state_shows_nothing(handle: Handle, queue: str, state: str) -> None:
    await one_of_each(handle, queue)
    assert await peek(handle, queue, state=state) == []


@pytest.mark.promise("E132", "W69")
async def test_peek_of_an_unknown_queue_shows_nothing(handle: Handle, queue: str) -> None:
    assert await peek(handle, queue) == []
    assert await peek(handle, "") == []


@pytest.mark.promise("E132", "W115")
@pytest.mark.parametrize(
    ("asked", "shown"), [(-1, 32), (0, 32), (1, 1), (1000, 1000), (1001, 1000)]
)
async def test_the_length_of_a_page_is_clamped(
    handle: Handle, queue: str, asked: int, shown: int
) -> None:
    await asking.make(handle, queue)
    for _ in range(4):
        await asking.send_bodies(handle, queue, *[b""] * 251)
    assert len(await peek(handle, queue, limit=asked)) == shown


@pytest.mark.promise("E132", "W115")
async def test_pages_follow_each_other_without_gap_or_overlap(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    other = f"{queue}-other"
    await asking.make(handle, other)
    numbers = []
    for _ in range(7):
        numbers.append(await asking.send_one(handle, queue))
        await asking.send_one(handle, other)
    seen: list[int] = []
    while page := await peek(handle, queue, from_seq=seen[-1] + 1 if seen else -5, limit=3):
        seen += [message.seq_number for message in page]
    assert seen == numbers
    (exact,) = await peek(handle, queue, from_seq=numbers[3], limit=1)
    assert exact.seq_number == numbers[3]


@pytest.mark.promise("E132")
async def test_looking_changes_nothing(handle: Handle, queue: str) -> None:
    await one_of_each(handle, queue)
    first = await peek(handle, queue)
    await asking.stats(handle, queue)
    assert await peek(handle, queue) == first
    assert len(await asking.take(handle, queue, 10)) == 1


@pytest.mark.promise("E132")
@pytest.mark.needs_clock
async def test_peek_shows_what_is_stored_though_its_time_is_over(
    handle: Handle, queue: str, clock: ManualClock
) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue, ttl_ms=1000)
    at = clock.now_ms() + 1000
    await asking.send_one(handle, queue, at=at)
    clock.advance(1000)
    expired, due = await peek(handle, queue)
    assert (expired.state, expired.expires_at_ms) == ("active", at)
    assert (due.state, due.visible_at_ms) == ("scheduled", at)


async def test_a_peeked_message_shows_when_it_became_visible(engine: Engine) -> None:
    await asking.make(engine, "q")
    await asking.send_one(engine, "q")
    (shown,) = (await engine.call(wire.PeekRequest(queue="q"))).messages
    assert shown.visible_at_ms == shown.enqueued_at_ms > 0


@pytest.mark.promise("E133")
async def test_stats_count_every_state(handle: Handle, queue: str) -> None:
    await one_of_each(handle, queue)
    await asking.send_bodies(handle, queue, b"g1", b"g2", b"g3", group_id="g")
    found = await asking.stats(handle, queue)
    counts = {state: getattr(found, state) for state in STATES}
    assert counts == {**dict.fromkeys(STATES, 1), "active": 4}
    assert (found.total, found.queue) == (8, queue)


@pytest.mark.promise("E133")
async def test_stats_of_an_unknown_queue_are_not_found(handle: Handle, queue: str) -> None:
    with pytest.raises(NotFound):
        await asking.stats(handle, queue)


@pytest.mark.promise("E133")
@pytest.mark.needs_clock
async def test_the_oldest_age_is_that_of_active_and_locked_messages_alone(
    handle: Handle, queue: str, clock: ManualClock
) -> None:
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=limits.DURATION_MS_MAX))

    async def age() -> int:
        return (await asking.stats(handle, queue)).oldest_message_age_ms

    assert await age() == 0
    await asking.send_one(handle, queue, at=FAR)
    clock.advance(100)
    assert await age() == 0
    await asking.send_bodies(handle, queue, b"first", b"second", group_id="g")
    clock.advance(10)
    assert await age() == 10
    first = await asking.take_one(handle, queue)
    clock.advance(10)
    assert await age() == 20
    await asking.send_one(handle, queue)
    await asking.defer(handle, queue, first)
    clock.advance(5)
    assert await age() == 25  # the second message of the group waits, and is active
    (again,) = await asking.take_deferred(handle, queue, first.seq_number)
    await asking.reject(handle, queue, again)
    await asking.complete(handle, queue, await asking.take_one(handle, queue))
    assert await age() == 5
    clock.advance(-1000)
    assert await age() == 0


async def test_stats_follow_every_step(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue, QueueConfig(max_delivery_count=1))
    await asking.send_bodies(handle, queue, b"a", b"b", group_id="g")

    async def counts() -> tuple[int, ...]:
        found = await asking.stats(handle, queue)
        return tuple(getattr(found, state) for state in STATES)

    assert await counts() == (2, 0, 0, 0, 0)
    first = await asking.take_one(handle, queue)
    assert await counts() == (1, 1, 0, 0, 0)
    await asking.abandon(handle, queue, first)
    assert await counts() == (1, 0, 0, 0, 1)
    second = await asking.take_one(handle, queue)
    await asking.complete(handle, queue, second)
    assert await counts() == (0, 0, 0, 0, 1)
