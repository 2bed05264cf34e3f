"""What a group came not to, since others of it filled a page: it is put back, in front, unharmed.

test_given.py has how much that is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import Closed, Internal
from mqlite_actor.contract.wire import Message, MessagesResponse
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.engine.outcomes import GroupResult
from mqlite_actor.storage.database import Transaction
from tests.engine.gate import (
    Call,
    Custom,
    Gate,
    Stop,
    bodies,
    bounded,
    create,
    parked,
    sending,
    settled,
    taking,
    teach,
)
from tests.storage.writer import writing

PAGE = 4000
BODY = bytes(1000)
EACH = 4
"""So many of these fill a page."""


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PAGE_BYTES_MAX", PAGE)


class Pages:
    """A command that gives out a page when its stop is released."""

    def __init__(self, engine: Engine) -> None:
        self.stops: list[Stop] = []
        teach(engine, Custom, self._give)

    def later(self) -> Stop:
        self.stops.append(Stop())
        return self.stops[-1]

    def _give(self, _tx: object, _request: object, _now_ms: int) -> MessagesResponse:
        self.stops.pop(0).wait()
        return MessagesResponse(messages=[Message(body=bytes(PAGE))])


@pytest.fixture
async def threaded(store: Path) -> AsyncIterator[Engine]:
    options = EngineOptions(clock=ManualClock(), background=False)
    async with open_engine(f"file:{store}", options) as engine:
        await create(engine, "q")
        yield engine


async def behind_pages(
    engine: Engine, nursery: trio.Nursery, number: int, *requests: wire.Request[Any]
) -> tuple[list[Stop], list[Call]]:
    """So many stops that give out a page each, and calls that are in their groups."""
    pages = Pages(engine)
    stops = [pages.later() for _ in range(number)]
    first = await Gate(engine, nursery).stop()
    calls = [Call(engine, each) for each in [Custom()] * number + list(requests)]
    for call in calls:
        nursery.start_soon(call.run)
        await settled()
    first.release()
    with bounded():
        await stops[0].entered.wait()
    return stops, calls[number:]


async def test_who_is_left_runs_next_in_the_old_order_before_who_came_later(
    threaded: Engine, nursery: trio.Nursery
) -> None:
    requests = [sending("q", b"%d" % n) for n in range(5)]
    stops, calls = await behind_pages(threaded, nursery, 2, *requests)
    late = Call(threaded, sending("q", b"late"))
    nursery.start_soon(late.run)
    await settled()
    for stop in stops:
        stop.release()
    with bounded():
        for call in [*calls, late]:
            await call.ended.wait()
    assert await bodies(threaded, "q") == [b"0", b"1", b"2", b"3", b"4", b"late"]
    state = threaded.statistics()
    assert (state["mailbox_commands"], state["mailbox_bytes"]) == (0, 0)


@pytest.mark.parametrize("round_", [0, 1])
async def test_who_is_cancelled_while_a_group_runs_that_comes_not_to_him_never_ran(
    threaded: Engine, nursery: trio.Nursery, round_: int
) -> None:
    """In the first group that took him, or in one after he was put back."""
    stops, (leaver, other) = await behind_pages(
        threaded, nursery, 2, sending("q", b"leaver"), sending("q", b"other")
    )
    if round_:
        stops[0].release()
        with bounded():
            await stops[1].entered.wait()
    leaver.scope.cancel()
    await settled()
    assert not leaver.ended.is_set(), "nobody knows yet whether it runs"
    stops[round_].release()
    with bounded():
        await leaver.ended.wait()
    stops[1].release()
    with bounded():
        await other.ended.wait()
    assert leaver.was_cancelled
    assert await bodies(threaded, "q") == [b"other"]
    state = threaded.statistics()
    assert (state["mailbox_commands"], state["mailbox_bytes"]) == (0, 0)


async def test_who_was_woken_and_leaves_before_his_group_comes_to_him_passes_it_on(
    threaded: Engine, nursery: trio.Nursery
) -> None:
    await create(threaded, "big")
    stop, receive = Stop(), threaded._table[wire.ReceiveRequest]

    def slowly(tx: Transaction, request: wire.ReceiveRequest, now_ms: int) -> object:
        if request.queue == "big":
            stop.wait()
        return receive(tx, request, now_ms)

    wait_ms = limits.RECEIVE_WAIT_MS_MAX
    first = Call(threaded, taking("big", EACH, wait_ms=wait_ms))
    leaver, heir = (Call(threaded, taking("q", wait_ms=wait_ms)) for _ in range(2))
    for call, queue, number in ((first, "big", 1), (leaver, "q", 1), (heir, "q", 2)):
        nursery.start_soon(call.run)
        await parked(threaded, queue, number)
    teach(threaded, wire.ReceiveRequest, slowly)
    sends = [sending("q", b"x"), sending("big", *[BODY] * EACH)]  # the last is woken in front
    gate = await Gate(threaded, nursery).stop()
    for request in sends:
        nursery.start_soon(threaded.call, request)
        await settled()
    gate.release()
    with bounded():
        await stop.entered.wait()
    leaver.scope.cancel()
    await settled()
    stop.release()
    with bounded():
        await heir.ended.wait()
    assert leaver.was_cancelled
    assert [message.body for message in heir.reply.messages] == [b"x"]


async def test_a_receive_that_is_put_back_still_waits_for_its_message(
    threaded: Engine, nursery: trio.Nursery
) -> None:
    poll = taking("q", wait_ms=limits.RECEIVE_WAIT_MS_MAX)
    (stop,), (waiting,) = await behind_pages(threaded, nursery, 1, poll)
    stop.release()
    await parked(threaded, "q", 1)
    await threaded.call(sending("q", b"x"))
    with bounded():
        await waiting.ended.wait()
    assert len(waiting.reply.messages) == 1


async def test_an_engine_that_closes_runs_what_was_put_back(
    nursery: trio.Nursery, store: Path
) -> None:
    poll = taking("other", wait_ms=limits.RECEIVE_WAIT_MS_MAX)
    options = EngineOptions(clock=ManualClock(), background=False)
    async with open_engine(f"file:{store}", options) as engine:
        await create(engine, "q")
        await create(engine, "other")
        stops, (sent, waiting) = await behind_pages(engine, nursery, 2, sending("q", b"x"), poll)
        engine.close()
        with pytest.raises(Closed):
            await engine.call(sending("q", b"late"))
        for stop in stops:
            stop.release()
        with bounded():
            await sent.ended.wait()
            await waiting.ended.wait()
    assert sent.reply.seq_numbers == [1]
    assert waiting.reply.messages == [], "nobody is parked any more"
    with writing(store) as writer:
        assert writer.bodies("q") == [b"x"]


async def test_a_fault_of_ours_answers_those_who_were_put_back_too(
    store: Path,
) -> None:
    left: list[Call] = []

    def fail(_: GroupResult) -> None:
        raise LookupError

    async def broken() -> None:
        options = EngineOptions(background=False)
        async with open_engine(f"file:{store}", options) as engine, trio.open_nursery() as nursery:
            await create(engine, "q")
            (stop,), calls = await behind_pages(engine, nursery, 1, sending("q", b"x"))
            left.extend(calls)
            engine._actor._ran = fail
            stop.release()
            with bounded():
                await calls[0].ended.wait()

    with pytest.raises(LookupError):
        await broken()
    assert isinstance(left[0].error, Internal)
