"""The HTTP handle under trio and asyncio: what it sends, repeats, gives up and gives back."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import pytest

import mqlite_actor as mq
from mqlite_actor.contract import wire
from mqlite_actor.sdk import exchange
from mqlite_actor.sdk.handle import Handle
from tests.conformance.broker import Broker
from tests.sdk.loopback import (
    LAST_WORDS,
    Loopback,
    Recorded,
    fading,
    loopback,
    refusal,
    reply,
)
from tests.sdk.loops import BOUND_SECONDS, both_loops, run
from tests.sdk.test_http_sync import COUNTS, good

MESSAGE = {"seq_number": 7, "lock_token": "t", "locked_until_ms": 1}


def use(server: Loopback, body: Callable[[Handle], Awaitable[None]], backend: str) -> None:
    """Run a test's body with a handle to this server."""

    async def main() -> None:
        async with mq.connect(server.url, token="secret") as q:
            await body(q)

    run(backend, main)


@both_loops
def test_a_call_is_one_post_with_the_token_and_a_length(backend: str) -> None:
    async def body(q: Handle) -> None:
        assert (await q.stats("q")).active == 1

    with loopback(lambda _: reply(200, COUNTS)) as server:
        use(server, body, backend)
        assert server.url == f"http://{server.requests[0].header('Host')}"
    (request,) = server.requests
    assert request.target == "/mqlite.v1.QueueService/Stats"
    assert request.header("Authorization") == "Bearer secret"
    assert request.header("Content-Length") == str(len(request.body))


@both_loops
def test_calls_share_a_connection_and_a_dead_one_is_replaced(backend: str) -> None:
    async def body(q: Handle) -> None:
        await q.stats("q")
        await q.stats("q")
        assert server.connections == 1
        server.drop_connections()
        await q.stats("q")
        assert server.connections == 2

    with loopback(lambda _: reply(200, COUNTS)) as server:
        use(server, body, backend)
    assert len(server.requests) == 3


