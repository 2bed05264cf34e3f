"""What a transaction is, whatever stands below it.

Semantics get a `Transaction` and nothing else of the store. They hand it statements in sets (a read
set, a decision, a write set), tell it what moved, and never commit: the engine opens, commits or
rolls back around a whole group of commands. `run` is for rows that decide what follows; `write` and
`later` are for the rest, which a remote store keeps until it has something to ask, or to commit
(ruling R3). Besides rows a transaction carries what must become true only if it commits: count
changes, sequence numbers, message events and wake-ups. `flush` turns the first two into statements
just before COMMIT; the engine publishes the last two after it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from mqlite_actor.contract import limits
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
Write = Callable[[Sequence[Statement]], object]
WriteMany = Callable[[str, Sequence[tuple[Value, ...]]], object]
Told = Callable[[list[list[Row]]], None]
"""What to do with the rows of statements, once there are some."""


class Recall(NamedTuple):
    """What tells the same as the rows of a `later` whose answer was lost after COMMIT: a question,
    and what to do with its rows."""

    statement: Statement
    told: Callable[[list[Row]], None]


class Later(Protocol):
    """Run these when it suits; `told` of their rows, or the `recall` of its own."""

    def __call__(
        self, statements: Sequence[Statement], told: Told, recall: Recall | None = None
    ) -> None: ...


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


Mark = tuple[int, "dict[str, Queue] | None"]


class Ledger:
    """What the writer knows between transactions: queue rows by name, and the last sequence number.

    Authoritative while one writer owns the file; thrown away after any rollback and then read
    again. A remote store reads all queues at once (`knows_all`), so that a name that is not there
    costs no question, and remembers leases that it gave out (`leases`, what is foreseen of a row by
    its number), which are only ever a guess.
    """

    __slots__ = (
        "_page_bytes", "filters", "is_ahead", "is_tight", "knows_all", "last_seq", "leases",
        "queues", "receipts_seen", "stale_fronts",
    )  # fmt: skip

    def __init__(self, *, page_bytes: int = 0, keeps_leases: bool = False) -> None:
        self.queues: dict[str, Queue] = {}
        self.filters: dict[int, tuple[str, object]] = {}  # text and compiled, by the queue behind
        self.last_seq = UNREAD
        self.is_ahead = True  # of the stored counter, perhaps: rows alone tell of the last numbers
        self._page_bytes = page_bytes
        self.is_tight = False  # the disk is: what a claim hands out is written down, if it is named
        self.knows_all = False
        self.leases: dict[int, Row] | None = {} if keeps_leases else None
        self.stale_fronts: set[int] = set()  # queues whose first messages are past their time
        self.receipts_seen = 0  # up to this id none has an end that lies too far ahead

    def forget(self) -> None:
        """Drop everything; the next transaction reads it from the file."""
        self.queues.clear()
        self.last_seq = UNREAD
        self.is_ahead = True
        self.knows_all = False
        self.stale_fronts.clear()
        if self.leases:
            self.leases.clear()

    def mark(self, *, is_whole: bool) -> Mark:
        """What `go_back` needs. Not `is_whole`: without the queues, of which rows that are only
        read may stay."""
        return self.last_seq, dict(self.queues) if is_whole else None

    def go_back(self, mark: Mark) -> None:
        """Know what was known at the mark."""
        self.last_seq, known = mark
        if known is not None:
            self.queues = known

    @property
    def page_bytes(self) -> int:
        """What the messages of one answer may weigh before the last (`rows.weight`)."""
        most = self._page_bytes or limits.PAGE_BYTES_MAX
        return min(most, limits.RESERVE_BYTES // 16) if self.is_tight else most

    @property
    def is_distant(self) -> bool:
        """Whether a question costs a round trip over a network."""
        return self.leases is not None


def read_last_seq(run: RunStatements, ledger: Ledger) -> None:
    """For the writer, before it begins: a row that tells of the last number may be removed then."""
    if ledger.last_seq == UNREAD:
        ledger.last_seq = run([(READ_COUNTER, ("seq",))])[0][0][0]


class Transaction:
    """One open transaction of the writer. Not usable after its commit or rollback."""

    __slots__ = (
        "_deltas", "_later", "_removes", "deleted", "dues", "events", "expect", "filter_failures",
        "ledger", "random", "run", "run_many", "wakes", "write", "write_many",
    )  # fmt: skip

    def __init__(
        self,
        run: RunStatements,
        run_many: RunMany,
        ledger: Ledger,
        *,
        write: Write | None = None,
        write_many: WriteMany | None = None,
        later: Later | None = None,
        expect: Write | None = None,
        random: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self.random = random  # so many secret bytes; the same again if a verb is run again
        self.run = run
        self.run_many = run_many  # one text with many rows of arguments; the rows of all, in order
        self.write = write or run  # as `run`, where nobody needs the rows
        self.write_many = write_many or run_many
        self._later = later
        # Says what will probably be run next, as one set: it may be asked with what is run now.
        # Only for what this verb's own writes before that do not change.
        self.expect = expect or _needless
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
        self.ledger.filters.pop(queue.id, None)
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
            self.write(statements)
        self._deltas.clear()
        self._removes = False

    def absorb(self, other: Transaction) -> None:
        """Take over what another transaction on the same store is to write."""
        for queue_id, delta in other._deltas.items():
            mine = self._deltas.setdefault(queue_id, [0] * counts.COLUMNS)
            mine[:] = [number + change for number, change in zip(mine, delta, strict=True)]
        self._removes |= other._removes

    def absorb_truth(self, other: Transaction) -> None:
        """Take over what another transaction on the same store made true."""
        for queue, number in other.wakes.items():
            self.wake(queue, number)
        self.deleted |= other.deleted
        for key in [key for key in self.events if key[0] in other.deleted]:
            del self.events[key]
        for queue, event in other.events:
            self.happened(queue, event, other.events[queue, event])
        for subscription, stage in other.filter_failures:
            number = other.filter_failures[subscription, stage]
            key = (subscription, stage)
            self.filter_failures[key] = self.filter_failures.get(key, 0) + number
        for task, at_ms in other.dues.items():
            self.due(task, at_ms)

    def later(
        self, statements: Sequence[Statement], told: Told, recall: Recall | None = None
    ) -> None:
        """As `run`, where only what is told waits for the rows; at once, if no store says when."""
        # A method that asks, and no bound one that is kept: one is made per group, and would hold
        # itself until the collector comes.
        if self._later is not None:
            self._later(statements, told, recall)
            return
        assert recall is None, "only for a store that keeps what is written later"
        told(self.run(statements))


def _needless(_: Sequence[Statement]) -> None:
    """A question costs nothing here: it is asked when it is asked."""


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
        if not self._placed:
            if self._statements:
                self._tx.write(self._statements)
            return
        self._tx.later(self._statements, self._wake)

    def _wake(self, found: list[list[Row]]) -> None:
        for index, queue in self._placed:
            ready = sum(row[0] == Stored.READY for row in found[index])
            if ready:
                self._tx.wake(queue, ready)
