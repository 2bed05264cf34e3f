"""A door of the reference server: one listening socket, HTTP/1.1, a thread for each connection.

It reads a request, hands it to the server, writes the answer in one go, and drops or cuts it when
told to. `cut` ends all connections that are open; `close` also the listener and the threads.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Protocol

from tests.hrana.faults import Answer, Dropped, Request
from tests.hrana.manners import Manners

BOUND_SECONDS: Final = 15.0
"""For connections to end after they were cut; a request that is at work ends first."""


class Behind(Protocol):
    """What a door opens to."""

    manners: Manners
    connections: int
    failures: list[BaseException]

    def handle(self, request: Request, body: bytes) -> Answer:
        """The answer to a request; Dropped when there is none."""


class Door:
    """One address of a server."""

    def __init__(self, server: Behind, number: int, tls: ssl.SSLContext | None) -> None:
        self._listener = _Listener(server, number, tls)
        self.port: int = self._listener.server_address[1]
        self._thread = threading.Thread(
            target=self._listener.listen, name=f"hrana door {number}", daemon=True
        )
        self._thread.start()

    def cut(self) -> None:
        """End the connections that are open now."""
        self._listener.cut()

    def close(self) -> None:
        """Listen no more, and wait until every connection has ended."""
        self._listener.listen_no_more()
        self._thread.join()
        self._listener.cut()
        self._listener.wait()
        self._listener.server_close()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True  # `wait` looks for their end, with a bound
    request_queue_size = 256
    timeout = 0.0  # handle_request takes who is there; `listen` knows that somebody is

    def __init__(self, behind: Behind, number: int, tls: ssl.SSLContext | None) -> None:
        self.behind = behind
        self.number = number
        self._tls = tls
        self._open: dict[socket.socket, int] = {}
        self._ended = threading.Condition()
        self._enough, self._says_enough = socket.socketpair()
        super().__init__(("127.0.0.1", 0), _Conversation)

    def listen(self) -> None:
        """Take connections until `listen_no_more`. serve_forever would look for its end now and
        then: hundreds of servers would each wait for a look, and wake up for nothing before."""
        with selectors.DefaultSelector() as selector, self._enough:
            selector.register(self, selectors.EVENT_READ)
            selector.register(self._enough, selectors.EVENT_READ)
            while all(key.fileobj is self for key, _ in selector.select()):
                self.handle_request()

    def listen_no_more(self) -> None:
        self._says_enough.close()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        if self._tls is not None:
            connection = self._tls.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        with self._ended:
            self.behind.connections += 1
            self._open[connection] = self.behind.connections
        return connection, address

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401  # as socketserver has it
        try:
            super().shutdown_request(request)
        finally:
            with self._ended:
                self._open.pop(request, None)
                self._ended.notify_all()

    def number_of(self, connection: socket.socket) -> int:
        with self._ended:
            return self._open[connection]

    def cut(self) -> None:
        with self._ended:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # its peer was faster

    def wait(self) -> None:
        with self._ended:
            is_over = self._ended.wait_for(lambda: not self._open, BOUND_SECONDS)
        assert is_over, "a request does not end"

    def handle_error(self, *_: object) -> None:
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError):  # a client may leave at any time
            self.behind.failures.append(error)


class _Conversation(BaseHTTPRequestHandler):
    server: _Listener
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        if isinstance(self.request, ssl.SSLSocket):
            self.request.do_handshake()
        super().setup()
        self._number = self.server.number_of(self.request)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        """Nobody reads a log; requests are recorded."""

    def _answer(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length)
        request = Request(
            method=self.command,
            path=self.path,
            door=self.server.number,
            connection=self._number,
            headers={name.lower(): value for name, value in self.headers.items()},
        )
        behind = self.server.behind
        try:
            answer = behind.handle(request, body)
        except Dropped:
            self.close_connection = True
            return
        is_last = not behind.manners.keeps_alive or answer.sent is not None
        self.close_connection = self.close_connection or is_last
        head = [
            f"HTTP/1.1 {answer.status} {self.responses.get(answer.status, ('Status',))[0]}",
            f"Content-Type: {answer.content_type}",
            f"Content-Length: {len(answer.body)}",
            *(f"{name}: {value}" for name, value in answer.headers.items()),
            *(["Connection: close"] if self.close_connection else []),
        ]
        text = "\r\n".join((*head, "", "")).encode()
        self.wfile.write(text + answer.body[: answer.sent])
