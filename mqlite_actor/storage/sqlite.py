"""The local store: one APSW connection, opened with care, and its transactions.

Called by the engine's storage thread only; one caller at a time. The order of opening is
spec/engine.md 2.5: check the caller's words, inspect, take the lock, open, pragmas, schema. Any
failure closes and unlocks again and leaves a refused file byte for byte as it was. Every pragma is
its own statement and is read back: APSW runs a text of several statements only up to the first one
that returns rows, so a list of pragmas in one text silently stops (ruling R44).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final

import apsw

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import (
    Internal,
    InvalidArgument,
    MqliteError,
    OpenError,
    StorageFailed,
    StorageFull,
    Unavailable,
)
from mqlite_actor.storage import files, schema
from mqlite_actor.storage.database import Ledger, Row, Statement, Transaction

SYNCHRONOUS: Final = {"OFF": 0, "NORMAL": 1, "FULL": 2, "EXTRA": 3}

# Below it two checkpoints at once can lose committed pages (fixed in 3.51.3); 3.52.0 was withdrawn.
SQLITE_MINIMUM: Final = (3, 51, 3)
SQLITE_WITHDRAWN: Final = (3, 52, 0)


def check_sqlite(version: str) -> None:
    """Refuse an SQLite library with a known way to lose commits."""
    numbers = tuple(int(part) for part in version.split("."))
    if numbers < SQLITE_MINIMUM or numbers == SQLITE_WITHDRAWN:
        raise OpenError(
            f"SQLite {version} can lose committed data; install apsw with SQLite"
            f" {'.'.join(map(str, SQLITE_MINIMUM))} or newer (not 3.52.0)"
        )


def synchronous_level(word: str) -> int:
    """The pragma's number for NORMAL, FULL, OFF or EXTRA in any letter case."""
    level = SYNCHRONOUS.get(word.strip().upper())
    if level is None:
        raise InvalidArgument(
            f"synchronous {word!r} is unknown; use NORMAL, FULL, OFF or EXTRA (MQLITE_SYNC)"
        )
    return level


# Errors after which nobody knows what the file holds until it was opened again.
_DOUBTFUL: Final = (
    apsw.IOError, apsw.CorruptError, apsw.NotADBError, apsw.CantOpenError, apsw.ReadOnlyError,
)  # fmt: skip


def mapped(error: Exception) -> MqliteError:
    """The error of ours that a failure stands for. StorageFailed: the file is in doubt."""
    if isinstance(error, MqliteError):
        return error
    if isinstance(error, apsw.FullError):
        return StorageFull("the disk is full; delete or purge messages, or free space")
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Unavailable("another program holds a lock on the database file; try again")
    if isinstance(error, _DOUBTFUL):
        kind = type(error).__name__.removesuffix("Error").lower()
        return StorageFailed(
            f"storage failed ({kind}); writes are refused until the file is sound again"
        )
    return Internal(f"unexpected {type(error).__name__}; the log has the cause")


