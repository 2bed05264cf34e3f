"""Strict queues, and what lanes of both kinds share: who holds back whom, and when it lets go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.handles import Sweep, opened

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


@pytest.mark.promise("E55")
@pytest.mark.parametrize("config", [QueueConfig(), STRICT], ids=["standard", "strict"])
@pytest.mark.needs_clock
async def test_an_expired_lock_holds_its_lane_until_the_pass(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep, config: QueueConfig
) -> None:
    await asking.make(handle, queue, config)
    await asking.send_bodies(handle, queue, b"g1", b"g2", group_id="g")
    await asking.take_one(handle, queue)
    clock.advance(limits.LOCK_DURATION_MS_DEFAULT)
    assert await asking.take(handle, queue) == []
    await sweep()
    assert bodies(await asking.take(handle, queue, 10)) == [b"g1"]


@pytest.mark.promise("E58")
@pytest.mark.parametrize("leaving", LEAVING)
@pytest.mark.parametrize("config", [QueueConfig(), STRICT], ids=["standard", "strict"])
async def test_a_message_that_left_holds_back_nobody(
    handle: Handle, queue: str, leaving: str, config: QueueConfig
) -> None:
    await asking.make(handle, queue, config)
    await asking.send_bodies(handle, queue, b"1", b"2", b"3", group_id="g")
    for body in (b"1", b"2", b"3"):
        (message,) = await asking.take(handle, queue, 10)
        assert message.body == body
        await LEAVING[leaving](handle, queue, message)


@pytest.mark.promise("E59", "W116")
@pytest.mark.parametrize("config", [QueueConfig(), STRICT], ids=["standard", "strict"])
async def test_an_abandoned_head_comes_before_its_successors(
    handle: Handle, queue: str, config: QueueConfig
) -> None:
    await asking.make(handle, queue, config)
    await asking.send_bodies(handle, queue, b"1", b"2", group_id="g")
    for count in (1, 2, 3):
        (message,) = await asking.take(handle, queue, 10)
        assert (message.body, message.delivery_count) == (b"1", count)
        await asking.abandon(handle, queue, message)


@pytest.mark.promise("E59", "W110")
@pytest.mark.parametrize("config", [QueueConfig(), STRICT], ids=["standard", "strict"])
@pytest.mark.needs_clock
async def test_a_delayed_head_holds_its_successors_until_it_is_due(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep, config: QueueConfig
) -> None:
    await asking.make(handle, queue, config)
    await asking.send_bodies(handle, queue, b"1", b"2", group_id="g")
    await abandon_for_an_hour(handle, queue, await asking.take_one(handle, queue))
    clock.advance(HOUR_MS - 1)
    await sweep()
    assert await asking.take(handle, queue, 10) == []
    clock.advance(1)
    await sweep()
    assert bodies(await asking.take(handle, queue, 10)) == [b"1"]


@pytest.mark.promise("E56", "W117")
async def test_a_strict_queue_has_one_message_in_flight_whatever_the_groups(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue, STRICT)
    sent = [("a", b"1"), ("", b"2"), ("b", b"3")]
    await asking.send(handle, queue, *(Message(group_id=g, body=body) for g, body in sent))
    for body in (b"1", b"2", b"3"):
        batch = await asking.take(handle, queue, 10)
        assert bodies(batch) == [body]
        assert await asking.take(handle, queue, 10) == []
        await asking.complete(handle, queue, batch[0])


@pytest.mark.promise("E56", "W117")
@pytest.mark.parametrize("parking", [*PARKING, "schedule"])
async def test_a_parked_head_holds_a_whole_strict_queue(
    handle: Handle, queue: str, parking: str
) -> None:
    await asking.make(handle, queue, STRICT)
    at = 4_000_000_000_000 if parking == "schedule" else 0
    await asking.send_one(handle, queue, b"1", at=at)
    await asking.send_bodies(handle, queue, b"2", group_id="other")
    if parking in PARKING:
        await PARKING[parking](handle, queue, await asking.take_one(handle, queue))
    assert await asking.take(handle, queue, 10) == []


@pytest.mark.promise("E57")
@pytest.mark.parametrize("config", [QueueConfig(), STRICT], ids=["standard", "strict"])
@pytest.mark.needs_clock
async def test_an_expired_active_head_does_not_hold_its_lane(
    handle: Handle, queue: str, clock: ManualClock, config: QueueConfig
) -> None:
    await asking.make(handle, queue, config)
    await asking.send_one(handle, queue, b"1", group_id="g", ttl_ms=1000)
    await asking.send_one(handle, queue, b"2", group_id="g")
    clock.advance(1000)
    assert bodies(await asking.take(handle, queue, 10)) == [b"2"]


async def test_switching_the_ordering_takes_effect_at_the_next_claim(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    await asking.send(handle, queue, *(Message(group_id=g, body=b"x") for g in ("", "a", "a", "b")))
    first = await asking.take_one(handle, queue)
    await asking.make(handle, queue, STRICT)
    assert await asking.take(handle, queue, 10) == []
    await asking.make(handle, queue, GROUPED)
    batch = await asking.take(handle, queue, 10)
    assert [message.group_id for message in batch] == ["a", "b"]
    await asking.make(handle, queue, STRICT)
    for message in (first, *batch):
        await asking.complete(handle, queue, message)
    assert [message.group_id for message in await asking.take(handle, queue, 10)] == ["a"]


@pytest.mark.promise("E60")
@pytest.mark.parametrize("config", [QueueConfig(), STRICT], ids=["standard", "strict"])
async def test_the_order_of_a_group_holds_under_concurrent_consumers_and_restarts(
    store: Path, clock: ManualClock, config: QueueConfig
) -> None:
    groups = ["a", "b", "c"]
    done: dict[str, list[bytes]] = {group: [] for group in groups}

    async def consume(engine: Engine, number: int) -> None:
        for turn in range(12):
            for message in await asking.take(engine, "q", 2):
                if (message.seq_number + turn + number) % 4 == 0:
                    await asking.abandon(engine, "q", message)
                else:
                    await asking.complete(engine, "q", message)
                    done[message.group_id].append(message.body)

    numbers = [f"{number:02}".encode() for number in range(12)]
    unlimited = QueueConfig(ordering_mode=config.ordering_mode, max_delivery_count=1000)
    async with opened(store, clock) as engine:
        await asking.make(engine, "q", unlimited)
        for body in numbers:
            await asking.send(engine, "q", *(Message(group_id=g, body=body) for g in groups))
    for _ in range(20):
        async with opened(store, clock) as engine:
            async with trio.open_nursery() as nursery:
                for number in range(4):
                    nursery.start_soon(consume, engine, number)
            await asking.take(engine, "q", 2)  # held when the engine closes
            if (await asking.stats(engine, "q")).total == 0:
                break
    assert done == dict.fromkeys(groups, numbers)
