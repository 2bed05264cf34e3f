"""HTTP/1.1 on one connection: hypercorn's H11Protocol with its reproduced faults mended.

`Connection` hands it bytes and deadlines, it parses with h11, refuses (`door_requests`), and runs
the application once per request through hypercorn's `HTTPStream`. Two tasks call it: the
connection's feeder (parsing) and the application's (answering); `phase` says whose turn it is and
changes without an await between the parser's news and the change.
Rules: no HTTP/2 and no websocket, ever (faults.md B69). While the parser is paused behind a
running request nothing else stands still: the reader goes on reading (B64). What cannot be
recycled is closed (B61). A client that has left gets nothing new started.
"""

from __future__ import annotations

import math
from functools import partial
from http.client import responses
from typing import TYPE_CHECKING, Final

import h11
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol.events import Body, EndBody, Request, Response
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.typing import ConnectionState, LifespanState
from werkzeug.exceptions import BadRequest, HTTPException, RequestTimeout, ServiceUnavailable

from mqlite_broker.door_app import EXTENSION, Exchange
from mqlite_broker.door_intake import Intake
from mqlite_broker.door_limits import (
    BODY_LATE,
    BODY_REST_BYTES,
    HEADER_FIELDS_MAX,
    NO_ROOM,
    PARSER_EVENTS,
)
from mqlite_broker.door_requests import (
    MALFORMED,
    SAFE_METHODS,
    Refusal,
    declared_bytes,
    origin,
    refuse,
)
from mqlite_broker.door_state import Doorway, Ends, Phase
from mqlite_broker.lane_head import PREFIXES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hypercorn.trio.task_group import TaskGroup
    from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope

CLOSE: Final = (b"connection", b"close")

ENDING_STATUSES: Final = frozenset({408, 413})
"""Answers to a body that did not arrive as it should; the connection ends (spec/wire.md 1.1)."""


