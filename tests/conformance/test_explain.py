"""Explain: why a message, or a queue's front, is not delivered."""

from __future__ import annotations

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract.errors import InvalidArgument, QueueNotFound
from mqlite_actor.contract.ext import Finding, Reason
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking

LOCK_MS = 30_000


async def finding(handle: Handle, queue: str, seq: int) -> Finding:
    reply = await handle.explain(queue, seq)
    assert isinstance(reply.message, Finding)
    assert (reply.queue, reply.reason) == (queue, reply.message.reason)
    assert reply.explanation == reply.message.explanation
    assert reply.message.seq_number == seq
    return reply.message


async def test_what_can_be_received_is_deliverable_and_says_what_goes_before_it(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    numbers = await asking.send_bodies(handle, queue, b"1", b"2", b"3")
    found = [await finding(handle, queue, seq) for seq in numbers]
    assert [each.reason for each in found] == [Reason.DELIVERABLE] * 3
    assert [each.ahead for each in found] == [0, 1, 2]
    reply = await handle.explain(queue)
    assert (reply.reason, reply.blocked) == (Reason.DELIVERABLE, [])
    assert isinstance(reply.message, Finding)
    assert reply.message.seq_number == numbers[0]


@pytest.mark.parametrize("ordering", ["standard", "group_fifo", "strict_fifo"])
async def test_what_waits_names_the_message_that_it_waits_for(
    handle: Handle, queue: str, ordering: str
) -> None:
    await asking.make(handle, queue, QueueConfig(ordering_mode=ordering))
    first, second, third = await asking.send_bodies(handle, queue, b"1", b"2", b"3", group_id="g")
    held = await asking.take_one(handle, queue)
    blocked = await finding(handle, queue, third)
    assert (blocked.reason, blocked.blocked_by, blocked.ahead) == (Reason.BLOCKED, first, 2)
    assert (await finding(handle, queue, second)).ahead == 1
    blocker = (await handle.explain(queue, third)).blocker
    assert isinstance(blocker, Finding)
    assert (blocker.seq_number, blocker.reason) == (first, Reason.LOCKED)
    assert blocker.locked_until_ms == held.locked_until_ms
    await asking.complete(handle, queue, held)
    assert (await finding(handle, queue, third)).blocked_by == second
    assert (await finding(handle, queue, second)).reason is Reason.DELIVERABLE


@pytest.mark.needs_clock
async def test_every_state_has_its_reason(handle: Handle, queue: str, clock: ManualClock) -> None:
    await asking.make(handle, queue, QueueConfig(max_delivery_count=3))
    numbers = await asking.send_bodies(handle, queue, b"l", b"d", b"r", b"a")
    locked, deferred, rejected, abandoned = await asking.take(handle, queue, 4)
    await asking.defer(handle, queue, deferred)
    await asking.reject(handle, queue, rejected, reason="because", description="of this")
    await asking.abandon(handle, queue, abandoned, delay_ms=1000)
    later = await asking.send_one(handle, queue, at=clock.now_ms() + 2000)
    short = await asking.send_one(handle, queue, ttl_ms=500)
    expected = dict(
        zip(
            [*numbers, later, short],
            [
                Reason.LOCKED, Reason.DEFERRED, Reason.DEAD_LETTERED, Reason.SCHEDULED,
                Reason.SCHEDULED, Reason.DELIVERABLE,
            ],
            strict=True,
        )
    )  # fmt: skip
    found = {seq: await finding(handle, queue, seq) for seq in expected}
    assert {seq: each.reason for seq, each in found.items()} == expected
    assert found[numbers[0]].locked_until_ms == locked.locked_until_ms
    assert "30.0 s" in found[numbers[0]].explanation
    assert found[numbers[0]].max_delivery_count == 3
    assert found[numbers[2]].dead_letter_reason == "because"
    assert "a retry is delayed" in found[numbers[3]].explanation
    assert "it was sent for later" in found[later].explanation
    clock.advance(LOCK_MS)
    over = {seq: (await finding(handle, queue, seq)).reason for seq in expected}
    assert over[numbers[0]] is Reason.LEASE_OVER
    assert over[numbers[3]] is over[later] is Reason.DUE
    assert over[short] is Reason.EXPIRED


async def test_what_is_gone_says_how_it_went(handle: Handle, queue: str) -> None:
    other = f"{queue}-other"
    for name in (queue, other):
        await asking.make(handle, name)
    done, removed = await asking.send_bodies(handle, queue, b"1", b"2")
    await asking.complete(handle, queue, await asking.take_one(handle, queue))
    await asking.take(handle, queue, mode=1)
    elsewhere = await asking.send_one(handle, other)
    assert "was completed" in (await finding(handle, queue, done)).explanation
    for seq in (removed, elsewhere, 10**12):
        found = await finding(handle, queue, seq)
        assert (found.reason, found.state) == (Reason.GONE, "")


async def test_a_queue_names_the_lines_that_stand_still_longest_waiting_first(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    for group in ("a", "b", "c"):
        await asking.send_bodies(handle, queue, b"1", group_id=group)
    heads = await asking.take(handle, queue, 3)
    for group, number in (("b", 1), ("a", 2), ("c", 3)):
        await asking.send_bodies(handle, queue, *[b"x"] * number, group_id=group)
    await asking.defer(handle, queue, heads[1])
    reply = await handle.explain(queue)
    assert reply.reason is Reason.BLOCKED
    assert [(each.group_id, each.waiting) for each in reply.blocked] == [
        ("b", 1), ("a", 2), ("c", 3),
    ]  # fmt: skip
    assert [each.head.reason for each in reply.blocked] == [
        Reason.DEFERRED, Reason.LOCKED, Reason.LOCKED,
    ]  # fmt: skip
    await asking.complete(handle, queue, heads[0])
    reply = await handle.explain(queue)
    assert reply.reason is Reason.DELIVERABLE
    assert [each.group_id for each in reply.blocked] == ["b", "c"]
    assert not reply.has_more


async def test_a_strict_queue_has_one_line(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue, QueueConfig(ordering_mode="strict_fifo"))
    first, *_ = await asking.send_bodies(handle, queue, b"1", b"2", b"3")
    await asking.take_one(handle, queue)
    (line,) = (await handle.explain(queue)).blocked
    assert (line.head.seq_number, line.waiting, line.group_id) == (first, 2, "")


async def test_an_empty_queue_says_so_and_counts_its_dead_letters(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    assert (await handle.explain(queue)).reason is Reason.EMPTY
    await asking.kill(handle, queue, 2)
    reply = await handle.explain(queue)
    assert (reply.reason, "2 dead letters" in reply.explanation) == (Reason.EMPTY, True)


async def test_when_everybody_is_busy_the_queue_says_so(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, b"1", b"2")
    await asking.take(handle, queue, 2)
    reply = await handle.explain(queue)
    assert (reply.reason, reply.blocked) == (Reason.LOCKED, [])


async def test_looking_changes_nothing_and_shows_no_token_no_body_and_no_property(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    await asking.send(
        handle, queue, Message(body=b"secret-body", properties={"secret-key": "secret-value"})
    )
    held = await asking.take_one(handle, queue)
    before = await asking.look(handle, queue)
    shown = f"{await handle.explain(queue)} {await handle.explain(queue, held.seq_number)}"
    assert not [word for word in (held.lock_token, "secret") if word in shown]
    assert await asking.look(handle, queue) == before
    await asking.complete(handle, queue, held)


async def test_an_unknown_queue_and_a_negative_number_are_refused(
    handle: Handle, queue: str
) -> None:
    with pytest.raises(QueueNotFound):
        await handle.explain(queue)
    with pytest.raises(InvalidArgument, match="seq_number"):
        await handle.explain(queue, -1)


async def test_what_waits_is_counted_only_so_far(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue, QueueConfig(ordering_mode="strict_fifo"))
    numbers = await asking.send(handle, queue, *[Message()] * 1103)
    await asking.take_one(handle, queue)
    reply = await handle.explain(queue)
    assert (reply.has_more, reply.blocked[0].waiting) == (True, 1000)
    assert (await finding(handle, queue, numbers[-1])).ahead == 1000
