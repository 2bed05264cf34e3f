"""The application: a path becomes a call, a body its request, an answer its JSON.

`serve.py` builds it around an engine and hands it to the door. Every request passes the same checks
in the contract's order (spec/wire.md 1.2): preflight, open path, credential, route, right, method,
body, operation. An error is an exception of the contract's tree, turned into its envelope at one
place (`_answer`); anything unexpected is logged once and becomes a 500 that says nothing.
"""

from __future__ import annotations

import logging
from functools import partial
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
import trio
from quart import Request, Response
from quart.ctx import RequestContext
from werkzeug.exceptions import HTTPException

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.calls import BY_PATH, CALLS, PREFIX, Call
from mqlite_actor.contract.decode import decode_request
from mqlite_actor.contract.errors import (
    Canceled,
    Internal,
    InvalidArgument,
    MessageTooLarge,
    MqliteError,
    NotFound,
    PermissionDenied,
    Unavailable,
    Unimplemented,
)
from mqlite_actor.contract.keys import Right
from mqlite_actor.contract.observe import ObserveRequest, ObserveResponse
from mqlite_actor.engine.engine import Engine
from mqlite_broker import metrics, pages
from mqlite_broker.access_log import Entry
from mqlite_broker.auth import Access, Authenticator, check_origin
from mqlite_broker.door_app import DoorApp, DoorResponse
from mqlite_broker.settings import Settings
from mqlite_broker.traffic import Traffic

R = TypeVar("R")

_log = logging.getLogger("mqlite.broker")
_encode = msgspec.json.Encoder(order="deterministic").encode

METRICS: Final = "/metrics"

PATH_CHARACTERS: Final = 200
"""How much of an unknown path its 404 repeats."""

JSON: Final = "application/json"

PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "86400",
}


class Envelope(msgspec.Struct, frozen=True):
    """The body of every failure."""

    code: str
    message: str


