"""Send: what a message carries, which number it gets, and that a call is stored whole or not at
all."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import InvalidArgument, NotFound
from mqlite_actor.contract.wire import Message
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.handles import opened

FULL = Message(
    body=bytes(range(256)) + b"\0\xff",
    message_id="id \0 ünïcode 😀 <&>\u2028",
    correlation_id='c"\\\n\t',
    reply_to="/reply to/",
    group_id="gruppe-ß",
    content_type="application/x; charset=ü",
    subject="a.b..c",
    properties={"": "", "k": "v\0", "Größe": "12 €", "b": "", "a": "\ud7ff\ue000"},
)
FIELDS = (
    "body", "message_id", "correlation_id", "reply_to", "group_id", "content_type", "subject",
    "properties",
)  # fmt: skip


def carried(message: Message) -> dict[str, object]:
    return {name: getattr(message, name) for name in FIELDS}


@pytest.mark.promise("E15", "W78")
@pytest.mark.parametrize("message", [FULL, Message()], ids=["full", "empty"])
@pytest.mark.parametrize("way", ["receive", "remove", "peek", "deferred"])
async def test_every_field_comes_back_as_it_was_sent(
    handle: Handle, queue: str, message: Message, way: str
) -> None:
    await asking.make(handle, queue)
    (seq,) = await asking.send(handle, queue, message)
    if way == "peek":
        (found,) = await asking.look(handle, queue)
    else:
        (found,) = await asking.take(handle, queue, mode=1 if way == "remove" else 0)
    if way == "deferred":
        await asking.defer(handle, queue, found)
        (found,) = await asking.take_deferred(handle, queue, seq)
    assert carried(found) == carried(message)
    assert found.seq_number == seq


@pytest.mark.promise("W79")
async def test_what_only_the_broker_may_set_is_ignored(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    forged = Message(
        seq_number=999_999_999,
        enqueued_at_ms=1,
        expires_at_ms=1,
        visible_at_ms=4_000_000_000_000,
        locked_until_ms=4_000_000_000_000,
        delivery_count=77,
        lock_token="f" * 32,
        state="dead_lettered",
        dead_letter_reason="r",
        dead_letter_description="d",
        body=b"x",
    )
    (seq,) = await asking.send(handle, queue, forged)
    assert seq != forged.seq_number
    (shown,) = await asking.look(handle, queue)
    assert (shown.state, shown.delivery_count, shown.dead_letter_reason) == ("active", 0, "")
    assert (shown.locked_until_ms, shown.expires_at_ms) == (0, 0)
    assert shown.enqueued_at_ms > 1
    message = await asking.take_one(handle, queue)
    assert (message.seq_number, message.delivery_count) == (seq, 1)
    assert message.lock_token != forged.lock_token


@pytest.mark.promise("W76", "E19")
async def test_numbers_rise_over_calls_and_queues(handle: Handle, queue: str) -> None:
    other = f"{queue}-other"
    for name in (queue, other):
        await asking.make(handle, name)
    numbers = [await asking.send_one(handle, queue)]
    numbers += await asking.send_bodies(handle, other, *[b""] * 5)
    numbers += await asking.send_bodies(handle, queue, *[b""] * 2)
    assert numbers[0] >= 1
    assert numbers == sorted(set(numbers))


@pytest.mark.promise("E19")
async def test_numbers_are_never_used_again(store: Path, clock: ManualClock) -> None:
    numbers: list[int] = []
    for ending in ("complete", "cancel", "remove", "vacuum", "refusal"):
        async with opened(store, clock) as engine:
            await asking.make(engine, "q")
            at = 4_000_000_000_000 if ending == "cancel" else 0
            numbers.append(await asking.send_one(engine, "q", at=at))
            if ending == "cancel":
                await asking.cancel(engine, "q", numbers[-1])
            elif ending == "remove":
                await asking.take(engine, "q", mode=1)
            elif ending == "refusal":
                with pytest.raises(NotFound):
                    await asking.send_one(engine, "nowhere")
            else:
                await asking.complete(engine, "q", await asking.take_one(engine, "q"))
        if ending == "vacuum":
            connection = apsw.Connection(str(store))
            connection.execute("VACUUM")
            connection.close()
    assert numbers == sorted(set(numbers))


@pytest.mark.promise("E18", "W77")
async def test_an_unknown_name_is_not_found(handle: Handle, queue: str) -> None:
    with pytest.raises(NotFound):
        await asking.send_one(handle, queue)
    with pytest.raises(NotFound):
        await asking.send_one(handle, "")


@pytest.mark.promise("E18")
@pytest.mark.parametrize("kind", [wire.SendRequest, wire.ScheduleRequest])
async def test_no_messages_is_a_success_even_for_an_unknown_name(
    handle: Handle, queue: str, kind: type[wire.SendRequest]
) -> None:
    for at in (0, 1, 4_000_000_000_000):
        reply = await handle.call(kind(queue=queue, scheduled_enqueue_time_ms=at))
        assert reply.seq_numbers is None
    with pytest.raises(InvalidArgument):
        await handle.call(kind(queue=queue, scheduled_enqueue_time_ms=-1))


@pytest.mark.promise("W80", "E15")
async def test_an_empty_body_is_a_body(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue, b"")
    assert (await asking.take_one(handle, queue)).body == b""


@pytest.mark.promise("E32")
async def test_all_messages_of_a_call_are_enqueued_at_one_instant(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, *[b"x"] * 300)
    instants = {message.enqueued_at_ms for message in await asking.look(handle, queue)}
    assert len(instants) == 1


async def test_a_call_reads_the_clock_once_and_the_next_call_again(
    engine: Engine, clock: ManualClock
) -> None:
    await asking.make(engine, "q")
    await asking.send_one(engine, "q")
    clock.advance(7)
    await asking.send_one(engine, "q")
    first, second = [message.enqueued_at_ms for message in await asking.look(engine, "q")]
    assert second - first == 7


async def test_concurrent_batches_do_not_mix(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    slots: list[list[int]] = []

    async def produce() -> None:
        slots.append(await asking.send_bodies(handle, queue, *[b"x"] * 5))

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(produce)
    for numbers in slots:
        assert numbers == list(range(numbers[0], numbers[0] + 5))
    stored = sorted(seq for numbers in slots for seq in numbers)
    assert stored == sorted(await asking.states(handle, queue))
