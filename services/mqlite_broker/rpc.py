"""One request, whoever read it off its socket: its checks, its call, its answer, count and line.

Called by both doors: the application (`app.py`) and the lane (`lane.py`). Every request passes the
same checks in the contract's order (spec/wire.md 1.2): preflight, open path, credential, route,
right, method, body, operation. An error is an exception of the contract's tree, turned into its
envelope at one place (`Rpc.answer`); anything unexpected is logged once and becomes a 500 that says
nothing. Nothing here knows a socket, a framework or a header block.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from time import perf_counter
from typing import Any, Final

import msgspec
import trio

from mqlite_actor.contract import ext, wire
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
from mqlite_actor.logs import logger
from mqlite_actor.sdk.exchange import is_read
from mqlite_broker import metrics, pages, ui
from mqlite_broker.access_log import Entry
from mqlite_broker.auth import Access, Authenticator, check_origin
from mqlite_broker.door_answers import Answers, Room
from mqlite_broker.door_limits import ANSWER_FREE_BYTES, NO_ANSWER_ROOM
from mqlite_broker.engines import AnyEngine
from mqlite_broker.settings import Settings
from mqlite_broker.traffic import Traffic
from mqlite_broker.visit import Visit

_log = logger("mqlite.broker")
_encode = msgspec.json.Encoder(order="deterministic").encode


RECEIVE_AND_DELETE: Final = 1
"""The wire's receive_mode of a claim that cannot be taken back."""

PATH_CHARACTERS: Final = 200
"""How much of an unknown path its 404 repeats."""

UNHEEDED_KEY: Final = (
    "an Idempotency-Key came with a Send or Schedule, which do not heed it: repeated, they store"
    " twice; SendResult does"
)

JSON: Final = "application/json"

Field = tuple[str, str]

PREFLIGHT: Final[tuple[Field, ...]] = (
    ("Access-Control-Allow-Methods", "GET, POST, OPTIONS"),
    ("Access-Control-Allow-Headers", "Authorization, Content-Type"),
    ("Access-Control-Max-Age", "86400"),
)
NO_STORE: Final[Field] = ("Cache-Control", "no-store")
RETRY: Final[Field] = ("Retry-After", "1")

Undelivered = Callable[[bool], Awaitable[None]]
"""Takes back what an answer held; told whether a byte of it was offered to the socket."""


class Question(msgspec.Struct, frozen=True):
    """What the head of a request asks; fields of it as they came, decoded as latin-1."""

    method: str
    path: str  # decoded, otherwise as it was sent
    credentials: tuple[str, ...] = ()  # every Authorization field
    host: str = ""
    origin: str = ""
    idempotency_key: str = ""
    known: str = ""  # If-None-Match


class Reply(msgspec.Struct, frozen=True):
    """What is to be answered. `fields`: header fields beside type, length and date."""

    status: int
    body: bytes
    content_type: str
    fields: tuple[Field, ...] = ()
    undelivered: Undelivered | None = None
    room: Room | None = None
    """The place of a large answer in the budget of all; whoever writes it ends it."""


class BodyRefused(Exception):
    """A door could not read the body to its end."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason


Log = Callable[[], None]
"""Writes a request's line into the log."""


def _unlogged() -> None:
    """Of a request that deserves no line."""


Body = Callable[[], Awaitable[bytes]]
"""Reads the body when it is asked for, hence after credential and route; raises BodyRefused."""


class Envelope(msgspec.Struct, frozen=True):
    """The body of every failure."""

    code: str
    message: str


