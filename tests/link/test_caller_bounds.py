"""What bounds a caller's end: calls in flight, bytes, patience; and what it says at its end."""

from __future__ import annotations

import gc
import socket

import msgspec
import pytest
import trio

from mqlite_actor.contract import limits, wire
from mqlite_actor.link import frames
from mqlite_actor.link.client import Link, LinkLost, connect
from mqlite_actor.link.frames import Ask, Cancel, GiveBack, Hello, Note
from tests.engine.gate import bounded, sending, settled, taking, until
from tests.link.ends import TAKEN, Caller, Ends, ends
from tests.link.peer import rogue, short_path

LARGE = sending("q", *[bytes(limits.MESSAGE_BYTES_DEFAULT)] * 4)


def calling(both: Ends, nursery: trio.Nursery, queue: str = "q") -> Caller:
    """A call that is on its way."""
    caller = Caller(lambda: both.link.call(wire.StatsRequest(queue=queue)))
    nursery.start_soon(caller.run)
    return caller


async def asked(both: Ends) -> tuple[int, str]:
    """The number of the next ask, and the queue that it is about."""
    ask = await both.hear()
    assert isinstance(ask, Ask)
    request = frames.decoded_request(ask)
    assert isinstance(request, wire.StatsRequest)
    return ask.id, request.queue


def nothing(both: Ends) -> bool:
    """Whether nothing more was said."""
    return not both.unread and both.link._pipe.said == both.link._pipe.sent


async def refuse(both: Ends, number: int) -> None:
    await both.say(frames.encoded(frames.Refusal(number, "not_found", "")))


# -- calls in flight -------------------------------------------------------------------------------


