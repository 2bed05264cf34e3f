"""Clients that leave (B24, B64), and answers that nobody got (R42)."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import AsyncGenerator

import pytest
import trio
from quart import request as current
from quart.typing import ResponseReturnValue

from mqlite_broker.door import DoorApp, DoorLimits, DoorResponse
from tests.services.door_client import (
    NEVER,
    PATIENCE,
    RESET_AT_CLOSE,
    Client,
    descriptors,
    open_door,
    request,
    until,
    wait,
)

POLL = request("/poll", method="POST", body=b"{}")


class Scene:
    """A long poll that claims something for its client, and what became of it."""

    def __init__(self) -> None:
        self.app = DoorApp("door_test")
        self.entered = trio.Event()
        self.may_go_on = trio.Event()
        self.was_cancelled = trio.Event()
        self.requests: list[str] = []
        self.handed_back: list[bool] = []
        self.size = 10
        self.app.add_url_rule("/poll", view_func=self.poll, methods=["GET", "POST"])
        self.app.add_url_rule("/blocked", view_func=self.blocked, methods=["POST"])
        self.app.add_url_rule("/second", view_func=self.second, methods=["GET", "POST"])
        self.app.add_url_rule("/stream", view_func=self.stream)
        self.is_blocking = threading.Event()
        self.client_has_left = threading.Event()

    def claim(self) -> DoorResponse:
        response = DoorResponse(bytes(self.size))
        response.undelivered = self.hand_back
        return response

    async def hand_back(self, begun: bool) -> None:  # noqa: FBT001  # the hook's signature
        await trio.lowlevel.checkpoint()  # shielded, or this would be cancelled
        self.handed_back.append(begun)

    async def poll(self) -> ResponseReturnValue:
        self.requests.append(current.path)
        self.entered.set()
        try:
            await self.may_go_on.wait()
        except trio.Cancelled:
            self.was_cancelled.set()
            raise
        return self.claim()

    async def blocked(self) -> ResponseReturnValue:
        """Hold the whole loop until the client has left, so that no task can have seen it."""
        await current.get_data()
        self.is_blocking.set()
        assert self.client_has_left.wait(PATIENCE)
        return self.claim()

    async def second(self) -> ResponseReturnValue:
        self.requests.append(current.path)
        return "second"

    async def stream(self) -> ResponseReturnValue:
        async def pieces() -> AsyncGenerator[bytes, None]:
            try:
                yield b"first piece"
                await self.may_go_on.wait()
            except trio.Cancelled:
                self.was_cancelled.set()
                raise

        response = DoorResponse(pieces())
        response.undelivered = self.hand_back
        return response


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def leave(client: Client, how: str) -> None:
    if how == "reset":
        client.reset()
    else:
        await client.close()


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("behind", [b"", request("/second"), b"GET /sec"], ids=len)
async def test_a_client_that_leaves_cancels_its_poll_and_nothing_behind_it_is_run(
    scene: Scene, how: str, behind: bytes
) -> None:
    async with open_door(scene.app) as door:
        before = descriptors()
        client = await door.connect()
        await client.send(POLL + behind)
        await wait(scene.entered)
        await leave(client, how)
        await wait(scene.was_cancelled)
        await until(lambda: not door.door.statistics().connections)
        assert scene.requests == ["/poll"]
        assert scene.handed_back == []
        assert descriptors() == before


async def test_a_second_request_that_comes_later_hides_no_leaving(scene: Scene) -> None:
    async with open_door(scene.app) as door:
        client = await door.connect()
        await client.send(POLL)
        await wait(scene.entered)
        for _ in range(5):
            await client.send(request("/second"))
        await client.close()
        await wait(scene.was_cancelled)
        await until(lambda: not door.door.statistics().connections)
        assert scene.requests == ["/poll"]


async def test_many_pipelined_pairs_that_leave_bring_descriptors_back(scene: Scene) -> None:
    async with open_door(scene.app) as door:
        before = descriptors()
        for _ in range(30):
            client = await door.connect()
            await client.send(POLL + request("/second"))
            await until(lambda: bool(scene.requests))
            scene.requests.clear()
            await client.close()
        await until(lambda: not door.door.statistics().connections)
        assert descriptors() == before
        assert scene.requests == []


async def test_a_client_that_pipelines_without_end_is_cut(scene: Scene) -> None:
    async with (
        open_door(scene.app, DoorLimits(pipeline_bytes_max=10_000)) as door,
        await door.connect() as client,
    ):
        await client.send(POLL)
        await wait(scene.entered)
        with contextlib.suppress(trio.BrokenResourceError):
            while True:
                await client.send(request("/second") * 1000)
        await wait(scene.was_cancelled)
        assert scene.requests == ["/poll"]


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_get_is_answered_though_its_client_closed_its_own_half(
    scene: Scene, version: str
) -> None:
    async def in_passes() -> ResponseReturnValue:
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        return "whole"

    scene.app.add_url_rule("/passes", view_func=in_passes)
    async with open_door(scene.app) as door:
        raw = socket.create_connection(door.address)
        raw.sendall(f"GET /passes HTTP/{version}\r\nHost: a\r\n\r\n".encode())
        raw.shutdown(socket.SHUT_WR)  # no other task has run yet: request and end come together
        async with Client(trio.SocketStream(trio.socket.from_stdlib_socket(raw))) as client:
            answer = await client.answer()
            assert (answer.body, answer.headers["connection"]) == (b"whole", "close")
            assert await client.ended() == b""


async def test_a_get_that_waits_is_cancelled_a_little_after_its_client_closed_its_half(
    scene: Scene,
) -> None:
    async with (
        open_door(scene.app, DoorLimits(half_close_seconds=0.1)) as door,
        await door.connect() as client,
    ):
        await client.send(request("/poll"))
        await client.send_eof()
        await wait(scene.was_cancelled)
        assert await client.ended() == b""


async def test_a_post_is_cancelled_when_its_client_closes_its_half(scene: Scene) -> None:
    async with (
        open_door(scene.app, DoorLimits(half_close_seconds=NEVER)) as door,
        await door.connect() as client,
    ):
        await client.send(POLL)
        await wait(scene.entered)
        await client.send_eof()
        await wait(scene.was_cancelled)
        assert await client.ended() == b""


async def test_a_delivered_answer_is_not_handed_back(scene: Scene) -> None:
    scene.may_go_on.set()
    async with open_door(scene.app) as door, await door.connect() as client:
        for _ in range(3):
            assert len((await client.ask(POLL)).body) == scene.size
        await client.close()
        await until(lambda: not door.door.statistics().connections)
    assert scene.handed_back == []


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("behind", [b"", request("/second")], ids=["alone", "pipelined"])
async def test_what_was_claimed_for_a_client_that_had_left_is_handed_back_unbegun(
    scene: Scene, how: str, behind: bytes
) -> None:
    async with open_door(scene.app) as door:
        client = await door.connect()
        asked = request("/blocked", method="POST", body=b"{}") + behind
        raw = socket.socket(fileno=client.stream.socket.detach())
        raw.setblocking(True)

        def come_and_go() -> None:
            raw.sendall(asked)
            if how == "reset":
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
            assert scene.is_blocking.wait(PATIENCE)
            raw.close()
            scene.client_has_left.set()

        await trio.to_thread.run_sync(come_and_go)
        await until(lambda: bool(scene.handed_back))
        assert scene.handed_back == [False]
        await until(lambda: not door.door.statistics().connections)
        assert scene.requests == []


async def test_a_write_that_began_and_failed_is_handed_back_begun(scene: Scene) -> None:
    scene.size = 32 * 1024 * 1024
    scene.may_go_on.set()
    async with open_door(scene.app) as door:
        client = await door.connect(receive_buffer=4096)
        await client.send(POLL)
        await client.exactly(100)
        client.reset()
        await until(lambda: bool(scene.handed_back))
        assert scene.handed_back == [True]


async def test_a_stream_is_cancelled_when_its_client_leaves(scene: Scene) -> None:
    async with open_door(scene.app, DoorLimits(half_close_seconds=0.1)) as door:
        client = await door.connect()
        await client.send(request("/stream"))
        await client.until(b"first piece")
        await client.close()
        await wait(scene.was_cancelled)
        await until(lambda: bool(scene.handed_back))
        assert scene.handed_back == [True]
        await until(lambda: not door.door.statistics().connections)


async def test_an_answer_cut_by_the_stop_before_it_began_is_handed_back_unbegun(
    scene: Scene,
) -> None:
    """The handler ignores its cancellation, as a claim that was taken by the writer does."""

    async def stubborn() -> ResponseReturnValue:
        scene.entered.set()
        with trio.CancelScope(shield=True):
            await scene.may_go_on.wait()
        return scene.claim()

    scene.app.add_url_rule("/stubborn", view_func=stubborn, methods=["POST"])
    async with (
        open_door(scene.app, DoorLimits(grace_seconds=0.1)) as door,
        await door.connect() as client,
    ):
        await client.send(request("/stubborn", method="POST"))
        await wait(scene.entered)
        door.stopping.set()
        assert await client.ended() == b""
        scene.may_go_on.set()
        assert await door.result() == 1
    assert scene.handed_back == [False]


async def test_a_hand_back_that_fails_is_logged_and_hurts_nobody(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(begun: bool) -> None:  # noqa: FBT001  # the hook's signature
        raise OSError(f"no hand-back, begun={begun}")

    scene.hand_back = fail  # type: ignore[method-assign]  # this scene's own hook
    scene.size = 32 * 1024 * 1024
    scene.may_go_on.set()
    async with open_door(scene.app) as door:
        client = await door.connect(receive_buffer=4096)
        await client.send(POLL)
        await client.exactly(100)
        client.reset()
        await until(lambda: "no hand-back, begun=True" in caplog.text)
        async with await door.connect() as other:
            assert (await other.ask(request("/second"))).body == b"second"
    assert [r.name for r in caplog.records] == ["mqlite.door"]


async def test_a_hand_back_that_hangs_is_given_up(
    scene: Scene, mock_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    hanging = trio.Event()

    async def hang(begun: bool) -> None:  # noqa: ARG001, FBT001  # the hook's signature
        hanging.set()
        await trio.sleep_forever()

    scene.hand_back = hang  # type: ignore[method-assign]  # this scene's own hook
    scene.size = 32 * 1024 * 1024
    scene.may_go_on.set()
    async with open_door(scene.app) as door:
        client = await door.connect(receive_buffer=4096)
        await client.send(POLL)
        await client.exactly(100)
        client.reset()
        await wait(hanging)
        mock_clock.jump(5)
        await until(lambda: not door.door.statistics().connections)
    assert "took over" in caplog.text
