"""A real HTTP server on the loopback interface that records what it is asked and answers by a
function.

For tests of clients: what arrives is judged byte by byte, and the answer can be anything, also
none. `engine_replies` puts a real engine behind it. Each connection has a thread; `close` ends them
all.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from functools import partial
from typing import BinaryIO

import msgspec
import trio

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract.calls import BY_PATH
from mqlite_actor.contract.decode import decode_request
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import run_engine

BOUND_SECONDS = 15.0


@dataclass(frozen=True)
class Recorded:
    """A request as it stood on the wire."""

    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    @property
    def call(self) -> str:
        return self.target.rpartition("/mqlite.v1.")[2].partition("?")[0]


Answer = Callable[[Recorded], bytes | None]
"""Raw reply bytes; None closes the connection without a word. An empty body keeps it open."""


def reply(status: int, content: object, *, headers: str = "", now_ms: int | None = None) -> bytes:
    """A well-formed JSON reply, of now by the broker's clock."""
    body = content if isinstance(content, bytes) else msgspec.json.encode(content)
    date = formatdate((now_ms or SystemClock().now_ms()) // 1000, usegmt=True)
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nDate: {date}\r\n{headers}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def refusal(status: int, code: str, message: str) -> bytes:
    return reply(status, {"code": code, "message": message})


class Loopback:
    """The server. `requests` grows in the order of arrival; `connections` counts accepted
    sockets."""

    def __init__(self, answer: Answer, *, tls: ssl.SSLContext | None = None) -> None:
        self.answer = answer
        self._tls = tls
        self._last_words = b""
        self.requests: list[Recorded] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def calls(self) -> list[str]:
        return [request.call for request in self.requests]

    def shut_after(self, raw: bytes) -> None:
        """Called by an answer that returns None: send these bytes before closing."""
        self._last_words = raw

    def drop_connections(self) -> None:
        """Close every socket that a client holds, as an idle timeout of a server does."""
        for connection in self._open:
            _shut(connection)

    def refuse_connections(self) -> None:
        """Close the listener: whoever connects from now on is refused by the system."""
        _shut(self._listener)
        self._listener.close()

    def close(self) -> None:
        _shut(self._listener)
        self._listener.close()
        self.drop_connections()
        for thread in self._threads:
            thread.join(BOUND_SECONDS)
            assert not thread.is_alive(), "a server thread did not end"

    def _start(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed
            connection.settimeout(BOUND_SECONDS)
            self.connections += 1
            self._open.append(connection)
            self._start(partial(self._converse, connection))

    def _converse(self, plain: socket.socket) -> None:
        try:
            connection = self._tls.wrap_socket(plain, server_side=True) if self._tls else plain
        except OSError:
            plain.close()
            return  # the client does not trust us
        with connection, connection.makefile("rb") as incoming:
            try:
                while (request := _read_request(incoming)) is not None:
                    self.requests.append(request)
                    answer = self.answer(request)
                    if answer is None:
                        connection.sendall(self._last_words)
                        return
                    connection.sendall(answer)
            except OSError:
                return  # the client left


def _read_request(incoming: BinaryIO) -> Recorded | None:
    line = incoming.readline()
    if not line:
        return None
    headers = []
    while (raw := incoming.readline().strip()) != b"":
        name, _, value = raw.decode("latin-1").partition(":")
        headers.append((name, value.strip()))
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    return Recorded(line.split()[1].decode("latin-1"), headers, incoming.read(length))


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # not connected any more


@contextmanager
def loopback(answer: Answer, *, tls: ssl.SSLContext | None = None) -> Iterator[Loopback]:
    server = Loopback(answer, tls=tls)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def engine_replies(dsn: str = ":memory:", options: EngineOptions | None = None) -> Iterator[Answer]:
    """An answer function with a real engine behind it, running in a trio thread of its own."""
    opened = threading.Event()
    rooms: list[tuple[Engine, trio.lowlevel.TrioToken]] = []

    async def main() -> None:
        try:
            async with trio.open_nursery() as nursery:
                engine = await nursery.start(run_engine, dsn, options)
                rooms.append((engine, trio.lowlevel.current_trio_token()))
                opened.set()
        finally:
            opened.set()

    thread = threading.Thread(target=trio.run, args=(main,), daemon=True)
    thread.start()
    assert opened.wait(BOUND_SECONDS)
    assert rooms, "the engine did not open"
    engine, token = rooms[0]

    def answer(request: Recorded) -> bytes:
        call = BY_PATH.get(request.target)
        if call is None:
            return refusal(404, "not_found", f"no such path: {request.target}")
        try:
            decoded = decode_request(call, request.body)
            return reply(200, trio.from_thread.run(engine.call, decoded, trio_token=token))
        except MqliteError as error:
            return refusal(error.http_status, error.code, error.message)

    try:
        yield answer
    finally:
        token.run_sync_soon(engine.close)
        thread.join(BOUND_SECONDS)
        assert not thread.is_alive(), "the engine did not close"


LAST_WORDS: dict[str, bytes | None] = {
    "refused": b"",
    "closed": None,
    "busy": refusal(503, "unavailable", "stopping"),
    "full": refusal(507, "storage_full", "full"),
    "unknown": refusal(401, "unauthenticated", "who?"),
}
"""How a repetition ends that says nothing of the first try; b"" lets it not even connect."""


@contextmanager
def fading(first: Answer, last: bytes | None) -> Iterator[Loopback]:
    """Answers the first request, does the second without a word, and ends the third like this."""
    seen: list[Recorded] = []

    def answer(request: Recorded) -> bytes | None:
        seen.append(request)
        if len(seen) == 1:
            return first(request)
        if len(seen) == 2 and last == b"":
            server.refuse_connections()
        return None if len(seen) == 2 else last

    with loopback(answer) as server:
        yield server
