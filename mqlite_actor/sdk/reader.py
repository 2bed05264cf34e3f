"""Readers: look into a queue file that a broker or an embedding program owns, from any process.

`open_reader` under trio or asyncio, `open_reader_sync` for plain programs. They ask nobody: they
read the file itself, beside its owner, and hold nothing between two calls. The verbs that only look
are those of every handle; any other raises Unsupported.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import trio

from mqlite_actor.clock import Clock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import Closed, Unsupported
from mqlite_actor.engine.outside import Outside
from mqlite_actor.sdk.address import StoreKind, parse_store
from mqlite_actor.sdk.handle import Handle

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Reader(Handle):
    """A handle that only looks: peek, stats, the lists, status and observe.

    What it shows is what is committed when it is asked. Only the file is asked, so what its owner
    keeps in memory is null or absent: counters of Observe, waiting receives, uptime (0 in
    `status`). Cancelling a call stops it and leaves nothing behind.
    """

    __slots__ = ("_limiter", "_outside", "is_closed")

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._limiter: trio.CapacityLimiter | asyncio.Semaphore | None = None
        self.is_closed = False

    async def call(self, request: wire.Request[R]) -> R:
        """The response to a request that only looks; Unsupported for any other.

        Raises OpenError when nobody has the file open any more, StorageFailed when another file
        stands in its place, Unavailable when its owner is just coming or leaving and for a look of
        more than 5 s.
        """
        if self.is_closed:
            raise Closed("the reader is closed")
        look = self._outside.new_look()
        try:
            return await self._in_thread(functools.partial(self._outside.call, request, look))
        finally:
            look.is_given_up = True

    async def _in_thread(self, function: Callable[[], T]) -> T:
        if trio.lowlevel.in_trio_run():
            if not isinstance(self._limiter, trio.CapacityLimiter):
                self._limiter = trio.CapacityLimiter(limits.READ_THREADS_MAX)
            return await trio.to_thread.run_sync(
                function, limiter=self._limiter, abandon_on_cancel=True
            )
        if not isinstance(self._limiter, asyncio.Semaphore):
            self._limiter = asyncio.Semaphore(limits.READ_THREADS_MAX)
        async with self._limiter:
            return await asyncio.to_thread(function)


class _Direct(Reader):
    """The same, blocking: its calls never wait for a loop."""

    __slots__ = ()

    async def _in_thread(self, function: Callable[[], T]) -> T:
        return function()


def _plain(
    verb: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """The verb for a program without a loop: over calls that block it ends in one go."""

    @functools.wraps(verb)
    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:  # noqa: ANN401  # of SyncReader
        coroutine = verb(self._twin, *args, **kwargs)
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return cast("T", stop.value)
        coroutine.close()
        raise AssertionError("the verb waited for something other than its call")

    return run


class SyncReader:
    """`Reader` for a program without a loop. Safe to share between threads."""

    __slots__ = ("_twin",)

    def __init__(self, outside: Outside) -> None:
        self._twin = _Direct(outside)

    def call(self, request: wire.Request[R]) -> R:
        """The response to a request that only looks; Unsupported for any other."""
        run = cast("Callable[[SyncReader, wire.Request[R]], R]", _call)
        return run(self, request)

    peek = _plain(Reader.peek)
    stats = _plain(Reader.stats)
    list_queues = _plain(Reader.list_queues)
    list_subscriptions = _plain(Reader.list_subscriptions)
    list_keys = _plain(Reader.list_keys)
    status = _plain(Reader.status)
    observe = _plain(Reader.observe)

    def close(self) -> None:
        """Every later call raises Closed; there is nothing else to close."""
        self._twin.is_closed = True


_call = _plain(Reader.call)


@asynccontextmanager
async def open_reader(store: str, *, clock: Clock | None = None) -> AsyncIterator[Reader]:
    """A reader of `file:PATH` for the length of a block, under trio or asyncio.

    The file must be open elsewhere: in a broker, in an embedding program, or in this one. Nothing
    is locked, created or repaired. Raises InvalidArgument for what is no file, OpenError when
    nobody has it open, SchemaVersionMismatch when it holds no queue of this format.
    """
    opening = functools.partial(Outside, _file(store), clock)
    if trio.lowlevel.in_trio_run():
        reader = Reader(await trio.to_thread.run_sync(opening))
    else:
        reader = Reader(await asyncio.to_thread(opening))
    try:
        yield reader
    finally:
        reader.is_closed = True


@contextmanager
def open_reader_sync(store: str, *, clock: Clock | None = None) -> Iterator[SyncReader]:
    """The same for a program without a loop."""
    reader = SyncReader(Outside(_file(store), clock))
    try:
        yield reader
    finally:
        reader.close()


def _file(text: str) -> str:
    """The storage's spelling of a local store; what is no file is refused there."""
    store = parse_store(text)
    if store.kind is StoreKind.REMOTE:
        raise Unsupported("a reader reads a local file; a remote store is asked through its engine")
    return ":memory:" if store.kind is StoreKind.MEMORY else f"file:{store.location}"
