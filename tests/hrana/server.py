"""The reference server: Hrana over HTTP, version 2 and 3, on SQLite, on a real socket.

For tests that need a server which does as told: it serves in threads of this process (or in one of
its own, `python -m tests.hrana`), in the manners of sqld or of tursodb, on a clock that the test
moves, and lets happen what the test's script says. It records every request, so that round trips
can be counted. Foreign clients hold it to the protocol (test_foreign_clients.py), so that it and
our own client cannot share a misreading.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack

import apsw

from mqlite_actor.clock import Clock, SystemClock
from tests.hrana.door import Door
from tests.hrana.faults import Answer, Fault, Move, Request, Script, pause
from tests.hrana.manners import SQLD, Manners
from tests.hrana.stream import Stream
from tests.hrana.streams import DISK, Streams
from tests.hrana.values import Json, ProtocolError

CONCURRENT_MAX: Final = 128
REQUESTS_KEPT: Final = 100_000
BOUND_SECONDS: Final = 15.0
JSON_TYPE: Final = "application/json"


class Settings(TypedDict, total=False):
    """What a server can be told; HranaServer has the defaults."""

    manners: Manners
    token: str
    """Asked for as `Authorization: Bearer …`; "" asks for none."""

    clock: Clock
    latency_seconds: float
    """Passes before each request is looked at, as on a line that long."""

    idle_seconds: float
    txn_seconds: float
    tls: ssl.SSLContext


class HranaServer:
    """A running server; `close` ends it. Everything public may be used from any thread."""

    def __init__(
        self,
        folder: Path,
        *,
        manners: Manners = SQLD,
        token: str = "",
        clock: Clock | None = None,
        latency_seconds: float = 0.0,
        idle_seconds: float = 10.0,
        txn_seconds: float = 5.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.manners = manners
        self.token = token
        self.latency_seconds = latency_seconds
        self.faults = Script()
        self.requests: deque[Request] = deque(maxlen=REQUESTS_KEPT)
        self.failures: list[BaseException] = []
        self.connections = 0
        self._path = str(folder / "hrana.db")
        self._scheme = "https" if tls else "http"
        self._one_at_a_time = threading.Lock()
        self._active = 0
        self._changed = threading.Condition()
        self._moved: set[str] = set()
        self.streams = Streams(
            self._path,
            manners,
            clock or SystemClock(),
            idle_seconds=idle_seconds,
            txn_seconds=txn_seconds,
        )
        self._doors = [Door(self, number, tls) for number in (0, 1)]

    @property
    def url(self) -> str:
        """Its address, http:// or https://."""
        return self.url_of(0)

    @property
    def dsn(self) -> str:
        """The same in libSQL's own scheme."""
        is_plain = self._scheme == "http"
        return f"libsql://127.0.0.1:{self._doors[0].port}{'?tls=0' if is_plain else ''}"

    @property
    def round_trips(self) -> int:
        """How many pipelines and cursors were asked for since the start or `forget`."""
        return sum(request.method == "POST" for request in list(self.requests))

    def url_of(self, door: int) -> str:
        """The address of a door."""
        return f"{self._scheme}://127.0.0.1:{self._doors[door].port}"

    def forget(self) -> None:
        """Begin to count anew."""
        self.requests.clear()

    def wait_for(self, number: int) -> None:
        """Until so many requests have come since the start or `forget`, answered or not."""
        with self._changed:
            is_there = self._changed.wait_for(lambda: len(self.requests) >= number, BOUND_SECONDS)
        assert is_there, f"{len(self.requests)} requests of {number} came"

    def wait_until_idle(self) -> None:
        """Until no request is at work, also none whose client has left."""
        with self._changed:
            assert self._changed.wait_for(lambda: not self._active, BOUND_SECONDS)

    def look(self, sql: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of a statement on the server's file, past the protocol."""
        connection = apsw.Connection(self._path, vfs=DISK)
        try:
            return connection.execute(sql, tuple(arguments)).fetchall()
        finally:
            connection.close()

    def hang_up(self) -> None:
        """Cut every connection, as a server or a proxy does with idle ones; streams stay."""
        for door in self._doors:
            door.cut()

    def restart(self) -> None:
        """What a restart does: streams are gone, connections are cut, what was committed stays."""
        self.streams.forget_all()
        self.hang_up()

    def close(self) -> None:
        """End every connection and stream; raises what went wrong in the server itself."""
        for door in self._doors:
            door.close()
        self.streams.close()
        if self.failures:
            raise self.failures[0]

    # -- called by the doors -----------------------------------------------------------------------

    def handle(self, request: Request, body: bytes) -> Answer:
        """What a request is answered; Dropped when it is not."""
        with self._changed:
            self.requests.append(request)
            self._active += 1
            self._changed.notify_all()
        try:
            answer = self._greet(request) if request.method == "GET" else self._post(request, body)
        finally:
            with self._changed:
                self._active -= 1
                self._changed.notify_all()
        request.status = answer.status
        return answer

    def _greet(self, request: Request) -> Answer:
        versions = [f"/v{version}" for version in self.manners.requests]
        known = [*versions, "/health", "/version"] if self.manners.is_strict else []
        is_known = request.path in known
        return Answer(200 if is_known else 404, "text/plain", b"hello" if is_known else b"no page")

    def _post(self, request: Request, body: bytes) -> Answer:
        pause(self.latency_seconds)
        try:
            request.body = json.loads(body)
        except ValueError:
            request.body = None
        fault = self.faults.turn(request)
        answer = fault.before() or self._served(request, fault)
        return fault.after(answer) if request.was_run else answer

    def _served(self, request: Request, fault: Fault) -> Answer:
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return Answer(
                401, JSON_TYPE, b'{"error":"Unauthorized: the token is missing or wrong"}'
            )
        if self._active > CONCURRENT_MAX:
            return Answer(429, JSON_TYPE, b'{"error":"Too many concurrent requests"}')
        serve, version = self._route(request.path)
        if serve is None:
            return Answer(404, "text/plain", b"not found")
        unknown = self._unknown(request, version)
        if unknown:
            return unknown
        try:
            return serve(request, version, fault)
        except ProtocolError as error:
            return _refused(error)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            return _refused(ProtocolError(f"the request is malformed: {error!r}"))

    def _route(self, path: str) -> tuple[Callable[[Request, int, Fault], Answer] | None, int]:
        for version in self.manners.requests:
            if path == f"/v{version}/pipeline":
                return self._pipeline, version
            if path == f"/v{version}/cursor" and version >= 3:
                return self._cursor, version
        return None, 0

    def _unknown(self, request: Request, version: int) -> Answer | None:
        """The whole of a pipeline fails for a kind that the server has never heard of."""
        if self.manners.is_strict:
            return None
        for kind in request.kinds:
            if kind not in self.manners.requests[version]:
                message = f"unknown variant `{kind}`, expected `execute` or `batch`"
                return Answer(500, "text/plain", message.encode())
        return None

    def _pipeline(self, request: Request, version: int, fault: Fault) -> Answer:
        body = request.body
        items = body["requests"]
        if not isinstance(items, list):
            raise ProtocolError("`requests` is a list")

        def run(stream: Stream) -> list[Json]:
            return [stream.answer(item, version, fault.trouble) for item in items]

        results, head = self._on_stream(request, fault, run)
        return Answer(200, JSON_TYPE, json.dumps({**head, "results": results}).encode())

    def _cursor(self, request: Request, _: int, fault: Fault) -> Answer:
        def run(stream: Stream) -> list[Json]:
            return list(stream.entries(request.body["batch"], fault.trouble))

        lines, head = self._on_stream(request, fault, run)
        text = "".join(f"{json.dumps(line)}\n" for line in (head, *lines))
        return Answer(200, "application/x-ndjson", text.encode())

    def _on_stream(
        self, request: Request, fault: Fault, run: Callable[[Stream], list[Json]]
    ) -> tuple[list[Json], Json]:
        baton = request.body.get("baton")
        if baton in self._moved and request.door != 1:
            raise ProtocolError("the stream has moved to another address")
        if self.manners.shares_connection:
            with self._one_at_a_time:
                return self._run(request, fault, run, baton)
        return self._run(request, fault, run, baton)

    def _run(
        self, request: Request, fault: Fault, run: Callable[[Stream], list[Json]], baton: str | None
    ) -> tuple[list[Json], Json]:
        stream = self.streams.acquire(baton)
        request.was_run = True
        try:
            with stream.busy:
                results = run(stream)
        except BaseException:
            self.streams.end(stream)
            raise
        following = self.streams.release(stream, baton)
        has_moved = isinstance(fault, Move)
        if following and (has_moved or request.door == 1):
            self._moved.add(following)
        base_url = self.url_of(1) if has_moved else None
        return results, {"baton": following, "base_url": base_url, "served_by": "reference"}


def _refused(error: ProtocolError) -> Answer:
    if error.code:
        body = json.dumps({"message": str(error), "code": error.code})
        return Answer(400, JSON_TYPE, body.encode())
    return Answer(400, "text/plain", str(error).encode())


@contextmanager
def running_hrana(folder: Path, **settings: Unpack[Settings]) -> Iterator[HranaServer]:
    """A server on an empty database in `folder`, with the settings of HranaServer."""
    server = HranaServer(folder, **settings)
    try:
        yield server
    finally:
        server.close()
