"""Groups: one message of each is in flight, in the order of sending, and groups do not know each
other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract.errors import GroupRequired
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.handles import Sweep

HOUR_MS = 3_600_000
GROUPED = QueueConfig(ordering_mode="group_fifo")
STRICT = QueueConfig(ordering_mode="strict_fifo")
MODES = {"standard": QueueConfig(), "group_fifo": GROUPED}

Settle = Callable[[Handle, str, Message], Awaitable[None]]


async def abandon_for_an_hour(handle: Handle, queue: str, message: Message) -> None:
    await asking.abandon(handle, queue, message, delay_ms=HOUR_MS)


PARKING: dict[str, Settle] = {"defer": asking.defer, "delayed abandon": abandon_for_an_hour}
"""Settlements after which the message still holds its place."""

LEAVING: dict[str, Settle] = {"complete": asking.complete, "reject": asking.reject}
"""Settlements after which it holds back nobody."""


def bodies(batch: list[Message]) -> list[bytes]:
    return [message.body for message in batch]


@pytest.mark.promise("E20", "W87")
async def test_group_fifo_refuses_a_batch_with_an_ungrouped_message(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue, GROUPED)
    with pytest.raises(GroupRequired):
        await asking.send(handle, queue, Message(group_id="g"), Message(), Message(group_id="h"))
    assert (await asking.stats(handle, queue)).total == 0
    with pytest.raises(GroupRequired):
        await asking.send_one(handle, queue, at=4_000_000_000_000)
    assert await asking.send_one(handle, queue, group_id="g")


@pytest.mark.promise("E54", "W116")
@pytest.mark.parametrize("mode", MODES)
async def test_one_message_of_a_group_is_in_flight_and_other_groups_flow(
    handle: Handle, queue: str, mode: str
) -> None:
    await asking.make(handle, queue, MODES[mode])
    sent = [("a", b"a1"), ("a", b"a2"), ("b", b"b1"), ("b", b"b2"), ("c", b"c1")]
    await asking.send(handle, queue, *(Message(group_id=g, body=body) for g, body in sent))
    batch = await asking.take(handle, queue, 10)
    assert bodies(batch) == [b"a1", b"b1", b"c1"]
    assert await asking.take(handle, queue, 10) == []
    await asking.complete(handle, queue, batch[0])
    assert bodies(await asking.take(handle, queue, 10)) == [b"a2"]


@pytest.mark.promise("W116")
async def test_ungrouped_messages_pass_a_held_group(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    sent = [("g", b"g1"), ("g", b"g2"), ("", b"u1"), ("", b"u2")]
    await asking.send(handle, queue, *(Message(group_id=g, body=body) for g, body in sent))
    assert bodies(await asking.take(handle, queue, 10)) == [b"g1", b"u1", b"u2"]


@pytest.mark.promise("E55", "W110")
@pytest.mark.parametrize("parking", PARKING)
async def test_a_parked_head_goes_on_holding_its_group(
    handle: Handle, queue: str, parking: str
) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, b"g1", b"g2", group_id="g")
    await asking.send_bodies(handle, queue, b"h1", group_id="h")
    await PARKING[parking](handle, queue, await asking.take_one(handle, queue))
    assert bodies(await asking.take(handle, queue, 10)) == [b"h1"]


@pytest.mark.promise("E55", "E28")
async def test_a_scheduled_message_holds_its_group_from_the_moment_it_is_stored(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    at = 4_000_000_000_000
    seq = await asking.send_one(handle, queue, b"g1", group_id="g", at=at)
    await asking.send_bodies(handle, queue, b"g2", b"g3", group_id="g")
    assert await asking.take(handle, queue, 10) == []
    await asking.cancel(handle, queue, seq)
    assert bodies(await asking.take(handle, queue, 10)) == [b"g2"]


@pytest.mark.needs_clock
async def test_a_due_message_comes_before_all_that_was_sent_after_it_was_stored(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep
) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue, b"scheduled", at=clock.now_ms() + 1000)
    await asking.send_bodies(handle, queue, b"later")
    clock.advance(1000)
    await sweep()
    assert bodies(await asking.take(handle, queue, 10)) == [b"scheduled", b"later"]


@pytest.mark.parametrize("received_by", ["completed", "abandoned"])
async def test_a_deferred_head_that_is_settled_lets_its_group_go_on(
    handle: Handle, queue: str, received_by: str
) -> None:
    await asking.make(handle, queue)
    first, _ = await asking.send_bodies(handle, queue, b"1", b"2", group_id="g")
    await asking.defer(handle, queue, await asking.take_one(handle, queue))
    (head,) = await asking.take_deferred(handle, queue, first)
    if received_by == "completed":
        await asking.complete(handle, queue, head)
        assert bodies(await asking.take(handle, queue, 10)) == [b"2"]
    else:
        await asking.abandon(handle, queue, head)
        assert bodies(await asking.take(handle, queue, 10)) == [b"1"]
