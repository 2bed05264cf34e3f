"""Large header blocks: room for some of them over all connections, and none for a crowd."""

from __future__ import annotations

import pytest
from quart.typing import ResponseReturnValue

from mqlite_broker.door import DoorApp, DoorLimits, Ingress
from mqlite_broker.door_intake import HeadRoom
from mqlite_broker.door_limits import HEAD_FREE_BYTES, HEADS_BYTES
from tests.services.door_client import NEVER, open_door, request, until

LARGE = HEAD_FREE_BYTES + 1000


@pytest.fixture
def app() -> DoorApp:
    app = DoorApp("door_test")

    async def hello() -> ResponseReturnValue:
        return "hello"

    app.add_url_rule("/", view_func=hello)
    return app


def test_a_small_block_takes_no_room_and_a_large_one_all_of_its_own() -> None:
    budget = Ingress(100_000)
    head = HeadRoom(60_000, budget)
    assert head.grow(HEAD_FREE_BYTES)
    assert budget.bytes_used == 0
    assert head.grow(1)
    assert head.grow(1)
    assert budget.bytes_used == 60_000
    assert not HeadRoom(60_000, budget).grow(LARGE), "there is no room for a second"
    head.end()
    head.end()
    assert budget.bytes_used == 0
    assert HeadRoom(60_000, budget).grow(LARGE)


async def test_a_large_block_is_served_and_gives_its_room_back(app: DoorApp) -> None:
    asked = request(fields=f"X-Long: {'x' * LARGE}\r\n")
    async with open_door(app) as door, await door.connect() as client:
        for _ in range(2 * HEADS_BYTES // (1024 * 1024)):
            assert (await client.ask(asked)).body == b"hello"
        assert door.door._doorway.heads.bytes_used == 0


async def test_more_large_blocks_at_once_than_there_is_room_for_are_ended(app: DoorApp) -> None:
    limits = DoorLimits(header_bytes_max=HEADS_BYTES // 2, header_seconds=NEVER)
    begun = b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: " + b"x" * LARGE
    async with (
        open_door(app, limits) as door,
        await door.connect() as one,
        await door.connect() as two,
        await door.connect() as three,
        await door.connect() as small,
    ):
        heads = door.door._doorway.heads
        await one.send(begun)
        await until(lambda: heads.bytes_used == HEADS_BYTES // 2)
        await two.send(begun)
        await until(lambda: heads.bytes_used == HEADS_BYTES)
        await three.send(begun)
        assert await three.ended() == b""
        assert (await small.ask(request())).body == b"hello"
        await one.close()
        await until(lambda: heads.bytes_used == HEADS_BYTES // 2)
        await two.send(b"\r\n\r\n")
        assert (await two.answer()).body == b"hello"
        assert heads.bytes_used == 0
