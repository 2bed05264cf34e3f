"""Large header blocks: room for some of them over all connections, and none for a crowd."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio
import trustme
from quart.typing import ResponseReturnValue

from mqlite_broker.door import DoorApp, DoorLimits
from mqlite_broker.door_intake import HeadBudget, HeadRoom
from mqlite_broker.door_limits import HEAD_FREE_BYTES, HEADS_BYTES
from mqlite_broker.tls import server_context
from tests.services.door_client import NEVER, Client, RunningDoor, open_door, request, until

LARGE = HEAD_FREE_BYTES + 1000

BEGUN = b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: " + b"x" * LARGE

POST = request(method="POST", body=b"b" * LARGE)
"""A small block and a body that comes with it, in one piece."""


@pytest.fixture
def app() -> DoorApp:
    app = DoorApp("door_test")

    async def hello() -> ResponseReturnValue:
        return "hello"

    app.add_url_rule("/", view_func=hello, methods=["GET", "POST"])
    return app


@pytest.fixture(params=["in clear", "tls"])
def tls(
    request: pytest.FixtureRequest, tmp_path: Path
) -> tuple[ssl.SSLContext, ssl.SSLContext] | None:
    """What the door serves with and a client trusts; None for a door in clear."""
    if request.param == "in clear":
        return None
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(str(tmp_path / "key"))
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "cert"))
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    return server_context(str(tmp_path / "cert"), str(tmp_path / "key")), trusting


@asynccontextmanager
async def connected(door: RunningDoor, trusting: ssl.SSLContext | None) -> AsyncIterator[Client]:
    """A client of that door, through TLS if it trusts somebody."""
    async with await door.connect() as client:
        if trusting is None:
            yield client
            return
        through = trio.SSLStream(client.stream, trusting, server_hostname="127.0.0.1")
        yield Client(through)  # type: ignore[arg-type]  # it has what a client uses here


def send_unseen(client: Client, data: bytes) -> None:
    """Put all of it into the socket before any task of the door runs."""
    ours = client.stream.socket
    with socket.fromfd(ours.fileno(), ours.family, ours.type) as same:
        assert same.send(data) == len(data)


def test_a_small_block_takes_no_room_and_a_large_one_all_of_its_own() -> None:
    budget = HeadBudget(100_000)
    head = HeadRoom(60_000, budget)
    assert head.hold(HEAD_FREE_BYTES)
    assert head.hold(HEAD_FREE_BYTES), "a length, not one more piece"
    assert (budget.bytes_used, head.is_taken) == (0, False)
    assert head.hold(HEAD_FREE_BYTES + 1)
    assert head.hold(HEAD_FREE_BYTES + 2)
    assert (budget.bytes_used, head.is_taken) == (60_000, True)
    assert not HeadRoom(60_000, budget).hold(LARGE), "there is no room for a second"
    head.end()
    head.end()
    assert (budget.bytes_used, head.is_taken) == (0, False)
    assert HeadRoom(60_000, budget).hold(LARGE)


def test_the_log_hears_once_that_the_room_is_used_up(caplog: pytest.LogCaptureFixture) -> None:
    budget = HeadBudget(60_000)
    for _ in range(2):
        head = HeadRoom(60_000, budget)
        assert head.hold(LARGE)
        assert not HeadRoom(60_000, budget).hold(LARGE)
        assert not HeadRoom(60_000, budget).hold(LARGE)
        assert [each.levelname for each in caplog.records] == ["WARNING"]
        caplog.clear()
        head.end()


async def test_a_large_block_is_served_and_gives_its_room_back(app: DoorApp) -> None:
    asked = request(fields=f"X-Long: {'x' * LARGE}\r\n")
    async with open_door(app) as door, await door.connect() as client:
        for _ in range(2 * HEADS_BYTES // (1024 * 1024)):
            assert (await client.ask(asked)).body == b"hello"
        assert door.door._doorway.heads.bytes_used == 0


async def test_more_large_blocks_at_once_than_there_is_room_for_are_ended(app: DoorApp) -> None:
    limits = DoorLimits(header_bytes_max=HEADS_BYTES // 2, header_seconds=NEVER)
    async with (
        open_door(app, limits) as door,
        await door.connect() as one,
        await door.connect() as two,
        await door.connect() as three,
        await door.connect() as small,
    ):
        heads = door.door._doorway.heads
        await one.send(BEGUN)
        await until(lambda: heads.bytes_used == HEADS_BYTES // 2)
        await two.send(BEGUN)
        await until(lambda: heads.bytes_used == HEADS_BYTES)
        await three.send(BEGUN)
        assert await three.ended() == b""
        assert (await small.ask(request())).body == b"hello"
        await one.close()
        await until(lambda: heads.bytes_used == HEADS_BYTES // 2)
        await two.send(b"\r\n\r\n")
        assert (await two.answer()).body == b"hello"
        assert heads.bytes_used == 0


async def test_a_body_that_comes_with_its_head_is_no_part_of_the_head(app: DoorApp) -> None:
    """More of them at once than there is room for large blocks, before the door parses any."""
    async with open_door(app) as door, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(await door.connect()) for _ in range(40)]
        await until(lambda: len(door.phases()) == len(clients))
        for each in clients:
            send_unseen(each, POST)
        for each in clients:
            assert (await each.answer("POST")).body == b"hello"
        assert door.door._doorway.heads.bytes_used == 0


async def test_who_has_a_small_block_needs_no_room_for_it(
    app: DoorApp, tls: tuple[ssl.SSLContext, ssl.SSLContext] | None
) -> None:
    """Strangers hold all the room; others send large bodies, and many small requests in a piece."""
    limits = DoorLimits(header_bytes_max=HEADS_BYTES, header_seconds=NEVER)
    serving, trusting = tls or (None, None)
    many = 2 * HEAD_FREE_BYTES // len(request())
    async with (
        open_door(app, limits, tls=serving) as door,
        connected(door, trusting) as stranger,
        connected(door, trusting) as client,
    ):
        heads = door.door._doorway.heads
        await stranger.send(BEGUN)
        await until(lambda: heads.bytes_used == HEADS_BYTES)
        for _ in range(2):
            assert (await client.ask(POST)).body == b"hello"
        await client.send(request() * many)
        for _ in range(many):
            assert (await client.answer()).body == b"hello"
        await client.send(BEGUN)
        assert await client.ended() == b"", "and a second large block has none"
        assert heads.bytes_used == HEADS_BYTES
