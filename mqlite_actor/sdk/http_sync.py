"""The light HTTP client: blocking, on the standard library's `http.client`, without trio, httpcore
or apsw.

Used by the command line and by `connect_sync`; calls `exchange` for what the bytes mean. Importing
it must stay cheap (ruling R48); a test holds that. Rules: every wait has an absolute deadline, so a
server that drips bytes cannot hold a caller. A request is sent again in one case only: the socket
was an idle one, it turned out to be dead before a single byte of a reply, and the repeat is
harmless (`exchange.is_repeatable`). Redirects and the environment's proxies are not followed, so
the credential goes to the address that was named and nowhere else.
"""

from __future__ import annotations

import http.client
import selectors
import socket
import ssl
import threading
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from mqlite_actor.clock import Clock, SystemClock
from mqlite_actor.contract.errors import Closed, Internal, InvalidArgument, MqliteError, Unavailable
from mqlite_actor.contract.wire import Request
from mqlite_actor.sdk import exchange
from mqlite_actor.sdk.address import Dial, Endpoint, dial
from mqlite_actor.sdk.http_clock import BrokerClock
from mqlite_actor.sdk.timed_socket import TimedSocket

R = TypeVar("R")

CONNECT_SECONDS = 5.0
"""For each address of the host, and for a TLS handshake: well over any round trip, short for a
person."""

IDLE_CONNECTIONS_MAX = 4
"""Connections kept for the next call. A few threads share a client; more would only hold
descriptors."""