class Silent:
    """Answers the first request of a connection, and closes without a word at the second."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, request: Recorded) -> bytes | None:
        self.count += 1
        if self.count == 2:
            return None
        return reply(200, {"ok": True} if request.call != "Send" else {"seq_numbers": [1]})


@both_loops
def test_a_settlement_is_repeated_after_a_dead_socket(backend: str) -> None:
    async def body(q: Handle) -> None:
        await q.message("q", 1, "t").complete()
        await q.message("q", 2, "t").complete()

    with loopback(Silent()) as server:
        use(server, body, backend)
    assert server.calls == ["QueueService/Complete"] * 3


@pytest.mark.parametrize("last", LAST_WORDS.values(), ids=LAST_WORDS.keys())
@both_loops
def test_a_repeat_that_fails_leaves_the_first_try_in_doubt(
    backend: str, last: bytes | None
) -> None:
    async def body(q: Handle) -> None:
        await q.stats("q")
        with pytest.raises(mq.OutcomeUnknown):
            await q.message("q", 2, "t").complete()

    with fading(good, last) as server:
        use(server, body, backend)


UNREPEATED: dict[str, Callable[[Handle], Awaitable[object]]] = {
    "Send": lambda q: q.send_one("q", b"1", message_id="m"),
    "Receive": lambda q: q.call(wire.ReceiveRequest(queue="q", receive_attempt_id="a")),
}


@both_loops
@pytest.mark.parametrize("call", UNREPEATED)
def test_what_a_repeat_would_do_twice_or_tell_too_late_is_never_sent_twice(
    backend: str, call: str
) -> None:
    async def body(q: Handle) -> None:
        await q.message("q", 1, "t").complete()
        with pytest.raises(mq.OutcomeUnknown, match="closed the connection without an answer"):
            await UNREPEATED[call](q)

    with loopback(Silent()) as server:
        use(server, body, backend)
    assert server.calls == ["QueueService/Complete", f"QueueService/{call}"]


@both_loops
def test_an_answer_that_breaks_off_is_an_unknown_outcome_for_a_write_only(backend: str) -> None:
    def cut(_: Recorded) -> None:
        server.shut_after(b'HTTP/1.1 200 X\r\nContent-Length: 99\r\n\r\n{"seq')

    async def body(q: Handle) -> None:
        with pytest.raises(mq.OutcomeUnknown, match="broke off in the middle"):
            await q.send_one("q", b"1")
        with pytest.raises(mq.Unavailable, match="nothing was changed"):
            await q.stats("q")

    with loopback(cut) as server:
        use(server, body, backend)


@both_loops
def test_a_broker_that_is_silent_for_too_long_is_given_up(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "REPLY_SECONDS", 0.5)
    release = threading.Event()

    def never(_: Recorded) -> None:
        release.wait(BOUND_SECONDS)

    async def body(q: Handle) -> None:
        with pytest.raises(mq.OutcomeUnknown, match="gave no whole answer within 0"):
            await q.send_one("q", b"1")
        release.set()

    with loopback(never) as server:
        use(server, body, backend)


@both_loops
def test_an_error_of_the_broker_is_the_same_class(backend: str) -> None:
    async def body(q: Handle) -> None:
        with pytest.raises(mq.LockLost, match="gone"):
            await q.message("q", 1, "t").complete()
        with pytest.raises(mq.LockLost):
            await q.receive("q")

    with loopback(lambda _: refusal(409, "lock_lost", "gone")) as server:
        use(server, body, backend)


@pytest.mark.parametrize("attempt", ["", "an id"])
@both_loops
def test_a_receive_given_up_before_its_answer_closes_the_connection_for_the_broker_to_see(
    backend: str, attempt: str, broker: Broker, queue: str
) -> None:
    async def main() -> None:
        async with mq.connect(broker.url, token=broker.token) as q:
            await q.create_queue(queue)
            with anyio.move_on_after(0.05) as given_up:
                await q.receive(queue, wait=20, attempt_id=attempt)
            assert given_up.cancelled_caught
            await q.send_one(queue, b"1")
            (message,) = await q.receive(queue, wait=5)
            assert message.delivery_count == 1

    run(backend, main)


@both_loops
def test_a_claim_under_an_attempt_id_whose_answer_was_lost_is_asked_for_and_given_back(
    backend: str,
) -> None:
    """The broker keeps such a claim for whoever repeats the id, and nobody else will."""
    asked = threading.Event()
    left = threading.Event()

    def answer(request: Recorded) -> bytes | None:
        if request.call == "QueueService/Receive":
            if not asked.is_set():
                asked.set()
                left.wait(BOUND_SECONDS)
                return None  # the claim is made, and the answer goes nowhere
            return reply(200, {"messages": [MESSAGE]})
        return reply(200, {"results": [{"seq_number": 7, "ok": True}]})

    async def body(q: Handle) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(q.receive, "q", wait=20, attempt_id="an id"))
            while not asked.is_set():
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
            left.set()

    with loopback(answer) as server:
        use(server, body, backend)
    assert server.requests[2].target.endswith("/Release")
    first, again, release = (json.loads(request.body) for request in server.requests)
    assert (first["wait_time_ms"], again.get("wait_time_ms", 0)) == (20_000, 0)
    assert {each["receive_attempt_id"] for each in (first, again, release)} == {"an id"}


@pytest.mark.parametrize("is_old", [False, True], ids=["ours", "an older broker"])
@both_loops
def test_an_answer_on_its_way_to_a_caller_who_left_is_given_back(
    backend: str, *, is_old: bool
) -> None:
    """The server answers when it sees the client leave, as one whose write has begun does."""
    asked = threading.Event()
    left = threading.Event()

    def answer(request: Recorded) -> bytes:
        if request.call == "QueueService/Receive":
            asked.set()
            left.wait(BOUND_SECONDS)
            return reply(200, {"messages": [MESSAGE]})
        if request.target.endswith("/Release"):
            if is_old:
                return refusal(404, "not_found", "no such path")
            return reply(200, {"results": [{"seq_number": 7, "ok": True}]})
        return reply(200, {"ok": True})

    async def body(q: Handle) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(q.receive, "q")
            while not asked.is_set():
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
            left.set()

    with loopback(answer) as server:
        use(server, body, backend)
    verbs = [request.target.rpartition("/")[2] for request in server.requests]
    assert verbs == ["Receive", "Release", *(["Abandon"] if is_old else [])]


def test_a_native_cancellation_of_asyncio_gives_back_too(broker: Broker, queue: str) -> None:
    async def main() -> None:
        async with mq.connect(broker.url, token=broker.token) as q:
            await q.create_queue(queue)
            task = asyncio.create_task(_receive(q, queue))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(task), 0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await q.send_one(queue, b"1")
            assert len(await q.receive(queue, wait=5)) == 1

    asyncio.run(main())


async def _receive(q: Handle, queue: str) -> None:
    await q.receive(queue, wait=20)


@both_loops
def test_a_handle_refuses_after_its_block_and_in_another_loop(backend: str) -> None:
    kept: list[Handle] = []

    async def body(q: Handle) -> None:
        kept.append(q)

        async def other() -> None:
            with pytest.raises(mq.Unsupported, match="belongs to the loop that opened it"):
                await q.status()

        await anyio.to_thread.run_sync(lambda: anyio.run(other, backend="asyncio"))

    async def later() -> None:
        with pytest.raises(mq.Closed):
            await kept[0].status()

    with loopback(lambda _: reply(200, {})) as server:
        use(server, body, backend)
        run(backend, later)
    assert server.requests == []


@both_loops
def test_tls_is_verified_against_the_given_authority(backend: str, certificate: Path) -> None:
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_side.load_cert_chain(certificate)

    async def main() -> None:
        url = f"mqlites://127.0.0.1:{server.port}"
        async with mq.connect(url, ca_file=certificate) as q:
            assert (await q.stats("q")).active == 1
            assert (await q.stats("q")).active == 1
        async with mq.connect(url) as q:
            with pytest.raises(mq.Unavailable, match="certificate does not verify"):
                await q.stats("q")

    with loopback(lambda _: reply(200, COUNTS), tls=server_side) as server:
        run(backend, main)
    assert len(server.requests) == 2


@both_loops
def test_a_client_certificate_is_shown_to_a_server_that_wants_one(
    backend: str, certificate: Path
) -> None:
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificate)
    server_side.load_cert_chain(certificate)
    server_side.verify_mode = ssl.CERT_REQUIRED

    async def main() -> None:
        url = f"https://127.0.0.1:{server.port}"
        async with mq.connect(url, ca_file=certificate, client_certificate=certificate) as q:
            assert (await q.stats("q")).active == 1
        async with mq.connect(url, ca_file=certificate) as q:
            with pytest.raises((mq.Unavailable, mq.OutcomeUnknown)):
                await q.stats("q")

    with loopback(lambda _: reply(200, COUNTS), tls=server_side) as server:
        run(backend, main)
        with mq.connect_sync(
            f"mqlites://127.0.0.1:{server.port}",
            ca_file=certificate,
            client_certificate=(certificate, certificate),
        ) as q:
            assert q.stats("q").active == 1


@both_loops
def test_a_reply_longer_than_any_brokers_is_refused(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "REPLY_BYTES_MAX", 100)

    async def body(q: Handle) -> None:
        with pytest.raises(mq.MqliteError, match="no broker's"):
            await q.stats("q")

    with loopback(lambda _: reply(200, COUNTS)) as server:
        use(server, body, backend)


def test_the_brokers_time_is_learnt_from_its_answers() -> None:
    """Whatever this machine's clock says: what counts is the broker's (B32)."""
    second = 1_800_000_000
    dated = reply(200, COUNTS, now_ms=second * 1000)

    async def main() -> None:
        async with mq.connect(server.url) as q:
            await q.stats("q")
            assert second * 1000 <= q.now_ms() <= (second + BOUND_SECONDS) * 1000

    with loopback(lambda _: dated) as server:
        run("trio", main)


def test_a_request_that_is_a_receive_and_delete_is_never_given_back() -> None:
    asked = threading.Event()
    left = threading.Event()

    def answer(_: Recorded) -> bytes:
        asked.set()
        left.wait(BOUND_SECONDS)
        return reply(200, {"messages": [MESSAGE]})

    async def body(q: Handle) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(q.call, wire.ReceiveRequest(queue="q", receive_mode=1))
            while not asked.is_set():
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
            left.set()

    with loopback(answer) as server:
        use(server, body, "trio")
    assert server.calls == ["QueueService/Receive"]
