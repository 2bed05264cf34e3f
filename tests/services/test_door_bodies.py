"""Bodies and deadlines: 100-continue, 413, 408, broken chunks, slow senders, the ingress budget."""

from __future__ import annotations

import contextlib

import pytest
import trio
import trio.testing
from quart import Response
from quart import request as current
from quart.typing import ResponseReturnValue
from werkzeug.exceptions import BadRequest, HTTPException

from mqlite_broker.door import DoorApp, DoorLimits, DoorResponse
from mqlite_broker.door_inbox import Ingress
from mqlite_broker.door_limits import BODY_FREE_BYTES
from mqlite_broker.door_state import Phase
from tests.services.door_client import NEVER, PATIENCE, open_door, request, until, wait

LIMIT = 1_000_000
CHUNKED = "Transfer-Encoding: chunked\r\n"
EXPECTING = "Expect: 100-continue\r\n"


class Scene:
    """Reads a body and tells its length; refuses without reading; or answers early."""

    def __init__(self) -> None:
        self.app = DoorApp("door_test")
        self.app.config["MAX_CONTENT_LENGTH"] = LIMIT
        self.entered = trio.Event()
        self.may_go_on = trio.Event()
        self.app.add_url_rule("/read", view_func=self.read, methods=["POST"])
        self.app.add_url_rule("/refuse", view_func=self.refuse, methods=["POST"])
        self.app.add_url_rule("/poll", view_func=self.poll, methods=["POST"])
        self.app.register_error_handler(HTTPException, self.as_json)

    async def read(self) -> ResponseReturnValue:
        self.entered.set()
        return f"{len(await current.get_data())} bytes"

    async def refuse(self) -> ResponseReturnValue:
        return DoorResponse(b"no", status=401)

    async def poll(self) -> ResponseReturnValue:
        await current.get_data()
        self.entered.set()
        await self.may_go_on.wait()
        return "polled"

    async def as_json(self, error: HTTPException) -> Response:
        text = f'{{"code":"{error.code}"}}\n'
        return DoorResponse(text, status=error.code, content_type="application/json")


@pytest.fixture
def scene() -> Scene:
    return Scene()


def headed(size: int, *, target: str = "/read", fields: str = "") -> bytes:
    """The head of a request that promises `size` bytes."""
    return request(target, method="POST", fields=f"{fields}Content-Length: {size}\r\n")


# -- B66: large and lying bodies -------------------------------------------------------------


