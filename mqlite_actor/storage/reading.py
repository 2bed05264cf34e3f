"""Looking at a file without its writer: read-only connections, and the looks that they run.

Called by the store for readers of its own process, and by `outside` for a file that somebody else
owns. A look is one function over one transaction of its own, so it sees one state of the file:
everything that was committed before it began, whoever committed it. The transaction ends with the
look; nothing is kept between two of them, because the log cannot be cut behind an open one (faults
B2, B3). A look that takes too long, or that nobody wants any more, is stopped.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

import apsw

from mqlite_actor.clock import Clock
from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import Unavailable
from mqlite_actor.storage.database import Ledger, Row, Statement, Transaction, Value

T = TypeVar("T")

Step = Callable[[Transaction], T]

PROGRESS_STEPS: Final = 10_000
"""Steps of SQLite's machine between two questions whether to go on: well below a millisecond."""


class NoReader(Exception):
    """No reader is to be had now; the writer can be asked instead."""


class Look:
    """One look: until when it may go on, and whether anybody still wants it."""

    __slots__ = ("_clock", "_ends_at", "is_given_up")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends_at = math.inf
        self.is_given_up = False  # set from any thread: stop at the next question

    def begin(self) -> None:
        """Its time runs from now on."""
        self._ends_at = self._clock.monotonic() + limits.READ_SECONDS

    def is_over(self) -> bool:
        """Whether to stop."""
        return self.is_given_up or self._clock.monotonic() > self._ends_at

    def stopped(self) -> Unavailable:
        """What a look that was stopped is answered."""
        if self.is_given_up:
            return Unavailable("the look was broken off; the file is being closed, or opened anew")
        return Unavailable(
            f"the look took longer than {limits.READ_SECONDS:g} s and was stopped; ask for less"
        )


class Reader:
    """One read-only connection, for one thread at a time."""

    __slots__ = ("_busy_ms", "_connection", "_is_given_up", "_look")

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._busy_ms = limits.READ_BUSY_MS
        self._look: Look | None = None
        self._is_given_up = False
        connection.set_progress_handler(self._is_over, PROGRESS_STEPS)

    def run(self, step: Step[T], look: Look, *, busy_ms: int = limits.READ_BUSY_MS) -> T:
        """The step's result on a snapshot taken now; the snapshot is gone when this returns.

        Raises SQLite's errors, those of the step, and Unavailable for a look that was stopped.
        """
        if busy_ms != self._busy_ms:
            self._connection.set_busy_timeout(busy_ms)
            self._busy_ms = busy_ms
        look.begin()
        self._look = look
        try:
            self._connection.execute("BEGIN")
            return step(Transaction(self._statements, self._one_by_one, Ledger()))
        except apsw.InterruptError as error:
            raise look.stopped() from error
        finally:
            self._look = None
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def give_up(self) -> None:
        """Stop the look that runs, and every one that begins; from any thread. For a reader that is
        about to be closed."""
        self._is_given_up = True

    def close(self) -> None:
        """Close the connection; not while a look runs."""
        self._connection.close(True)

    def _statements(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Each one's rows, fetched to the end, so that no statement stays open."""
        execute = self._connection.execute
        found: list[list[Row]] = []
        for sql, arguments in statements:
            if self._is_over():  # many short ones never come to the progress handler
                raise apsw.InterruptError("between two statements")
            found.append(execute(sql, arguments).fetchall())
        return found

    def _one_by_one(self, sql: str, arguments: Sequence[tuple[Value, ...]]) -> list[Row]:
        return [
            row for rows in self._statements([(sql, each) for each in arguments]) for row in rows
        ]

    def _is_over(self) -> bool:
        look = self._look
        if look is None:
            return False
        look.is_given_up |= self._is_given_up
        return look.is_over()


class LooksAt(Protocol):
    """What looks are asked of: a store, or the file of a writer elsewhere."""

    complaint: str

    @property
    def readers(self) -> Readers | None: ...

    def look(self, step: Step[T], look: Look, *, busy_ms: int = ...) -> T: ...


class Readers:
    """The readers of one file: at most READERS_MAX, opened when first needed. For any thread.

    `shut` is the one way to be sure that none of them holds the file.
    """

    __slots__ = ("_changed", "_idle", "_is_shut", "_lent", "_open_one", "_opening")

    def __init__(self, open_one: Callable[[], Reader]) -> None:
        self._open_one = open_one
        self._changed = threading.Condition()
        self._idle: list[Reader] = []
        self._lent: set[Reader] = set()
        self._opening = 0
        self._is_shut = False

    @property
    def open(self) -> int:
        """Connections that are open."""
        return len(self._idle) + len(self._lent)

    @property
    def in_use(self) -> int:
        """Connections that run a look."""
        return len(self._lent)

    def borrow(self) -> Reader:
        """A reader of one's own until `give_back`; NoReader if all are lent, or shut away.

        Raises what opening raises.
        """
        with self._changed:
            if self._is_shut:
                raise NoReader
            if self._idle:
                reader = self._idle.pop()
                self._lent.add(reader)
                return reader
            if self._opening + len(self._lent) >= limits.READERS_MAX:
                raise NoReader
            self._opening += 1
        opened: Reader | None = None
        try:
            opened = self._open_one()
        finally:
            with self._changed:
                self._opening -= 1
                if opened is not None:
                    self._lent.add(opened)
                self._changed.notify_all()
        return opened

    def give_back(self, reader: Reader, *, is_sound: bool) -> None:
        """End a loan; a reader that failed is closed, and its place is free for another."""
        try:
            if not is_sound:
                reader.close()
        finally:
            with self._changed:
                self._lent.remove(reader)
                if is_sound:
                    self._idle.append(reader)
                self._changed.notify_all()

    def shut(self) -> None:
        """Lend none any more, stop the looks that run, wait for them, and close all.

        Waits as long as a look needs to notice: a part of a statement, or READ_BUSY_MS in front of
        a foreign lock.
        """
        with self._changed:
            self._is_shut = True
            for reader in self._lent:
                reader.give_up()
            self._changed.wait_for(lambda: not self._lent and not self._opening)
            while self._idle:
                self._idle.pop().close()

    def admit(self) -> None:
        """Lend again after `shut`."""
        with self._changed:
            self._is_shut = False
