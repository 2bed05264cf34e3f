"""The second connection to a local file, which looks after its log beside the writer.

Used by the local store alone. Opened when it is needed first. Rule: whoever has it, or is about to
cut the log, holds `lock`; it comes from another thread than the writer's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import apsw

from mqlite_actor.storage import sizes
from mqlite_actor.storage.connection import connect_checkpointer

HEADER_BYTES: Final = 32
PAGE_HEADER_BYTES: Final = 24
"""Of the log, and of each page in it: https://sqlite.org/fileformat2.html#the_write_ahead_log"""


class Checkpointer:
    """For one path; never waits for a lock of SQLite's."""

    __slots__ = ("_connection", "_path", "_synchronous", "lock")

    def __init__(self, path: str, synchronous: int) -> None:
        self.lock: Final = threading.Lock()
        self._path = path
        self._synchronous = synchronous
        self._connection: apsw.Connection | None = None

    def move(self, is_sound: Callable[[], bool]) -> None:
        """Move what can be moved of the log into the file, unless the file is in doubt: then it is
        about to be opened anew."""
        with self.lock:
            if not is_sound():
                return
            try:
                self._opened().wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            except apsw.BusyError:
                return  # another program is cutting the log at this very moment

    def trim(self, writer: apsw.Connection, page_bytes: int) -> None:
        """Cut off the log's end, which nobody reads: what a transaction had written until it was
        rolled back. With `lock` held.

        SQLite says how many pages of the log count, and the writer's lock keeps that so. The file
        is cut by its name: closing a descriptor of it would cost the locks of all connections.
        """
        writer.execute("BEGIN IMMEDIATE")
        try:
            pages, _ = self._opened().wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            sizes.cut(f"{self._path}-wal", HEADER_BYTES + pages * (PAGE_HEADER_BYTES + page_bytes))
        finally:
            writer.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection; the next use opens another one."""
        with self.lock:
            if self._connection is not None:
                self._connection.close(True)
                self._connection = None

    def _opened(self) -> apsw.Connection:
        if self._connection is None:
            self._connection = connect_checkpointer(self._path, self._synchronous)
        return self._connection