async def test_a_client_that_asks_is_told_to_continue(scene: Scene) -> None:
    async with open_door(scene.app) as door, await door.connect() as client:
        await client.send(headed(5, fields=EXPECTING))
        assert (await client.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        await client.send(b"12345")
        assert (await client.answer()).body == b"5 bytes"
        assert (await client.ask(request("/read", method="POST", body=b"1"))).interim == []


@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_a_client_that_does_not_wait_for_continue_is_served_all_the_same(
    scene: Scene, version: str
) -> None:
    asked = headed(5, fields=EXPECTING).replace(b"HTTP/1.1", f"HTTP/{version}".encode())
    async with open_door(scene.app) as door, await door.connect() as client:
        answer = await client.ask(asked + b"12345")
        assert (answer.body, answer.interim) == (b"5 bytes", [])


@pytest.mark.parametrize(
    ("target", "size", "status"),
    [("/read", LIMIT + 1, 413), ("/refuse", 5, 401), ("/nowhere", 5, 404)],
)
async def test_a_request_that_is_refused_anyway_is_not_invited_to_send_its_body(
    scene: Scene, target: str, size: int, status: int
) -> None:
    async with open_door(scene.app) as door, await door.connect() as client:
        answer = await client.ask(headed(size, target=target, fields=EXPECTING))
        assert (answer.status, answer.interim) == (status, [])
        assert answer.headers["connection"] == "close"
        assert await client.ended() == b""


async def test_a_client_that_is_still_sending_can_read_its_413(scene: Scene) -> None:
    size = 40 * 1024 * 1024
    async with open_door(scene.app) as door, await door.connect() as client:
        await client.send(headed(size))
        await client.send(bytes(size))
        answer = await client.answer()
        assert (answer.status, answer.body) == (413, b'{"code":"413"}\n')
        assert answer.headers["content-type"] == "application/json"
        assert await client.ended() == b""


async def test_the_limit_itself_is_allowed(scene: Scene) -> None:
    async with open_door(scene.app) as door, await door.connect() as client:
        answer = await client.ask(request("/read", method="POST", body=bytes(LIMIT)))
        assert answer.body == f"{LIMIT} bytes".encode()


async def test_chunks_are_counted_while_they_are_read(scene: Scene) -> None:
    chunk = b"10000\r\n" + bytes(0x10000) + b"\r\n"
    async with open_door(scene.app) as door, await door.connect() as client:
        await client.send(request("/read", method="POST", fields=CHUNKED))
        for _ in range(LIMIT // 0x10000 + 1):
            await client.send(chunk)
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        assert await client.ended() == b""


async def test_chunks_of_one_byte_do_not_stop_other_connections(scene: Scene) -> None:
    async with (
        open_door(scene.app) as door,
        await door.connect() as client,
        await door.connect() as other,
    ):
        await client.send(request("/read", method="POST", fields=CHUNKED))
        await client.send(b"1\r\nx\r\n" * 20_000)
        assert (await other.ask(request("/refuse", method="POST"))).status == 401
        await client.send(b"0\r\n\r\n")
        assert (await client.answer()).body == b"20000 bytes"


async def test_a_broken_chunk_is_the_applications_400_and_ends_the_connection(scene: Scene) -> None:
    async with open_door(scene.app) as door, await door.connect() as client:
        asked = request("/read", method="POST", fields=CHUNKED)
        answer = await client.ask(asked + b"5\r\nhello\r\nxyz\r\nrubbish")
        assert (answer.status, answer.body) == (400, b'{"code":"400"}\n')
        assert answer.headers["connection"] == "close"
        assert await client.ended() == b""


async def test_an_answer_before_a_short_body_keeps_the_connection(scene: Scene) -> None:
    async with open_door(scene.app) as door, await door.connect() as client:
        for _ in range(3):
            answer = await client.ask(headed(1000, target="/refuse"))
            assert answer.status == 401
            assert "connection" not in answer.headers
            await client.send(bytes(1000))


async def test_an_answer_before_a_long_body_ends_the_connection(scene: Scene) -> None:
    async with open_door(scene.app) as door, await door.connect() as client:
        answer = await client.ask(headed(LIMIT, target="/refuse"))
        assert (answer.status, answer.headers["connection"]) == (401, "close")
        await client.send(bytes(LIMIT))
        assert await client.ended() == b""


async def test_who_never_finishes_after_an_early_answer_is_cut(scene: Scene) -> None:
    async with (
        open_door(scene.app, DoorLimits(linger_seconds=0.1)) as door,
        await door.connect() as client,
    ):
        assert (await client.ask(headed(LIMIT, target="/refuse"))).status == 401
        assert await client.ended() == b""
        await until(lambda: not door.door.statistics().connections)


# -- B68: slow senders -----------------------------------------------------------------------


@pytest.mark.promise("W131")
@pytest.mark.parametrize("sent", [b"", b"G", b"GET / HTTP/1.1\r\nHost: a\r\n"])
async def test_a_header_block_that_never_ends_is_closed_without_a_word(
    scene: Scene, sent: bytes
) -> None:
    async with (
        open_door(scene.app, DoorLimits(header_seconds=0.2, idle_seconds=NEVER)) as door,
        await door.connect() as client,
    ):
        if sent:
            await client.send(sent)
        assert await client.ended() == b""


async def test_each_deadline_holds_from_its_own_start(
    scene: Scene, mock_clock: trio.testing.MockClock
) -> None:
    limits = DoorLimits()
    async with open_door(scene.app, limits) as door, await door.connect() as client:
        await until(lambda: door.phases() == [Phase.HEAD])
        mock_clock.jump(limits.header_seconds - 0.1)
        await client.ask(request("/read", method="POST", body=b"x"))
        await until(lambda: door.phases() == [Phase.IDLE])
        mock_clock.jump(limits.idle_seconds - 0.1)
        await client.send(headed(3)[:5])
        await until(lambda: door.phases() == [Phase.HEAD])
        mock_clock.jump(limits.header_seconds - 0.1)
        await client.send(headed(3)[5:])
        await until(lambda: door.phases() == [Phase.BODY])
        mock_clock.jump(limits.body_seconds - 0.1)
        await client.send(b"abc")
        assert (await client.answer()).body == b"3 bytes"


async def test_the_second_header_block_has_a_deadline_too(
    scene: Scene, mock_clock: trio.testing.MockClock
) -> None:
    async with open_door(scene.app) as door, await door.connect() as client:
        await client.ask(request("/refuse", method="POST"))
        await client.send(b"G")
        await until(lambda: door.phases() == [Phase.HEAD])
        mock_clock.jump(DoorLimits().header_seconds)
        assert await client.ended() == b""


@pytest.mark.parametrize("head", [b"GET / HTTP/1.1\r\nX: ", None], ids=["header", "body"])
async def test_dripping_bytes_moves_no_deadline(scene: Scene, head: bytes | None) -> None:
    limits = DoorLimits(header_seconds=0.3, body_seconds=0.3, linger_seconds=0.1)
    async with open_door(scene.app, limits) as door, await door.connect() as client:
        await client.send(head or headed(LIMIT))
        with trio.fail_after(PATIENCE), contextlib.suppress(trio.BrokenResourceError):
            while True:
                await client.send(b"x")
                await trio.lowlevel.checkpoint()


async def test_a_body_that_does_not_come_is_the_applications_408(scene: Scene) -> None:
    async with (
        open_door(scene.app, DoorLimits(body_seconds=0.2)) as door,
        await door.connect() as client,
    ):
        answer = await client.ask(headed(100) + b"abc")
        assert (answer.status, answer.body) == (408, b'{"code":"408"}\n')
        assert answer.headers["connection"] == "close"
        assert await client.ended() == b""


async def test_a_late_body_fails_even_where_the_body_is_awaited_directly(scene: Scene) -> None:
    async def direct() -> ResponseReturnValue:
        return bytes(await current.body)

    scene.app.add_url_rule("/direct", view_func=direct, methods=["POST"])
    async with (
        open_door(scene.app, DoorLimits(body_seconds=0.2)) as door,
        await door.connect() as client,
    ):
        assert (await client.ask(headed(100, target="/direct"))).status == 408


async def test_a_long_poll_that_was_read_whole_outlives_every_deadline(
    scene: Scene, mock_clock: trio.testing.MockClock
) -> None:
    async with open_door(scene.app) as door, await door.connect() as poll:
        await poll.send(request("/poll", method="POST", body=b"{}"))
        await wait(scene.entered)
        mock_clock.jump(NEVER)
        for _ in range(100):
            await trio.lowlevel.checkpoint()
        assert door.phases() == [Phase.ANSWER]
        scene.may_go_on.set()
        assert (await poll.answer()).body == b"polled"


# -- R50: the ingress budget -----------------------------------------------------------------


async def test_a_large_body_waits_until_there_is_room_and_small_ones_pass() -> None:
    scene = Scene()
    scene.app.config["MAX_CONTENT_LENGTH"] = 32 * 1024 * 1024
    size = 32 * 1024 * 1024
    async with (
        open_door(scene.app, DoorLimits(ingress_bytes_max=size)) as door,
        await door.connect() as one,
        await door.connect() as two,
    ):
        await one.send(headed(size) + b"x")
        await until(lambda: door.door.statistics().ingress.bytes_used == size)
        await two.send(headed(BODY_FREE_BYTES + 1) + bytes(BODY_FREE_BYTES + 1))
        await until(lambda: door.door.statistics().ingress.waiting > 0)
        async with await door.connect() as small:
            asked = request("/read", method="POST", body=bytes(BODY_FREE_BYTES))
            assert (await small.ask(asked)).status == 200
        await one.close()
        assert (await two.answer()).status == 200
        await until(lambda: door.door.statistics().ingress.bytes_used == 0)


async def test_a_large_body_that_finds_no_room_in_time_is_a_503(scene: Scene) -> None:
    ingress = Ingress(LIMIT)
    await ingress.take(LIMIT)
    async with (
        open_door(scene.app, DoorLimits(body_seconds=0.2), ingress=ingress) as door,
        await door.connect() as client,
    ):
        answer = await client.ask(request("/read", method="POST", body=bytes(100_000)))
        assert (answer.status, answer.body) == (503, b'{"code":"503"}\n')
    assert ingress.statistics() == (LIMIT, LIMIT, 0)


async def test_the_budget_is_given_in_order_of_arrival() -> None:
    ingress = Ingress(10)
    served: list[int] = []

    async def take(size: int, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        served.append(await ingress.take(size))

    await ingress.take(8)
    async with trio.open_nursery() as nursery:
        for size in (7, 1, 2):
            await nursery.start(take, size)
            await trio.testing.wait_all_tasks_blocked()
        assert served == []  # 1 would fit, but 7 came first
        assert ingress.statistics() == (8, 10, 3)
        ingress.give(8)
    assert served == [7, 1, 2]
    assert ingress.statistics() == (10, 10, 0)


async def test_a_waiter_that_is_cancelled_takes_nothing() -> None:
    ingress = Ingress(10)
    await ingress.take(10)
    with trio.move_on_after(0) as scope:
        await ingress.take(1)
    assert scope.cancelled_caught
    ingress.give(10)
    assert await ingress.take(100) == 10
    assert ingress.statistics().waiting == 0


async def test_without_a_door_a_body_is_read_and_an_answer_counts_as_delivered(
    scene: Scene,
) -> None:
    taken_back: list[bool] = []

    async def undelivered(begun: bool) -> None:  # noqa: FBT001  # the hook's signature
        taken_back.append(begun)

    async def answer() -> ResponseReturnValue:
        response = DoorResponse(await current.get_data())
        response.undelivered = undelivered
        return response

    scene.app.add_url_rule("/answer", view_func=answer, methods=["POST"])
    response = await scene.app.test_client().post("/answer", data=b"body")
    assert await response.get_data(as_text=False) == b"body"
    assert taken_back == []


def test_a_failed_body_raises_the_first_failure() -> None:
    """The guard against a 408 that becomes a 400 while the application writes it."""
    scene = Scene()
    body = scene.app.request_class.body_class(None, None)
    late = BadRequest("first")
    body.fail(late)
    body.fail(BadRequest("second"))
    with pytest.raises(BadRequest, match="first"):
        body.__await__().send(None)