class Rpc:
    """One broker's answers. `served`: the calls that the engine answers, in the card's order."""

    def __init__(self, engine: AnyEngine, settings: Settings) -> None:
        self.engine = engine
        self.visit = Visit(engine)
        self.authenticator = Authenticator(
            settings.tokens, settings.monitor_tokens, engine.authenticate
        )
        self.traffic = Traffic()
        self.answers = Answers()
        self.served = tuple(call for call in CALLS if call.request in engine.served)
        self._calls = {path: call for path, call in BY_PATH.items() if call in self.served}
        self._cors = settings.cors
        self._version = settings.version
        self._fields = _cors_fields(settings.cors)
        self._has_metrics = settings.has_metrics
        self._console = settings.console
        self._guards_origin = settings.tokens is None and settings.is_loopback
        self._warns_of_key = True
        self._scrapes = trio.CapacityLimiter(1)
        card = pages.card(
            self.served,
            version=settings.version,
            is_auth_on=self.authenticator.is_on,
            has_metrics=settings.has_metrics,
            has_console=bool(settings.console),
            docs_url=settings.docs_url,
        )
        self._pages = {
            "/": self._reply(HTTPStatus.OK, card, JSON),
            pages.HEALTH_PATH: self._reply(HTTPStatus.OK, pages.HEALTH, pages.PLAIN_TEXT),
        }
        self._finish: dict[type[Any], Callable[[Any, Access], Any]] = {
            wire.StatusResponse: self._finish_status,
            ObserveResponse: self._finish_observe,
        }

    def count_into(self, traffic: Traffic, checks: dict[str, int]) -> None:
        """Count requests and credential checks there from now on; before the first one only."""
        self.traffic = traffic
        self.authenticator.counts = checks

    # -- the frame around every request ------------------------------------------------------------

    async def answer(self, question: Question, body: bytes | Body) -> tuple[Reply, Log]:
        """The reply to one request, and what logs it: to be called once, as soon as the reply was
        offered to the client. Never raises an error, only passes a cancellation on.

        Cancelled, what the call did stays as the engine leaves it, and the request is counted and
        logged as canceled.
        """
        if question.method == "OPTIONS" and self._cors:
            return self._preflight(question.path), _unlogged
        call = self._calls.get(question.path)
        name = question.path.removeprefix(PREFIX) if call is None else call.name
        entry = Entry(name, call, perf_counter())
        try:
            reply = await self._serve(question, body, entry)
        except MqliteError as error:
            reply = self._failure(entry, error.http_status, error.code, error.message)
        except BodyRefused as error:
            cls = _BODY_ERRORS.get(error.status, InvalidArgument)
            reply = self._failure(entry, error.status, cls.code, error.reason)
        except trio.Cancelled:
            entry.code = Canceled.code
            self._count(entry, Canceled.http_status)()
            raise
        except Exception:  # noqa: BLE001  # logged, and the broker serves on (faults B96)
            _log.exception("a request failed unexpectedly: %s", entry.name)
            text = "internal error; the log has the cause"
            reply = self._failure(entry, Internal.http_status, Internal.code, text)
        return reply, self._count(entry, reply.status)

    def _count(self, entry: Entry, status: int) -> Log:
        """Count a finished request, so that whoever asks next reads it; what logs it."""
        ended = perf_counter()
        if entry.call is not None:
            self.traffic.count(entry.call.name, entry.code or "ok", status, ended - entry.started)
        return partial(entry.write, status, ended)

    def _preflight(self, path: str) -> Reply:
        if path == "*":  # of the server as a whole: no page asks that
            return Reply(HTTPStatus.OK, b"", "")
        return self._reply(HTTPStatus.NO_CONTENT, b"", "", *PREFLIGHT)

    def _failure(self, entry: Entry, status: int, code: str, message: str) -> Reply:
        entry.code = code
        extra = []
        if (
            code == Unavailable.code
        ):  # never for outcome_unknown, which is not to be repeated blindly
            extra.append(RETRY)
        if entry.no_store:
            extra.append(NO_STORE)
        return self._reply(status, _encode(Envelope(code, message)) + b"\n", JSON, *extra)

    def _reply(self, status: int, body: bytes, content_type: str, *extra: Field) -> Reply:
        return Reply(status, body, content_type, (*extra, *self._fields))

    # -- the checks, in the contract's order -------------------------------------------------------

    async def _serve(self, question: Question, body: bytes | Body, entry: Entry) -> Reply:
        if self._guards_origin:
            check_origin(question.host, question.origin, self._cors)
        if entry.call is None and (page := self._open_page(question)) is not None:
            return page
        access = self.authenticator.fixed(question.credentials)
        if access is None:
            access = await self.authenticator.access(question.credentials)
        if entry.call is not None:
            return await self._call(entry.call, access, question, body, entry)
        if question.path == pages.METRICS_PATH and self._has_metrics:
            return await self._metrics(access)
        raise _no_such_path(question)

    def _open_page(self, question: Question) -> Reply | None:
        """What anybody may read, if the path is one of those."""
        page = self._pages.get(question.path)
        if page is not None:
            return page
        if question.path == pages.READY_PATH:
            ready = pages.readiness(self.visit.unready)
            return self._reply(HTTPStatus.OK, ready, pages.PLAIN_TEXT)
        return self._console_file(question) if ui.is_ours(question.path) else None

    def _console_file(self, question: Question) -> Reply:
        found = ui.file(question.path, question.method, reach=self._console, known=question.known)
        if found is None:
            raise _no_such_path(question)
        return Reply(found.status, found.body, found.content_type, found.fields)

    async def _call(
        self, call: Call, access: Access, question: Question, body: bytes | Body, entry: Entry
    ) -> Reply:
        if call.right not in access.rights:
            self._need(access, call.right)
        if question.method != "POST":
            raise Unimplemented("POST required")
        if call.needs_auth and not self.authenticator.is_on:
            raise PermissionDenied("authentication is off, so there are no access keys")
        entry.no_store = call.no_store
        started = perf_counter()
        try:
            content = b""
            if call.reads_body:
                content = body if isinstance(body, bytes) else await body()
            command = decode_request(call, content)
            if question.idempotency_key:
                command = self._identified(command, question.idempotency_key)
            entry.request = command
            del body, content  # a large one must not live as long as a long poll
            reply: wire.Response = await self.visit.call(command)
        finally:
            self.traffic.took(call.name, perf_counter() - started)
        entry.reply = reply
        finish = self._finish.get(type(reply))
        if finish is not None:
            reply = finish(reply, access)
        fields = (NO_STORE, *self._fields) if call.no_store else self._fields
        undelivered = None
        if isinstance(command, wire.ReceiveRequest) and isinstance(reply, wire.MessagesResponse):
            undelivered = partial(self._hand_back, command, reply) if reply.messages else None
        encoded = _encode(reply) + b"\n"
        if len(encoded) <= ANSWER_FREE_BYTES:
            return Reply(200, encoded, JSON, fields, undelivered)
        # The messages themselves are not needed any more, and may be as large as the answer.
        light = _without_bodies(reply)
        entry.reply = light if isinstance(reply, wire.MessagesResponse) else None
        if undelivered is not None and isinstance(command, wire.ReceiveRequest):
            undelivered = partial(self._hand_back, command, light)
        room = self.answers.room(len(encoded), is_owed=not _may_be_refused(command))
        if room is None:
            if undelivered is not None:
                await undelivered(False)
            raise Unavailable(NO_ANSWER_ROOM)
        return Reply(200, encoded, JSON, fields, undelivered, room)

    def _identified(self, command: wire.Request[Any], key: str) -> wire.Request[Any]:
        """A SendResult whose id came as a header (ruling R46).

        Other calls go on without it, since older brokers do: a gateway may put one on everything,
        and a constant one would make the next message a repetition. Who sends it is warned, once.
        """
        if not isinstance(command, ext.SendResultRequest):
            if isinstance(command, wire.SendRequest | wire.ScheduleRequest) and self._warns_of_key:
                self._warns_of_key = False
                _log.warning(UNHEEDED_KEY)
            return command
        if command.request_id == key:
            return command
        if command.request_id:
            raise InvalidArgument(
                "request_id and the Idempotency-Key header differ; give one of them"
            )
        return msgspec.structs.replace(command, request_id=key)

    def _need(self, access: Access, right: Right) -> None:
        if right not in access.rights:
            self.authenticator.denied()
            access.need(right)

    async def _metrics(self, access: Access) -> Reply:
        self._need(access, Right.MONITOR)
        seen = self._finish_observe(await self.engine.call(ObserveRequest()), access)
        # Thousands of queues make megabytes of text, and nobody else is to wait for them.
        text = await trio.to_thread.run_sync(metrics.text, seen, limiter=self._scrapes)
        return self._reply(HTTPStatus.OK, text, metrics.CONTENT_TYPE, NO_STORE)

    # -- what only the broker knows of a reply -----------------------------------------------------

    def _finish_status(self, reply: wire.StatusResponse, _: Access) -> wire.StatusResponse:
        is_auth_on = self.authenticator.is_on
        return msgspec.structs.replace(reply, auth=is_auth_on, version=self._version)

    def _finish_observe(self, reply: ObserveResponse, access: Access) -> ObserveResponse:
        http = reply.http
        if http.state == "not_applicable":  # else the writer's process has summed all doors
            http = self.traffic.shown(self.authenticator.counts.items())
        return msgspec.structs.replace(reply, access=access.word, http=http)

    async def _hand_back(
        self,
        command: wire.ReceiveRequest,
        reply: wire.MessagesResponse,
        begun: bool,  # noqa: FBT001  # the doors' signature
    ) -> None:
        await self.engine.hand_back(command, reply, is_counted=begun)


def _may_be_refused(command: wire.Request[Any]) -> bool:
    """Whether nothing has happened, or nothing that cannot be taken back."""
    if isinstance(command, wire.ReceiveRequest):
        return not command.receive_attempt_id and command.receive_mode != RECEIVE_AND_DELETE
    return is_read(command)


def _without_bodies(reply: wire.Response) -> wire.MessagesResponse:
    """What log and hand-back need to know of messages that were handed out."""
    messages = reply.messages if isinstance(reply, wire.MessagesResponse) else []
    leases = [
        wire.Message(seq_number=each.seq_number, lock_token=each.lock_token) for each in messages
    ]
    return wire.MessagesResponse(messages=leases)


_BODY_ERRORS: Final[dict[int, type[MqliteError]]] = {413: MessageTooLarge, 503: Unavailable}


def _no_such_path(question: Question) -> NotFound:
    return NotFound(f"no such path: {question.path[:PATH_CHARACTERS]}")


def _cors_fields(cors: str) -> tuple[Field, ...]:
    if not cors:
        return ()
    allowed = ("Access-Control-Allow-Origin", cors)
    return (allowed,) if cors == "*" else (allowed, ("Vary", "Origin"))
