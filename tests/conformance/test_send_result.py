"""SendResult: an answer for each message, and one send however often it is asked for."""

from __future__ import annotations

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import ext, limits
from mqlite_actor.contract.errors import (
    DedupConflict,
    GroupRequired,
    InvalidArgument,
    MessageTooLarge,
    NotFound,
)
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.handles import Sweep

DEDUP = QueueConfig(dedup_window_ms=60_000)
KEPT_MS = limits.REQUEST_ID_MS


def outcomes(slots: list[ext.SendSlot]) -> list[str]:
    return [slot.outcome.value for slot in slots]


async def test_each_message_gets_its_own_answer(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue, DEDUP)
    known = await asking.send_one(handle, queue, b"a", message_id="a")
    slots = await handle.send_result(
        queue,
        [
            Message(body=b"a", message_id="a"),
            Message(body=b"other", message_id="a"),
            Message(body=b"b", message_id="b"),
            Message(body=b"b", message_id="b"),
            b"plain",
        ],
    )
    assert outcomes(slots) == ["duplicate", "conflict", "inserted", "duplicate", "inserted"]
    new = slots[2].seq_number
    assert [slot.seq_number for slot in slots] == [known, 0, new, new, new + 1]
    assert [slot.copies for slot in slots] == [0, 0, 1, 0, 1]
    assert [m.body for m in await asking.look(handle, queue)] == [b"a", b"b", b"plain"]


async def test_a_single_conflict_is_an_answer_and_no_error(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue, DEDUP)
    await asking.send_one(handle, queue, b"a", message_id="a")
    (slot,) = await handle.send_result(queue, [Message(body=b"b", message_id="a")])
    assert (slot.outcome, slot.seq_number) == (ext.SlotOutcome.CONFLICT, 0)


async def test_a_topic_tells_how_many_took_a_copy(handle: Handle, queue: str) -> None:
    topic = f"{queue}-topic"
    for name, expr in (("1", 'subject == "x"'), ("2", 'subject in ["x", "y"]')):
        await asking.subscribe(handle, topic, f"{queue}-{name}", expr)
    slots = await handle.send_result(topic, [Message(subject=each) for each in ("x", "y", "z")])
    assert outcomes(slots) == ["inserted", "inserted", "unmatched"]
    assert [slot.copies for slot in slots] == [2, 1, 0]
    assert slots[2].seq_number == 0


async def test_slow_filters_are_asked_for_it_too(handle: Handle, queue: str) -> None:
    topic = f"{queue}-topic"
    expr = 'any([1, 2, 3], # == 3) && subject == "x"'
    await asking.subscribe(handle, topic, f"{queue}-slow", expr)
    slots = await handle.send_result(topic, [Message(subject="x"), Message(subject="y")])
    assert outcomes(slots) == ["inserted", "unmatched"]


