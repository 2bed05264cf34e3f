"""When the passes of time run: one task per pass, each sending ordinary, sliced commands.

Started by the engine beside the actor. A pass that fails is counted, shown, and tried again after
its period, doubled per failure up to a bound; it never ends its siblings (faults B96). `run_once`
runs all passes now, in the contract's order, for tests and for engines without background work.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import trio

from mqlite_actor.clock import Clock
from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import Closed, MqliteError
from mqlite_actor.engine import commands

_log = logging.getLogger("mqlite.maintenance")

Submit = Callable[[Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Pass:
    """A task's name in the contract's vocabulary, its command and its period."""

    task: str
    command: type[commands.Slice]
    seconds: float


PASSES: Final = (
    Pass("locks", commands.Reap, limits.SWEEP_SECONDS),
    Pass("scheduled", commands.Activate, limits.SWEEP_SECONDS),
    Pass("ttl", commands.Expire, limits.EXPIRE_SECONDS),
    Pass("dedup", commands.PruneDuplicates, limits.PRUNE_SECONDS),
    Pass("receipts", commands.PruneReceipts, limits.PRUNE_SECONDS),
)
"""In the order of spec/engine.md E112."""


class Health:
    """How one pass is doing. `failures` is history; `consecutive_failures` says how it is now."""

    __slots__ = (
        "consecutive_failures", "failures", "interrupted", "last_error", "last_failure_at_ms",
        "last_success_at_ms", "recovered_at_ms", "runs",
    )  # fmt: skip

    def __init__(self) -> None:
        self.runs = 0
        self.failures = 0
        self.interrupted = 0
        self.consecutive_failures = 0
        self.last_success_at_ms = 0
        self.last_failure_at_ms = 0
        self.recovered_at_ms = 0
        self.last_error = ""

    def succeeded(self, now_ms: int) -> None:
        """A pass ended well."""
        self.runs += 1
        if self.consecutive_failures:
            self.recovered_at_ms = now_ms
        self.consecutive_failures = 0
        self.last_success_at_ms = now_ms

    def failed(self, now_ms: int, error: MqliteError) -> None:
        """A pass ended with an error."""
        self.runs += 1
        self.failures += 1
        self.consecutive_failures += 1
        self.last_failure_at_ms = now_ms
        self.last_error = error.code


class Sweeper:
    """Runs PASSES against `submit` until cancelled."""

    __slots__ = ("_clock", "_submit", "health")

    def __init__(self, submit: Submit, clock: Clock) -> None:
        self._submit = submit
        self._clock = clock
        self.health = {each.task: Health() for each in PASSES}

    async def run(self) -> None:
        """All passes at their cadence; the first run comes one period after the start."""
        async with trio.open_nursery() as nursery:
            for each in PASSES:
                nursery.start_soon(self._repeat, each)

    async def run_once(self) -> None:
        """Every pass, once, to its end; an error is raised after it was counted."""
        for each in PASSES:
            await self._sweep(each)

    async def _repeat(self, each: Pass) -> None:
        health = self.health[each.task]
        while True:
            doubled = each.seconds * 2 ** min(health.consecutive_failures, 10)
            await trio.sleep(min(doubled, max(each.seconds, limits.BACKOFF_SECONDS_MAX)))
            try:
                await self._sweep(each)
            except Closed:
                return
            except MqliteError as error:
                if (
                    health.consecutive_failures == 1
                ):  # once per outage, not once per try (faults B11)
                    _log.error("maintenance task=%s failed: %s", each.task, error.message)

    async def _sweep(self, each: Pass) -> None:
        health = self.health[each.task]
        try:
            command = each.command()
            for _ in range(limits.MAINTENANCE_SLICES_MAX):
                if await self._submit(command) < command.limit:
                    break
        except trio.Cancelled:
            health.runs += 1
            health.interrupted += 1
            raise
        except Closed:
            raise
        except MqliteError as error:
            health.failed(self._clock.now_ms(), error)
            raise
        health.succeeded(self._clock.now_ms())
