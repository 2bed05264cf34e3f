"""The ways to reach an engine, as a table: each is opened on a fresh store and left clean.

The fixtures of tests/conftest.py run a test that asks for `handle` once for each row of KINDS that
can do what the test needs. A new way to reach an engine is a new row.
Rules: an engine in this process ends without a descriptor or thread left, and its store passes the
audit; a broker is a real process, shared by the tests of one worker, so that a test names its own
queues and asks for nothing about the whole store.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import trio

from mqlite_actor.clock import Clock, SystemClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.link.listening import bound, serve_links
from mqlite_actor.sdk.blocking_embedded import open_embedded_sync
from mqlite_actor.sdk.connect import connect, connect_sync
from mqlite_actor.sdk.embedded import Embedded, open_embedded
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.linked import Linked, open_link
from tests.conformance.audit import audit_file
from tests.conformance.broker import Broker
from tests.conformance.faces import InThreads, on_asyncio
from tests.conformance.remote_engines import LIVE, TOKEN, engine_on, remote_engine

R = TypeVar("R")

Sweep = Callable[[], Awaitable[None]]
"""Runs every pass once, on the clock of the test."""

OURS: Final = {"MainThread", "Trio thread", "browser"}
"""Threads that may be there: this one, trio's cache of idle ones, and a browser's, which a worker
of the tests keeps once it has it."""


@dataclass(frozen=True)
class Surroundings:
    """What a handle is opened on. `broker` is None for kinds that need none."""

    store: Path
    clock: Clock
    broker: Broker | None


@dataclass(frozen=True)
class HandleKind:
    """One way to reach an engine. `drives_clock`: tests can move its time and run its passes."""

    name: str
    open: Callable[[Surroundings], AbstractAsyncContextManager[Handle]]
    drives_clock: bool = False
    broker: str = ""
    """The fixture of the broker, or of the database server, that it needs."""
    is_remote: bool = False
    """Its store is far away: only a slice of the suite runs there each time."""


@asynccontextmanager
async def opened(
    store: Path, clock: Clock, *, message_bytes_max: int = limits.MESSAGE_BYTES_DEFAULT
) -> AsyncIterator[Engine]:
    """An engine without background work on a file; audited when it is closed."""
    options = EngineOptions(clock=clock, background=False, message_bytes_max=message_bytes_max)
    async with open_engine(f"file:{store}", options) as engine:
        yield engine
    check(store)


def check(store: Path) -> None:
    """The store passes the audit, and whoever had it open left nothing behind."""
    problems = [*audit_file(store), *leaks(store.parent)]
    assert not problems, "\n".join(problems)


def leaks(folder: Path) -> list[str]:
    """Descriptors of this process on files below `folder`, and threads of unknown make."""
    found = [
        f"thread {thread.name} is still there"
        for thread in threading.enumerate()
        if not thread.name.startswith(tuple(OURS)) and not thread.daemon
    ]
    if not sys.platform.startswith("linux"):
        return found
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:  # the listing's own descriptor
            continue
        if target.startswith(f"{folder}/"):
            found.append(f"{target} is still open")
    return found


@asynccontextmanager
async def _embedded(around: Surroundings) -> AsyncIterator[Handle]:
    async with opened(around.store, around.clock) as engine:
        yield Embedded(engine)


def _passes(around: Surroundings) -> bool:
    """An engine out of the test's reach runs its passes by itself, where time passes by itself."""
    return isinstance(around.clock, SystemClock)


@asynccontextmanager
async def _embedded_sync(around: Surroundings) -> AsyncIterator[Handle]:
    store = f"file:{around.store}"
    with open_embedded_sync(store, clock=around.clock, background=_passes(around)) as handle:
        yield InThreads(handle)
    check(around.store)


@asynccontextmanager
async def _embedded_asyncio(around: Surroundings) -> AsyncIterator[Handle]:
    store, clock = f"file:{around.store}", around.clock
    opening = partial(open_embedded, store, clock=clock, background=_passes(around))
    async with on_asyncio(opening) as handle:
        yield handle
    check(around.store)


