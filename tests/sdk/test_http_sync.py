"""The blocking client over real sockets: reuse, the one repeat, lost replies, bounds, TLS,
threads."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from mqlite_actor.clock import Clock, ManualClock
from mqlite_actor.contract import errors, wire
from mqlite_actor.sdk import exchange, http_sync
from mqlite_actor.sdk.address import parse_endpoint
from mqlite_actor.sdk.connect import connect_sync
from mqlite_actor.sdk.http_sync import HttpSyncClient
from tests.sdk.loopback import (
    BOUND_SECONDS,
    LAST_WORDS,
    Loopback,
    Recorded,
    engine_replies,
    fading,
    loopback,
    refusal,
    reply,
)

STATS = wire.StatsRequest(queue="q")
SEND = wire.SendRequest(queue="q", messages=[wire.Message(body=b"x")])
COMPLETE = wire.CompleteRequest(queue="q", seq_number=1, lock_token="t")
CLAIM = wire.ReceiveRequest(queue="q", receive_mode=1, receive_attempt_id="a")
LEASED = wire.ReceiveRequest(queue="q", receive_attempt_id="a")
COUNTS = {
    "queue": "q", "active": 1, "locked": 0, "deferred": 0, "scheduled": 0, "dead_lettered": 0,
    "total": 1, "oldest_message_age_ms": 5,
}  # fmt: skip
GOOD = {
    "QueueService/Stats": COUNTS,
    "QueueService/Send": {"seq_numbers": [1]},
    "QueueService/Complete": {"ok": True},
    "QueueService/Receive": {"messages": []},
}


def good(request: Recorded) -> bytes:
    return reply(200, GOOD[request.call])


@contextmanager
def client_of(
    server: Loopback, *, token: str | None = None, clock: Clock | None = None
) -> Iterator[HttpSyncClient]:
    with HttpSyncClient(parse_endpoint(server.url), token=token, clock=clock) as client:
        yield client


def test_calls_are_answered_over_one_connection() -> None:
    with loopback(good) as server, client_of(server, token="tok") as client:
        assert client.call(STATS).active == 1
        assert client.call(SEND).seq_numbers == [1]
        assert server.connections == 1
        assert server.calls == ["QueueService/Stats", "QueueService/Send"]
        assert {request.header("authorization") for request in server.requests} == {"Bearer tok"}
        assert server.requests[0].header("host") == f"127.0.0.1:{server.port}"


def test_a_whole_message_life_goes_through_a_real_engine() -> None:
    body = bytes(range(256))
    with engine_replies() as answer, loopback(answer) as server, client_of(server) as client:
        client.call(wire.CreateQueueRequest(name="q"))
        client.call(wire.SendRequest(queue="q", messages=[wire.Message(body=body)]))
        (message,) = client.call(wire.ReceiveRequest(queue="q")).messages
        assert message.body == body
        seq, lock = message.seq_number, message.lock_token
        settled = wire.CompleteRequest(queue="q", seq_number=seq, lock_token=lock)
        assert client.call(settled).ok
        with pytest.raises(errors.LockLost):
            client.call(wire.AbandonRequest(queue="q", seq_number=seq, lock_token=lock))
        with pytest.raises(errors.NotFound):
            client.call(wire.StatsRequest(queue="nope"))
        assert server.connections == 1


def test_a_base_path_and_its_query_stand_around_the_route() -> None:
    with loopback(good) as server:
        endpoint = parse_endpoint(f"http://user@127.0.0.1:{server.port}/prod/?k=v")
        with HttpSyncClient(endpoint) as client:
            client.call(STATS)
        assert server.requests[0].target == "/prod/mqlite.v1.QueueService/Stats?k=v"
        assert server.requests[0].header("authorization") is None


def test_the_endpoint_s_own_credential_is_sent_unless_another_is_given() -> None:
    with loopback(good) as server:
        endpoint = parse_endpoint(f"mqlite://own@127.0.0.1:{server.port}")
        for token in (None, "", "other"):
            with HttpSyncClient(endpoint, token=token) as client:
                client.call(STATS)
        sent = [request.header("authorization") for request in server.requests]
        assert sent == ["Bearer own", None, "Bearer other"]


def test_a_socket_that_the_server_closed_while_idle_is_replaced_for_any_call() -> None:
    with loopback(good) as server, client_of(server) as client:
        client.call(STATS)
        server.drop_connections()
        assert client.call(SEND).seq_numbers == [1]
        assert server.calls.count("QueueService/Send") == 1
        assert server.connections == 2


def drop_second(request: Recorded, seen: list[str]) -> bytes | None:
    """Answer the first request, swallow the second, answer from then on."""
    seen.append(request.call)
    return None if len(seen) == 2 else good(request)


@pytest.mark.parametrize("request_", [STATS, COMPLETE, CLAIM], ids=lambda r: type(r).__name__)
def test_a_dead_idle_socket_is_replaced_once_where_a_repeat_is_harmless(
    request_: wire.Request[wire.Response],
) -> None:
    seen: list[str] = []
    with loopback(lambda r: drop_second(r, seen)) as server, client_of(server) as client:
        client.call(STATS)
        client.call(request_)
        assert server.connections == 2
        assert len(seen) == 3
        assert seen[1] == seen[2]


@pytest.mark.parametrize(
    "request_", [SEND, wire.ReceiveRequest(queue="q"), LEASED], ids=["send", "claim", "attempt"]
)
def test_what_a_repeat_would_do_twice_or_tell_too_late_is_never_sent_twice(
    request_: wire.Request[wire.Response],
) -> None:
    seen: list[str] = []
    with loopback(lambda r: drop_second(r, seen)) as server, client_of(server) as client:
        client.call(STATS)
        with pytest.raises(errors.OutcomeUnknown, match="look before you repeat"):
            client.call(request_)
        assert len(seen) == 2
        assert client.call(STATS).active == 1


@pytest.mark.parametrize("last", LAST_WORDS.values(), ids=LAST_WORDS.keys())
@pytest.mark.parametrize(
    ("request_", "expected"),
    [(COMPLETE, errors.OutcomeUnknown), (STATS, errors.MqliteError)],
    ids=["write", "read"],
)
def test_a_repeat_that_fails_leaves_the_first_try_in_doubt(
    request_: wire.Request[wire.Response],
    expected: type[errors.MqliteError],
    last: bytes | None,
) -> None:
    with fading(good, last) as server, client_of(server) as client:
        client.call(STATS)
        with pytest.raises(expected) as caught:
            client.call(request_)
    assert isinstance(caught.value, errors.OutcomeUnknown) == (request_ is COMPLETE)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [(STATS, errors.Unavailable), (SEND, errors.OutcomeUnknown), (CLAIM, errors.OutcomeUnknown)],
    ids=["read", "write", "claim"],
)
def test_a_fresh_connection_that_loses_its_reply_is_not_tried_again(
    request_: wire.Request[wire.Response], expected: type[errors.MqliteError]
) -> None:
    with loopback(lambda _: None) as server, client_of(server) as client:
        with pytest.raises(expected, match="without an answer"):
            client.call(request_)
        assert len(server.requests) == 1


CUT_REPLIES = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
    b"HTTP/1.1 200 OK\r\nContent-Le",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{",
    b"SSH-2.0-OpenSSH\r\n",
]


@pytest.mark.parametrize("raw", CUT_REPLIES)
def test_half_a_reply_is_a_lost_reply_and_never_repeated(raw: bytes) -> None:
    def answer(request: Recorded) -> bytes | None:
        if request.call == "QueueService/Stats":
            return good(request)
        server.shut_after(raw)
        return None

    with loopback(answer) as server, client_of(server) as client:
        client.call(STATS)
        with pytest.raises(errors.OutcomeUnknown, match="middle of its answer"):
            client.call(COMPLETE)
        assert server.calls.count("QueueService/Complete") == 1


def test_a_whole_reply_that_ends_with_the_connection_is_a_reply() -> None:
    def answer(_: Recorded) -> None:
        server.shut_after(b'HTTP/1.0 200 OK\r\n\r\n{"ok":true}\n')

    with loopback(answer) as server, client_of(server) as client:
        assert client.call(COMPLETE).ok


def test_a_reply_that_says_close_ends_the_connection() -> None:
    def answer(_: Recorded) -> bytes:
        return reply(200, COUNTS, headers="Connection: close\r\n")

    with loopback(answer) as server, client_of(server) as client:
        client.call(STATS)
        client.call(STATS)
        assert server.connections == 2


def test_a_server_that_stays_silent_is_given_up_at_the_bound() -> None:
    released = threading.Event()

    def answer(_: Recorded) -> bytes | None:
        released.wait(BOUND_SECONDS)
        return None

    with loopback(answer) as server, client_of(server) as client:
        with pytest.raises(errors.OutcomeUnknown, match=r"no whole answer within 0\.5 s"):
            client.call(SEND, reply_seconds=0.5)
        released.set()


def test_a_server_that_drips_bytes_is_given_up_at_the_bound() -> None:
    """The clock jumps past the deadline while bytes keep coming: each read asks it anew."""
    clock = ManualClock()

    def answer(_: Recorded) -> bytes | None:
        clock.advance(31_000)
        server.shut_after(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
        return None

    with (
        loopback(answer) as server,
        client_of(server, clock=clock) as client,
        pytest.raises(errors.Unavailable, match="no whole answer within 30 s"),
    ):
        client.call(STATS)


def test_a_reply_beyond_every_limit_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "REPLY_BYTES_MAX", 100)
    with (
        loopback(lambda _: reply(200, b" " * 101)) as server,
        client_of(server) as client,
        pytest.raises(errors.Internal, match="more than 100 bytes"),
    ):
        client.call(STATS)


def test_nobody_listening_is_unavailable_with_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with (
        HttpSyncClient(parse_endpoint(f"mqlite://sesame@127.0.0.1:{port}")) as client,
        pytest.raises(errors.Unavailable, match=f"http://127.0.0.1:{port}.*refused") as caught,
    ):
        client.call(SEND)
    assert "sesame" not in str(caught.value)


def test_a_host_that_does_not_exist_is_unavailable() -> None:
    with (
        HttpSyncClient(parse_endpoint("mqlite://no-such-host.invalid")) as client,
        pytest.raises(errors.Unavailable, match=r"no-such-host\.invalid"),
    ):
        client.call(SEND)


def test_a_host_with_an_endless_label_is_the_caller_s_mistake() -> None:
    with (
        HttpSyncClient(parse_endpoint(f"mqlite://{'a' * 70}.example")) as client,
        pytest.raises(errors.InvalidArgument, match="no host has such a name"),
    ):
        client.call(SEND)


def test_an_early_refusal_of_a_large_request_is_read_in_spite_of_the_broken_pipe() -> None:
    """A server may answer 413 and close before it has read everything."""
    large = wire.SendRequest(queue="q", messages=[wire.Message(body=bytes(24 * 1024 * 1024))])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        answered = threading.Event()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(BOUND_SECONDS)
                connection.recv(1000)
                connection.sendall(refusal(413, "message_too_large", "at most 32 MiB"))
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 20):
                    pass
                answered.set()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with (
            HttpSyncClient(parse_endpoint(f"http://127.0.0.1:{port}")) as client,
            pytest.raises(errors.MessageTooLarge, match="at most 32 MiB"),
        ):
            client.call(large)
        assert answered.wait(BOUND_SECONDS)
        thread.join(BOUND_SECONDS)


def test_a_request_that_did_not_go_out_whole_was_not_done() -> None:
    large = wire.SendRequest(queue="q", messages=[wire.Message(body=bytes(24 * 1024 * 1024))])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            connection, _ = listener.accept()
            connection.recv(1000)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with (
            HttpSyncClient(parse_endpoint(f"http://127.0.0.1:{port}")) as client,
            pytest.raises(errors.Unavailable, match="nothing was done"),
        ):
            client.call(large)
        thread.join(BOUND_SECONDS)


def test_threads_share_a_client_and_each_gets_its_own_answer() -> None:
    with engine_replies() as answer, loopback(answer) as server, client_of(server) as client:
        for number in range(8):
            client.call(wire.CreateQueueRequest(name=f"q{number}"))

        def ask(number: int) -> str:
            return client.call(wire.StatsRequest(queue=f"q{number % 8}")).queue

        with ThreadPoolExecutor(8) as pool:
            names = list(pool.map(ask, range(200)))
        assert names == [f"q{number % 8}" for number in range(200)]
        assert len(client._idle) <= http_sync.IDLE_CONNECTIONS_MAX


def test_a_closed_client_says_so() -> None:
    with loopback(good) as server:
        with client_of(server) as client:
            client.call(STATS)
        with pytest.raises(errors.Closed):
            client.call(STATS)


def test_a_redirect_is_not_followed() -> None:
    def answer(_: Recorded) -> bytes:
        return reply(302, b"", headers=f"Location: http://127.0.0.1:{server.port}/else\r\n")

    with loopback(answer) as server, client_of(server, token="tok") as client:
        with pytest.raises(errors.Internal, match="HTTP 302"):
            client.call(STATS)
        assert len(server.requests) == 1


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with loopback(good) as server, client_of(server) as client:
        assert client.call(STATS).total == 1


def test_the_time_of_a_blocking_handle_is_the_brokers() -> None:
    second = 1_800_000_000
    with (
        loopback(lambda _: reply(200, COUNTS, now_ms=second * 1000)) as server,
        connect_sync(server.url) as q,
    ):
        q.stats("q")
        assert second * 1000 <= q.now_ms() <= (second + BOUND_SECONDS) * 1000
