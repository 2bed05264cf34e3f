"""The life of connections and of the door: ends, idleness, the stop, stalled clients, errors."""

from __future__ import annotations

import gc
import logging

import pytest
import trio
from quart import request as current
from quart.typing import ResponseReturnValue

from mqlite_broker.door import DoorApp, DoorLimits, DoorResponse, serve_door
from tests.services.door_client import (
    NEVER,
    connect,
    descriptors,
    listen,
    open_door,
    open_files,
    request,
    until,
    wait,
)

BIG = 32 * 1024 * 1024
"""More than any pair of socket buffers on the loopback holds."""


class Scene:
    """An application with one handler of each kind that these tests need, and what they saw."""

    def __init__(self) -> None:
        self.app = DoorApp("door_test")
        self.entered = trio.Event()
        self.may_go_on = trio.Event()
        self.was_cancelled = trio.Event()
        self.handed_back: list[bool] = []
        self.app.add_url_rule("/", view_func=self.hello)
        self.app.add_url_rule("/hold", view_func=self.hold, methods=["GET", "POST"])
        self.app.add_url_rule("/big", view_func=self.big)
        self.app.add_url_rule("/broken", view_func=self.broken)
        self.app.add_url_rule("/group", view_func=self.group)
        self.app.add_url_rule("/lie", view_func=self.lie)
        self.app.add_url_rule("/echo", view_func=self.echo, methods=["POST"])

    async def hello(self) -> ResponseReturnValue:
        return "hello"

    async def hold(self) -> ResponseReturnValue:
        self.entered.set()
        try:
            await self.may_go_on.wait()
        except trio.Cancelled:
            self.was_cancelled.set()
            raise
        return "held"

    async def big(self) -> ResponseReturnValue:
        response = DoorResponse(bytes(BIG))
        response.undelivered = self.note_undelivered
        return response

    async def note_undelivered(self, begun: bool) -> None:  # noqa: FBT001  # the hook's signature
        self.handed_back.append(begun)

    async def broken(self) -> ResponseReturnValue:
        raise LookupError("the handler is broken")

    async def group(self) -> ResponseReturnValue:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.broken)
        return "never"

    async def lie(self) -> ResponseReturnValue:
        response = DoorResponse(b"longer than it says")
        response.headers["Content-Length"] = "3"
        return response

    async def echo(self) -> ResponseReturnValue:
        return await current.get_data()


@pytest.fixture
def scene() -> Scene:
    return Scene()


# -- B61, B62: ends --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    [
        request(fields="Connection: close\r\n"),
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    ],
)
async def test_a_connection_that_is_not_to_be_kept_ends_with_its_answer(
    scene: Scene, asked: bytes
) -> None:
    async with open_door(scene.app) as door, await door.connect() as client:
        answer = await client.ask(asked)
        assert (answer.status, answer.body) == (200, b"hello")
        assert answer.headers["connection"] == "close"
        assert await client.ended() == b""


async def test_a_kept_connection_serves_many_requests(scene: Scene) -> None:
    async with open_door(scene.app) as door, await door.connect() as client:
        for _ in range(20):
            answer = await client.ask(request())
            assert answer.body == b"hello"
            assert "connection" not in answer.headers


async def test_idle_connections_are_closed_and_their_descriptors_come_back(scene: Scene) -> None:
    async with open_door(scene.app, DoorLimits(idle_seconds=0.2)) as door:
        before = descriptors()
        clients = [await door.connect() for _ in range(10)]
        for client in clients:
            assert (await client.ask(request())).status == 200
        for client in clients:
            assert await client.ended() == b""
            await client.close()
        await until(lambda: not door.door.statistics().connections)
        assert descriptors() == before


# -- B65, B71: the stop ----------------------------------------------------------------------


async def test_a_stop_with_idle_connections_only_waits_for_nothing(scene: Scene) -> None:
    async with (
        open_door(scene.app, DoorLimits(grace_seconds=NEVER)) as door,
        await door.connect() as used,
        await door.connect() as fresh,
    ):
        await used.ask(request())
        await fresh.send(b"GET / HT")
        assert await door.stop() == 0
        assert await used.ended() == b""
        assert await fresh.ended() == b""


async def test_at_the_stop_connecting_is_refused_and_a_running_request_is_still_answered(
    scene: Scene,
) -> None:
    async with (
        open_door(scene.app, DoorLimits(grace_seconds=NEVER)) as door,
        await door.connect() as client,
        await door.connect() as idle,
    ):
        await idle.ask(request())
        await client.send(request("/hold"))
        await wait(scene.entered)
        door.stopping.set()
        assert await idle.ended() == b""
        with pytest.raises(ConnectionRefusedError):
            await connect(door.address)
        (again,) = await trio.open_tcp_listeners(door.address[1], host=door.address[0])
        await again.aclose()
        scene.may_go_on.set()
        answer = await client.answer()
        assert (answer.body, answer.headers["connection"]) == (b"held", "close")
        assert await client.ended() == b""
        assert await door.result() == 0


async def test_what_outlasts_the_grace_is_cut_cancelled_and_counted(scene: Scene) -> None:
    async with (
        open_door(scene.app, DoorLimits(grace_seconds=0.1)) as door,
        await door.connect() as client,
    ):
        await client.send(request("/hold", method="POST"))
        await wait(scene.entered)
        assert await door.stop() == 1
        assert await client.ended() == b""
        assert scene.was_cancelled.is_set()