async def test_a_repetition_gets_the_same_answer_and_stores_nothing(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    batch = [Message(body=b"a", properties={"b": "1", "a": "2"}), Message(body=b"b")]
    first = await handle.send_result(queue, batch, request_id="r", ttl=60)
    turned = [Message(body=b"a", properties={"a": "2", "b": "1"}), Message(body=b"b")]
    assert await handle.send_result(queue, turned, request_id="r", ttl=60) == first
    assert (await asking.stats(handle, queue)).total == 2
    for each in await handle.receive(queue, max_messages=2):
        await each.complete()
    assert await handle.send_result(queue, batch, request_id="r", ttl=60) == first
    assert (await asking.stats(handle, queue)).total == 0


async def test_without_an_id_each_send_is_a_new_one(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    for _ in range(2):
        await handle.send_result(queue, [b"x"])
    assert (await asking.stats(handle, queue)).total == 2


@pytest.mark.parametrize(
    "other",
    [
        ext.SendResultRequest(messages=[Message(body=b"y")]),
        ext.SendResultRequest(messages=[Message(body=b"x"), Message(body=b"x")]),
        ext.SendResultRequest(messages=[Message(body=b"x", subject="s")]),
        ext.SendResultRequest(messages=[Message(body=b"x")], ttl_ms=1),
        ext.SendResultRequest(messages=[Message(body=b"x")], scheduled_enqueue_time_ms=1),
        ext.SendResultRequest(messages=[]),
    ],
)
async def test_an_id_that_was_used_for_something_else_is_refused(
    handle: Handle, queue: str, other: ext.SendResultRequest
) -> None:
    await asking.make(handle, queue)
    await handle.send_result(queue, [b"x"], request_id="r")
    request = ext.SendResultRequest(
        queue=queue,
        messages=other.messages,
        scheduled_enqueue_time_ms=other.scheduled_enqueue_time_ms,
        ttl_ms=other.ttl_ms,
        request_id="r",
    )
    with pytest.raises(DedupConflict, match="'r'"):
        await handle.call(request)
    assert (await asking.stats(handle, queue)).total == 1


async def test_each_target_has_its_own_ids(handle: Handle, queue: str) -> None:
    topic = f"{queue}-topic"
    await asking.make(handle, queue)
    await asking.subscribe(handle, topic, f"{queue}-subscription")
    for target in (queue, topic, f"{queue}-subscription"):
        (slot,) = await handle.send_result(target, [b"x"], request_id="r")
        assert slot.copies == 1
        assert await handle.send_result(target, [b"x"], request_id="r") == [slot]


async def test_a_queue_made_anew_knows_no_id_of_the_former(handle: Handle, queue: str) -> None:
    for _ in range(2):
        await asking.make(handle, queue)
        (slot,) = await handle.send_result(queue, [b"x"], request_id="r")
        assert slot.copies == 1
        assert len(await asking.take(handle, queue, mode=1)) == 1
        await asking.delete(handle, queue, (await asking.info(handle, queue)).generation)


async def test_an_attempt_of_a_receive_is_no_id_of_a_send(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await handle.send_result(queue, [b"x"], request_id="same")
    (message,) = await handle.receive(queue, attempt_id="same")
    assert message.body == b"x"


@pytest.mark.needs_clock
async def test_an_id_is_kept_for_thirty_minutes(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep
) -> None:
    await asking.make(handle, queue)
    first = await handle.send_result(queue, [b"x"], request_id="r")
    clock.advance(KEPT_MS - 1)
    await sweep()
    assert await handle.send_result(queue, [b"x"], request_id="r") == first
    clock.advance(1)
    assert await handle.send_result(queue, [b"x"], request_id="r") != first
    assert (await asking.stats(handle, queue)).total == 2


@pytest.mark.needs_clock
async def test_a_scheduled_send_is_repeated_after_its_time_came(
    handle: Handle, queue: str, clock: ManualClock
) -> None:
    await asking.make(handle, queue)
    request = ext.SendResultRequest(
        queue=queue,
        messages=[Message()],
        scheduled_enqueue_time_ms=clock.now_ms() + 1000,
        request_id="r",
    )
    first = await handle.call(request)
    clock.advance(5000)
    assert await handle.call(request) == first


async def test_a_refused_send_leaves_its_id_free(handle: Handle, queue: str) -> None:
    with pytest.raises(NotFound):
        await handle.send_result(queue, [b"x"], request_id="r")
    await asking.make(handle, queue, QueueConfig(ordering_mode="group_fifo"))
    with pytest.raises(GroupRequired):
        await handle.send_result(queue, [b"x"], request_id="r")
    big = Message(group_id="g", body=bytes(limits.MESSAGE_BYTES_DEFAULT + 1))
    with pytest.raises(MessageTooLarge):
        await handle.send_result(queue, [big], request_id="r")
    slots = await handle.send_result(queue, [Message(group_id="g")], request_id="r")
    assert outcomes(slots) == ["inserted"]


async def test_an_id_has_255_bytes_at_most(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await handle.send_result(queue, [b"x"], request_id="r" * limits.REQUEST_ID_BYTES_MAX)
    with pytest.raises(InvalidArgument, match="request_id"):
        await handle.send_result(queue, [b"x"], request_id="ü" * 128)


async def test_nothing_to_send_is_answered_with_nothing(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    assert await handle.send_result(queue, []) == []
    with pytest.raises(NotFound):
        await handle.send_result(f"{queue}-none", [])
