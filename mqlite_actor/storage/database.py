"""What a transaction is, whatever stands below it.

Semantics get a `Transaction` and nothing else of the store. They hand it statements in sets
(`run([...])`: a read set, a decision, a write set), tell it what moved, and never commit: the
engine opens, commits or rolls back around a whole group of commands. Besides rows a transaction
carries what must become true only if it commits: count changes, sequence numbers, message events
and wake-ups. `flush` turns the first two into statements just before COMMIT; the engine publishes
the last two after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from mqlite_actor.storage import counts

if TYPE_CHECKING:
    from mqlite_actor.storage.queues import Queue

Value = int | float | str | bytes | None
Row = tuple[Any, ...]
"""Columns as SQLite gives them; the STRICT tables of schema.sql fix their types."""

Statement = tuple[str, tuple[Value, ...]]
"""SQL text and its positional arguments."""

RunStatements = Callable[[Sequence[Statement]], list[list[Row]]]
RunMany = Callable[[str, Sequence[tuple[Value, ...]]], list[Row]]


class Stored(IntEnum):
    """The state column (schema.sql). READY and WAITING are both `active` on the wire."""

    READY = 1
    WAITING = 2
    LOCKED = 3
    SCHEDULED = 4
    DEFERRED = 5
    DEAD = 6


READ_COUNTER: Final = """
SELECT max(value, coalesce((SELECT max(id) FROM messages), 0)) FROM counters WHERE name = ?"""
WRITE_COUNTER: Final = "UPDATE counters SET value = ? WHERE name = ?"

UNREAD: Final = -1
"""The last sequence number, before it was read."""


class Ledger:
    """What the writer knows between transactions: queue rows by name, and the last sequence number.

    Authoritative while one writer owns the file; thrown away after any rollback and then read
    again.
    """

    __slots__ = ("filters", "is_ahead", "last_seq", "queues")

    def __init__(self) -> None:
        self.queues: dict[str, Queue] = {}
        self.filters: dict[str, object] = {}  # compiled, by their text; never stale
        self.last_seq = UNREAD
        self.is_ahead = True  # of the stored counter, perhaps: rows alone tell of the last numbers

    def forget(self) -> None:
        """Drop everything; the next transaction reads it from the file."""
        self.queues.clear()
        self.last_seq = UNREAD
        self.is_ahead = True


def read_last_seq(run: RunStatements, ledger: Ledger) -> None:
    """For the writer, before it begins: a row that tells of the last number may be removed then."""
    if ledger.last_seq == UNREAD:
        ledger.last_seq = run([(READ_COUNTER, ("seq",))])[0][0][0]


class Transaction:
    """One open transaction of the writer. Not usable after its commit or rollback."""

    __slots__ = (
        "_deltas", "_removes", "deleted", "dues", "events", "filter_failures", "ledger", "run",
        "run_many", "wakes",
    )  # fmt: skip

    def __init__(self, run: RunStatements, run_many: RunMany, ledger: Ledger) -> None:
        self.run = run
        self.run_many = run_many  # one text with many rows of arguments; the rows of all, in order
        self.ledger = ledger
        self.events: dict[tuple[str, str], int] = {}
        self.deleted: set[str] = set()
        self.wakes: dict[str, int] = {}
        self.dues: dict[str, int] = {}
        self.filter_failures: dict[tuple[str, str], int] = {}
        self._deltas: dict[int, list[int]] = {}
        self._removes = False  # messages: then the last number must not be told by a row alone

    def next_seq(self, number: int = 1) -> int:
        """A sequence number never given out before, or the first of `number` in a row."""
        ledger = self.ledger
        first = ledger.last_seq + 1
        ledger.last_seq += number
        ledger.is_ahead = True
        return first

    def moved(
        self,
        queue: Queue,
        *,
        before: Stored | None = None,
        after: Stored | None = None,
        number: int = 1,
        dead_bytes: int = 0,
    ) -> None:
        """`number` messages of `queue` changed state (None: did not exist); dead_bytes is added."""
        delta = self._deltas.get(queue.id)
        if delta is None:
            delta = self._deltas[queue.id] = [0] * counts.COLUMNS
        if before is not None:
            delta[counts.COLUMN[before]] -= number
        if after is not None:
            delta[counts.COLUMN[after]] += number
        else:
            self._removes = True
        delta[counts.DEAD_BYTES] += dead_bytes

    def wake(self, queue: str, number: int = 1) -> None:
        """`number` messages of this queue may have become claimable."""
        self.wakes[queue] = self.wakes.get(queue, 0) + number

    def depths(self, queue: Queue) -> tuple[int, ...]:
        """The queue's counts (`counts.COLUMN`, DEAD_BYTES), with this transaction's changes."""
        kept = counts.six(self.run([counts.read(queue.id)])[0][0])
        delta = self._deltas.get(queue.id, [0] * counts.COLUMNS)
        return tuple(number + change for number, change in zip(kept, delta, strict=True))

    def dead_letters(self, queue: Queue) -> tuple[int, int]:
        """How many dead letters a queue has, and their bytes, with this transaction's changes."""
        depths = self.depths(queue)
        return depths[counts.COLUMN[Stored.DEAD]], depths[counts.DEAD_BYTES]

    def has_changes(self, queue: Queue) -> bool:
        """Whether this transaction has moved messages of the queue."""
        return any(self._deltas.get(queue.id, ()))

    def drop_counts(self, queue: Queue) -> None:
        """The queue is gone: its counts must not be written any more, and its events are history.

        A queue of the same name may follow in this very transaction; its events come after.
        """
        self._deltas.pop(queue.id, None)
        self._removes = True
        self.deleted.add(queue.name)
        for key in [key for key in self.events if key[0] == queue.name]:
            del self.events[key]

    def filter_failed(self, subscription: str, stage: str) -> None:
        """Count a filter that did not compile, or failed at run time."""
        key = (subscription, stage)
        self.filter_failures[key] = self.filter_failures.get(key, 0) + 1

    def due(self, task: str, at_ms: int) -> None:
        """Something of this maintenance task falls due at an instant; 0 is never."""
        if at_ms and at_ms < self.dues.get(task, at_ms + 1):
            self.dues[task] = at_ms

    def happened(self, queue: str, event: str, number: int = 1) -> None:
        """Count a message event (spec/wire.md 2.19), if and when the transaction commits."""
        if number:
            key = (queue, event)
            self.events[key] = self.events.get(key, 0) + number

    def writes(self) -> WriteSet:
        """A write set to gather statements in."""
        return WriteSet(self)

    def flush(self) -> None:
        """Write what was gathered: counts, one statement per touched queue, and the sequence
        counter where rows that tell of it are removed (a page less for each commit of sends)."""
        statements: list[Statement] = [
            counts.add(queue_id, delta) for queue_id, delta in self._deltas.items() if any(delta)
        ]
        if self._removes and self.ledger.is_ahead:
            self.ledger.is_ahead = False
            statements.append((WRITE_COUNTER, (self.ledger.last_seq, "seq")))
        if statements:
            self.run(statements)
        self._deltas.clear()
        self._removes = False


class WriteSet:
    """The statements by which one verb acts, run together after it has decided.

    `place` adds one that returns the state it gave a message: READY means that somebody may be
    waiting for it.
    """

    __slots__ = ("_placed", "_statements", "_tx")

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._statements: list[Statement] = []
        self._placed: list[tuple[int, str]] = []

    def add(self, *statements: Statement) -> None:
        """Statements whose rows nobody needs."""
        self._statements += statements

    def place(self, statement: Statement, queue: Queue) -> None:
        """A statement that returns the state of the row that it placed in line, if it did."""
        self._placed.append((len(self._statements), queue.name))
        self._statements.append(statement)

    def run(self) -> None:
        """Run all and note the wake-ups. Once only."""
        if not self._statements:
            return
        found = self._tx.run(self._statements)
        for index, queue in self._placed:
            ready = sum(row[0] == Stored.READY for row in found[index])
            if ready:
                self._tx.wake(queue, ready)
