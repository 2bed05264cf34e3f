"""Faces that do not run in the tests' own trio loop, under the verbs of a handle that does.

Used by handles.py for its rows: an asyncio loop in a thread of its own, and a blocking handle of
which each call takes a thread. A cancelled call is cancelled on the other side and waited for.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

import trio

from mqlite_actor.contract import wire
from mqlite_actor.sdk.blocking import SyncHandle
from mqlite_actor.sdk.handle import Handle

R = TypeVar("R")


class InThreads(Handle):
    """A blocking handle, one thread a call."""

    __slots__ = ("_handle",)

    def __init__(self, handle: SyncHandle) -> None:
        self._handle = handle

    async def call(self, request: wire.Request[R]) -> R:
        reply: R = await trio.to_thread.run_sync(self._handle.call, request)
        return reply


class OnAsyncio(Handle):
    """A handle that was opened on an asyncio loop in another thread."""

    __slots__ = ("_handle", "_loop")

    def __init__(self, handle: Handle, loop: asyncio.AbstractEventLoop) -> None:
        self._handle = handle
        self._loop = loop

    async def call(self, request: wire.Request[R]) -> R:
        token = trio.lowlevel.current_trio_token()
        done = trio.Event()
        future = asyncio.run_coroutine_threadsafe(self._handle.call(request), self._loop)
        future.add_done_callback(lambda _: token.run_sync_soon(done.set))
        try:
            await done.wait()
        except trio.Cancelled:
            future.cancel()
            with trio.CancelScope(shield=True):
                await done.wait()
            raise
        return future.result()


Opening = Callable[[], AbstractAsyncContextManager[Handle]]


class _Loop:
    """A thread that runs asyncio, with one handle open in it."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="asyncio of a test")
        self.loop: asyncio.AbstractEventLoop | None = None
        self.handle: Handle | None = None

    def start(self) -> Handle:
        self._thread.start()
        self._ready.wait()
        if self.handle is None:
            self.stop()
        assert self.handle is not None
        assert self.loop is not None
        return OnAsyncio(self.handle, self.loop)

    def stop(self) -> None:
        if self.loop is not None and self._stop is not None:
            self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001  # `stop` raises it in the test
            self._failure = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._stop = asyncio.Event()
        async with self._opening() as handle:
            self.loop, self.handle = asyncio.get_running_loop(), handle
            self._ready.set()
            await self._stop.wait()


@asynccontextmanager
async def on_asyncio(opening: Opening) -> AsyncIterator[Handle]:
    """The handle that `opening` makes on an asyncio loop, for a test on trio."""
    loop = _Loop(opening)
    handle = await trio.to_thread.run_sync(loop.start)
    try:
        yield handle
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(loop.stop)
