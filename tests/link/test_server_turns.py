"""The engine's end in turns that a peer cannot choose by itself; the rest is in test_server.py."""

from __future__ import annotations

import socket

import pytest
import trio

from mqlite_actor.contract import limits, wire
from mqlite_actor.engine import commands
from mqlite_actor.engine.engine import Engine
from mqlite_actor.link import frames
from mqlite_actor.link.frames import GiveBack, Reply
from mqlite_actor.link.server import ServedLink
from mqlite_actor.storage.database import Transaction
from tests.engine.gate import bodies, bounded, create, sending, settled, take, taking, teach, until
from tests.link.peer import Peer

BODY = bytes(limits.MIB)
"""More than a socket holds."""


async def test_nothing_is_read_while_much_is_unsent(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINK_UNSENT_BYTES", 0)
    await create(engine, "q", "r")
    await engine.call(sending("q", BODY))
    ours, theirs = socket.socketpair()
    peer = Peer(ours)
    async with trio.open_nursery() as nursery:
        link = ServedLink(theirs, engine, stopping=trio.Event())
        nursery.start_soon(link.run)
        await peer.greet()
        for number in (1, 2):  # one is on its way, one waits
            await peer.ask(number, wire.PeekRequest(queue="q", max=1))
        await until(lambda: link._pipe.unsent and not link._calls)
        await peer.ask(3, sending("r", b"read already"))  # as it had begun to listen
        while await bodies(engine, "r") == []:
            await settled()
        await until(lambda: not link._calls)
        await peer.ask(4, sending("r", b"x"))
        await settled()
        assert not link._calls
        heard = [await peer.hear() for _ in range(4)]
        assert {each.id for each in heard if isinstance(each, Reply)} == {1, 2, 3, 4}
        peer.sock.close()
        await until(lambda: not nursery.child_tasks)
    assert await bodies(engine, "r") == [b"read already", b"x"]


@pytest.mark.parametrize(("is_counted", "deliveries"), [(False, 1), (True, 2)])
async def test_a_claim_that_is_given_back_with_the_last_words_goes_back_once(
    engine: Engine,
    is_counted: bool,  # noqa: FBT001  # a parameter of the test
    deliveries: int,
) -> None:
    released: list[commands.Release] = []
    release = engine._table[commands.Release]

    def note(tx: Transaction, request: commands.Release, now_ms: int) -> object:
        released.append(request)
        return release(tx, request, now_ms)

    teach(engine, commands.Release, note)
    await create(engine, "q")
    await engine.call(sending("q", b"x"))
    ours, theirs = socket.socketpair()
    peer = Peer(ours)
    with bounded():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ServedLink(theirs, engine, stopping=trio.Event()).run)
            await peer.greet()
            await peer.ask(1, taking("q"))
            (message,) = await peer.taken(1)
            await settled()
            lease = wire.SettleItem(message.seq_number, message.lock_token)
            back = frames.encoded(GiveBack(2, 1, "q", [lease], is_counted))
            ours.send(frames.frame([back]))
            nursery.cancel_scope.cancel()  # before it could read that
    peer.sock.close()
    assert [each.is_counted for each in released] == [is_counted]
    (again,) = await take(engine, "q")
    assert again.delivery_count == deliveries


async def test_an_error_of_our_own_is_an_answer_and_the_link_serves_on(engine: Engine) -> None:
    known: dict[type[wire.Response], int] = {wire.StatsResponse: 1}

    def complete(reply: wire.Response) -> wire.Response:
        assert known[type(reply)]
        return reply

    await create(engine, "q")
    ours, theirs = socket.socketpair()
    peer = Peer(ours)
    async with trio.open_nursery() as nursery:
        link = ServedLink(theirs, engine, stopping=trio.Event(), completed=complete)
        nursery.start_soon(link.run)
        await peer.greet()
        await peer.ask(1, sending("q", b"x"))
        assert await peer.refusal(1) == "internal"
        await peer.ask(2, wire.StatsRequest(queue="q"))
        assert isinstance(await peer.reply(2), wire.StatsResponse)
        peer.sock.close()
        await until(lambda: not nursery.child_tasks)