@asynccontextmanager
async def _http(around: Surroundings) -> AsyncIterator[Handle]:
    assert around.broker is not None
    with connect_sync(around.broker.url, token=around.broker.token) as client:
        yield InThreads(client)


@asynccontextmanager
async def _http_trio(around: Surroundings) -> AsyncIterator[Handle]:
    assert around.broker is not None
    async with connect(around.broker.url, token=around.broker.token) as handle:
        yield handle


@asynccontextmanager
async def _http_asyncio(around: Surroundings) -> AsyncIterator[Handle]:
    assert around.broker is not None
    opening = partial(connect, around.broker.url, token=around.broker.token)
    async with on_asyncio(opening) as handle:
        yield handle


class OverLink(Handle):
    """A handle over a link, beside the engine at its other end, whose passes a test may run."""

    __slots__ = ("_linked", "engine")

    def __init__(self, linked: Linked, engine: Engine) -> None:
        self._linked = linked
        self.engine = engine

    async def call(self, request: wire.Request[R]) -> R:
        return await self._linked.call(request)


@asynccontextmanager
async def served_links(engine: Engine, path: str) -> AsyncIterator[None]:
    """A link socket in front of an engine for the length of a block; ended in order."""
    stopping = trio.Event()
    with bound(path) as listener:
        async with trio.open_nursery() as nursery:
            serve = partial(serve_links, stopping=stopping, grace_seconds=limits.GRACE_SECONDS)
            nursery.start_soon(serve, listener, engine)
            try:
                yield
            finally:
                stopping.set()


@asynccontextmanager
async def _link(around: Surroundings) -> AsyncIterator[Handle]:
    # A folder of its own: the path of a socket is short, and tmp_path may be long.
    with tempfile.TemporaryDirectory(prefix="mqlite-") as folder:
        path = f"{folder}/link"
        async with (
            opened(around.store, around.clock) as engine,
            served_links(engine, path),
            open_link(path) as linked,
        ):
            yield OverLink(linked, engine)


@asynccontextmanager
async def _remote(around: Surroundings) -> AsyncIterator[Handle]:
    async with remote_engine(around.store.parent, around.clock) as engine:
        yield Embedded(engine)
    problems = leaks(around.store.parent)
    assert not problems, "\n".join(problems)


@asynccontextmanager
async def _live(around: Surroundings) -> AsyncIterator[Handle]:
    async with engine_on(LIVE, around.clock, around.store, TOKEN) as engine:
        yield Embedded(engine)


@asynccontextmanager
async def _sqld(around: Surroundings) -> AsyncIterator[Handle]:
    assert around.broker is not None
    async with engine_on(around.broker.url, around.clock, around.store) as engine:
        yield Embedded(engine)


KINDS: Final = (
    HandleKind("embedded", _embedded, drives_clock=True),
    HandleKind("link", _link, drives_clock=True),
    HandleKind("remote", _remote, drives_clock=True, is_remote=True),
    HandleKind("sqld", _sqld, drives_clock=True, broker="sqld", is_remote=True),
    HandleKind("embedded-sync", _embedded_sync),
    HandleKind("embedded-asyncio", _embedded_asyncio),
    HandleKind("http", _http, broker="broker"),
    HandleKind("http-trio", _http_trio, broker="broker"),
    HandleKind("http-asyncio", _http_asyncio, broker="broker"),
    HandleKind("hypercorn", _http, broker="broker_without_lane"),
    HandleKind("worker", _http, broker="broker_of_one_worker"),
    HandleKind("workers", _http, broker="broker_of_two_workers"),
    HandleKind("far-workers", _http, broker="far_broker_of_two_workers", is_remote=True),
    *([HandleKind("live", _live, drives_clock=True, is_remote=True)] if LIVE else []),
)
