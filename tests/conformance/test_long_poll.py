"""Waiting receives: when they are answered, and that nothing is missed."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract.errors import Closed
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.polling import BOUND_SECONDS, Poll, parked, poll, polling


@pytest.mark.promise("E65", "W96")
async def test_a_send_wakes_a_waiting_receive(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    async with trio.open_nursery() as nursery:
        one = Poll()
        nursery.start_soon(one.run, handle, poll(queue))
        seq = await asking.send_one(handle, queue)
        (message,) = await one.answer()
    assert message.seq_number == seq


@pytest.mark.promise("E66")
async def test_a_send_is_never_missed_however_it_falls(engine: Engine) -> None:
    await asking.make(engine, "q")
    for turns in range(60):
        async with trio.open_nursery() as nursery:
            one = Poll()
            nursery.start_soon(one.run, engine, poll("q", mode=1))
            for _ in range(turns % 12):
                await trio.lowlevel.checkpoint()
            await asking.send_one(engine, "q")
            assert len(await one.answer()) == 1


@pytest.mark.promise("E67", "W95")
async def test_a_poll_ends_empty_at_its_deadline_and_not_before(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    before = trio.current_time()
    with trio.fail_after(BOUND_SECONDS):
        assert (await handle.call(poll(queue, wait_ms=120))).messages == []
    assert trio.current_time() - before >= 0.12


@pytest.mark.promise("E47")
async def test_a_negative_wait_is_no_wait(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    with trio.fail_after(BOUND_SECONDS):
        assert (await handle.call(poll(queue, wait_ms=-5))).messages == []


@pytest.mark.promise("E47", "E67", "W95")
@pytest.mark.parametrize(("asked_ms", "waits_s"), [(700, 0.7), (20_001, 20), (2**62, 20)])
async def test_a_wait_is_cut_at_twenty_seconds(
    engine: Engine, mock_clock: MockClock, asked_ms: int, waits_s: float
) -> None:
    await asking.make(engine, "q")
    async with polling(engine, poll("q", wait_ms=asked_ms)) as one:
        mock_clock.jump(waits_s - 0.001)
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        assert engine.statistics()["waiters"] == {"q": 1}
        mock_clock.jump(0.001)
        assert await one.answer() == []


@pytest.mark.promise("E67")
async def test_a_step_of_the_wall_clock_does_not_move_the_deadline(
    engine: Engine, clock: ManualClock, mock_clock: MockClock
) -> None:
    await asking.make(engine, "q")
    async with polling(engine, poll("q", wait_ms=5000)) as one:
        for step_ms in (3_600_000, -7_200_000):
            clock.advance(step_ms)
            assert engine.statistics()["waiters"] == {"q": 1}
        mock_clock.jump(5)
        assert await one.answer() == []


@pytest.mark.promise("E70")
async def test_a_cancelled_poll_returns_at_once_and_claims_nothing(engine: Engine) -> None:
    await asking.make(engine, "q")
    with trio.fail_after(BOUND_SECONDS):
        async with polling(engine, poll("q")) as one:
            pass  # leaving the block cancels it
        assert engine.statistics()["waiters"] == {}
    seq = await asking.send_one(engine, "q")
    assert one.messages == []
    (message,) = await asking.look(engine, "q")
    assert (message.seq_number, message.state, message.delivery_count) == (seq, "active", 0)


@pytest.mark.promise("E71")
async def test_closing_ends_every_poll_with_closed(engine: Engine) -> None:
    await asking.make(engine, "q")
    ended: list[str] = []

    async def wait() -> None:
        with pytest.raises(Closed):
            await engine.call(poll("q"))
        ended.append("closed")

    with trio.fail_after(BOUND_SECONDS):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(wait)
            await parked(engine, 3)
            engine.close()
    assert ended == ["closed"] * 3


@pytest.mark.promise("E72")
async def test_one_message_goes_to_one_of_many_who_wait_and_first_to_the_first(
    engine: Engine,
) -> None:
    await asking.make(engine, "q")
    polls = [Poll() for _ in range(5)]
    async with trio.open_nursery() as nursery:
        for number, one in enumerate(polls, start=1):
            nursery.start_soon(one.run, engine, poll("q"))
            await parked(engine, number)
        for number, one in enumerate(polls, start=1):
            seq = await asking.send_one(engine, "q")
            assert [message.seq_number for message in await one.answer()] == [seq]
            assert engine.statistics()["waiters"] == ({"q": 5 - number} if number < 5 else {})


async def test_a_batch_is_shared_among_those_who_wait(engine: Engine) -> None:
    await asking.make(engine, "q")
    polls = [Poll() for _ in range(3)]
    async with trio.open_nursery() as nursery:
        for number, one in enumerate(polls, start=1):
            nursery.start_soon(one.run, engine, poll("q", number=2))
            await parked(engine, number)
        numbers = await asking.send_bodies(engine, "q", b"a", b"b", b"c", b"d", b"e")
        shares = [[message.seq_number for message in await one.answer()] for one in polls]
    assert shares == [numbers[:2], numbers[2:4], numbers[4:]]
