"""Duplicate detection: what counts as the same message, for how long, and what is answered."""

from __future__ import annotations

import pytest
import trio

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import DedupConflict, GroupRequired
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking

WINDOW_MS = 60_000
WATCHED = QueueConfig(dedup_window_ms=WINDOW_MS)


@pytest.mark.promise("E34", "W82")
async def test_the_same_id_and_body_is_stored_once(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue, WATCHED)
    first = await asking.send_one(handle, queue, b"a", message_id="m")
    assert await asking.send_one(handle, queue, b"a", message_id="m") == first
    assert (await asking.stats(handle, queue)).total == 1


@pytest.mark.promise("E34")
async def test_a_duplicate_wakes_nobody(engine: Engine) -> None:
    await asking.make(engine, "q", WATCHED)
    await asking.send_one(engine, "q", b"a", message_id="m")
    await asking.take_one(engine, "q")
    request = wire.ReceiveRequest(queue="q", wait_time_ms=20_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(engine.call, request)
        with trio.fail_after(15):
            while engine.statistics()["waiters"] != {"q": 1}:
                await trio.lowlevel.checkpoint()
        await asking.send_one(engine, "q", b"a", message_id="m")
        assert engine.statistics()["waiters"] == {"q": 1}
        nursery.cancel_scope.cancel()


@pytest.mark.promise("E35", "W82")
@pytest.mark.parametrize("kind", [wire.SendRequest, wire.ScheduleRequest])
@pytest.mark.parametrize("at", [0, 4_000_000_000_000])
async def test_a_single_message_with_a_used_id_and_another_body_is_a_conflict(
    handle: Handle, queue: str, kind: type[wire.SendRequest], at: int
) -> None:
    await asking.make(handle, queue, WATCHED)
    seq = await asking.send_one(handle, queue, b"a", message_id="m")
    request = kind(
        queue=queue,
        messages=[Message(body=b"b", message_id="m")],
        scheduled_enqueue_time_ms=at,
    )
    with pytest.raises(DedupConflict):
        await handle.call(request)
    assert await asking.states(handle, queue) == {seq: "active"}


@pytest.mark.promise("E35", "W83")
async def test_in_a_batch_a_conflict_is_a_zero_and_the_others_are_stored(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue, WATCHED)
    first = await asking.send_one(handle, queue, b"a", message_id="m")
    slots = await asking.send(
        handle,
        queue,
        Message(body=b"b", message_id="m"),
        Message(body=b"c", message_id="n"),
        Message(body=b"a", message_id="m"),
    )
    assert slots[0] == 0
    assert slots[1] > first
    assert slots[2] == first
    assert sorted(await asking.states(handle, queue)) == [first, slots[1]]


@pytest.mark.promise("E40", "W83")
async def test_duplicates_inside_one_batch_are_detected(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue, WATCHED)
    slots = await asking.send(
        handle,
        queue,
        Message(body=b"a", message_id="m"),
        Message(body=b"a", message_id="m"),
        Message(body=b"b", message_id="m"),
        Message(body=b"c"),
        Message(body=b"c"),
    )
    assert slots[0] == slots[1] > 0
    assert slots[2] == 0
    assert slots[3] == slots[4] > slots[0]
    assert (await asking.stats(handle, queue)).total == 2


@pytest.mark.promise("E36", "W84")
async def test_without_an_id_the_body_is_the_key(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue, WATCHED)
    slots = [await asking.send_one(handle, queue, body) for body in (b"a", b"b", b"a", b"", b"")]
    assert slots[0] == slots[2]
    assert slots[3] == slots[4]
    assert len(set(slots)) == 3
    assert (await asking.stats(handle, queue)).total == 3


@pytest.mark.promise("E42")
async def test_only_the_body_is_compared(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue, WATCHED)
    seq = await asking.send_one(handle, queue, b"a", message_id="m")
    other = Message(
        body=b"a",
        message_id="m",
        subject="s",
        group_id="g",
        correlation_id="c",
        properties={"k": "v"},
    )
    assert await asking.send(handle, queue, other, ttl_ms=5000) == [seq]
    assert await asking.send(handle, queue, other, at=4_000_000_000_000) == [seq]
    (stored,) = await asking.look(handle, queue)
    assert (stored.subject, stored.properties, stored.state) == ("", {}, "active")


@pytest.mark.promise("E43")
async def test_concurrent_sends_of_one_id_store_one_message(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue, WATCHED)
    numbers: list[int] = []

    async def produce() -> None:
        numbers.append(await asking.send_one(handle, queue, b"a", message_id="m"))

    async with trio.open_nursery() as nursery:
        for _ in range(12):
            nursery.start_soon(produce)
    assert len(numbers) == 12
    assert len(set(numbers)) == 1
    assert (await asking.stats(handle, queue)).total == 1


@pytest.mark.promise("W86")
async def test_without_a_window_the_same_id_is_stored_twice(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    first = await asking.send_one(handle, queue, b"a", message_id="m")
    assert await asking.send_one(handle, queue, b"a", message_id="m") > first


async def test_keys_belong_to_a_queue(handle: Handle, queue: str) -> None:
    other = f"{queue}-other"
    for name in (queue, other):
        await asking.make(handle, name, WATCHED)
    first = await asking.send_one(handle, queue, b"a", message_id="m")
    assert await asking.send_one(handle, other, b"b", message_id="m") > first


async def test_a_missing_group_is_reported_before_a_conflict(handle: Handle, queue: str) -> None:
    config = QueueConfig(dedup_window_ms=WINDOW_MS, ordering_mode="group_fifo")
    await asking.make(handle, queue, config)
    await asking.send_one(handle, queue, b"a", message_id="m", group_id="g")
    with pytest.raises(GroupRequired):
        await asking.send_one(handle, queue, b"b", message_id="m")
