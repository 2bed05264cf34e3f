"""The keeper of the files: checkpoints beside the writer, free pages, a look at the files every
second.

Started by the engine beside the passes; for a file these three, for a remote database the word that
its owner is still there. Automatic checkpoints would run inside
a COMMIT and stall it; so a second connection moves the log into the file from CHECKPOINT_PAGES on,
in a thread of its own, while the writer goes on. Under steady writing such a checkpoint never
catches up to the end, and the log would grow without bound: past LOG_PAGES_MAX the writer itself,
between two groups, moves the little that is left and begins the log anew (ruling R44, faults B2).
Its file keeps its length then, since writing over is cheaper than growing; the reclaim pass cuts
it. While the disk is nearly full any log is cut at once, for its room is room to settle in. A
failure is reported once and tried again after a pause; it never ends the engine. A store that
leaves its log to another program (EngineOptions.leaves_log) is only watched.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from mqlite_actor.clock import Clock
from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import Closed, Internal, MqliteError
from mqlite_actor.engine import commands
from mqlite_actor.engine.diagnostics import Report, unreported
from mqlite_actor.engine.interrupts import uninterrupted
from mqlite_actor.engine.sweeper import Health
from mqlite_actor.engine.thread import run_apart
from mqlite_actor.logs import logger
from mqlite_actor.storage.failures import mapped
from mqlite_actor.storage.store import Store

_log = logger("mqlite.maintenance")


@uninterrupted
class Keeper:
    """Watches one store. `noticed` after every group; `run` until cancelled."""

    __slots__ = (
        "_clock", "_due", "_due_at", "_reclaim", "_store", "_submit", "checkpoints", "failures",
        "reclaiming", "truncations",
    )  # fmt: skip

    def __init__(
        self,
        store: Store,
        submit: Callable[[Any], Awaitable[Any]],
        reclaim: Callable[[], Awaitable[int]],
        clock: Clock,
        report: Report = unreported,
    ) -> None:
        self._clock = clock
        self._store = store
        self._submit = submit
        self._reclaim = reclaim
        self.reclaiming = Health("reclaim", report)
        self._due = trio.Event()
        self._due_at = limits.CHECKPOINT_PAGES
        self.checkpoints = 0
        self.truncations = 0
        self.failures = 0

    def noticed(self) -> None:
        """A group was committed: is the log long enough to be moved?"""
        if self._store.leaves_log:
            return
        pages = self._store.log_pages
        if self._store.room.is_short and pages:
            self._due.set()
        elif pages < limits.CHECKPOINT_PAGES:
            self._due_at = limits.CHECKPOINT_PAGES  # it began anew
        elif pages >= self._due_at:
            self._due.set()

    async def run(self) -> None:
        """All loops that this store needs; memory needs none."""
        async with trio.open_nursery() as nursery:
            if self._store.backend.is_remote:
                nursery.start_soon(self._stay)
            if not self._store.has_file:
                return
            nursery.start_soon(self._checkpoint)
            nursery.start_soon(self._watch)
            nursery.start_soon(self._reclaim_forever)

    async def _checkpoint(self) -> None:
        while True:
            await self._due.wait()
            self._due = trio.Event()
            try:
                await self._move_log()
            except Closed:
                return
            except Exception as error:  # noqa: BLE001  # reported and tried again, whatever it is
                self.failures += 1
                if self.failures == 1:
                    known = mapped(error)
                    cause = error if isinstance(known, Internal) else None
                    _log.error("checkpoint failed: %s", known.message, exc_info=cause)
                await trio.sleep(limits.CHECKPOINT_PAUSE_SECONDS)
            else:
                self.failures = 0

    async def _move_log(self) -> None:
        await run_apart(self._store.checkpoint_passive)
        self.checkpoints += 1
        # Each try syncs the disk: the next only when there is as much again to move.
        self._due_at = self._store.log_pages + limits.CHECKPOINT_PAGES
        # The log can begin anew only in a moment when all of it is moved, and steady writing leaves
        # none: what came in during this checkpoint is moved by the writer itself.
        # On a disk that is nearly full its room is needed at once.
        if self._store.log_pages >= limits.LOG_PAGES_MAX or self._store.room.is_short:
            if await self._submit(commands.TruncateLog(keeps_room=not self._store.room.is_short)):
                self.truncations += 1
            else:  # a reader holds the log; it grows until it lets go
                await trio.sleep(limits.CHECKPOINT_PAUSE_SECONDS)

    async def reclaim(self) -> None:
        """Give free pages back, if there are many; an error is raised after it was counted."""
        started = self._clock.monotonic()
        try:
            await self._reclaim()
        except Closed:
            raise
        except MqliteError as error:
            seconds = self._clock.monotonic() - started
            self.reclaiming.failed(self._clock.now_ms(), seconds, error)
            raise
        self.reclaiming.succeeded(self._clock.now_ms(), self._clock.monotonic() - started)

    async def _reclaim_forever(self) -> None:
        while True:
            await trio.sleep(limits.PRUNE_SECONDS)
            try:
                await self.reclaim()
            except Closed:
                return
            except MqliteError as error:
                if self.reclaiming.consecutive_failures == 1:
                    _log.error("maintenance task=reclaim failed: %s", error.message)

    async def _stay(self) -> None:
        """Own a remote database also while nothing is written to it."""
        while True:
            await trio.sleep(limits.OWNER_STAY_SECONDS)
            try:
                await self._submit(commands.Stay())
            except Closed:
                return
            except MqliteError:
                continue  # the writer has said what it is

    async def _watch(self) -> None:
        while True:
            await trio.sleep(limits.SWEEP_SECONDS)
            try:
                self._store.check_files()
            except MqliteError as error:
                if self._store.complaint != error.message:
                    self._store.complaint = error.message
                    _log.error("%s", error.message)
                self._store.healthy = False  # the next group opens the file anew, or is refused
