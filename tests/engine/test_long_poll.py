"""Waiting receives: first come first served, one woken per message, nothing missed, all let go."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import Closed
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.storage.database import Transaction
from tests.engine.gate import (
    Call,
    Gate,
    Stop,
    bodies,
    bounded,
    completing,
    create,
    parked,
    sending,
    settled,
    take,
    taking,
    teach,
    until,
)

LONG = 20_000


async def waiting(
    engine: Engine, nursery: trio.Nursery, number: int, *, each: int = 1, queue: str = "q"
) -> list[Call]:
    """So many receives parked in this order, each for up to `each` messages."""
    calls = [Call(engine, taking(queue, each, wait_ms=LONG)) for _ in range(number)]
    before = engine.statistics()["waiters"].get(queue, 0)
    for place, call in enumerate(calls):
        nursery.start_soon(call.run)
        await parked(engine, queue, before + place + 1)
    return calls


async def got(call: Call) -> list[bytes]:
    """The bodies that a receive returned."""
    with bounded():
        await call.ended.wait()
    return [message.body for message in call.reply.messages]


@pytest.mark.promise("E72")
async def test_one_message_wakes_exactly_one_of_many(engine: Engine, nursery: trio.Nursery) -> None:
    await create(engine, "q")
    calls = await waiting(engine, nursery, 10)
    groups = engine.statistics()["groups"]
    await engine.call(sending("q", b"one"))
    assert await got(calls[0]) == [b"one"]
    await settled()
    assert engine.statistics()["waiters"] == {"q": 9}
    assert engine.statistics()["groups"] == groups + 2, "the send and one claim, no more"
    nursery.cancel_scope.cancel()


@pytest.mark.promise("E72")
async def test_receives_are_served_in_the_order_of_their_coming(
    engine: Engine, nursery: trio.Nursery
) -> None:
    await create(engine, "q")
    calls = await waiting(engine, nursery, 6)
    for number, call in enumerate(calls[:3]):
        await engine.call(sending("q", b"%d" % number))
        assert await got(call) == [b"%d" % number]
    await engine.call(sending("q", b"3", b"4", b"5"))
    assert [await got(call) for call in calls[3:]] == [[b"3"], [b"4"], [b"5"]]


async def test_as_many_are_woken_as_the_messages_can_serve(
    engine: Engine, nursery: trio.Nursery
) -> None:
    await create(engine, "q")
    calls = await waiting(engine, nursery, 4, each=3)
    await engine.call(sending("q", *[b"%d" % number for number in range(7)]))
    assert [len(await got(call)) for call in calls[:3]] == [3, 3, 1]
    await settled()
    assert engine.statistics()["waiters"] == {"q": 1}
    nursery.cancel_scope.cancel()


async def test_who_asks_for_more_than_a_claim_takes_leaves_the_rest_to_the_next(
    engine: Engine, nursery: trio.Nursery
) -> None:
    await create(engine, "q")
    first, second = await waiting(engine, nursery, 2, each=1000)
    more = limits.RECEIVE_MESSAGES_MAX + 44
    await engine.call(sending("q", *[b"x"] * more))
    assert [len(await got(call)) for call in (first, second)] == [limits.RECEIVE_MESSAGES_MAX, 44]
    assert await bodies(engine, "q", "active") == []


async def test_queues_do_not_wake_each_other(engine: Engine, nursery: trio.Nursery) -> None:
    await create(engine, "q", "other")
    mine = (await waiting(engine, nursery, 1))[0]
    theirs = (await waiting(engine, nursery, 1, queue="other"))[0]
    await engine.call(sending("other", b"x"))
    assert await got(theirs) == [b"x"]
    await settled()
    assert not mine.ended.is_set()
    nursery.cancel_scope.cancel()


async def test_whoever_was_woken_in_vain_is_first_again(
    engine: Engine, nursery: trio.Nursery
) -> None:
    """A receive without a wait stands before the woken one and takes the message."""
    await create(engine, "q")
    calls = await waiting(engine, nursery, 3)
    async with trio.open_nursery() as inner:
        stop = await Gate(engine, inner).stop()
        inner.start_soon(engine.call, sending("q", b"stolen"))
        await settled()
        thief = Call(engine, taking("q"))
        inner.start_soon(thief.run)
        await settled()
        stop.release()
    assert await got(thief) == [b"stolen"]
    await parked(engine, "q", 3)
    await engine.call(sending("q", b"next"))
    assert await got(calls[0]) == [b"next"]
    nursery.cancel_scope.cancel()


@pytest.mark.promise("E70")
async def test_a_cancelled_waiter_leaves_at_once_and_claims_nothing(
    engine: Engine, nursery: trio.Nursery
) -> None:
    await create(engine, "q")
    first, second = await waiting(engine, nursery, 2)
    stop = await Gate(engine, nursery).stop()
    first.scope.cancel()
    with bounded():
        await first.ended.wait()
    assert first.was_cancelled
    assert engine.statistics()["waiters"] == {"q": 1}
    stop.release()
    await engine.call(sending("q", b"x"))
    assert await got(second) == [b"x"]
    assert second.reply.messages[0].delivery_count == 1


@pytest.mark.promise("E70")
async def test_a_woken_waiter_that_leaves_passes_its_wake_on(
    engine: Engine, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two are woken; while the first one's group runs, the second is in the mailbox and goes."""
    monkeypatch.setattr(limits, "GROUP_COMMANDS_MAX", 1)
    await create(engine, "q")
    first, second, third = await waiting(engine, nursery, 3)
    claim = engine._table[wire.ReceiveRequest]
    stop = Stop()

    def claim_slowly(tx: Transaction, request: wire.ReceiveRequest, now_ms: int) -> object:
        teach(engine, wire.ReceiveRequest, claim)
        stop.wait()
        return claim(tx, request, now_ms)

    teach(engine, wire.ReceiveRequest, claim_slowly)
    await engine.call(sending("q", b"1", b"2"))
    with bounded():
        await stop.entered.wait()
    assert engine.statistics()["mailbox_commands"] == 1
    second.scope.cancel()
    with bounded():
        await second.ended.wait()
    assert second.was_cancelled
    stop.release()
    assert await got(first) == [b"1"]
    assert await got(third) == [b"2"]


