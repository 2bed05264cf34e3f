"""Redrive: a dead letter comes back to life, in its own queue or in another."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.handles import Sweep
from tests.engine.gate import is_busy, settled, until

FULL = Message(
    body=b"\0body",
    message_id="m",
    correlation_id="c",
    reply_to="r",
    group_id="g",
    content_type="t",
    subject="s",
    properties={"k": "v"},
)
CARRIED = (
    "body", "message_id", "correlation_id", "reply_to", "group_id", "content_type", "subject",
    "properties",
)  # fmt: skip


def carried(message: Message) -> dict[str, object]:
    return {name: getattr(message, name) for name in CARRIED}


@pytest.mark.promise("E122", "W120")
async def test_a_redriven_message_keeps_what_it_is_and_starts_afresh(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue, QueueConfig(max_delivery_count=2))
    (seq,) = await asking.send(handle, queue, FULL)
    for _ in range(2):
        await asking.abandon(handle, queue, await asking.take_one(handle, queue))
    (dead,) = await asking.look(handle, queue, "dead_lettered")
    assert await asking.redrive(handle, queue) == 1
    (alive,) = await asking.look(handle, queue)
    assert (alive.state, alive.delivery_count, alive.visible_at_ms) == ("active", 0, 0)
    assert (alive.dead_letter_reason, alive.dead_letter_description) == ("", "")
    assert (alive.seq_number, alive.enqueued_at_ms) == (seq, dead.enqueued_at_ms)
    assert carried(alive) == carried(FULL)
    assert (await asking.take_one(handle, queue)).delivery_count == 1
    assert await asking.redrive(handle, queue) == 0


@pytest.mark.promise("E122", "W121")
async def test_the_queue_itself_as_target_is_in_place(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    numbers = await asking.kill(handle, queue, 2)
    assert await asking.redrive(handle, queue, queue) == 2
    assert await asking.states(handle, queue) == dict.fromkeys(numbers, "active")


@pytest.mark.promise("E123")
@pytest.mark.needs_clock
async def test_one_whose_life_is_over_gets_a_new_one_and_is_claimable(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep
) -> None:
    await asking.make(handle, queue, QueueConfig(default_ttl_ms=1000))
    await asking.send_one(handle, queue)
    clock.advance(1000)
    await sweep()
    assert await asking.redrive(handle, queue) == 1
    (alive,) = await asking.look(handle, queue)
    assert alive.expires_at_ms == clock.now_ms() + 1000
    await sweep()
    await asking.take_one(handle, queue)


@pytest.mark.promise("E123")
@pytest.mark.needs_clock
async def test_one_whose_life_is_not_over_keeps_it(
    handle: Handle, queue: str, clock: ManualClock
) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue, ttl_ms=1000)
    end = clock.now_ms() + 1000
    await asking.reject(handle, queue, await asking.take_one(handle, queue))
    clock.advance(999)
    await asking.redrive(handle, queue)
    (alive,) = await asking.look(handle, queue)
    assert alive.expires_at_ms == end


@pytest.mark.promise("E123")
@pytest.mark.needs_clock
async def test_where_nothing_expires_by_default_the_new_life_has_no_end(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep
) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue, ttl_ms=1000)
    clock.advance(1000)
    await sweep()
    await asking.redrive(handle, queue)
    (alive,) = await asking.look(handle, queue)
    assert alive.expires_at_ms == 0


@pytest.mark.promise("E124", "W121")
@pytest.mark.needs_clock
async def test_into_another_queue_it_goes_as_a_new_message(
    handle: Handle, queue: str, clock: ManualClock
) -> None:
    target = f"{queue}-target"
    await asking.make(handle, queue, QueueConfig(default_ttl_ms=60_000))
    await asking.make(handle, target, QueueConfig(default_ttl_ms=60_000))
    (seq,) = await asking.send(handle, queue, FULL)
    await asking.reject(handle, queue, await asking.take_one(handle, queue), description="d")
    clock.advance(10)
    assert await asking.redrive(handle, queue, target) == 1
    assert await asking.states(handle, queue) == {}
    (moved,) = await asking.look(handle, target)
    assert moved.seq_number > seq
    assert (moved.enqueued_at_ms, moved.expires_at_ms) == (clock.now_ms(), 0)
    assert (moved.state, moved.delivery_count, moved.visible_at_ms) == ("active", 0, 0)
    assert (moved.dead_letter_reason, moved.dead_letter_description) == ("", "")
    assert carried(moved) == carried(FULL)


@pytest.mark.promise("E124")
@pytest.mark.parametrize("size", [0, 1, 5000, 1_048_576])
@pytest.mark.parametrize("way", ["in place", "elsewhere"])
async def test_bodies_of_every_size_come_through(
    handle: Handle, queue: str, size: int, way: str
) -> None:
    target = queue if way == "in place" else f"{queue}-target"
    for name in {queue, target}:
        await asking.make(handle, name)
    body = b"\xff\0" * (size // 2) + b"x" * (size % 2)
    await asking.send_one(handle, queue, body)
    await asking.reject(handle, queue, await asking.take_one(handle, queue))
    await asking.redrive(handle, queue, target)
    assert (await asking.take_one(handle, target)).body == body


@pytest.mark.promise("E128")
async def test_a_redrive_asks_neither_for_a_group_nor_for_duplicates(
    handle: Handle, queue: str
) -> None:
    target = f"{queue}-target"
    config = QueueConfig(ordering_mode="group_fifo", dedup_window_ms=60_000)
    await asking.make(handle, queue)
    await asking.make(handle, target, config)
    known = await asking.send_one(handle, target, b"1", group_id="g", message_id="m")
    for body in (b"1", b"2"):
        await asking.send_one(handle, queue, body, message_id="m")
        await asking.reject(handle, queue, await asking.take_one(handle, queue))
    assert await asking.redrive(handle, queue, target) == 2
    assert len(await asking.take(handle, target, 10)) == 3
    again = await asking.send_one(handle, target, b"1", group_id="g", message_id="m")
    assert again == known


@pytest.mark.parametrize("ordering", ["standard", "strict_fifo"])
async def test_a_redriven_message_takes_its_old_place_in_line(
    handle: Handle, queue: str, ordering: str
) -> None:
    await asking.make(handle, queue, QueueConfig(ordering_mode=ordering))
    await asking.send_bodies(handle, queue, b"1", b"2", b"3", group_id="g")
    await asking.reject(handle, queue, await asking.take_one(handle, queue))
    await asking.redrive(handle, queue)
    for body in (b"1", b"2", b"3"):
        (message,) = await asking.take(handle, queue, 10)
        assert message.body == body
        await asking.complete(handle, queue, message)


async def test_a_redriven_message_cannot_call_back_what_was_delivered_meanwhile(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, b"1", b"2", b"3", group_id="g")
    await asking.reject(handle, queue, await asking.take_one(handle, queue))
    second = await asking.take_one(handle, queue)
    await asking.redrive(handle, queue)
    first = await asking.take_one(handle, queue)
    assert (first.body, second.body) == (b"1", b"2")
    await asking.complete(handle, queue, first)
    assert await asking.take(handle, queue, 10) == []  # the third still waits for the second
    await asking.complete(handle, queue, second)
    assert (await asking.take_one(handle, queue)).body == b"3"


@pytest.mark.promise("E127")
async def test_a_paced_redrive_moves_its_rate_and_then_waits_a_second(
    engine: Engine, mock_clock: MockClock
) -> None:
    await asking.make(engine, "q")
    await asking.make(engine, "t")
    await asking.kill(engine, "q", 5)
    moved: list[int] = []
    request = wire.RedriveRequest(queue="q", target="t", rate_per_sec=2)

    async def redrive() -> None:
        moved.append((await engine.call(request)).moved)

    async def there() -> int:
        return (await asking.stats(engine, "t")).total

    async with trio.open_nursery() as nursery:
        nursery.start_soon(redrive)
        for number in (2, 4):
            while await there() < number:
                await trio.lowlevel.checkpoint()
            await until(lambda: not is_busy(engine))  # a commit is seen before it is answered
            await settled()  # and then the redrive begins to wait
            mock_clock.jump(0.999)
            for _ in range(20):
                assert await there() == number
            mock_clock.jump(0.001)
    assert moved == [5]
    assert [m.body for m in await asking.look(engine, "t")] == [b"0", b"1", b"2", b"3", b"4"]
