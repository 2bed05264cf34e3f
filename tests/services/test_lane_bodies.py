"""Bodies in the lane: late, dripping, refused unread, large, and from clients that leave."""

from __future__ import annotations

import logging

import pytest
import trio

from mqlite_actor.engine.engine import Engine
from mqlite_broker.door import DoorLimits, Ingress
from mqlite_broker.door_limits import BODY_FREE_BYTES
from mqlite_broker.door_state import Phase
from mqlite_broker.lane_connection import LaneConnection
from tests.services.broker_scene import LOOPBACK, failure, path, raw, served
from tests.services.door_client import NEVER, until
from tests.services.lane_scene import LIST, SEND, SHORT, served_by


def body_of(size: int) -> bytes:
    """A request about no queue whose body has this many bytes."""
    frame = b'{"queue":"none","messages":[{"body":""}]}'
    assert (size - len(frame)) % 4 == 0
    return frame.replace(b'""', b'"%b"' % (b"A" * (size - len(frame))))


BIG = 4 * BODY_FREE_BYTES + len(b'{"queue":"none","messages":[{"body":""}]}')


async def test_a_body_that_does_not_come_is_a_408_and_the_end(engine: Engine) -> None:
    async with served(engine, LOOPBACK, DoorLimits(body_seconds=0.1)) as scene:
        for missing in (1, len(SEND) - SEND.index(b"\r\n\r\n") - 4):
            async with await scene.connect() as client:
                await client.send(SEND[:-missing])
                answer = await client.answer("POST")
                assert failure(answer) == (408, "invalid_argument")
                assert answer.headers["connection"] == "close"
                assert await client.ended() == b""


async def test_a_dripping_body_moves_no_deadline(engine: Engine) -> None:
    async with (
        served(engine, LOOPBACK, DoorLimits(body_seconds=0.3)) as scene,
        await scene.connect() as client,
        trio.open_nursery() as nursery,
    ):

        async def drip() -> None:
            await client.send(SEND.replace(b"Length: ", b"Length: 99999"))
            while True:
                await client.send(b" ")
                await trio.lowlevel.checkpoint()

        nursery.start_soon(drip)
        assert failure(await client.answer("POST")) == (408, "invalid_argument")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("size", [1000, BODY_FREE_BYTES + 1000])
async def test_a_refusal_does_not_wait_for_the_body(engine: Engine, size: int) -> None:
    """A short rest is read over and the connection goes on; a long one ends it."""
    call = raw(path("Send"), b"x" * size, fields=())
    async with served(engine) as scene, await scene.connect() as client:
        await client.send(call[:-size])
        answer = await client.answer("POST")
        assert failure(answer) == (401, "unauthenticated")
        assert (answer.headers.get("connection") == "close") == (size > BODY_FREE_BYTES)
        await client.send(call[-size:] + LIST)
        if size <= BODY_FREE_BYTES:
            assert (await client.answer("POST")).status == 200
        else:
            await client.stream.send_eof()
            assert await client.ended() == b""


async def test_a_rest_that_is_never_sent_ends_the_connection(engine: Engine) -> None:
    async with served(engine, LOOPBACK, SHORT) as scene, await scene.connect() as client:
        await client.send(raw(path("Send"), b"x" * 99, fields=())[:-1])
        assert (await client.answer("POST")).status == 401
        assert await client.ended() == b""


async def test_a_client_that_leaves_inside_its_body_is_counted_as_canceled(
    engine: Engine,
) -> None:
    async with served(engine) as scene:
        client = await scene.connect()
        await client.send(SEND[:-1])
        await until(lambda: scene.door.phases() == [Phase.BODY])
        await client.close()
        await until(lambda: not served_by(scene))
        seen = await scene.ok("AdminService/Observe")
        rows = {
            row["code"]: row["count"]
            for row in seen["http"]["requests"]
            if row["rpc"] == "QueueService/Send"
        }
        assert {code: n for code, n in rows.items() if n} == {"canceled": 1}


async def test_a_body_that_the_stop_cuts_is_counted_and_is_no_fault_of_ours(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        served(engine, LOOPBACK, DoorLimits(grace_seconds=0.1)) as scene,
        await scene.connect() as client,
    ):
        await client.send(SEND[:-1])
        await until(lambda: scene.door.phases() == [Phase.BODY])
        assert await scene.door.stop() == 1
        assert await client.ended() == b""
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_large_bodies_share_the_doors_budget(engine: Engine) -> None:
    body = body_of(BIG)
    ingress = Ingress(BIG)
    call = raw(path("Send"), body)
    async with (
        served(engine, LOOPBACK, DoorLimits(body_seconds=NEVER), ingress) as scene,
        await scene.connect() as first,
        await scene.connect() as second,
    ):
        await first.send(call[:-BIG])
        await until(lambda: ingress.bytes_used == BIG)
        await second.send(call[:-BIG])
        await until(lambda: ingress.statistics().waiting == 1)
        assert (await scene.ask(path("Stats"), b'{"queue":"none"}')).status == 404
        for client in (first, second):
            await client.send(call[-BIG:])
            assert failure(await client.answer("POST")) == (404, "not_found")
            assert LaneConnection in served_by(scene)
        await until(lambda: ingress.bytes_used == 0)


async def test_a_large_body_that_finds_no_room_in_time_is_a_503(engine: Engine) -> None:
    ingress = Ingress(BIG)
    await ingress.take(BIG)
    limits = DoorLimits(body_seconds=0.1)
    async with (
        served(engine, LOOPBACK, limits, ingress) as scene,
        await scene.connect() as client,
    ):
        await client.send(raw(path("Send"), body_of(BIG))[:-BIG])
        answer = await client.answer("POST")
        assert failure(answer) == (503, "unavailable")
        assert (answer.headers["retry-after"], answer.headers["connection"]) == ("1", "close")
        assert ingress.bytes_used == BIG