@pytest.mark.promise("E71")
async def test_closing_wakes_every_waiter_with_closed(store: Path, clock: ManualClock) -> None:
    options = EngineOptions(clock=clock, background=False)
    async with open_engine(str(store), options) as engine, trio.open_nursery() as nursery:
        await create(engine, "q")
        calls = await waiting(engine, nursery, 5)
        engine.close()
        with bounded():
            for call in calls:
                await call.ended.wait()
    assert {type(call.error) for call in calls} == {Closed}
    assert len({id(call.error) for call in calls}) == 5, "each its own exception"


async def test_a_receive_that_closing_finds_in_the_mailbox_is_answered(
    store: Path, clock: ManualClock
) -> None:
    options = EngineOptions(clock=clock, background=False)
    async with open_engine(str(store), options) as engine, trio.open_nursery() as nursery:
        await create(engine, "q")
        stop = await Gate(engine, nursery).stop()
        call = Call(engine, taking("q", wait_ms=LONG))
        nursery.start_soon(call.run)
        await settled()
        engine.close()
        stop.release()
        assert await got(call) == []


async def test_stopping_the_wait_answers_everybody_and_parks_nobody(
    engine: Engine, nursery: trio.Nursery
) -> None:
    await create(engine, "q")
    calls = await waiting(engine, nursery, 3)
    engine.stop_waiting()
    assert [await got(call) for call in calls] == [[], [], []]
    with bounded():
        assert (await engine.call(taking("q", wait_ms=LONG))).messages == []
    await engine.call(sending("q", b"still served"))
    assert [m.body for m in (await engine.call(taking("q", wait_ms=LONG))).messages] == [
        b"still served"
    ]


