"""A thousand callers that come and go at random: every answer is true, and the engine goes on."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import Closed
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from tests.engine.gate import (
    Call,
    bodies,
    bounded,
    completing,
    create,
    sending,
    take,
    taking,
    until,
)

DRAIN = wire.ReceiveRequest(queue="q", receive_mode=1)

STORM = 1000


async def storm(asked: list[Call], leave: Callable[[Call], Awaitable[None]]) -> None:
    """All calls at once, each with somebody who cancels it."""
    with bounded():
        async with trio.open_nursery() as nursery:
            for call in asked:
                nursery.start_soon(call.run)
                nursery.start_soon(leave, call)


@pytest.mark.promise("E144")
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_storm_of_cancelled_calls_leaves_every_answer_true(
    engine: Engine, seed: int
) -> None:
    dice = random.Random(seed)
    await create(engine, "q")
    await engine.call(sending("q", *[b"old %d" % number for number in range(STORM)]))

    def any_call(number: int) -> Call:
        requests: tuple[wire.Request[Any], ...] = (
            sending("q", b"new %d" % number),
            taking("q", dice.randint(1, 3), wait_ms=dice.choice((0, 20_000))),
            DRAIN,
        )
        return Call(engine, dice.choice(requests))

    async def leave(call: Call) -> None:
        for _ in range(dice.randrange(60)):
            await trio.lowlevel.checkpoint()
        call.scope.cancel()

    asked = [any_call(number) for number in range(STORM)]
    await storm(asked, leave)
    assert {call.error for call in asked} == {None}
    held = await check_truth(engine, asked)
    assert engine.statistics()["mailbox_bytes"] == 0
    assert engine.statistics()["waiters"] == {}
    for message in held:
        await engine.call(completing("q", message))


async def check_truth(engine: Engine, asked: list[Call]) -> list[wire.Message]:
    """What came back is what happened; the messages that were delivered under a lease."""
    stored: set[bytes] = set()
    held: list[wire.Message] = []
    removed: set[bytes] = set()
    for call in asked:
        if call.was_cancelled:
            continue
        if isinstance(call.request, wire.SendRequest):
            stored |= {message.body for message in call.request.messages}
        elif call.request is DRAIN:
            removed |= {message.body for message in call.reply.messages}
        else:
            held += call.reply.messages
    here: dict[bytes, wire.Message] = {}
    page = [wire.Message(seq_number=0)]
    while page:
        request = wire.PeekRequest(queue="q", from_seq=page[-1].seq_number + 1, max=1000)
        page = (await engine.call(request)).messages
        here |= {message.body: message for message in page}
    old = {b"old %d" % number for number in range(STORM)}
    assert set(here) == (old | stored) - removed
    locked = {body for body, message in here.items() if message.state == "locked"}
    assert locked == {message.body for message in held}
    assert {m.delivery_count for m in here.values() if m.body not in locked} <= {0}
    assert {m.delivery_count for m in held} <= {1}
    return held


@pytest.mark.promise("E144")
async def test_a_thousand_timeouts_leave_the_engine_usable(engine: Engine) -> None:
    """Deadlines of no time at all to a few milliseconds, around sends and receives."""
    await create(engine, "q")
    dice = random.Random(4)
    returned: list[bytes] = []

    async def send(number: int) -> None:
        body = b"%d" % number
        with trio.move_on_after(dice.random() * 0.003):
            await engine.call(sending("q", body))
            returned.append(body)

    async def receive() -> None:
        with trio.move_on_after(dice.random() * 0.003):
            await engine.call(taking("empty", wait_ms=20_000))

    await create(engine, "empty")
    with bounded():
        async with trio.open_nursery() as nursery:
            for number in range(STORM // 2):
                nursery.start_soon(send, number)
                nursery.start_soon(receive)
    assert sorted(await bodies(engine, "q")) == sorted(returned)
    assert engine.statistics()["waiters"] == {}
    await engine.call(sending("empty", b"after"))
    assert (await take(engine, "empty"))[0].delivery_count == 1


async def test_closing_during_a_storm_ends_every_call(clock: ManualClock) -> None:
    asked: list[Call] = []
    with bounded():
        async with open_engine(":memory:", EngineOptions(clock=clock)) as engine:
            await create(engine, "q")
            async with trio.open_nursery() as nursery:
                for number in range(STORM):
                    request = taking("q", wait_ms=20_000) if number % 2 else sending("q", b"x")
                    asked.append(Call(engine, request))
                    nursery.start_soon(asked[-1].run)
                await until(lambda: any(call.ended.is_set() for call in asked))
                engine.close()
    assert all(call.ended.is_set() for call in asked)
    assert {type(call.error) for call in asked} <= {type(None), Closed}