class DoorProtocol(H11Protocol):
    """The conversation on one connection."""

    def __init__(
        self,
        doorway: Doorway,
        task_group: TaskGroup,
        ends: Ends,
        *,
        send: Callable[[Event], Awaitable[None]],
        stir: Callable[[], None],
        hang_up: Callable[[], None],
    ) -> None:
        super().__init__(
            ASGIWrapper(doorway.app),  # not used: each stream gets `_run_app`
            doorway.config,
            doorway.context,
            task_group,
            ConnectionState(LifespanState({})),
            doorway.tls is not None,
            ends.client,
            ends.server,
            send,
        )
        self.doorway = doorway
        self.wire = h11.Connection(
            h11.SERVER, max_incomplete_event_size=doorway.limits.header_bytes_max
        )
        self.connection = self.wire
        self.exchange: Exchange | None = None
        self.is_cut = False
        self.is_leaving = False
        self.is_parked = False
        self._stir = stir
        self._hang_up = hang_up
        self._held_head = b""
        self._head_lines = 0
        self._is_for_the_lane = False
        self._intake = Intake(0, None, doorway.ingress)
        self._enter(Phase.HEAD, doorway.limits.header_seconds)

    def _enter(self, phase: Phase, seconds: float = math.inf) -> None:
        self.phase = phase
        self.since = trio.current_time()
        self.due = self.since + seconds
        self._stir()

    # -- what the connection tells -------------------------------------------------------------

    async def handle(self, event: Event) -> None:
        """Parse `RawData` as far as it goes, or learn by `Closed` that the client has left.

        Parsing pauses behind a running request. Cancelled, it may be resumed with more data.
        """
        if isinstance(event, Closed):
            await self.leave()
        elif isinstance(event, RawData) and self.phase is not Phase.OVER:
            if self.phase in (Phase.IDLE, Phase.HEAD):
                self._head_lines += event.data.count(b"\n")
            if self.wire.their_state is not h11.ERROR:  # else the rest of a broken body
                self.wire.receive_data(event.data)
                await self._handle_events()

    def expect_no_more(self) -> None:
        """The client has closed its half at least: start nothing more than a GET that is here."""
        self.is_leaving = True
        if self.exchange is not None:
            self.exchange.gone = True

    @property
    def may_finish(self) -> bool:
        """Whether a request is running whose answer could still be read, and takes nothing."""
        return self.exchange is not None and self.exchange.is_safe and self.stream is not None

    async def leave(self) -> None:
        """The client has left: cancel its handler."""
        self.expect_no_more()
        self._intake.end()
        await self._close_stream()

    def cut(self) -> None:
        """The socket is being closed under whatever runs; `leave` follows from the reader."""
        self.is_cut = True
        if self.exchange is not None:
            self.exchange.gone = True
        self.finish()

    def finish(self) -> None:
        """Nothing more will be parsed."""
        self._enter(Phase.OVER)
        self._intake.end()

    async def overdue(self) -> bool:
        """`due` has passed. False if the connection is to be closed without a word."""
        if self.phase is not Phase.BODY:
            return False
        self._fail_body(RequestTimeout(BODY_LATE))
        return True

    @property
    def has_unread(self) -> bool:
        """Whether the client may be sending still, so that a close could destroy an answer."""
        is_unfinished = self.wire.their_state in (h11.SEND_BODY, h11.ERROR)
        return is_unfinished or bool(self.wire.trailing_data[0])

    # -- requests: the feeder's side -----------------------------------------------------------

    async def _handle_events(self) -> None:
        count = 0
        while self.phase is not Phase.OVER:
            try:
                event = self.wire.next_event()
            except h11.RemoteProtocolError as error:
                await self._malformed(error)
                return
            if isinstance(event, h11.Request):
                await self._begin(event)
            elif isinstance(event, h11.Data):
                await self._body_came(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                await self._body_ended()
            elif event is h11.PAUSED:
                await self._park()
            else:
                await self._need_more()
                return
            count += 1
            if count % PARSER_EVENTS == 0:
                await trio.lowlevel.checkpoint()

    async def _park(self) -> None:
        """Wait until the running request is answered; what follows lies in h11 and the inbox."""
        self.is_parked = True
        self._stir()
        await self.can_read.clear()
        await self.can_read.wait()
        self.is_parked = False

    async def _need_more(self) -> None:
        if self.phase is Phase.IDLE and self.wire.trailing_data[0]:
            self._enter(Phase.HEAD, self.doorway.limits.header_seconds)
        if self.phase is Phase.HEAD and self._head_lines > HEADER_FIELDS_MAX:
            await self._refuse(MALFORMED[431])

    async def _begin(self, request: h11.Request) -> None:
        refusal = refuse(request)
        is_safe = request.method in SAFE_METHODS
        if refusal is not None:
            await self._refuse(refusal, has_body=request.method != b"HEAD")
        elif self.is_leaving and not is_safe:
            self.finish()
        else:
            self._head_lines = 0
            limit = self.doorway.app.config["MAX_CONTENT_LENGTH"]
            self._intake = Intake(declared_bytes(request), limit, self.doorway.ingress)
            self.exchange = Exchange(
                self._invite, self._hang_up, is_safe=is_safe, gone=self.is_leaving
            )
            self._enter(Phase.BODY, self.doorway.limits.body_seconds)
            await self._create_stream(request)

    async def _create_stream(self, request: h11.Request) -> None:
        """Start the application; whatever `Upgrade` says, this is an ordinary request."""
        assert self.exchange is not None
        target = origin(request)
        assert target is not None, "refused before"
        is_call = target.path.startswith(PREFIXES)
        self._is_for_the_lane = self.doorway.has_lane and is_call
        headers = list(request.headers)
        if target.authority is not None:  # it outranks the Host field (RFC 9112, 3.2.2)
            headers = [field for field in headers if field[0] != b"host"]
            headers.append((b"host", target.authority))
        self.stream = HTTPStream(
            partial(self._run_app, self.exchange),
            self.config,
            self.context,
            self.task_group,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            STREAM_ID,
        )
        await self.stream.handle(
            Request(
                stream_id=STREAM_ID,
                headers=headers,
                http_version=request.http_version.decode("ascii"),
                method=request.method.decode("ascii").upper(),
                raw_path=target.path,
                state=self.connection_state,
            )
        )

    async def _run_app(
        self,
        exchange: Exchange,
        scope: HTTPScope,
        receive: ASGIReceiveCallable,
        send: ASGISendCallable,
        *_threads: object,
    ) -> None:
        scope["extensions"][EXTENSION] = {"exchange": exchange}
        await self.doorway.app(scope, receive, send)

    async def _body_came(self, data: bytes) -> None:
        is_wanted = self.exchange is not None and self.exchange.failure is None
        if not (self._intake.keeps(data) and is_wanted):
            return
        if not await self._intake.admit(self.due) and self.phase is Phase.BODY:
            self._fail_body(ServiceUnavailable(NO_ROOM))
        elif self.stream is not None:
            await self.stream.handle(Body(stream_id=STREAM_ID, data=data))

    async def _body_ended(self) -> None:
        if self.phase is Phase.REST:
            await self._recycle()
            return
        if self.phase is Phase.BODY:
            self._enter(Phase.ANSWER)
        if self.stream is not None:
            await self.stream.handle(EndBody(stream_id=STREAM_ID))

    def _fail_body(self, error: HTTPException) -> None:
        """Let the application answer for a body that will never be whole."""
        if self.exchange is not None:
            self.exchange.fail(error)
        self._enter(Phase.ANSWER)

    async def _malformed(self, error: h11.RemoteProtocolError) -> None:
        if self.phase is Phase.ANSWER:
            return  # bytes behind the last request of a connection: they are nobody's
        if self.phase is Phase.BODY:
            self._fail_body(BadRequest("malformed chunked body"))
        elif self.wire.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            await self._refuse(MALFORMED.get(error.error_status_hint, MALFORMED[400]))
        else:
            await self.send(Closed())

    async def _refuse(self, refusal: Refusal, *, has_body: bool = True) -> None:
        text = refusal.text()
        fields = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(text)).encode()),
            CLOSE,
        ]
        await self._send_h11_event(self._head(refusal.status, fields))
        if has_body:
            await self._send_h11_event(h11.Data(data=text))
        await self._send_h11_event(h11.EndOfMessage())
        await self.send(Closed())

    # -- answers: the application's side -------------------------------------------------------

    async def _invite(self) -> None:
        """Say 100 Continue to a client that waits for it; nothing otherwise."""
        if self.wire.they_are_waiting_for_100_continue and not self.is_cut:
            invitation = self.wire.send(h11.InformationalResponse(status_code=100, headers=[]))
            await self.send(RawData(invitation))

    async def stream_send(self, event: StreamEvent) -> None:
        """Write what the application answers, and recycle or close the connection at its end."""
        if isinstance(event, Response):
            await self._send_h11_event(self._head(event.status_code, event.headers))
            return
        exchange = self.exchange
        await super().stream_send(event)
        if isinstance(event, EndBody) and exchange is not None:
            exchange.delivered = exchange.begun and not self.is_cut

    def _head(self, status: int, fields: list[tuple[bytes, bytes]]) -> h11.Response:
        """The head of an answer, with Date and, if it is the last one, `Connection: close`."""
        if status == 204:  # it has no length (RFC 9110, 8.6); Quart gives it one
            fields = [field for field in fields if field[0].lower() != b"content-length"]
        if self._ends_with(status):
            fields = [field for field in fields if field[0].lower() != b"connection"]
            fields.append(CLOSE)
        return h11.Response(
            status_code=status,
            reason=responses.get(status, ""),
            headers=[*fields, *self.config.response_headers("h11")],
        )

    def _ends_with(self, status: int) -> bool:
        """Whether this answer is the last one on the connection.

        One to a call is, if there is a lane: a client, or a proxy's pool, that comes back is
        served there.
        """
        if self.doorway.stopping.is_set() or self.is_leaving or status in ENDING_STATUSES:
            return True
        if self._is_for_the_lane:
            return True
        if self.wire.their_state is not h11.SEND_BODY:
            return self.wire.their_state is h11.ERROR
        is_uninvited = self.wire.they_are_waiting_for_100_continue
        has_failed = self.exchange is None or self.exchange.failure is not None
        return is_uninvited or has_failed or self._intake.rest > BODY_REST_BYTES

    async def _send_h11_event(
        self, event: h11.Response | h11.Data | h11.EndOfMessage | h11.InformationalResponse
    ) -> None:
        """Write an event; the head of an answer of known length leaves with its first bytes.

        After the application broke a rule of HTTP/1.1 (LocalProtocolError, raised once and
        logged) nothing more can be said, and the connection is closed when the application ends.
        """
        if self.wire.our_state is h11.ERROR:
            return
        data = self._held_head + self.wire.send(event)
        self._held_head = b""
        if isinstance(event, h11.Response) and b"content-length" in dict(event.headers):
            self._held_head = data
        elif data:
            if self.exchange is not None and not self.is_cut:
                self.exchange.begun = True
            await self.send(RawData(data))

    async def _maybe_recycle(self) -> None:
        self._intake.end()
        await self._close_stream()
        ends_here = self.is_leaving or self.is_cut or self.doorway.stopping.is_set()
        theirs = self.wire.their_state
        if ends_here or self.wire.our_state is not h11.DONE:
            await self.send(Closed())
        elif theirs is h11.DONE:
            await self._recycle()
        else:
            self.phase, self.since = Phase.REST, trio.current_time()  # keeping the body's deadline

    async def _recycle(self) -> None:
        if self.doorway.stopping.is_set():
            await self.send(Closed())
            return
        self.wire.start_next_cycle()
        self.exchange = None
        self._enter(Phase.IDLE, self.doorway.limits.idle_seconds)
        await self.can_read.set()
        self.doorway.stirred()
