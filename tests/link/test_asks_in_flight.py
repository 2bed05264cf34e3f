"""What an engine's end of a link holds at once, and what it lets go of."""

from __future__ import annotations

import socket

import msgspec
import pytest
import trio

from mqlite_actor.contract import limits, wire
from mqlite_actor.engine.engine import Engine
from mqlite_actor.link import frames
from mqlite_actor.link.frames import Ask, GiveBack, Probe, Reply
from mqlite_actor.link.server import ServedLink
from tests.engine.gate import Gate, bodies, create, sending, settled, take, taking, until
from tests.link.peer import Peer, linked

REQUEST = sending("q", bytes(1000))


def weight() -> int:
    """Of the body of that ask, in bytes."""
    (ask,) = frames.Frames(is_upward=True).feed(frames.frame([frames.encoded_ask(1, REQUEST)]))
    assert isinstance(ask, Ask)
    return memoryview(ask.body).nbytes


@pytest.mark.parametrize(("room", "read"), [(0, 2), (-1, 1)])
async def test_a_link_is_not_read_while_more_than_its_bytes_are_in_flight(
    engine: Engine,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
    room: int,
    read: int,
) -> None:
    monkeypatch.setattr(limits, "LINK_ASKS_BYTES_MAX", weight() + room)
    await create(engine, "q")
    gate = Gate(engine, nursery)
    async with linked(engine) as peer:
        await peer.greet()
        stop = await gate.stop()
        await peer.ask(1, REQUEST)
        await until(lambda: engine.statistics()["mailbox_commands"] == 1)
        await peer.ask(2, REQUEST)
        await settled()
        assert engine.statistics()["mailbox_commands"] == read
        stop.release()
        assert {getattr(await peer.hear(), "id", 0) for _ in range(2)} == {1, 2}
        await peer.ask(3, REQUEST)
        await peer.reply(3)
    assert len(await bodies(engine, "q")) == 3


async def test_what_is_given_back_is_not_held_any_more(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who gave back everything is not taken for a program that confirms nothing."""
    monkeypatch.setattr(limits, "LINK_CALLS_MAX", 1)
    await create(engine, "q")
    await engine.call(sending("q", b"x"))
    async with linked(engine) as peer:
        await peer.greet()
        for number in range(1, 9, 2):
            await peer.ask(number, taking("q"))
            (message,) = await peer.taken(number)
            assert message.delivery_count == 1
            lease = wire.SettleItem(seq_number=message.seq_number, lock_token=message.lock_token)
            back = GiveBack(number + 1, number, "q", [lease], is_counted=False)
            await peer.say(frames.encoded(back))
            peer.asked[number + 1] = wire.CreateQueueRequest()
            await peer.reply(number + 1)
    assert len(await take(engine, "q")) == 1


async def test_patience_with_a_program_ends_only_before_its_hello(engine: Engine) -> None:
    async with linked(engine, hello_seconds=0.05) as silent:
        await silent.ended()
    async with linked(engine, hello_seconds=0.2) as peer:
        await peer.greet()
        await peer.ask(1, wire.ListQueuesRequest())
        await peer.reply(1)
        over = trio.current_time() + 0.3
        await until(lambda: trio.current_time() > over)
        await peer.ask(2, wire.ListQueuesRequest())
        await peer.reply(2)


async def test_a_program_learns_whether_the_engine_should_get_work(engine: Engine) -> None:
    async with linked(engine) as peer:
        await peer.greet()
        await peer.say(frames.encoded(Probe(1)))
        reply = await peer.hear()
        assert isinstance(reply, Reply)
        assert msgspec.msgpack.decode(reply.body) == engine.unready


LAST_WORDS = {
    "nothing": (0, 1, "a message that nobody can have seen goes back as it was"),
    "begun": (1, 0, "what its reader has stays with it"),
    "back": (2, 1, "what was given back goes back"),
    "back, counted": (3, 2, "and counts if a part of it was seen"),
}


@pytest.mark.parametrize(("words", "deliveries", "why"), LAST_WORDS.values(), ids=LAST_WORDS.keys())
async def test_what_was_said_and_never_read_decides_at_the_end_of_a_link(
    engine: Engine,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
    words: int,
    deliveries: int,
    why: str,
) -> None:
    monkeypatch.setattr(limits, "LINK_ASKS_BYTES_MAX", 0)
    await create(engine, "q")
    await engine.call(sending("q", b"x"))
    scope = trio.CancelScope()
    ours, theirs = socket.socketpair()
    peer = Peer(ours)

    async def serve() -> None:
        with scope:
            await ServedLink(theirs, engine, stopping=trio.Event()).run()
        peer.gone.set()

    nursery.start_soon(serve)
    await peer.greet()
    await peer.ask(1, taking("q"))
    (message,) = await peer.taken(1)
    stop = await Gate(engine, nursery).stop()
    await peer.ask(2, sending("q", b"never"))  # while it runs, nothing more is read
    await until(lambda: engine.statistics()["mailbox_commands"] == 1)
    lease = wire.SettleItem(seq_number=message.seq_number, lock_token=message.lock_token)
    if words == 1:
        await peer.begin(1)
    elif words:
        await peer.say(frames.encoded(GiveBack(3, 1, "q", [lease], is_counted=words == 3)))
    await settled()
    scope.cancel()
    stop.release()
    await peer.ended()
    peer.sock.close()
    found = await take(engine, "q", 2)
    assert [m.delivery_count for m in found] == ([deliveries] if deliveries else []), why
