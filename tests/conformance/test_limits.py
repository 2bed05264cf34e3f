"""Bounds: what exactly fits is accepted, one more is refused or cut, and the rest is untouched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import InvalidArgument, MessageTooLarge
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.handles import opened

FITS = b"x" * limits.MESSAGE_BYTES_DEFAULT
MIB = limits.MIB
PAGE = limits.PAGE_BYTES_MAX // MIB
"""Messages of one MiB that fill a page."""


@pytest.mark.promise("E16", "W81")
async def test_a_body_of_exactly_the_limit_fits_and_one_more_byte_does_not(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    seq = await asking.send_one(handle, queue, FITS)
    with pytest.raises(MessageTooLarge):
        await asking.send_one(handle, queue, FITS + b"x")
    with pytest.raises(MessageTooLarge):
        await asking.send(handle, queue, Message(body=b"small"), Message(body=FITS + b"x"))
    assert await asking.states(handle, queue) == {seq: "active"}
    assert (await asking.take_one(handle, queue)).body == FITS


@pytest.mark.promise("E17", "W81")
async def test_the_size_is_looked_at_before_the_name_and_after_the_time(
    handle: Handle, queue: str
) -> None:
    with pytest.raises(MessageTooLarge):
        await asking.send_one(handle, queue, FITS + b"x")
    with pytest.raises(InvalidArgument):
        await asking.send_one(handle, queue, FITS + b"x", at=1)


async def test_an_engine_can_have_another_limit(store: Path, clock: ManualClock) -> None:
    async with opened(store, clock, message_bytes_max=10) as engine:
        await asking.make(engine, "q")
        await asking.send_one(engine, "q", b"x" * 10)
        with pytest.raises(MessageTooLarge):
            await asking.send_one(engine, "q", b"x" * 11)


async def fill(handle: Handle, queue: str, number: int) -> list[int]:
    await asking.make(handle, queue)
    return [await asking.send_one(handle, queue, FITS) for _ in range(number)]


@pytest.mark.promise("E50", "E132", "W98")
async def test_a_page_stops_after_the_message_that_fills_it(handle: Handle, queue: str) -> None:
    numbers = await fill(handle, queue, PAGE + 2)
    assert [m.seq_number for m in await asking.look(handle, queue)] == numbers[:PAGE]
    taken = await asking.take(handle, queue, 100)
    assert [message.seq_number for message in taken] == numbers[:PAGE]
    left = await asking.look(handle, queue, "active")
    assert [(message.seq_number, message.delivery_count) for message in left] == [
        (seq, 0) for seq in numbers[PAGE:]
    ]


@pytest.mark.promise("E50")
async def test_receive_and_delete_and_receive_deferred_stop_there_too(engine: Engine) -> None:
    await asking.make(engine, "q")
    numbers = [await asking.send_one(engine, "q", FITS) for _ in range(PAGE + 1)]
    for _ in range(2):
        for message in await asking.take(engine, "q", 100):
            await asking.defer(engine, "q", message)
    deferred = await asking.take_deferred(engine, "q", *numbers)
    assert [message.seq_number for message in deferred] == numbers[:PAGE]
    for message in deferred:
        await asking.abandon(engine, "q", message)
    (last,) = await asking.take_deferred(engine, "q", *numbers)
    await asking.abandon(engine, "q", last)
    removed = await asking.take(engine, "q", 100, mode=1)
    assert [message.seq_number for message in removed] == numbers[:PAGE]
    assert await asking.states(engine, "q") == {numbers[PAGE]: "active"}


@pytest.mark.promise("E50")
async def test_receive_and_delete_stops_within_one_group(engine: Engine) -> None:
    await asking.make(engine, "q")
    numbers = [await asking.send_one(engine, "q", FITS, group_id="g") for _ in range(PAGE + 1)]
    removed = await asking.take(engine, "q", 100, mode=1)
    assert [message.seq_number for message in removed] == numbers[:PAGE]


@pytest.mark.promise("E51")
@pytest.mark.parametrize("way", ["receive", "remove", "peek", "deferred"])
async def test_a_message_larger_than_a_page_comes_alone(
    store: Path, clock: ManualClock, way: str
) -> None:
    async with opened(store, clock, message_bytes_max=2 * limits.PAGE_BYTES_MAX) as engine:
        await asking.make(engine, "q")
        big, small = await asking.send_bodies(
            engine, "q", b"x" * (limits.PAGE_BYTES_MAX + 1), b"small"
        )
        if way == "peek":
            found = await asking.look(engine, "q")
        elif way == "deferred":
            for _ in range(2):
                await asking.defer(engine, "q", await asking.take_one(engine, "q"))
            found = await asking.take_deferred(engine, "q", big, small)
        else:
            found = await asking.take(engine, "q", 10, mode=1 if way == "remove" else 0)
        assert [message.seq_number for message in found] == [big]


async def test_a_message_heavier_than_the_whole_mailbox_is_answered(
    store: Path, clock: ManualClock
) -> None:
    heavy = limits.MAILBOX_BYTES_MAX + 1
    async with opened(store, clock, message_bytes_max=heavy) as engine:
        await asking.make(engine, "q")
        with trio.fail_after(15):
            seq = await asking.send_one(engine, "q", bytes(heavy))
        assert await asking.states(engine, "q") == {seq: "active"}


@pytest.mark.promise("E104", "W113")
async def test_more_than_512_renewals_are_refused_before_anything_else(
    handle: Handle, queue: str
) -> None:
    ghost = wire.SettleItem(seq_number=1, lock_token="0" * 32)
    for items in ([wire.SettleItem()] * 513, [ghost] * 513):
        with pytest.raises(InvalidArgument):
            await asking.renew_batch(handle, queue, items)
    await asking.make(handle, queue)
    await asking.send_one(handle, queue)
    message = await asking.take_one(handle, queue)
    with pytest.raises(InvalidArgument):
        await asking.renew_batch(handle, queue, [asking.item(message)] * 513)
    assert await asking.look(handle, queue, "locked") == await asking.look(handle, queue)
    assert len(await asking.renew_batch(handle, queue, [asking.item(message)] * 512)) == 512


@pytest.mark.parametrize("value", [limits.INT64_MIN, -1, limits.INT64_MAX])
async def test_every_integer_of_the_wire_is_survived(
    handle: Handle, queue: str, value: int
) -> None:
    """No overflow, no error of ours: each call answers or refuses in the contract's words."""
    await asking.make(handle, queue, QueueConfig(max_delivery_count=value, dlq_max_age_ms=value))
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=value, dlq_max_bytes=value))
    await asking.send_one(handle, queue, ttl_ms=value)
    message = await asking.take_one(handle, queue)
    lease = asking.lease(queue, message)
    elsewhere = asking.lease(queue, Message(seq_number=value, lock_token=message.lock_token))
    requests: list[wire.Request[Any]] = [
        wire.PeekRequest(queue=queue, from_seq=value, max=value),
        wire.ReceiveRequest(queue=queue, max_messages=value, receive_mode=value),
        wire.ReceiveDeferredRequest(queue=queue, seq_numbers=[value]),
        wire.CancelRequest(queue=queue, seq_number=value),
        wire.CompleteRequest(**elsewhere),
        wire.RenewRequest(**elsewhere),
        wire.RenewRequest(**lease),
        wire.RenewBatchRequest(queue=queue, messages=[wire.SettleItem(value, "0" * 32)]),
        wire.CompleteBatchRequest(queue=queue, messages=[wire.SettleItem(value, "0" * 32)]),
        wire.SendRequest(queue=queue, messages=[Message()], scheduled_enqueue_time_ms=value),
        wire.CreateQueueRequest(name=queue, config=QueueConfig(default_ttl_ms=value)),
        wire.CreateQueueRequest(name=queue, config=QueueConfig(dedup_window_ms=value)),
        wire.AbandonRequest(**lease, delay_ms=value),
    ]
    answers = {type(each).__name__: await asking.refusal(handle, each) for each in requests}
    assert set(answers.values()) <= {"ok", "not_found", "lock_lost", "invalid_argument"}
    (shown,) = [m for m in await asking.look(handle, queue) if m.seq_number == message.seq_number]
    assert shown.visible_at_ms <= limits.INSTANT_MS_MAX
