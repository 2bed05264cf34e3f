"""When the passes of time run: one task per pass, each sending ordinary, sliced commands.

Started by the engine beside the actor. A pass runs when the first thing of its kind falls due,
within milliseconds, and at its cadence as a safety net. What is due is known as a lower bound per
kind: every committed group reports the instants that it created, and each slice returns the next
one from its index. A pass that fails is counted, shown, and tried again after its period, doubled
per failure up to a bound; it never ends its siblings (faults B96). `run_once` runs all passes now,
in the contract's order, for tests and for engines without background work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import trio
from msgspec import structs

from mqlite_actor.clock import Clock
from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import Closed, MqliteError, StorageFull
from mqlite_actor.engine import commands
from mqlite_actor.engine.diagnostics import Report, Trouble, detail_of, unreported
from mqlite_actor.engine.disk import fewer
from mqlite_actor.engine.interrupts import uninterrupted
from mqlite_actor.engine.meters import Meter, error_code_of
from mqlite_actor.logs import logger
from mqlite_actor.semantics.sweep import Swept

_log = logger("mqlite.maintenance")

Submit = Callable[[Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Pass:
    """A task's name in the contract's vocabulary, its command and its period."""

    task: str
    command: commands.Slice
    seconds: float


@dataclass(frozen=True, slots=True)
class Retention:
    """An engine's bounds on dead letters; 0 is unbounded."""

    max_age_ms: int = 0
    max_count: int = 0
    max_bytes: int = 0


def passes(retention: Retention) -> tuple[Pass, ...]:
    """All passes, in the order of spec/engine.md E112; the keeper adds `reclaim`."""
    retain = commands.Retain(
        max_age_ms=retention.max_age_ms,
        max_count=retention.max_count,
        max_bytes=retention.max_bytes,
    )
    return (
        Pass("locks", commands.Reap(), limits.SWEEP_SECONDS),
        Pass("scheduled", commands.Activate(), limits.SWEEP_SECONDS),
        Pass("ttl", commands.Expire(), limits.EXPIRE_SECONDS),
        Pass("dedup", commands.PruneDuplicates(), limits.PRUNE_SECONDS),
        Pass("receipts", commands.PruneReceipts(), limits.PRUNE_SECONDS),
        Pass("retention", retain, limits.PRUNE_SECONDS),
    )


class Health:
    """How one pass is doing. `failures` is history; `consecutive_failures` says how it is now."""

    __slots__ = (
        "_report", "_task", "consecutive_failures", "duration", "failures", "interrupted",
        "last_error", "last_failure_at_ms", "last_success_at_ms", "recovered_at_ms", "runs",
    )  # fmt: skip

    def __init__(self, task: str, report: Report = unreported) -> None:
        self._task = task
        self._report = report  # told when a failure begins, changes its kind, and is over
        self.runs = 0
        self.failures = 0
        self.interrupted = 0
        self.consecutive_failures = 0
        self.last_success_at_ms = 0
        self.last_failure_at_ms = 0
        self.recovered_at_ms = 0
        self.last_error = ""
        self.duration = Meter()

    @property
    def word(self) -> str:
        """How it is now: ok, failing, recovered (since the last failure), or unknown."""
        if self.consecutive_failures:
            return "failing"
        if self.recovered_at_ms:
            return "recovered"
        return "ok" if self.runs else "unknown"

    def succeeded(self, now_ms: int, seconds: float) -> None:
        """A pass ended well."""
        self.runs += 1
        self.duration.add(seconds)
        if self.consecutive_failures:
            self.recovered_at_ms = now_ms
            self._report(
                Trouble(
                    at_ms=self.last_failure_at_ms,
                    task=self._task,
                    code=self.last_error,
                    recovered_at_ms=now_ms,
                )
            )
        self.consecutive_failures = 0
        self.last_success_at_ms = now_ms

    def interrupt(self, seconds: float) -> None:
        """A pass was stopped by the end of the engine."""
        self.runs += 1
        self.interrupted += 1
        self.duration.add(seconds)

    def failed(self, now_ms: int, seconds: float, error: MqliteError) -> None:
        """A pass ended with an error."""
        self.runs += 1
        self.duration.add(seconds)
        self.failures += 1
        self.consecutive_failures += 1
        self.recovered_at_ms = 0
        self.last_failure_at_ms = now_ms
        code = error_code_of(error)
        if self.consecutive_failures == 1 or code != self.last_error:
            detail = detail_of(error)
            self._report(Trouble(at_ms=now_ms, task=self._task, code=code, detail=detail))
        self.last_error = code


