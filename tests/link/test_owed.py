"""A program that is owed much and reads keeps its link: what cannot wait for it is refused."""

from __future__ import annotations

import logging
import socket
from typing import Any

import pytest
import trio

from mqlite_actor.contract import ext, limits, wire
from mqlite_actor.contract.errors import Unavailable
from mqlite_actor.contract.observe import ObserveRequest
from mqlite_actor.engine.engine import Engine
from mqlite_actor.link.client import Link
from mqlite_actor.link.frames import Item, Refusal, Reply
from mqlite_actor.link.server import LOOKS, ServedLink
from mqlite_actor.sdk import exchange
from tests.engine.gate import bodies, bounded, create, sending, settled, take, taking
from tests.link.peer import Peer, linked

CALLS = 12
BODY = bytes(limits.MIB)
"""More than a socket holds."""

OWED = 4 * limits.MIB
FITTING = 3
"""So many bodies with their envelopes fit the bound, beside what is on its way."""


@pytest.fixture(autouse=True)
def _little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LINK_OWED_BYTES_MAX", OWED)


async def asked(peer: Peer, engine: Engine, request: wire.Request[Any]) -> list[Item]:
    """What a program hears that reads only when all its calls have ended."""
    await create(engine, "q")
    for _ in range(CALLS):
        await engine.call(sending("q", BODY))
    await peer.greet()
    for number in range(1, CALLS + 1):
        await peer.ask(number, request)
        await settled()
    return [await peer.hear() for _ in range(CALLS)]


def refusals(heard: list[Item]) -> list[Refusal]:
    return [item for item in heard if isinstance(item, Refusal)]


async def goes_on(peer: Peer) -> None:
    """The link serves as before, with all its room."""
    await peer.ask(99, wire.PeekRequest(queue="q", max=1))
    await peer.reply(99)


async def test_claims_for_which_there_is_no_room_go_back_uncounted_and_the_link_lives(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async with linked(engine) as peer:
        heard = await asked(peer, engine, taking("q"))
        refused = refusals(heard)
        assert {item.code for item in refused} == {"unavailable"}
        assert FITTING <= CALLS - len(refused) < CALLS - 1
        taken = [item.id for item in heard if isinstance(item, Reply)]
        assert {*taken, *(item.id for item in refused)} == set(range(1, CALLS + 1))
        for number in taken:
            await peer.begin(number)
        await goes_on(peer)
        again = await take(engine, "q", CALLS)
        assert [message.delivery_count for message in again] == [1] * len(refused)
    assert await take(engine, "q", CALLS) == [], "what was confirmed stays with its holder"
    assert not [record for record in caplog.records if record.name == "mqlite.link"]


@pytest.mark.parametrize(
    "look",
    [
        wire.PeekRequest(queue="q", max=1),
        ext.SearchRequest(queue="q", max=1, include_bodies=True),
    ],
    ids=["peek", "search"],
)
async def test_looks_for_which_there_is_no_room_are_refused(
    engine: Engine, look: wire.Request[Any]
) -> None:
    async with linked(engine) as peer:
        heard = await asked(peer, engine, look)
        assert {item.code for item in refusals(heard)} == {"unavailable"}
        await goes_on(peer)


def test_every_look_of_the_contract_is_one_here() -> None:
    others = exchange.READS - LOOKS
    assert others == {wire.TestFilterRequest}, "whose answer is a word"
    assert ObserveRequest in LOOKS


@pytest.mark.parametrize("number", [5, CALLS])
async def test_what_has_happened_is_told_as_long_as_it_is_no_more_than_twice_as_much(
    engine: Engine, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    await create(engine, "q")
    for _ in range(number):
        await engine.call(sending("q", BODY))
    remove = wire.ReceiveRequest(queue="q", receive_mode=1)
    async with linked(engine) as peer:
        await peer.greet()
        for each in range(1, number + 1):
            await peer.ask(each, remove)
            await settled()
        if number == CALLS:
            with caplog.at_level(logging.WARNING, "mqlite.link"):
                await peer.ended()
            said = [each.getMessage() for each in caplog.records if each.name == "mqlite.link"]
            assert said == ["a link is closed: its program asks and does not read"]
            return
        heard = [await peer.hear() for _ in range(number)]
        assert {item.id for item in heard if isinstance(item, Reply)} == set(range(1, number + 1))
        await peer.ask(99, wire.StatsRequest(queue="q"))
        await peer.reply(99)


async def test_a_program_that_asks_for_a_dozen_pages_and_reads_them_is_not_lost(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are served or told to come again, and then served; each message goes to one of them."""
    monkeypatch.setattr(limits, "PAGE_BYTES_MAX", len(BODY))
    await create(engine, "q")
    for _ in range(CALLS):
        await engine.call(sending("q", *[bytes(len(BODY) // 8)] * 8))
    ours, theirs = socket.socketpair()
    seen: list[int] = []

    async def consume(link: Link) -> None:
        while True:
            try:
                reply = await link.call(taking("q", 8))
            except Unavailable:
                continue
            seen.extend(message.seq_number for message in reply.messages)
            return

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ServedLink(theirs, engine, stopping=trio.Event()).run)
        link = Link(ours)
        await nursery.start(link.run)
        with bounded():
            async with trio.open_nursery() as consumers:
                for _ in range(CALLS):
                    consumers.start_soon(consume, link)
        assert not link.lost.is_set()
        nursery.cancel_scope.cancel()
    assert sorted(seen) == list(range(1, 8 * CALLS + 1))
    assert await bodies(engine, "q", "active") == []
