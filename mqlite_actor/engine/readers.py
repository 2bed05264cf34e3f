"""Looks: what is answered from a read-only connection, beside the writer and never through it.

Called by the engine for every request type in READS, and by a front-end process of a broker, which
looks at the file of its writer. A look begins its snapshot when it is its
turn, so it sees every write that was acknowledged before it was asked for, and it goes on while the
writer is held by a user's transaction. A look that touches a handful of pages runs right here in
the trio thread, where it takes a fifth of the time of the hop to a thread, and less under load
(docs/decisions/0007-readers.md); one whose work grows with what is stored runs in a thread. The
writer is asked instead for a database in memory, for a file in doubt (it is opened anew first), and
when no connection is to be had.
"""

from __future__ import annotations

from enum import Enum
from time import perf_counter
from typing import Any, Final, Protocol

import trio

from mqlite_actor.clock import Clock
from mqlite_actor.contract import ext, keys, limits, wire
from mqlite_actor.contract.errors import CallerError, Internal, MqliteError, Unavailable
from mqlite_actor.contract.observe import StoragePool
from mqlite_actor.engine import commands
from mqlite_actor.engine.mailbox import Command
from mqlite_actor.logs import logger
from mqlite_actor.semantics.operations import Operation
from mqlite_actor.storage.database import Transaction
from mqlite_actor.storage.reading import Look, LooksAt, NoReader

_log = logger("mqlite.engine")


class Place(Enum):
    """Where a look runs."""

    HERE = "the trio thread"
    THREAD = "a thread of its own"


READS: Final[dict[type[Any], Place]] = {
    wire.StatsRequest: Place.HERE,
    commands.Authenticate: Place.HERE,
    wire.PeekRequest: Place.THREAD,
    wire.ListQueuesRequest: Place.THREAD,
    wire.ListSubscriptionsRequest: Place.THREAD,
    ext.DescribeQueueRequest: Place.THREAD,
    ext.ExplainRequest: Place.THREAD,
    ext.SearchRequest: Place.THREAD,
    keys.ListKeysRequest: Place.THREAD,
    commands.Gather: Place.THREAD,
    commands.CountEntities: Place.THREAD,
    commands.Collect: Place.THREAD,
}
"""Commands that change nothing. HERE only for what costs the same however much is stored."""


class CountsCalls(Protocol):
    """What storage calls are counted into: a StorageMeter, or the way to one."""

    def add(
        self, operation: str, error: BaseException | None, seconds: float, number: int = 1
    ) -> None: ...


class LookOut:
    """Answers the looks of one engine."""

    __slots__ = (
        "_clock", "_limiter", "_meter", "_room_seconds", "_store", "_table", "_wait_seconds",
        "_waits",
    )  # fmt: skip

    def __init__(
        self,
        store: LooksAt,
        table: dict[type[Any], Operation],
        clock: Clock,
        meter: CountsCalls,
        *,
        room_seconds: float,
    ) -> None:
        self._store = store
        self._table = table
        self._clock = clock
        self._meter = meter
        self._room_seconds = room_seconds
        self._limiter = trio.CapacityLimiter(limits.READ_THREADS_MAX)
        self._waits = 0
        self._wait_seconds = 0.0

    async def look(self, command: Command) -> Any:  # noqa: ANN401  # the table pairs the types
        """The answer to a command of READS; NoReader when the writer is to be asked.

        Raises what the operation refuses, Unavailable for a look that took too long or had to wait
        too long for its turn, StorageFailed where the file cannot be read. Cancelled, it is
        stopped.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        started = perf_counter()
        try:
            reply = await self._answer(command)
        except MqliteError as error:
            self._meter.add("read", error, perf_counter() - started)
            self._report(error)
            raise
        self._meter.add("read", None, perf_counter() - started)
        return reply

    def pool(self) -> StoragePool:
        """Connections, the writer's included, and how looks waited for one."""
        readers = self._store.readers
        in_use = 0 if readers is None else readers.in_use
        is_open = 0 if readers is None else readers.open
        return StoragePool(
            max_open=1 if readers is None else 1 + limits.READERS_MAX,
            open=1 + is_open,
            in_use=in_use,
            idle=1 + is_open - in_use,
            wait_count=self._waits,
            wait_duration_seconds=self._wait_seconds,
        )

    async def _answer(self, command: Command) -> object:
        if READS[type(command)] is Place.HERE:
            try:
                return self._once(command, Look(self._clock), busy_ms=0)
            except (NoReader, Unavailable):
                pass  # a foreign lock, perhaps: what may wait has a thread for it
            finally:
                await trio.lowlevel.cancel_shielded_checkpoint()  # others get their turn
        return await self._in_thread(command)

    async def _in_thread(self, command: Command) -> object:
        look = Look(self._clock)
        has_to_wait = not self._limiter.available_tokens
        asked = begun = perf_counter()

        def run() -> object:
            nonlocal begun
            begun = perf_counter()
            return self._once(command, look, busy_ms=limits.READ_BUSY_MS)

        self._waits += has_to_wait
        try:
            with trio.move_on_after(self._room_seconds + limits.READ_SECONDS):
                return await trio.to_thread.run_sync(
                    run, limiter=self._limiter, abandon_on_cancel=True
                )
        finally:
            look.is_given_up = True  # nobody waits for it any more
            if has_to_wait:
                self._wait_seconds += begun - asked
        raise Unavailable(
            f"{limits.READ_THREADS_MAX} looks at the store are under way, and others wait; repeat"
            " after a pause"
        )

    def _once(self, command: Command, look: Look, *, busy_ms: int) -> object:
        operation, clock = self._table[type(command)], self._clock

        def step(tx: Transaction) -> object:
            return operation(tx, command, clock.now_ms())

        return self._store.look(step, look, busy_ms=busy_ms)

    def _report(self, error: MqliteError) -> None:
        """One line a kind of outage; only what nobody expected comes with its traceback."""
        if isinstance(error, Internal):
            _log.error("a look failed: %s", error.message, exc_info=error.__cause__)
        elif not isinstance(error, CallerError) and self._store.complaint != error.message:
            self._store.complaint = error.message
            _log.error("%s (%s)", error.message, error.__cause__)