class SqliteStore:
    """An open local store. Made by `open_store`; `close` releases the file.

    `healthy` is False after a failure that leaves the file's state in doubt; `reopen` mends it or
    raises.
    """

    __slots__ = (
        "_lock", "_synchronous", "complaint", "connection", "healthy", "ledger", "path",
    )  # fmt: skip

    def __init__(self, path: str, synchronous: int, lock: files.FileLock | None) -> None:
        self.path = path
        self.ledger = Ledger()
        self.healthy = True
        self.complaint = ""  # the failure that was logged last and still lasts
        self._synchronous = synchronous
        self._lock = lock
        self.connection = _connect(path, synchronous)

    @property
    def is_memory(self) -> bool:
        """A private database that ends with its connection."""
        return self.path == files.MEMORY

    @property
    def in_transaction(self) -> bool:
        """False when SQLite has rolled back by itself (disk full, I/O error)."""
        return self.connection.in_transaction

    @property
    def changes(self) -> int:
        """Rows changed since opening; moves exactly when a statement wrote."""
        return self.connection.total_changes()

    def run(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run statements in order and return each one's rows, fetched to the end."""
        execute = self.connection.execute
        return [execute(sql, arguments).fetchall() for sql, arguments in statements]

    def begin(self) -> Transaction:
        """Start a write transaction; Unavailable when a foreign lock outlasts BUSY_MS."""
        self.connection.execute("BEGIN IMMEDIATE")
        return Transaction(self.run, self.ledger)

    def commit(self) -> None:
        """COMMIT. Raises SQLite's own error: what it means for the group is not decided here."""
        self.connection.execute("COMMIT")

    def rollback(self) -> None:
        """Undo what is open, if SQLite has not done so, and forget what was cached of it."""
        self.ledger.forget()
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def reopen(self) -> None:
        """Open the file anew, keeping the lock; OpenError if that fails."""
        self.ledger.forget()
        self.connection.close(True)
        try:
            if not schema.inspect(self.path):
                raise OpenError(f"{self.path} is not the database that was open")
            self.connection = _connect(self.path, self._synchronous)
        except apsw.Error as error:
            raise OpenError(f"{self.path} cannot be opened again: {error}") from error
        self.healthy = True

    def size_bytes(self) -> int:
        """Bytes on disk, log included; 0 for memory."""
        return files.size_on_disk(self.path)

    def close(self) -> None:
        """Close the connection, then release the lock; harmless when repeated."""
        try:
            self.connection.close()
        finally:
            if self._lock is not None:
                self._lock.release()


def open_store(dsn: str, *, synchronous: str = "NORMAL", create: bool = True) -> SqliteStore:
    """Open a local or in-memory store. `create` False refuses a file that does not exist.

    Raises InvalidArgument for a wrong word, DatabaseLocked, SchemaVersionMismatch or OpenError; a
    file that is refused, and its folder, are left as they were.
    """
    level = synchronous_level(synchronous)
    check_sqlite(apsw.sqlite_lib_version())
    path = files.canonical_path(dsn)
    if path == files.MEMORY:
        return SqliteStore(path, level, None)
    if not create and not os.path.exists(path):
        raise OpenError(f"{path} does not exist")
    files.check_place(path)
    if os.path.exists(path) and os.path.getsize(path):
        schema.inspect(path)  # before the lock, whose sidecar would be left beside a refused file
    lock = files.FileLock(path)
    try:
        files.create_private(path)
        return SqliteStore(path, level, lock)
    except apsw.Error as error:
        lock.release(is_refused=True)
        raise OpenError(f"{path} cannot be opened: {error}") from error
    except BaseException:
        lock.release(is_refused=True)
        raise


# -- the connection --------------------------------------------------------------------------------


def _connect(path: str, synchronous: int) -> apsw.Connection:
    # Never CREATE: a file that vanished must not come back empty under those who still use it.
    in_memory = apsw.SQLITE_OPEN_CREATE if path == files.MEMORY else 0
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE | in_memory)
    try:
        _stable_plans(connection)
        _wait_for_foreign_locks(connection)
        if path != files.MEMORY:
            for setting in _FILE_SETTINGS:
                setting(connection)
            _pragma(connection, "synchronous", synchronous)
        _pragma(connection, "foreign_keys", 1)
        if not _has_schema(connection):
            schema.create(connection)
    except BaseException:
        connection.close(True)
        raise
    return connection


def _stable_plans(connection: apsw.Connection) -> None:
    """Query plans must not depend on bound values: otherwise SQLite prepares a statement that
    proves a partial index anew at each run, 20 to 100 microseconds each (review F2)."""
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


def _wait_for_foreign_locks(connection: apsw.Connection) -> None:
    """A backup tool or shell may hold the write lock for a moment."""
    connection.set_busy_timeout(limits.BUSY_MS)


def _incremental_vacuum(connection: apsw.Connection) -> None:
    """Has to be set on an empty file before WAL, or it stays off until a full VACUUM."""
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")


def _write_ahead_log(connection: apsw.Connection) -> None:
    """Readers do not block the writer, and a commit is one append (sqlite.org/wal.html)."""
    mode = connection.pragma("journal_mode", "wal")
    if mode != "wal":
        raise OpenError(f"the file cannot use a write-ahead log (journal mode stays {mode})")


def _bounded_log(connection: apsw.Connection) -> None:
    """A log that a long reader let grow is cut back when it restarts."""
    _pragma(connection, "journal_size_limit", limits.WAL_BYTES_KEPT)


def _temporary_tables_in_memory(connection: apsw.Connection) -> None:
    """Sorting must not need space on the disk that may be full."""
    _pragma(connection, "temp_store", 2)


def _small_cache(connection: apsw.Connection) -> None:
    """The hot ends of the indexes fit; a backlog of gigabytes must not."""
    _pragma(connection, "cache_size", -limits.CACHE_KIB)


_FILE_SETTINGS: Final[tuple[Callable[[apsw.Connection], None], ...]] = (
    _incremental_vacuum,
    _write_ahead_log,
    _bounded_log,
    _temporary_tables_in_memory,
    _small_cache,
)


def _pragma(connection: apsw.Connection, name: str, value: int) -> None:
    connection.execute(f"PRAGMA {name} = {value}").fetchall()
    found = connection.pragma(name)
    if found != value:
        raise OpenError(f"SQLite did not take PRAGMA {name} = {value} (it says {found})")


def _has_schema(connection: apsw.Connection) -> bool:
    rows = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'messages'").fetchall()
    return bool(rows)
