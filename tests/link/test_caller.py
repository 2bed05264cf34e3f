"""A bare link against an engine in the test's hands: what it holds back, and what it lets go of."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import Canceled
from mqlite_actor.link import frames
from mqlite_actor.link.client import Link, LinkLost
from mqlite_actor.link.frames import Ask, Begun, Cancel, GiveBack, Refusal
from tests.engine.gate import sending, settled, taking, until
from tests.link.ends import TAKEN, Caller, Ends, ends

QUESTIONS: dict[str, Callable[[Link], Awaitable[object]]] = {
    "check": lambda link: link.check("mqk_x"),
    "probe": lambda link: link.probe(),
}


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS.keys())
async def test_a_question_that_changes_nothing_is_left_at_once(
    nursery: trio.Nursery, ask: Callable[[Link], Awaitable[object]]
) -> None:
    async with ends() as both:
        caller = Caller(lambda: ask(both.link))
        nursery.start_soon(caller.run)
        asked = await both.hear()
        caller.scope.cancel()
        await caller.over()
        assert caller.scope.cancelled_caught
        nursery.start_soon(Caller(lambda: both.link.call(sending("q", b"x"))).run)
        assert isinstance(await both.hear(), Ask), "and nobody is told to stop"
        answer = (7, getattr(asked, "id", 0), "nobody waits for it")
        await both.say(msgspec.msgpack.encode(answer))
        await settled()
        assert not both.link.lost.is_set(), "a late answer is no breach of the rules"


async def test_an_engine_says_why_it_should_get_no_work(nursery: trio.Nursery) -> None:
    async with ends() as both:
        caller = Caller(both.link.probe)
        nursery.start_soon(caller.run)
        asked = await both.hear()
        await both.say(frames.encoded_reply(getattr(asked, "id", 0), "the disk is full"))
        await caller.over()
    assert caller.result == "the disk is full"


# -- a confirmation that is stuck ------------------------------------------------------------------


@asynccontextmanager
async def stuck(nursery: trio.Nursery) -> AsyncIterator[tuple[Ends, Caller]]:
    """A receive that has its reply, and whose confirmation the kernel has no room for."""
    async with ends() as both:
        caller = Caller(lambda: both.link.call(taking("q")))
        nursery.start_soon(caller.run)
        assert isinstance(await both.hear(), Ask)
        large = sending("q", *[bytes(limits.MESSAGE_BYTES_DEFAULT)] * 4)
        nursery.start_soon(Caller(lambda: both.link.call(large)).run)
        await until(lambda: both.link._pipe.unsent > 0)
        said = both.link._pipe.said
        await both.say(frames.encoded_reply(1, TAKEN))
        await until(lambda: both.link._pipe.said > said)
        await settled()
        assert not caller.ended.is_set(), "no message before its confirmation is on the way"
        yield both, caller


async def test_a_receiver_that_leaves_while_its_claim_is_confirmed_gets_its_messages(
    nursery: trio.Nursery,
) -> None:
    async with stuck(nursery) as (both, caller):
        caller.scope.cancel()
        await settled()
        assert not caller.ended.is_set(), "the engine would think that somebody holds them"
        heard = [await both.hear(), await both.hear()]
        assert [type(item) for item in heard] == [Ask, Begun]
        await caller.over()
    assert caller.result == TAKEN


async def test_a_link_that_ends_under_a_confirmation_gives_nobody_its_messages(
    nursery: trio.Nursery,
) -> None:
    async with stuck(nursery) as (both, caller):
        both.sock.close()
        await caller.over()
    assert caller.result is None
    assert isinstance(caller.error, LinkLost)
    assert caller.error.was_sent


# -- leaving ---------------------------------------------------------------------------------------


async def test_a_receiver_whose_time_is_over_gives_back_what_came_in_spite_of_it(
    nursery: trio.Nursery,
) -> None:
    async with ends() as both:
        caller = Caller(lambda: both.link.call(taking("q")))
        nursery.start_soon(caller.run)
        await both.hear()
        caller.scope.deadline = trio.current_time()
        assert isinstance(await both.hear(), Cancel)
        await both.say(frames.encoded_reply(1, TAKEN))
        back = await both.hear()
        assert isinstance(back, GiveBack)
        assert (back.claim, back.is_counted, len(back.leases)) == (1, False, 1)
        nursery.start_soon(Caller(lambda: both.link.call(sending("q", b"x"))).run)
        assert isinstance(await both.hear(), Ask), "what is given back is not withdrawn"
        await both.say(frames.encoded_reply(back.id, wire.EmptyResponse()))
        await caller.over()
    assert caller.scope.cancelled_caught


async def test_a_refusal_that_nobody_withdrew_for_is_an_error(nursery: trio.Nursery) -> None:
    async with ends() as both:
        caller = Caller(lambda: both.link.call(sending("q", b"x")))
        nursery.start_soon(caller.run)
        await both.hear()
        await both.say(frames.encoded(Refusal(1, Canceled.code, "who knows why")))
        await caller.over()
    assert isinstance(caller.error, Canceled)