class HttpSyncClient:
    """Calls to one broker, over connections that are kept alive. Safe to share between threads.

    Each call in flight has a connection of its own. `token` None takes the endpoint's own
    credential, "" sends none; `patience_seconds` bounds a reply beyond what the request itself asks
    the broker to wait.
    """

    __slots__ = (
        "_broker_clock", "_busy", "_clock", "_closed", "_connect_seconds", "_dial", "_endpoint",
        "_idle", "_lock", "_patience_seconds", "_tls", "_token",
    )  # fmt: skip

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        token: str | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        patience_seconds: float | None = None,
        tls: ssl.SSLContext | None = None,
        clock: Clock | None = None,
        broker_clock: BrokerClock | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._dial = dial(endpoint)
        self._token = endpoint.token if token is None else token
        self._connect_seconds = connect_seconds
        self._patience_seconds = patience_seconds
        self._tls = tls
        self._clock = clock or SystemClock()
        self._broker_clock = broker_clock or BrokerClock(self._clock)
        self._lock = threading.Lock()
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()
        self._closed = False

    def call(self, request: Request[R], *, reply_seconds: float | None = None) -> R:
        """The broker's response, or the contract's error raised.

        Unavailable: the broker could not be reached, or nothing was done. OutcomeUnknown: the
        request of a write went out and its reply was lost, and a repetition, where it is harmless,
        brought none. `reply_seconds` replaces the usual bound on the reply (the request's own wait
        and 30 s). An interrupt leaves the outcome open and the client usable.
        """
        parts = exchange.to_http(request, token=self._token)
        if reply_seconds is None:
            reply_seconds = exchange.reply_seconds(request, self._patience_seconds)
        idle = self._take_idle()
        if idle is None:
            return self._ask_anew(request, parts, reply_seconds)
        try:
            return self._ask(idle, request, parts, reply_seconds)
        except _Lost as lost:
            if not (lost.is_dead_socket and exchange.is_repeatable(request)):
                raise self._explained(request, lost) from lost
            is_doubtful = lost.is_sent
        try:
            return self._ask_anew(request, parts, reply_seconds)
        except MqliteError as error:
            unknown = exchange.unknown_since(request, error) if is_doubtful else None
            if unknown is None:
                raise
            raise unknown from error

    def twin(self) -> HttpSyncClient:
        """Another client of the same broker with the same credential, and connections of its
        own."""
        return HttpSyncClient(
            self._endpoint,
            token=self._token,
            connect_seconds=self._connect_seconds,
            patience_seconds=self._patience_seconds,
            tls=self._tls,
            clock=self._clock,
            broker_clock=self._broker_clock,
        )

    def now_ms(self) -> int | None:
        """The broker's time, early rather than late; None before it was told by an answer."""
        return self._broker_clock.told_ms()

    def reached_ms(self) -> int | None:
        """The time that it is at the broker at least; None before it was told by an answer."""
        return self._broker_clock.reached_ms()

    def close(self) -> None:
        """Close the idle connections; a call in flight ends by itself, later calls raise Closed."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def hang_up(self) -> None:
        """Close, and let the broker see that nobody waits any more: a claim that it has not begun
        to answer goes back. An answer that is under way is still read by whoever made the call.
        From any thread."""
        self._end_calls(socket.SHUT_WR)

    def cut(self) -> None:
        """Close, and end calls in flight at once, whatever becomes of them. From any thread."""
        self._end_calls(socket.SHUT_RDWR)

    def _end_calls(self, how: int) -> None:
        self.close()
        with self._lock:
            for connection in self._busy:
                connection.shut(how)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _ask_anew(self, request: Request[R], parts: exchange.HttpParts, seconds: float) -> R:
        """Over a connection that is made for it."""
        try:
            return self._ask(self._connect(), request, parts, seconds)
        except _Lost as lost:
            raise self._explained(request, lost) from lost

    def _ask(
        self,
        connection: _Connection,
        request: Request[R],
        parts: exchange.HttpParts,
        seconds: float,
    ) -> R:
        is_kept = False
        try:
            self._begin(connection)
            started = self._broker_clock.start()
            reply = connection.round_trip(self._dial.target(parts.path), parts, seconds)
            self._broker_clock.heard(reply.date, started)
            is_kept = reply.is_kept
        finally:
            if not self._end(connection, is_kept=is_kept):
                connection.close()
        return exchange.from_http(request, status=reply.status, content=reply.content)

    def _take_idle(self) -> _Connection | None:
        while True:
            with self._lock:
                if self._closed:
                    raise Closed("this client was closed")
                connection = self._idle.pop() if self._idle else None
            if connection is None or connection.is_quiet():
                return connection
            connection.close()

    def _begin(self, connection: _Connection) -> None:
        """From here on `hang_up` and `cut` reach the connection."""
        with self._lock:
            if self._closed:
                raise Closed("this client was closed")
            self._busy.add(connection)

    def _end(self, connection: _Connection, *, is_kept: bool) -> bool:
        """Whether the connection is kept for the next call."""
        with self._lock:
            self._busy.discard(connection)
            if not is_kept or self._closed or len(self._idle) >= IDLE_CONNECTIONS_MAX:
                return False
            self._idle.append(connection)
            return True

    def _connect(self) -> _Connection:
        place = self._dial
        try:
            plain = socket.create_connection((place.host, place.port), self._connect_seconds)
        except OSError as error:
            raise self._unreachable(_reason(error)) from error
        except UnicodeError as error:
            raise InvalidArgument(f"{self._endpoint.shown}: no host has such a name") from error
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # some calls wait for days
            return _Connection(self._wrapped(plain), place, self._clock)
        except OSError as error:
            plain.close()
            raise self._unreachable(_reason(error)) from error

    def _wrapped(self, plain: socket.socket) -> socket.socket:
        if not self._dial.is_tls:
            return plain
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls.wrap_socket(plain, server_hostname=self._dial.host)

    def _unreachable(self, reason: str) -> MqliteError:
        return Unavailable(f"cannot connect to {self._endpoint.shown}: {reason}")

    def _explained(self, request: Request[R], lost: _Lost) -> MqliteError:
        reason = f"{self._endpoint.shown} {lost.reason}"
        if lost.is_sent:
            return exchange.lost_reply(request, reason)
        return Unavailable(f"{reason}; the request did not go out whole, so nothing was done")


# -- one connection --------------------------------------------------------------------------------


class _Reply(NamedTuple):
    status: int
    content: bytes
    date: str
    is_kept: bool


class _Lost(Exception):
    """No whole reply came. `is_sent`: the request went out whole, so it may have been done."""

    def __init__(self, reason: str, *, is_sent: bool, is_dead_socket: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_sent = is_sent
        self.is_dead_socket = is_dead_socket


class _Connection:
    """One socket and the HTTP conversation on it; closed by its owner alone."""

    __slots__ = ("_http", "_place", "_raw", "_wire")

    def __init__(self, raw: socket.socket, place: Dial, clock: Clock) -> None:
        self._raw = raw
        self._place = place
        self._wire = TimedSocket(raw, clock)
        self._http = http.client.HTTPConnection(place.host, place.port)
        self._http.auto_open = 0  # a dead socket is ours to replace, never http.client's
        self._http.sock = self._wire

    def close(self) -> None:
        self._http.close()
        self._raw.close()

    def shut(self, how: int) -> None:
        """Shut one or both directions of a conversation that another thread leads.

        Below TLS: its own `shutdown` would also end the decryption of what is still read.
        """
        try:
            socket.socket.shutdown(self._raw, how)
        except OSError:
            return  # it has ended by itself

    def is_quiet(self) -> bool:
        """Whether an idle socket is still good: the other side neither closed it nor spoke
        unasked."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._raw, selectors.EVENT_READ)
            return not selector.select(0)

    def round_trip(self, target: str, parts: exchange.HttpParts, seconds: float) -> _Reply:
        """Send the request and read the whole reply, or raise _Lost."""
        self._wire.start(seconds)
        is_sent = self._send(target, parts)
        try:
            response = self._http.getresponse()
            content = self._read(response)
        except TimeoutError as error:
            reason = (
                f"is out of reach ({error.strerror})"  # the system's word, not our deadline
                if error.errno
                else f"gave no whole answer within {seconds:g} s"
            )
            raise _Lost(reason, is_sent=is_sent) from error
        except (OSError, http.client.HTTPException) as error:
            is_unanswered = self._wire.received == 0
            reason = (
                "closed the connection without an answer"
                if is_unanswered
                else f"broke off in the middle of its answer ({_reason(error)})"
            )
            raise _Lost(reason, is_sent=is_sent, is_dead_socket=is_unanswered) from error
        date, is_kept = response.getheader("Date", ""), is_sent and not response.will_close
        return _Reply(response.status, content, date, is_kept=is_kept)

    def _send(self, target: str, parts: exchange.HttpParts) -> bool:
        """Whether all of it went out. A server may refuse, and answer, before it has read
        everything."""
        headers = {"Host": self._place.host_header, **parts.headers}
        try:
            self._http.request("POST", target, parts.body, headers)
        except TimeoutError as error:
            raise _Lost("stopped reading the request", is_sent=False) from error
        except OSError:
            return False  # whether there is an answer to read, round_trip finds out
        return True

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        content = response.read(exchange.REPLY_BYTES_MAX + 1)
        if len(content) > exchange.REPLY_BYTES_MAX:
            raise Internal(f"a reply of more than {exchange.REPLY_BYTES_MAX} bytes is no broker's")
        # http.client takes the end of the stream for the end of the headers, and of a body without
        # a length. A reply of the contract is an object, so an open-ended one must at least close.
        is_open_ended = response.length is None and not response.chunked
        is_cut = is_open_ended and response.status < 300 and not content.rstrip().endswith(b"}")
        if response.length or is_cut:
            raise http.client.IncompleteRead(content, response.length or 1)
        return content


def _reason(error: Exception) -> str:
    """The system's words for a failure, without its number."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate does not verify: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