async def test_the_number_of_waiters_is_bounded(
    engine: Engine, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WAITERS_MAX", 2)
    await create(engine, "q", "other")
    await waiting(engine, nursery, 1)
    await waiting(engine, nursery, 1, queue="other")
    with bounded():
        assert (await engine.call(taking("q", wait_ms=LONG))).messages == []
    nursery.cancel_scope.cancel()


async def test_a_wait_that_is_over_returns_nothing_and_is_forgotten(
    engine: Engine, nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    await create(engine, "q")
    call = Call(engine, taking("q", wait_ms=LONG))
    nursery.start_soon(call.run)
    await parked(engine, "q", 1)
    mock_clock.jump(LONG / 1000 - 0.001)
    await settled()
    assert not call.ended.is_set()
    mock_clock.jump(0.002)
    await until(call.ended.is_set)
    assert call.reply.messages == []
    assert engine.statistics()["waiters"] == {}
    await engine.call(sending("q", b"x"))
    assert (await take(engine, "q"))[0].delivery_count == 1


async def test_a_wait_that_is_over_while_the_writer_is_busy_looks_once_more(
    engine: Engine, nursery: trio.Nursery
) -> None:
    """Its time is over in the mailbox; what has come meanwhile is still returned."""
    await create(engine, "q")
    stop = await Gate(engine, nursery).stop()
    nursery.start_soon(engine.call, sending("q", b"meanwhile"))
    await settled()
    call = Call(engine, taking("q", wait_ms=1))
    nursery.start_soon(call.run)
    with trio.move_on_after(0.05):
        await call.ended.wait()
    assert not call.ended.is_set()
    stop.release()
    assert await got(call) == [b"meanwhile"]


# -- nothing is missed -----------------------------------------------------------------------------


@pytest.mark.parametrize("gap", range(4))
async def test_a_send_between_the_look_and_the_wait_is_not_missed(
    engine: Engine, nursery: trio.Nursery, gap: int
) -> None:
    """Whatever stands between the two in the mailbox: nothing, other commands, a group's end."""
    await create(engine, "q", "other")
    for _ in range(50):
        async with trio.open_nursery() as inner:
            gate = Gate(engine, inner)
            stop = await gate.stop()
            call = Call(engine, taking("q", wait_ms=LONG))
            nursery.start_soon(call.run)
            await settled()
            for _ in range(gap):
                inner.start_soon(engine.call, sending("other", b"x"))
                await settled()
            inner.start_soon(engine.call, sending("q", b"not missed"))
            await settled()
            stop.release()
        assert await got(call) == [b"not missed"]


async def test_a_send_in_the_group_after_the_look_is_not_missed(
    engine: Engine, nursery: trio.Nursery
) -> None:
    await create(engine, "q")
    for _ in range(50):
        async with trio.open_nursery() as inner:
            gate = Gate(engine, inner)
            before = await gate.stop()
            call = Call(engine, taking("q", wait_ms=LONG))
            nursery.start_soon(call.run)
            await settled()
            inside = gate.later()
            await settled()
            before.release()
            with bounded():
                await inside.entered.wait()
            inner.start_soon(engine.call, sending("q", b"not missed"))
            await settled()
            inside.release()
        assert await got(call) == [b"not missed"]


@pytest.mark.parametrize("consumers", [1, 4])
async def test_in_thousands_of_races_no_message_lies_beside_a_waiter(
    engine: Engine, consumers: int
) -> None:
    """Producers and consumers without any pause; a missed wake-up would cost 20 s."""
    await create(engine, "q")
    rounds = 1000
    seen: list[bytes] = []

    async def produce(name: int) -> None:
        for number in range(rounds):
            await engine.call(sending("q", b"%d %d" % (name, number)))

    async def consume(scope: trio.CancelScope) -> None:
        while len(seen) < 4 * rounds:
            for message in (await engine.call(taking("q", wait_ms=LONG))).messages:
                seen.append(message.body)
                await engine.call(completing("q", message))
        scope.cancel()

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            for name in range(4):
                nursery.start_soon(produce, name)
            for _ in range(consumers):
                nursery.start_soon(consume, nursery.cancel_scope)
    assert sorted(seen) == sorted(b"%d %d" % (p, n) for p in range(4) for n in range(rounds))


@pytest.mark.parametrize(
    "how",
    [
        wire.ReceiveRequest(queue="q", max_messages=10, wait_time_ms=LONG, receive_attempt_id="a"),
        wire.ReceiveRequest(queue="q", max_messages=10, wait_time_ms=LONG, receive_mode=1),
        taking("q", 10, wait_ms=LONG),
    ],
    ids=["attempt", "drain", "lease"],
)
async def test_what_a_woken_receive_leaves_goes_to_the_next(
    engine: Engine, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, how: wire.ReceiveRequest
) -> None:
    """Woken for ten, it stops when its bytes are used up, to the last."""
    monkeypatch.setattr(limits, "PAGE_BYTES_MAX", 1000)
    await create(engine, "q")
    first = Call(engine, how)
    nursery.start_soon(first.run)
    await parked(engine, "q", 1)
    second = (await waiting(engine, nursery, 1, each=10))[0]
    await engine.call(sending("q", *[bytes([n]) * 500 for n in range(4)]))
    assert [len(await got(call)) for call in (first, second)] == [2, 2]
    assert await bodies(engine, "q", "active") == []


async def test_a_woken_receive_that_repeats_an_answer_passes_its_wake_on(
    engine: Engine, nursery: trio.Nursery
) -> None:
    """Two of one attempt are woken for two messages, and get the same one."""
    await create(engine, "q")
    attempt = wire.ReceiveRequest(queue="q", wait_time_ms=LONG, receive_attempt_id="a")
    one, again = Call(engine, attempt), Call(engine, attempt)
    for number, call in enumerate((one, again), 1):
        nursery.start_soon(call.run)
        await parked(engine, "q", number)
    other = (await waiting(engine, nursery, 1))[0]
    await engine.call(sending("q", b"first", b"second"))
    assert [await got(call) for call in (one, again, other)] == [[b"first"]] * 2 + [[b"second"]]
