"""Backup: a checked snapshot of the whole store in a new file, while everything goes on.

Called by the engine for the request of that name. One at a time: each reads the whole file. Copying
goes in steps of a megabyte in a worker thread (of a database in memory in the storage thread,
between groups), so that a cancellation or the engine's end stops it after its present step; the
check of the copy is broken off too (ruling R25). Whatever stops it, no unfinished file stays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import trio

from mqlite_actor.clock import Clock
from mqlite_actor.contract.errors import (
    Closed,
    InvalidArgument,
    StorageFailed,
    Unavailable,
    Unsupported,
)
from mqlite_actor.contract.ext import BackupRequest, BackupResponse
from mqlite_actor.engine import commands
from mqlite_actor.engine.thread import run_apart
from mqlite_actor.storage import snapshot
from mqlite_actor.storage.snapshot import Snapshot
from mqlite_actor.storage.store import Store

T = TypeVar("T")

Submit = Callable[[Any], Awaitable[Any]]


class Backups:
    """Makes backups of one store, in `folder` and below; "": the store's own, None: anywhere."""

    __slots__ = ("_clock", "_ended", "_ending", "_folder", "_is_running", "_store", "_submit")

    def __init__(
        self,
        store: Store,
        submit: Submit,
        clock: Clock,
        ending: trio.Event,
        folder: str | None,
    ) -> None:
        self._store = store
        self._submit = submit
        self._clock = clock
        self._ending = ending
        self._folder = folder
        self._is_running = False
        self._ended = trio.Event()

    async def settled(self) -> None:
        """Return when no backup holds the store any more; for its end, after the last group."""
        while self._is_running:
            await self._ended.wait()

    async def backup(self, request: BackupRequest) -> BackupResponse:
        """Copy, sync, check, name; of a series, remove the old ones then. `done` False if the
        engine ended first."""
        return await self.within(self._folder, request)

    async def within(self, folder: str | None, request: BackupRequest) -> BackupResponse:
        """The same for somebody who may write in this folder alone, said as at the making."""
        if self._store.upkeep_refusal:
            raise Unsupported(self._store.upkeep_refusal)
        if request.keep < 0:
            raise InvalidArgument("keep: a number of snapshots, or 0 for a single file")
        if folder == "":
            folder = str(Path(self._store.location).parent)
        series = path = snapshot.destination(request.path, folder)
        now_ms = self._clock.now_ms()
        if request.keep:
            path = snapshot.in_series(path, now_ms)
        if self._is_running:
            raise Unavailable("another backup is being made; wait for its end")
        self._is_running, self._ended = True, trio.Event()
        started = self._clock.monotonic()
        source = self._store.copy_source
        copy = Snapshot(source, path, self._is_over)
        size = 0
        try:
            size = await self._made(copy)
        except (Closed, StorageFailed):
            if copy.is_named or not self._ending.is_set():
                raise  # else it was broken off, or its source was closed
        finally:
            try:
                with trio.CancelScope(shield=True):
                    await self._end(copy)
            finally:  # the engine waits for this when it closes
                self._is_running = False
                self._ended.set()
        removed: list[str] = []
        if size and request.keep:
            prune = partial(snapshot.prune_series, series, request.keep, now_ms)
            removed = await run_apart(prune)
        return BackupResponse(
            done=size > 0,
            path=path,
            size_bytes=size,
            duration_ms=int((self._clock.monotonic() - started) * 1000),
            removed=removed,
        )

    async def _made(self, copy: Snapshot) -> int:
        """The finished file's size; 0 if the engine ends before."""
        await self._run(copy.start)
        while not await self._run(copy.step):
            await trio.lowlevel.checkpoint()
            if self._ending.is_set():
                return 0
        await self._run(copy.close)
        try:
            return await run_apart(copy.finish)
        except StorageFailed:
            await trio.lowlevel.checkpoint_if_cancelled()  # then it was broken off for that
            raise

    async def _end(self, copy: Snapshot) -> None:
        """Let go of everything, in the thread that the source belongs to, and leave no rest."""
        try:
            await self._run(copy.close)
        except Closed:  # the source with all that hung on it was closed by the engine
            await run_apart(copy.close)
        await run_apart(copy.discard)

    async def _run(self, step: Callable[[], T]) -> T:
        if self._store.is_memory:
            reply: T = await self._submit(commands.CopyPages(step))
            return reply
        return await run_apart(step)

    def _is_over(self) -> bool:
        """In a worker thread: is the check of the copy to be broken off?"""
        if self._ending.is_set():
            return True
        try:
            trio.from_thread.check_cancelled()
        except trio.Cancelled:
            return True  # the task gets its own at its next checkpoint
        return False
