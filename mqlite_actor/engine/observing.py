"""One snapshot of everything that is counted, for Observe.

Called by `Engine.call`; the broker completes it with what its door counts. A snapshot whose queue
rows could not be read says so, with null instead of zeros, and still shows the counters of this
process (spec/wire.md 2.19).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from mqlite_actor.clock import Clock
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.contract.observe import (
    MESSAGE_EVENTS,
    Collection,
    FilterFailures,
    HttpInfo,
    MaintenanceInfo,
    MessageEvents,
    ObserveResponse,
    QueueDepth,
    ReceiveWaiters,
    RuntimeInfo,
    StorageInfo,
)
from mqlite_actor.contract.words import Kind
from mqlite_actor.engine import commands
from mqlite_actor.engine.actor import Actor
from mqlite_actor.engine.diagnostics import OFF, DiagnosticsLog
from mqlite_actor.engine.meters import FILTER_STAGES, error_code_of
from mqlite_actor.engine.process import this_process
from mqlite_actor.engine.readers import LookOut
from mqlite_actor.engine.sweeper import Health
from mqlite_actor.semantics.depths import Sample
from mqlite_actor.storage.schema import WIRE_SCHEMA_VERSION
from mqlite_actor.storage.store import Store
from mqlite_actor.version import __version__

Ask = Callable[[Any], Awaitable[Any]]

NO_HTTP: Final = HttpInfo(
    state="not_applicable", requests=[], authentication=[], handler_latency=[]
)


class Observer:
    """Takes snapshots of one engine."""

    __slots__ = (
        "_actor", "_ask", "_clock", "_diagnostics", "_health", "_last_success_at_ms", "_look_out",
        "_store", "started_at_ms",
    )  # fmt: skip

    def __init__(
        self,
        store: Store,
        actor: Actor,
        look_out: LookOut,
        ask: Ask,
        clock: Clock,
        health: dict[str, Health],
        diagnostics: DiagnosticsLog | None = None,
    ) -> None:
        self._store = store
        self._actor = actor
        self._look_out = look_out
        self._ask = ask
        self._clock = clock
        self._health = health  # in the contract's order
        self._diagnostics = diagnostics
        self._last_success_at_ms = 0
        self.started_at_ms = clock.now_ms()

    async def snapshot(self) -> ObserveResponse:
        """Never raises for a store that cannot be read: that is what it shows."""
        started = self._clock.monotonic()
        sample: Sample | None = None
        error_code = ""
        try:
            sample = await self._ask(commands.Collect())
            self._last_success_at_ms = self._clock.now_ms()
        except MqliteError as error:
            error_code = error_code_of(error)
        seconds = self._clock.monotonic() - started
        rows = None if sample is None else sample.rows
        kinds = [row.kind for row in rows or ()]
        return ObserveResponse(
            sampled_at_ms=self._clock.now_ms(),
            started_at_ms=self.started_at_ms,
            backend=self._store.backend.observe,
            runtime=self._runtime(seconds, sample),
            collection=Collection(
                state="unavailable" if rows is None else "available",
                last_success_at_ms=self._last_success_at_ms,
                duration_seconds=seconds,
                error_code=error_code,
            ),
            queue_count=kinds.count(Kind.QUEUE),
            subscription_count=kinds.count(Kind.SUBSCRIPTION),
            queues=rows,
            messages=self._events(rows or []),
            storage=StorageInfo(
                operations=self._actor.storage_meter.shown(), pool=self._look_out.pool()
            ),
            maintenance=[self._maintenance(task) for task in self._health],
            filters=self._filters(),
            version=__version__,
            access="embedded",
            http=NO_HTTP,
            diagnostics=self._diagnostics.shown() if self._diagnostics else OFF,
            mailbox_depth=len(self._actor.mailbox),
            receive_waiters=self._waiters(rows or []),
            process=this_process(),
        )

    def _runtime(self, ping_seconds: float, sample: Sample | None) -> RuntimeInfo:
        try:
            size, has_size = self._store.size_bytes(), self._store.has_file
        except OSError:
            size, has_size = 0, False
        return RuntimeInfo(
            schema_version=WIRE_SCHEMA_VERSION,
            ping_seconds=0.0 if sample is None else ping_seconds,
            read_available=sample is not None,
            db_size_bytes=size,
            db_size_available=has_size,
            wal_bytes=self._store.log_bytes(),
            free_bytes=None if sample is None else sample.free_bytes,
            disk_free_bytes=self._store.disk_free_bytes(),
        )

    def _waiters(self, rows: list[QueueDepth]) -> list[ReceiveWaiters]:
        counts = dict.fromkeys([row.queue for row in rows], 0) | self._actor.waiters.counts()
        return [ReceiveWaiters(queue=queue, count=counts[queue]) for queue in sorted(counts)]

    def _events(self, rows: list[QueueDepth]) -> list[MessageEvents]:
        counted = self._actor.events
        names = {row.queue for row in rows} | {queue for queue, _ in counted}
        return [
            MessageEvents(queue=queue, event=event, count=counted.get((queue, event), 0))
            for queue in sorted(names)
            for event in sorted(MESSAGE_EVENTS)
        ]

    def _filters(self) -> list[FilterFailures]:
        failures = self._actor.filter_failures
        return [
            FilterFailures(
                stage=stage, count=sum(n for (_, s), n in failures.items() if s == stage)
            )
            for stage in FILTER_STAGES
        ]

    def _maintenance(self, task: str) -> MaintenanceInfo:
        health = self._health[task]
        return MaintenanceInfo(
            enabled=task != "reclaim" or self._store.has_file,
            task=task,
            runs=health.runs,
            interrupted=health.interrupted,
            failures=health.failures,
            last_success_at_ms=health.last_success_at_ms,
            duration=health.duration.shown(),
            last_failure_at_ms=health.last_failure_at_ms,
            last_error_code=health.last_error,
            consecutive_failures=health.consecutive_failures,
            recovered_at_ms=health.recovered_at_ms,
            health=health.word,
        )