async def test_cancelling_the_door_closes_everything(scene: Scene) -> None:
    listener, address = await listen()
    before = open_files()
    async with trio.open_nursery() as nursery:

        async def serve(task_status: trio.TaskStatus[object]) -> None:
            await serve_door(scene.app, [listener], stopping=trio.Event(), task_status=task_status)

        await nursery.start(serve)
        running, stalled = await connect(address), await connect(address, receive_buffer=4096)
        await running.send(request("/hold"))
        await stalled.send(request("/big"))
        await wait(scene.entered)
        await stalled.exactly(1000)
        nursery.cancel_scope.cancel()
    assert scene.was_cancelled.is_set()
    assert scene.handed_back == [True]
    assert await running.ended() == b""
    await running.close()
    await stalled.close()
    gc.collect()
    after = open_files()
    assert len(after) == len(before) - 1, (
        after.items() - before.items()
    )  # the listener's is gone too


# -- B63: clients that do not read -----------------------------------------------------------


async def test_a_client_that_stops_reading_is_cut(scene: Scene) -> None:
    async with (
        open_door(scene.app, DoorLimits(write_stall_seconds=0.2)) as door,
        await door.connect(receive_buffer=4096) as client,
    ):
        await client.send(request("/big"))
        await until(lambda: bool(scene.handed_back))
        assert scene.handed_back == [True]
        assert len(await client.ended()) < BIG


async def test_a_client_that_stops_reading_cannot_hold_the_stop(scene: Scene) -> None:
    limits = DoorLimits(write_stall_seconds=NEVER, grace_seconds=0.1)
    async with (
        open_door(scene.app, limits) as door,
        await door.connect(receive_buffer=4096) as client,
    ):
        await client.send(request("/big"))
        await client.exactly(1000)
        assert await door.stop() == 1
        assert scene.handed_back == [True]


async def test_a_large_answer_arrives_whole(scene: Scene) -> None:
    async with open_door(scene.app) as door, await door.connect() as client:
        answer = await client.ask(request("/big"))
        assert len(answer.body) == BIG
        assert (await client.ask(request())).status == 200
        assert scene.handed_back == []


# -- the cap ---------------------------------------------------------------------------------


async def test_newcomers_wait_while_every_connection_is_busy(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        open_door(scene.app, DoorLimits(connections_max=2)) as door,
        await door.connect() as one,
        await door.connect() as two,
    ):
        await one.send(request("/hold"))
        await two.send(request("/hold"))
        async with await door.connect() as late:
            await late.send(request())
            await until(lambda: "newcomers wait" in caplog.text)
            assert door.door.statistics()[:2] == (2, 2)
            scene.may_go_on.set()
            await one.answer()
            await one.close()
            assert (await late.answer()).body == b"hello"


async def test_the_idlest_connection_makes_room(scene: Scene) -> None:
    async with (
        open_door(scene.app, DoorLimits(connections_max=2)) as door,
        await door.connect() as idle,
        await door.connect() as busy,
    ):
        await idle.ask(request())
        await busy.ask(request())
        async with await door.connect() as late:
            assert (await late.ask(request())).body == b"hello"
            assert await idle.ended() == b""


# -- B96: errors -----------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["/broken", "/group"])
async def test_an_error_in_a_handler_is_a_500_and_one_line_in_the_log(
    scene: Scene, caplog: pytest.LogCaptureFixture, target: str
) -> None:
    async with open_door(scene.app) as door, await door.connect() as client:
        assert (await client.ask(request(target))).status == 500
        assert (await client.ask(request())).status == 200
    assert [(r.name, r.levelno) for r in caplog.records] == [("mqlite.door", logging.ERROR)]
    assert "the handler is broken" in caplog.text


async def test_an_answer_that_breaks_http_ends_its_own_connection_only(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        open_door(scene.app) as door,
        await door.connect() as client,
        await door.connect() as other,
    ):
        await client.send(request("/lie"))
        assert await client.ended() == b""
        assert (await other.ask(request())).status == 200
    assert [r.name for r in caplog.records] == ["mqlite.door"]


async def test_an_error_inside_a_connection_ends_that_connection_only(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_door(scene.app) as door:
        async with await door.connect() as client, await door.connect() as other:
            scene.app.config["MAX_CONTENT_LENGTH"] = "a mistake that the door trips over"
            chunked = request("/echo", method="POST", fields="Transfer-Encoding: chunked\r\n")
            await client.send(chunked + b"1\r\nx\r\n")
            await client.ended()
            assert (await other.ask(request())).status == 200
        assert await door.stop() == 0
    assert [(r.name, r.getMessage()) for r in caplog.records] == [
        ("mqlite.door", "an error ended a connection")
    ]


async def test_serving_functions_run_around_the_door_and_in_its_nursery(scene: Scene) -> None:
    seen: list[str] = []
    background = trio.Event()

    @scene.app.before_serving
    async def before() -> None:
        seen.append("before")
        scene.app.add_background_task(run_in_background)

    @scene.app.after_serving
    async def after() -> None:
        await trio.lowlevel.checkpoint()
        seen.append("after")

    async def run_in_background() -> None:
        background.set()

    async with open_door(scene.app) as door:
        await wait(background)
        assert await door.stop() == 0
    assert seen == ["before", "after"]
