"""The application's half of the door: a QuartTrio that knows its connections.

`app.py` builds a `DoorApp` and returns `DoorResponse`s; `door_protocol` makes one `Exchange` for
each request and hands it over in the ASGI scope. Under Quart's test client there is no exchange,
and an answer counts as delivered when it was written out.
Rules: the end of an answered request never cancels the task that still closes the connection
(faults.md B61, B62); `undelivered` is awaited once, or not at all; the client is invited to send
its body (100 Continue) when the application asks for the body, hence after authentication and
routing.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Final

import trio
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope
from quart import Quart, has_request_context
from quart import request as current_request
from quart.wrappers import Request
from quart_trio import QuartTrio
from quart_trio.asgi import TrioASGIHTTPConnection
from quart_trio.wrappers import TrioRequest, TrioResponse
from quart_trio.wrappers.request import TrioBody
from werkzeug.exceptions import HTTPException

from mqlite_actor.logs import logger
from mqlite_broker.door_answers import Room
from mqlite_broker.door_limits import HANDBACK_SECONDS

log = logger("mqlite.door")

EXTENSION: Final = "mqlite.door"
"""Key of `scope["extensions"]`; its value is `{"exchange": Exchange}`."""

LOOP_PASSES: Final = 3
"""A connection's reader learns of an end that the kernel already knows in the first pass of the
event loop, may still finish an earlier read in the second, and has told us after the third."""

Undelivered = Callable[[bool], Awaitable[None]]


class Exchange:
    """One request and its answer, as the connection and the application both see them.

    `gone`: the client has left, or the door has cut it. `begun`: the first byte of the answer was
    offered to the socket. `delivered`: the socket accepted the last one. `failure`: why the body
    will never be complete.
    """

    __slots__ = (
        "_body", "begun", "delivered", "failure", "gone", "hang_up", "invite", "is_safe", "room",
    )  # fmt: skip

    def __init__(
        self,
        invite: Callable[[], Awaitable[None]],
        hang_up: Callable[[], None] | None = None,
        *,
        is_safe: bool = False,
        gone: bool = False,
    ) -> None:
        self.invite = invite
        self.hang_up = hang_up
        self.room: Room | None = None
        self.is_safe = is_safe
        self.gone = gone
        self.begun = False
        self.delivered = False
        self.failure: HTTPException | None = None
        self._body: DoorBody | None = None

    def bind(self, body: DoorBody) -> None:
        """Tie the request's body to this exchange; called once, before the handler runs."""
        self._body = body
        body.invite = self.invite
        if self.failure is not None:
            body.fail(self.failure)

    def hold(self, room: Room | None) -> None:
        """Keep the place of a large answer until `leave_room`."""
        self.room = room
        if room is not None:
            room.cut = self.hang_up

    def leave_room(self) -> None:
        """The answer is written, or given up."""
        if self.room is not None:
            self.room.end()

    def fail(self, error: HTTPException) -> None:
        """Have `error` raised where the application awaits the body, now or later."""
        self.failure = error
        if self._body is not None:
            self._body.fail(error)


class DoorBody(TrioBody):
    """A body that invites its client to send it, and that can fail.

    Whoever reads it gets the bytes, or `RequestEntityTooLarge`, or what the door knows: 408 late,
    400 malformed, 503 no room. Cancelled while reading, nothing is left behind.
    """

    invite: Callable[[], Awaitable[None]] | None = None

    def fail(self, error: HTTPException) -> None:
        """Let every reader raise `error`, unless the body is complete or has failed before."""
        if self._must_raise is None and not self._complete.is_set():
            self._must_raise = error
            self.set_complete()

    def __await__(self) -> Generator[Any, None, Any]:  # the parent's signature has these Any
        yield from self._ask().__await__()
        return (yield from super().__await__())

    async def __anext__(self) -> bytes:
        await self._ask()
        return await super().__anext__()

    async def _ask(self) -> None:
        if self.invite is not None and self._must_raise is None:
            await self.invite()


class DoorRequest(TrioRequest):
    """A request with a `DoorBody`."""

    body_class = DoorBody
    exchange: Exchange


class DoorResponse(TrioResponse):
    """A response that can take back what nobody got.

    `undelivered(begun)` is awaited once, shielded and for at most HANDBACK_SECONDS, if the whole
    answer could not be handed to the socket. `begun` is false when the client's leaving, or a
    cut, was seen before the first byte was offered, and true when a write had begun. It is not
    awaited after a complete write, nor when the handler was cancelled before it returned this
    response.
    """

    undelivered: Undelivered | None = None