class _Due:
    """A lower bound of when the next thing of a kind is due, and the news that it came nearer."""

    __slots__ = ("at_ms", "nearer")

    def __init__(self) -> None:
        self.at_ms = 1  # nothing is known yet: look at once
        self.nearer = trio.Event()

    def note(self, at_ms: int) -> None:
        """Something falls due then."""
        if not self.at_ms or at_ms < self.at_ms:
            self.at_ms = at_ms
            self.nearer.set()


@uninterrupted
class Sweeper:
    """Runs the passes against `submit` until cancelled."""

    __slots__ = ("_clock", "_due", "_factor", "_passes", "_submit", "health")

    def __init__(
        self,
        submit: Submit,
        clock: Clock,
        retention: Retention,
        report: Report = unreported,
        *,
        is_dear: bool = False,
    ) -> None:
        self._factor = limits.REMOTE_SWEEP_FACTOR if is_dear else 1
        self._submit = submit
        self._clock = clock
        self._passes = passes(retention)
        self._due = {each.task: _Due() for each in self._passes}
        self.health = {each.task: Health(each.task, report) for each in self._passes}

    def note(self, dues: dict[str, int]) -> None:
        """A committed group made these tasks' work fall due."""
        for task, at_ms in dues.items():
            self._due[task].note(at_ms)

    async def run(self) -> None:
        """All passes, each when due and at its cadence."""
        async with trio.open_nursery() as nursery:
            for each in self._passes:
                nursery.start_soon(self._repeat, each)

    async def run_once(self) -> None:
        """Every pass, once, to its end; an error is raised after it was counted."""
        for each in self._passes:
            await self._sweep(each)

    async def _repeat(self, each: Pass) -> None:
        health = self.health[each.task]
        while True:
            await self._wait(each)
            try:
                await self._sweep(each)
            except Closed:
                return
            except MqliteError as error:
                if health.consecutive_failures == 1:  # once per outage (faults B11)
                    _log.error("maintenance task=%s failed: %s", each.task, error.message)

    async def _wait(self, each: Pass) -> None:
        """Until something is due or the period is over; after a failure the period alone counts.

        The wall clock is looked at again at least every second, so that a step of it is noticed.
        """
        failures = self.health[each.task].consecutive_failures
        period = each.seconds * self._factor
        seconds = period * 2 ** min(failures, 10)
        ends_at = trio.current_time() + min(seconds, max(period, limits.BACKOFF_SECONDS_MAX))
        due = self._due[each.task]
        await trio.sleep(
            limits.SWEEP_PAUSE_SECONDS
        )  # never a loop of passes, whatever the clock says
        while (left := ends_at - trio.current_time()) > 0:
            if due.at_ms and not failures:
                left = min(left, (due.at_ms - self._clock.now_ms()) / 1000)
            if left <= 0:
                return
            due.nearer = trio.Event()
            with trio.move_on_after(min(left, limits.SWEEP_SECONDS)):
                await due.nearer.wait()

    async def _sweep(self, each: Pass) -> None:
        health = self.health[each.task]
        started = self._clock.monotonic()
        try:
            await self._slices(each)
        except trio.Cancelled:
            health.interrupt(self._clock.monotonic() - started)
            raise
        except Closed:
            raise
        except MqliteError as error:
            health.failed(self._clock.now_ms(), self._clock.monotonic() - started, error)
            raise
        health.succeeded(self._clock.now_ms(), self._clock.monotonic() - started)

    async def _slices(self, each: Pass) -> None:
        due = self._due[each.task]
        command = each.command
        for _ in range(limits.MAINTENANCE_SLICES_MAX):
            due.at_ms = 0  # what comes in while the slice runs is noted anew
            try:
                swept = await self._submit(command)
            except StorageFull:  # no room for the log of so many rows
                if command.limit == 1:
                    raise
                command = structs.replace(command, limit=fewer(command.limit))
                continue
            assert isinstance(swept, Swept)
            if swept.next_due:
                due.note(swept.next_due)
            if swept.found < command.limit:
                return
