"""Looks after the writer: says when it is busy for long, and whether the engine is fit for work.

Run by the engine beside its passes; `ran` is told of every group. A group that takes over a second
holds up everybody, whatever the cause (a slow disk, a foreign lock, a transaction of the embedding
program), so it is logged while it lasts, and counted. Storage that fails is asked again every
second, because a broker that is taken out of service for it gets no request that would find it
mended (faults B12).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from mqlite_actor.clock import Clock
from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import CallerError, Closed, MqliteError
from mqlite_actor.engine import commands
from mqlite_actor.engine.actor import Actor
from mqlite_actor.engine.diagnostics import Report, Trouble, detail_of
from mqlite_actor.engine.interrupts import uninterrupted
from mqlite_actor.engine.meters import outcome_of
from mqlite_actor.engine.outcomes import GroupResult
from mqlite_actor.engine.sweeper import Health
from mqlite_actor.logs import logger
from mqlite_actor.storage.store import Store

_log = logger("mqlite.engine")

IN_DOUBT: Final = frozenset({"busy", "connection", "corrupt", "io", "outcome_unknown"})
"""Outcomes of the last group after which nobody knows whether the next will do better. A full disk
is none: settles still work there, and free space."""

FAILURES_UNFIT: Final = 3
"""Failures in a row of the pass that ends expired locks: one may be bad luck."""


@uninterrupted
class Watchdog:
    """Watches one engine's writer. `stalls`: groups that took over WRITER_BUSY_SECONDS."""

    __slots__ = (
        "_actor", "_clock", "_failing", "_last_code", "_locks", "_report", "_reported", "_store",
        "_submit", "stalls",
    )  # fmt: skip

    def __init__(
        self,
        store: Store,
        actor: Actor,
        submit: Callable[[Any], Awaitable[Any]],
        clock: Clock,
        locks: Health,
        report: Report,
    ) -> None:
        self._store = store
        self._actor = actor
        self._submit = submit
        self._clock = clock
        self._locks = locks
        self._report = report
        self._reported = 0  # when the stall began that was told of, on the wall clock
        self._failing: Trouble | None = None
        self._last_code = ""
        self.stalls = 0

    @property
    def unready(self) -> str:
        """Why the writer is not fit for work, in words that name nothing; "" when it is."""
        if self._busy_seconds() > limits.WRITER_STUCK_SECONDS:
            return f"the writer has been busy for over {limits.WRITER_STUCK_SECONDS:.0f} s"
        if not self._store.healthy or self._last_code in IN_DOUBT:
            return "the storage is in doubt"
        failures = self._locks.consecutive_failures
        if failures >= FAILURES_UNFIT and self._locks.last_error != "full":
            return "expired locks cannot be ended"
        return ""

    async def run(self) -> None:
        """Look until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            nursery.start_soon(self._ask_again)

    def ran(self, result: GroupResult) -> None:
        """A group has ended: told by the engine, before the next is taken."""
        if self._actor.busy_with and (seconds := self._busy_seconds()) > limits.WRITER_BUSY_SECONDS:
            if not self._reported:
                self._tell()
            _log.warning("the writer goes on after %.1f s", seconds)
            now_ms = self._clock.now_ms()
            self._report(
                Trouble(at_ms=self._reported, task="writer", code="stalled", recovered_at_ms=now_ms)
            )
        self._reported = 0
        if self._failing is None:
            for _, error, _, _ in result.timings:
                if error is not None:
                    break
            else:
                self._last_code = ""
                return
        self._judge(result)

    # -- the writer --------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            await trio.sleep(limits.WRITER_WATCH_SECONDS)
            if not self._reported and self._busy_seconds() > limits.WRITER_BUSY_SECONDS:
                self._tell()

    def _busy_seconds(self) -> float:
        return trio.current_time() - self._actor.busy_since if self._actor.busy_with else 0.0

    def _tell(self) -> None:
        jobs = self._actor.busy_with
        what = f"{len(jobs)} commands, first {type(jobs[0].request).__name__}"
        self.stalls += 1
        self._reported = self._clock.now_ms()
        _log.warning("the writer has been busy for %.1f s: %s", self._busy_seconds(), what)
        self._report(Trouble(at_ms=self._reported, task="writer", code="stalled", detail=what))

    # -- the storage -------------------------------------------------------------------------------

    def _judge(self, result: GroupResult) -> None:
        """Tell of storage that began to fail, or to fail otherwise, and of its recovery."""
        errors = [
            error
            for _, error, _, _ in result.timings
            if error is not None and not isinstance(error, CallerError)
        ]
        self._last_code = outcome_of(errors[-1])[1] if errors else ""
        before = self._failing
        if not errors and before is None:
            return
        now_ms = self._clock.now_ms()
        if errors and (before is None or before.code != self._last_code):
            self._failing = Trouble(
                at_ms=now_ms, task="storage", code=self._last_code, detail=detail_of(errors[-1])
            )
            self._report(self._failing)
        elif before is not None and not errors and self._is_sound():
            self._failing = None
            self._report(
                Trouble(
                    at_ms=before.at_ms, task="storage", code=before.code, recovered_at_ms=now_ms
                )
            )

    def _is_sound(self) -> bool:
        """Whether nothing is left of a failure: reading proves nothing while the disk is full."""
        return self._store.healthy and not self._store.complaint

    async def _ask_again(self) -> None:
        while True:
            await trio.sleep(limits.SWEEP_SECONDS)
            if self._store.healthy and self._last_code not in IN_DOUBT:
                continue
            try:
                await self._submit(commands.CountEntities())
            except Closed:
                return
            except MqliteError:
                continue  # the writer has said what it is