class BrokerApp(DoorApp):
    """One broker's HTTP face. `served`: the calls that the engine answers, in the card's order."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        super().__init__("mqlite_broker", static_folder=None)
        self.config["MAX_CONTENT_LENGTH"] = limits.REQUEST_BYTES_MAX
        self.engine = engine
        self.settings = settings
        self.authenticator = Authenticator(
            settings.tokens, settings.monitor_tokens, engine.authenticate
        )
        self.served = tuple(call for call in CALLS if call.request in engine.served)
        self._calls = {path: call for path, call in BY_PATH.items() if call in self.served}
        self._card = pages.card(
            self.served,
            is_auth_on=self.authenticator.is_on,
            has_metrics=settings.has_metrics,
            docs_url=settings.docs_url,
        )
        self.traffic = Traffic()
        self._scrapes = trio.CapacityLimiter(1)
        self._pages: dict[str, tuple[bytes, str]] = {
            "/": (self._card, JSON),
            "/healthz": (pages.HEALTH, "text/plain; charset=utf-8"),
        }
        self._guards_origin = settings.tokens is None and settings.is_loopback

    async def dispatch_request(self, request_context: RequestContext | None = None) -> Response:
        """Quart's door into the application; its own routing is not used."""
        assert request_context is not None, "Quart always passes it"
        return await self._answer(request_context.request)

    # -- the frame around every request ------------------------------------------------------------

    async def _answer(self, current: Request) -> Response:
        path = _path(current)
        if self.settings.cors and current.method == "OPTIONS":
            if path == "*":  # of the server as a whole: no page asks that
                return _plain(b"", HTTPStatus.OK, "")
            return self._with_cors(_plain(b"", HTTPStatus.NO_CONTENT, "", PREFLIGHT))
        call = self._calls.get(path)
        name = path.removeprefix(PREFIX) if call is None else call.name
        entry = Entry(name, call, trio.current_time())
        try:
            response = await self._serve(current, path, entry)
        except MqliteError as error:
            response = _failure(entry, error.http_status, error.code, error.message)
        except HTTPException as error:
            response = self._refused_body(entry, error)
        except trio.Cancelled:
            entry.code = Canceled.code
            self._note(entry, Canceled.http_status)
            raise
        except Exception:  # noqa: BLE001  # logged, and the broker serves on (faults B96)
            _log.exception("a request failed unexpectedly: %s", entry.name)
            response = _failure(entry, 500, Internal.code, "internal error; the log has the cause")
        if entry.no_store:
            response.headers["Cache-Control"] = "no-store"
        self._note(entry, response.status_code)
        return self._with_cors(response)

    def _note(self, entry: Entry, status: int) -> None:
        """Count and log a finished request."""
        ended = trio.current_time()
        if entry.call is not None:
            self.traffic.count(entry.call.name, entry.code or "ok", status, ended - entry.started)
        entry.write(status, ended)

    async def _serve(self, current: Request, path: str, entry: Entry) -> Response:
        if self._guards_origin:
            headers = current.headers
            check_origin(headers.get("Host", ""), headers.get("Origin", ""), self.settings.cors)
        page = self._pages.get(path)
        if page is not None:
            body, content_type = page
            return _plain(body, HTTPStatus.OK, content_type)
        access = await self.authenticator.access(current.headers.getlist("Authorization"))
        if path == METRICS and self.settings.has_metrics:
            return await self._metrics(access)
        if entry.call is None:
            raise NotFound(f"no such path: {path[:PATH_CHARACTERS]}")
        return await self._call(entry.call, access, current, entry)

    async def _call(self, call: Call, access: Access, current: Request, entry: Entry) -> Response:
        self._need(access, call.right)
        if current.method != "POST":
            raise Unimplemented("POST required")
        if call.needs_auth and not self.authenticator.is_on:
            raise PermissionDenied("authentication is off, so there are no access keys")
        entry.no_store = call.no_store
        body = b""
        if call.reads_body:
            body = await current.get_data(cache=False, as_text=False, parse_form_data=False)
        command = entry.request = decode_request(call, body)
        del body  # a large one must not live as long as a long poll
        started = trio.current_time()
        try:
            reply: wire.Response = await self.engine.call(command)
        finally:
            self.traffic.took(call.name, trio.current_time() - started)
        entry.reply = reply
        finished = self._finished(reply, access)
        response = DoorResponse(_encode(finished) + b"\n", 200, content_type=JSON)
        if isinstance(command, wire.ReceiveRequest) and isinstance(reply, wire.MessagesResponse):
            response.undelivered = partial(self._hand_back, command, reply)
        return response

    def _need(self, access: Access, right: Right) -> None:
        try:
            access.need(right)
        except PermissionDenied:
            self.authenticator.denied()
            raise

    async def _metrics(self, access: Access) -> Response:
        self._need(access, Right.MONITOR)
        seen = self._finished(await self.engine.call(ObserveRequest()), access)
        # Thousands of queues make megabytes of text, and nobody else is to wait for them.
        text = await trio.to_thread.run_sync(metrics.text, seen, limiter=self._scrapes)
        return _plain(text, HTTPStatus.OK, metrics.CONTENT_TYPE, {"Cache-Control": "no-store"})

    def _finished(self, reply: R, access: Access) -> R:
        """A reply with what only the broker knows of it."""
        if isinstance(reply, wire.StatusResponse):
            return msgspec.structs.replace(reply, auth=self.authenticator.is_on)
        if isinstance(reply, ObserveResponse):
            http = self.traffic.shown(self.authenticator.counts.items())
            return msgspec.structs.replace(reply, access=access.word, http=http)
        return reply

    async def _hand_back(
        self,
        command: wire.ReceiveRequest,
        reply: wire.MessagesResponse,
        begun: bool,  # noqa: FBT001  # the door's signature
    ) -> None:
        await self.engine.hand_back(command, reply, is_counted=begun)

    def _refused_body(self, entry: Entry, error: HTTPException) -> Response:
        """What the door says of a body that it could not read to its end."""
        status = error.code or 500
        cls = _BODY_ERRORS.get(status, InvalidArgument)
        return _failure(entry, status, cls.code, error.description or "the body could not be read")

    def _with_cors(self, response: Response) -> Response:
        if self.settings.cors:
            response.headers["Access-Control-Allow-Origin"] = self.settings.cors
            if self.settings.cors != "*":
                response.headers["Vary"] = "Origin"
        return response


_BODY_ERRORS: Final[dict[int, type[MqliteError]]] = {413: MessageTooLarge, 503: Unavailable}


def _path(current: Request) -> str:
    """The decoded path as it was sent; Quart's own has its leading slashes collapsed."""
    return str(current.scope["path"])


def _failure(entry: Entry, status: int, code: str, message: str) -> Response:
    entry.code = code
    response = _plain(_encode(Envelope(code, message)) + b"\n", status, JSON)
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        response.headers["Retry-After"] = "1"
    return response


def _plain(
    body: bytes, status: int, content_type: str, headers: dict[str, str] | None = None
) -> Response:
    response = DoorResponse(body, status, headers=headers)
    if content_type:
        response.headers["Content-Type"] = content_type
    else:
        del response.headers["Content-Type"]
    return response
