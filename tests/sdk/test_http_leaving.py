"""A caller leaves while its answer is on the way: through TLS, on foreign loops, from a thread."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute

import mqlite_actor as mq
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import Closed
from mqlite_actor.sdk.address import parse_endpoint
from mqlite_actor.sdk.http_sync import HttpSyncClient
from mqlite_actor.sdk.http_wire import Stream
from tests.sdk.loopback import Recorded, loopback, reply
from tests.sdk.loops import BOUND_SECONDS, both_loops, run

MESSAGE = {"seq_number": 7, "lock_token": "t", "locked_until_ms": 1, "body": "YWFh" * 100_000}
"""Long enough that its answer is read in several pieces."""


class Leaving:
    """Answers a receive once its caller has left, as a broker does whose write has begun."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.left = threading.Event()

    def __call__(self, request: Recorded) -> bytes:
        if request.call == "QueueService/Receive":
            self.asked.set()
            self.left.wait(BOUND_SECONDS)
            return reply(200, {"messages": [MESSAGE]})
        return reply(200, {"results": [{"seq_number": 7, "ok": True}]})


def contexts(certificate: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The server's side and the client's."""
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_side.load_cert_chain(certificate)
    return server_side, ssl.create_default_context(cafile=certificate)


@both_loops
def test_over_tls_too_an_answer_on_its_way_to_a_caller_who_left_is_given_back(
    backend: str, certificate: Path
) -> None:
    leaving = Leaving()
    server_side, _ = contexts(certificate)

    async def main() -> None:
        url = f"mqlites://127.0.0.1:{server.port}"
        async with (
            mq.connect(url, ca_file=certificate) as q,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(q.receive, "q")
            while not leaving.asked.is_set():
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
            leaving.left.set()

    with loopback(leaving, tls=server_side) as server:
        run(backend, main)
    assert [each.target.rpartition("/")[2] for each in server.requests] == ["Receive", "Release"]


def test_a_blocking_call_over_tls_that_is_hung_up_still_reads_its_answer(
    certificate: Path,
) -> None:
    leaving = Leaving()
    server_side, trusting = contexts(certificate)
    found: list[Any] = []
    with loopback(leaving, tls=server_side) as server:
        endpoint = parse_endpoint(f"mqlites://127.0.0.1:{server.port}")
        client = HttpSyncClient(endpoint, tls=trusting)
        asking = threading.Thread(
            target=lambda: found.extend(client.call(wire.ReceiveRequest(queue="q")).messages)
        )
        asking.start()
        assert leaving.asked.wait(BOUND_SECONDS)
        client.hang_up()
        leaving.left.set()
        asking.join(BOUND_SECONDS)
        with pytest.raises(Closed):
            client.call(wire.StatusRequest())
    assert [message.seq_number for message in found] == [7]


class Reserved:
    """A socket as uvloop shows it: to be asked, and not to be shut down."""

    def __init__(self, raw: socket.socket) -> None:
        self.family, self.type, self.fileno = raw.family, raw.type, raw.fileno

    def shutdown(self, _how: int) -> None:
        raise TypeError("transport sockets do not support shutdown() method")


def test_the_connection_is_left_also_where_the_loop_keeps_the_sockets_shutdown_to_itself() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        plain: Any = lambda: None  # noqa: E731  # anyio's stream, of which one attribute is asked
        plain.extra_attributes = {SocketAttribute.raw_socket: lambda: Reserved(ours)}
        theirs.settimeout(BOUND_SECONDS)
        theirs.sendall(b"an answer")
        assert Stream(plain, plain).shut_sending()
        assert theirs.recv(1) == b""
        assert ours.recv(9) == b"an answer"
    assert not Stream(plain, plain).shut_sending()  # closed meanwhile: nobody can be told
