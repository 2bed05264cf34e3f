"""Who writes, and what becomes of one who writes too long.

SQLite lets one connection write. Another one that wants to waits in its busy handler until the
writer is done; and when that has had the lock for `seconds`, the one who waits takes it: the
writer's transaction is rolled back as soon as its stream is idle.
Time is the clock that the test moves; waiting itself is bounded in real time.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import Final, Protocol

import apsw

from mqlite_actor.clock import Clock

TICK_SECONDS: Final = 0.005
"""Between two looks at the clock and at the lock."""

TICKS_MAX: Final = 3000
"""Fifteen seconds; after them a waiting writer is told SQLITE_BUSY."""


class Writer(Protocol):
    """What is asked of a stream."""

    connection: apsw.Connection
    busy: threading.Lock
    is_timed_out: bool
    """Rolled back while nobody was looking: the next program is told so."""


class Writers:
    """The one that writes and those that want to, of one database."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._changed = threading.Condition()
        self._holder: Writer | None = None
        self._since = 0.0

    def watch(self, writer: Writer) -> None:
        """Let a stream wait its turn from now on."""
        writer.connection.set_busy_handler(partial(self._wait, writer))

    def note(self, writer: Writer) -> None:
        """A statement of this stream has ended: does it hold the lock?"""
        holds = writer.connection.txn_state("main") == apsw.SQLITE_TXN_WRITE
        with self._changed:
            if holds and self._holder is not writer:
                self._holder, self._since = writer, self._clock.monotonic()
            elif not holds and self._holder is writer:
                self._holder = None
                self._changed.notify_all()

    def forget(self, writer: Writer) -> None:
        """A stream is gone, and its transaction with it."""
        with self._changed:
            if self._holder is writer:
                self._holder = None
                self._changed.notify_all()

    def _wait(self, writer: Writer, tries: int) -> bool:
        with self._changed:
            self._changed.wait(TICK_SECONDS)
            holder = self._holder
            over = self._clock.monotonic() - self._since >= self._seconds
            if holder is not None and holder is not writer and over:
                self._take_from(holder)
        return tries < TICKS_MAX

    def _take_from(self, holder: Writer) -> None:
        if not holder.busy.acquire(blocking=False):
            return  # it is at work, which ends by itself
        try:
            if holder.connection.in_transaction:
                holder.connection.execute("ROLLBACK")
                holder.is_timed_out = True
            self._holder = None
        finally:
            holder.busy.release()
