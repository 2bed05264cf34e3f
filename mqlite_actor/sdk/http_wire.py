"""Sockets for the HTTP handle: one network for trio and asyncio, which knows how far a call has
got.

Called by httpcore's pool on behalf of `http_async`; calls anyio. httpcore says that a request
failed, not whether it had gone out; a `Trip` is what its sockets noticed: connected anew or not,
all written, anything read. It is found by a context variable, because the pool decides which socket
a request gets. Rule: foreign errors become httpcore's here, with the system's words.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import ssl
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

import anyio
import httpcore
import trio
from anyio.abc import ByteStream, SocketAttribute, SocketStream
from anyio.streams.tls import TLSAttribute, TLSStream

from mqlite_actor.contract.errors import InvalidArgument

SocketOption = (
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
)

LEAVE_SECONDS = 2.0
"""For the answer to a call that was given up. A broker that is slower leaves the lease to end."""


class Trip:
    """How far one request has got. `is_repeatable`: it may go out whole a second time."""

    __slots__ = (
        "is_doubtful", "is_left", "is_new", "is_repeatable", "is_sent", "is_written", "received",
        "scope", "stream",
    )  # fmt: skip

    def __init__(self, *, is_repeatable: bool) -> None:
        self.is_repeatable = is_repeatable
        self.is_doubtful = False  # an earlier try of it may have been done
        self.is_new = False  # its connection was made for it
        self.is_written = True  # no write has failed
        self.is_sent = False  # reading began, so everything was written
        self.received = 0
        self.is_left = False
        self.stream: Stream | None = None
        self.scope: anyio.CancelScope | None = None

    @property
    def is_dead_socket(self) -> bool:
        """An idle connection that the other side had closed: nothing was read on it."""
        return not self.is_new and self.received == 0

    @property
    def may_restart(self) -> bool:
        """Whether the request goes out again, on another connection."""
        is_harmless = self.is_repeatable or not self.is_sent
        return self.is_dead_socket and is_harmless and not self.is_left

    def restart(self) -> None:
        """The request goes out again, on another connection."""
        self.is_doubtful = self.is_sent
        self.is_written, self.is_sent, self.stream = True, False, None

    def leave(self) -> None:
        """Nobody waits for the answer any more: tell the broker, and take what may already be on
        its way for some seconds. Given up at once where nothing was written, or nobody can be
        told."""
        self.is_left = True
        if self.scope is None:
            return
        stream = self.stream if self.stream is not None and self.stream.trip is self else None
        is_told = stream is not None and (not self.is_sent or stream.shut_sending())
        until = anyio.current_time() + (LEAVE_SECONDS if is_told else 0)
        self.scope.deadline = min(self.scope.deadline, until)


under_way: ContextVar[Trip | None] = ContextVar("mqlite_http_trip", default=None)
"""The request on whose behalf this task uses a socket."""


class Network(httpcore.AsyncNetworkBackend):
    """Connections over anyio, so that one text serves both kinds of loop."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """As httpcore asks for it; neither a local address nor options are used here."""
        assert local_address is None, "the pool is made without one"
        assert socket_options is None, "the pool is made without them"
        trip = under_way.get()
        if trip is not None:
            trip.is_new = True
        try:
            with anyio.fail_after(timeout):
                stream = await anyio.connect_tcp(host, port)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout("timed out") from error
        except OSError as error:
            raise httpcore.ConnectError(reason_of(error)) from error
        except UnicodeError as error:
            raise InvalidArgument(f"{host!r}: no host has such a name") from error
        raw = stream.extra_attributes[SocketAttribute.raw_socket]()
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # some calls wait for days
        return Stream(stream, stream)


class Stream(httpcore.AsyncNetworkStream):
    """One connection: `_plain` is its socket, `_top` the same or the TLS around it."""

    __slots__ = ("_is_half", "_plain", "_top", "trip")

    def __init__(self, plain: SocketStream, top: ByteStream) -> None:
        self._is_half = False
        self.trip: Trip | None = None  # whose request is, or was last, on it
        self._plain = plain
        self._top = top

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        assert timeout is None, "the deadline of a call is absolute"
        trip = under_way.get()
        if trip is not None:
            trip.is_sent = trip.is_written
            if trip.is_left and not self._is_half:  # left while it was still being written
                trip.leave()
        try:
            data = await self._top.receive(max_bytes)
        except anyio.EndOfStream:
            return b""
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            raise httpcore.ReadError(reason_of(error)) from error
        if trip is not None:
            trip.received += len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        assert timeout is None, "the deadline of a call is absolute"
        trip = under_way.get()
        if trip is not None:
            trip.stream, self.trip = self, trip
        try:
            if buffer:
                await self._top.send(buffer)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            if trip is not None:
                trip.is_written = False
            raise httpcore.WriteError(reason_of(error)) from error

    async def aclose(self) -> None:
        await self._top.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """TLS on top; a refusal says why."""
        try:
            with anyio.fail_after(timeout):
                top = await TLSStream.wrap(
                    self._plain,
                    hostname=server_hostname,
                    ssl_context=ssl_context,
                    server_side=False,
                    standard_compatible=False,  # HTTP has its own ends of messages
                )
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(self._plain)
            if isinstance(error, TimeoutError):
                raise httpcore.ConnectTimeout("timed out") from error
            if isinstance(error, OSError | anyio.BrokenResourceError | anyio.EndOfStream):
                raise httpcore.ConnectError(reason_of(error)) from error
            raise
        return Stream(self._plain, top)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401  # httpcore's signature
        """What httpcore wants to know: TLS's choice of protocol, and whether an idle socket is of
        no use any more, because it was closed, speaks unasked, or is closed on our side."""
        if info == "ssl_object" and isinstance(self._top, TLSStream):
            return self._top.extra_attributes[TLSAttribute.ssl_object]()
        if info == "is_readable":
            return self._is_half or _is_readable(self._plain)
        return None

    def shut_sending(self) -> bool:
        """Close our half, so that the broker sees us leave; False where that is not possible.

        With TLS it is the socket's half: to a server that is the end as much as a word of TLS, and
        what it had sent before can still be read. Some loops keep a socket's `shutdown` to
        themselves, so it is done through another descriptor of the same socket.
        """
        raw = self._plain.extra_attributes[SocketAttribute.raw_socket]()
        try:
            with socket.fromfd(raw.fileno(), raw.family, raw.type) as twin:
                twin.shutdown(socket.SHUT_WR)
        except OSError:
            return False
        self._is_half = True
        return True


def _is_readable(stream: SocketStream) -> bool:
    """Whether an idle socket was closed, or speaks unasked: either way it is of no use."""
    raw = stream.extra_attributes[SocketAttribute.raw_socket]()
    if raw.fileno() < 0:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(raw.fileno(), selectors.EVENT_READ)
        return bool(selector.select(0))


def current_loop() -> object:
    """What identifies the loop this code runs in; None outside of any."""
    if trio.lowlevel.in_trio_run():
        return trio.lowlevel.current_trio_token()
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def reason_of(error: BaseException) -> str:
    """The system's words for a failure, without its number."""
    cause = error.__cause__
    if isinstance(cause, ExceptionGroup):  # several addresses were tried
        cause = cause.exceptions[0]
    if isinstance(cause, OSError):
        error = cause
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate does not verify: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or "the connection broke"