async def test_no_more_calls_are_in_flight_than_may_be_and_the_next_goes_when_one_ends(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINK_CALLS_MAX", 2)
    async with ends() as both:
        for _ in range(3):
            calling(both, nursery)
        first, _ = await asked(both)
        await asked(both)
        await settled()
        assert nothing(both)
        assert len(both.link._waiting) == 2
        await refuse(both, first)
        await asked(both)


async def test_who_came_first_is_asked_first_when_a_call_ends(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINK_CALLS_MAX", 1)

    async def late(both: Ends) -> None:
        await both.link._bell.wait()  # it comes in the moment in which there is room again
        calling(both, nursery, "late")

    async def at_once(both: Ends) -> None:
        await both.link._bell.wait()
        await Caller(lambda: both.link.call(wire.StatsRequest(queue="late"))).run()

    async with ends() as both:
        for come in (late, at_once) * 6:
            calling(both, nursery)
            number, _ = await asked(both)
            calling(both, nursery, "first")
            await until(both.link._line.locked)
            nursery.start_soon(come, both)
            await settled()
            await refuse(both, number)
            number, queue = await asked(both)
            assert queue == "first"
            await refuse(both, number)
            number, _ = await asked(both)
            await refuse(both, number)
            await until(lambda: not both.link._waiting)


async def test_a_call_in_a_block_that_is_cancelled_already_is_never_asked() -> None:
    async with ends() as both:
        caller = Caller(lambda: both.link.call(sending("q", b"x")))
        caller.scope.cancel()
        await caller.run()
        assert caller.scope.cancelled_caught
        assert nothing(both)


async def test_nothing_is_added_to_what_the_kernel_does_not_take(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINK_UNSENT_BYTES", 1000)
    async with ends() as both:
        nursery.start_soon(Caller(lambda: both.link.call(LARGE)).run)
        await until(lambda: both.link._pipe.unsent > 0)
        said = both.link._pipe.said
        calling(both, nursery)
        await settled()
        assert both.link._pipe.said == said
        assert isinstance(await both.hear(), Ask)
        await asked(both)


# -- patience --------------------------------------------------------------------------------------


async def test_an_answer_that_never_comes_is_not_waited_for_and_its_messages_go_back_when_it_does(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINK_CANCEL_SECONDS", 0.05)
    async with ends() as both:
        caller = Caller(lambda: both.link.call(taking("q")))
        nursery.start_soon(caller.run)
        await both.hear()
        caller.scope.cancel()
        assert isinstance(await both.hear(), Cancel)
        await caller.over()
        assert isinstance(caller.error, LinkLost)
        assert caller.error.was_sent
        await both.say(frames.encoded_reply(1, TAKEN))
        back = await both.hear()
        assert isinstance(back, GiveBack)
        assert (back.claim, back.is_counted, len(back.leases)) == (1, False, 1)
        await both.say(frames.encoded_reply(back.id, wire.EmptyResponse()))
        calling(both, nursery)
        await asked(both)
        assert not both.link.lost.is_set()


async def test_of_a_late_answer_without_messages_nothing_goes_back(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINK_CANCEL_SECONDS", 0.0)
    async with ends() as both:
        caller = Caller(lambda: both.link.call(taking("q")))
        nursery.start_soon(caller.run)
        await both.hear()
        caller.scope.cancel()
        await caller.over()
        assert isinstance(await both.hear(), Cancel)
        await both.say(frames.encoded_reply(1, wire.MessagesResponse(messages=[])))
        await until(lambda: not both.link._waiting)
        calling(both, nursery)
        await asked(both)


async def test_an_engine_that_takes_nothing_is_given_up(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINK_STALL_SECONDS", 0.05)
    async with ends() as both:
        caller = Caller(lambda: both.link.call(LARGE))
        nursery.start_soon(caller.run)
        with bounded():
            await both.link.lost.wait()
        await caller.over()
        assert isinstance(caller.error, LinkLost)
        assert caller.error.was_sent, "a part of it is in the kernel"


# -- the beginning and the end ---------------------------------------------------------------------


async def test_what_is_noted_has_left_before_anything_that_is_done_next() -> None:
    async with ends() as both:
        both.link.note("topic", 7)
        assert not both.link._pipe.unsent
        note = await both.hear()
        assert isinstance(note, Note)
        assert (note.topic, msgspec.msgpack.decode(note.content)) == ("topic", 7)


async def test_a_call_on_a_link_that_is_over_says_why_and_that_it_was_not_sent() -> None:
    async with ends() as both:
        both.sock.close()
        with bounded():
            await both.link.lost.wait()
        with pytest.raises(LinkLost, match="the engine closed the link") as caught:
            await both.link.call(sending("q", b"x"))
        assert not caught.value.was_sent
        assert caught.value.reason == str(caught.value)


async def test_who_waits_for_room_learns_that_the_link_is_over(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINK_CALLS_MAX", 1)
    async with ends() as both:
        inside = calling(both, nursery)
        await asked(both)
        outside = calling(both, nursery)
        await until(both.link._line.locked)
        both.sock.close()
        for caller, was_sent in ((inside, True), (outside, False)):
            await caller.over()
            assert isinstance(caller.error, LinkLost)
            assert caller.error.was_sent is was_sent


async def test_a_link_to_something_else_ends_before_anything_is_sent(
    nursery: trio.Nursery,
) -> None:
    async def answer() -> None:
        sock = await other.accept()
        await sock.send(frames.frame([frames.encoded(Hello("0", "0"))]))

    with short_path() as path, rogue(path) as other:
        nursery.start_soon(answer)
        with pytest.raises(LinkLost, match="another contract") as caught:
            await Link(await connect(path)).run()
    assert not caught.value.was_sent


async def test_what_comes_with_the_hello_is_heard() -> None:
    reply = frames.encoded_reply(1, wire.EmptyResponse())
    with short_path() as path, rogue(path) as other:
        link = Link(await connect(path))
        sock = await other.accept()
        await sock.send(frames.frame([frames.hello(), reply]))
        with bounded():
            await link.run()
    with pytest.raises(LinkLost, match="nobody asked for"):
        await link.call(sending("q", b"x"))


async def test_a_program_waits_for_its_turn_to_be_accepted(nursery: trio.Nursery) -> None:
    with short_path() as path, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        crowd = []
        while True:  # until the kernel keeps no more newcomers
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)
            crowd.append(one)
            try:
                one.connect(path)
            except BlockingIOError:
                break
        found: list[socket.socket] = []

        async def come() -> None:
            found.append(await connect(path))

        nursery.start_soon(come)
        await settled()
        assert not found
        listener.accept()[0].close()
        await until(lambda: bool(found))
        for each in (*crowd, *found):
            each.close()


async def test_where_nobody_listens_no_socket_is_left_open() -> None:
    with short_path() as path, pytest.raises(FileNotFoundError):
        await connect(path)
    gc.collect()  # a socket that was left open would warn here