class AppConnection(TrioASGIHTTPConnection):
    """One request inside the application: the body flows in, the answer flows out."""

    def __init__(self, app: Quart, scope: HTTPScope) -> None:
        super().__init__(app, scope)
        extension = (scope.get("extensions") or {}).get(EXTENSION)
        self.has_door = extension is not None
        self.exchange: Exchange = extension["exchange"] if extension else Exchange(_no_invitation)

    def _create_request_from_scope(self, send: ASGISendCallable) -> Request:
        request = super()._create_request_from_scope(send)
        if isinstance(request, DoorRequest):
            request.exchange = self.exchange
        if isinstance(request.body, DoorBody):
            self.exchange.bind(request.body)
        return request

    @trio.lowlevel.enable_ki_protection
    async def handle_messages(  # type: ignore[override]  # quart-trio adds the nursery
        self, nursery: trio.Nursery, request: Request, receive: ASGIReceiveCallable
    ) -> None:
        """Feed the body; cancel the handler if its client leaves before the answer is out.

        The server also says http.disconnect after an ordinary answer, from the very task that is
        about to close or recycle the connection: cancelling then would leave the socket open for
        ever.
        """
        while True:
            message = await receive()
            if message["type"] == "http.request":
                request.body.append(message["body"])
                if not message["more_body"]:
                    request.body.set_complete()
            elif message["type"] == "http.disconnect":
                if not self.exchange.delivered:
                    nursery.cancel_scope.cancel()
                return

    @trio.lowlevel.enable_ki_protection
    async def handle_request(  # type: ignore[override]  # quart-trio adds the nursery
        self, nursery: trio.Nursery, request: Request, send: ASGISendCallable
    ) -> None:
        """Run the handler and hand its answer to the socket, or hand it back.

        RESPONSE_TIMEOUT does not apply: the door bounds each write instead, and an answer may be
        long.
        """
        try:
            await self._answer(request, send)
        finally:
            self.exchange.leave_room()
        nursery.cancel_scope.cancel()

    async def _answer(self, request: Request, send: ASGISendCallable) -> None:
        response = await self.app.handle_request(request)
        undelivered = response.undelivered if isinstance(response, DoorResponse) else None
        try:
            if undelivered is None or not await self._has_left():
                await self._send_response(send, response)
                self.exchange.delivered |= not self.has_door
        finally:
            if undelivered is not None and not self.exchange.delivered:
                await hand_back(undelivered, begun=self.exchange.begun)

    async def _has_left(self) -> bool:
        """Whether anything says that nobody waits for the answer any more."""
        with trio.CancelScope(shield=True):
            for _ in range(LOOP_PASSES):
                await trio.lowlevel.checkpoint()
        return self.exchange.gone or trio.current_effective_deadline() == -math.inf


async def hand_back(undelivered: Undelivered, *, begun: bool) -> None:
    """Await `undelivered`, shielded and for at most HANDBACK_SECONDS; what it raises is logged."""
    with trio.move_on_after(HANDBACK_SECONDS, shield=True) as patience:
        try:
            await undelivered(begun)
        except Exception:
            log.exception("an undelivered answer could not be handed back")
    if patience.cancelled_caught:
        log.error("handing back an undelivered answer took over %s s", HANDBACK_SECONDS)


async def _no_invitation() -> None:
    """Without a door nobody waits for 100 Continue."""


class DoorApp(QuartTrio):
    """The Quart application that the door serves; errors are logged once, to "mqlite.door"."""

    asgi_http_class = AppConnection
    request_class = DoorRequest
    response_class = DoorResponse

    def __init__(self, import_name: str, **options: Any) -> None:  # noqa: ANN401  # Quart's own
        super().__init__(import_name, **options)
        # The door keeps both: a body has one absolute deadline, and a write must make progress.
        self.config.update(BODY_TIMEOUT=None, RESPONSE_TIMEOUT=None)

    def log_exception(
        self,
        exception_info: tuple[type, BaseException, TracebackType] | tuple[None, None, None],
    ) -> None:
        """Log what a handler raised; the path is quoted, so that it cannot forge a line."""
        where = "outside a request"
        if has_request_context():
            where = f"{current_request.method} {current_request.path!r}"
        log.error("an error escaped from %s", where, exc_info=exception_info)
