"""Looks at a file that another process owns: the calls that only read, answered without an engine.

Called by `sdk/reader.py`, from any thread, and blocks until it has the answer. The same operations
answer here as in the engine, on a snapshot of the same file; what only the owner's memory knows
(counters, waiting receives, the health of its passes, its uptime) is not known here, and is said
not to be instead of being shown as zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from mqlite_actor.clock import Clock, SystemClock
from mqlite_actor.contract import limits, mistakes, wire
from mqlite_actor.contract.errors import MqliteError, Unsupported
from mqlite_actor.contract.observe import (
    Collection,
    HttpInfo,
    ObserveRequest,
    ObserveResponse,
    RuntimeInfo,
    StorageInfo,
    StoragePool,
)
from mqlite_actor.contract.words import Kind
from mqlite_actor.engine import commands
from mqlite_actor.engine.diagnostics import OFF
from mqlite_actor.engine.meters import error_code_of
from mqlite_actor.engine.readers import READS
from mqlite_actor.semantics.depths import Sample
from mqlite_actor.storage.database import Transaction
from mqlite_actor.storage.outside import OutsideFile
from mqlite_actor.storage.reading import Look
from mqlite_actor.storage.schema import WIRE_SCHEMA_VERSION
from mqlite_actor.version import __version__

R = TypeVar("R")


class Outside:
    """Answers what only looks. Opening one tells at once whether there is a queue to look at."""

    __slots__ = ("_clock", "_file", "_last_success_at_ms", "_local", "_table")

    def __init__(self, dsn: str, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._file = OutsideFile(dsn)
        self._table = commands.table(message_bytes_max=limits.MESSAGE_BYTES_DEFAULT)
        self._last_success_at_ms = 0
        self._local: dict[type[Any], Callable[[], Any]] = {
            wire.StatusRequest: self._status,
            ObserveRequest: self._observe,
        }
        self._ask(commands.CountEntities(), Look(self._clock))

    def call(self, request: wire.Request[R], look: Look | None = None) -> R:
        """The response; Unsupported for a request that would change something.

        Raises what the operation refuses, and the errors of `OutsideFile.look`. Another thread may
        give up the `look`, which ends it with Unavailable.
        """
        local = self._local.get(type(request))
        if local is not None:
            return cast("R", local())
        if type(request) not in READS:
            raise Unsupported(
                f"a reader only looks: {type(request).__name__} needs the engine that owns the"
                " file, or its broker"
            )
        request = mistakes.check(request)
        return cast("R", self._ask(request, look or Look(self._clock)))

    def new_look(self) -> Look:
        """A look that can be given up from elsewhere."""
        return Look(self._clock)

    def _ask(self, command: Any, look: Look) -> Any:  # noqa: ANN401  # the table pairs the types
        operation, clock = self._table[type(command)], self._clock

        def step(tx: Transaction) -> object:
            return operation(tx, command, clock.now_ms())

        return self._file.look(step, look)

    def _status(self) -> wire.StatusResponse:
        started = self._clock.monotonic()
        queues, subscriptions = self._ask(commands.CountEntities(), Look(self._clock))
        return wire.StatusResponse(
            version=__version__,
            backend="local file",
            remote=False,
            location=self._file.path,
            schema_version=WIRE_SCHEMA_VERSION,
            ping_ms=int((self._clock.monotonic() - started) * 1000),
            db_size_bytes=self._file.size_bytes(),
            queues=queues,
            subscriptions=subscriptions,
            uptime_ms=0,
            auth=False,
        )

    def _observe(self) -> ObserveResponse:
        """Never raises for a file that cannot be read: that is what it shows."""
        started = self._clock.monotonic()
        sample: Sample | None = None
        error_code = ""
        try:
            sample = self._ask(commands.Collect(), Look(self._clock))
            self._last_success_at_ms = self._clock.now_ms()
        except MqliteError as error:
            error_code = error_code_of(error)
        seconds = self._clock.monotonic() - started
        kinds = [row.kind for row in sample.rows] if sample else []
        return ObserveResponse(
            sampled_at_ms=self._clock.now_ms(),
            started_at_ms=None,
            backend="local",
            runtime=self._runtime(seconds, sample),
            collection=Collection(
                state="available" if sample else "unavailable",
                last_success_at_ms=self._last_success_at_ms,
                duration_seconds=seconds,
                error_code=error_code,
            ),
            queue_count=kinds.count(Kind.QUEUE),
            subscription_count=kinds.count(Kind.SUBSCRIPTION),
            queues=sample.rows if sample else None,
            messages=[],
            storage=StorageInfo(operations=[], pool=_POOL),
            maintenance=[],
            filters=[],
            version=__version__,
            access="reader",
            http=HttpInfo(
                state="not_applicable", requests=[], authentication=[], handler_latency=[]
            ),
            diagnostics=OFF,
        )

    def _runtime(self, seconds: float, sample: Sample | None) -> RuntimeInfo:
        size = self._file.size_bytes()
        return RuntimeInfo(
            schema_version=WIRE_SCHEMA_VERSION,
            ping_seconds=seconds if sample else 0.0,
            read_available=sample is not None,
            db_size_bytes=size,
            db_size_available=size > 0,
            wal_bytes=self._file.log_bytes(),
            free_bytes=sample.free_bytes if sample else None,
            disk_free_bytes=self._file.disk_free_bytes(),
        )


_POOL = StoragePool(
    max_open=limits.READ_THREADS_MAX,
    open=0,
    in_use=0,
    idle=0,
    wait_count=0,
    wait_duration_seconds=0.0,
)
"""Nothing is kept open between two looks."""
