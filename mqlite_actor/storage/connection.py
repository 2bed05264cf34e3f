"""How a connection is opened: one function per setting, each with its reason.

Called by the store, its checkpointer and readers. Every pragma is its own statement and is
read back: APSW runs a text of several statements only up to the first one that returns rows, so a
list of pragmas in one text silently stops (ruling R44).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

import apsw

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument, OpenError
from mqlite_actor.storage import files

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


def connect(path: str, synchronous: int) -> apsw.Connection:
    """The writer's connection. Raises apsw's errors, or OpenError for a setting not taken."""
    # Never CREATE: a file that vanished must not come back empty under those who still use it.
    in_memory = apsw.SQLITE_OPEN_CREATE if path == files.MEMORY else 0
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE | in_memory)
    try:
        _stable_plans(connection)
        connection.set_busy_timeout(limits.BUSY_MS)
        if path != files.MEMORY:
            for setting in _FILE_SETTINGS:
                setting(connection)
            _pragma(connection, "synchronous", synchronous)
        _pragma(connection, "foreign_keys", 1)
    except BaseException:
        connection.close(True)
        raise
    return connection


def connect_checkpointer(path: str, synchronous: int) -> apsw.Connection:
    """A second connection that only moves the log into the file; never waits for a lock.

    It syncs as the writer does: what a checkpoint moves must be on disk before the log is reused.
    """
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(0)
        _no_automatic_checkpoints(connection)
        _pragma(connection, "synchronous", synchronous)
    except BaseException:
        connection.close(True)
        raise
    return connection


def connect_reader(path: str) -> apsw.Connection:
    """A connection that only reads, beside the writer of this very process.

    The writer's own connection keeps the log and its index in place, so opening creates nothing.
    """
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    return _reading(connection)


def connect_outsider(path: str) -> apsw.Connection:
    """A connection that only reads a file which another process owns; changes no byte of anything.

    `readonly_shm`: without it the first process that comes after a killed owner would make the
    log's index anew, which is the next owner's business.
    """
    uri = f"file:{quote(path)}?readonly_shm=1"
    connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    return _reading(connection)


def _reading(connection: apsw.Connection) -> apsw.Connection:
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        _stable_plans(connection)
        connection.set_busy_timeout(limits.READ_BUSY_MS)
        _pragma(connection, "query_only", 1)
        _pragma(connection, "cache_size", -limits.READER_CACHE_KIB)
        _temporary_tables_in_memory(connection)
    except BaseException:
        connection.close(True)
        raise
    return connection


def _stable_plans(connection: apsw.Connection) -> None:
    """Query plans must not depend on bound values: otherwise SQLite prepares a statement that
    proves a partial index anew at each run, 20 to 100 microseconds each (review F2)."""
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


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


def _no_automatic_checkpoints(connection: apsw.Connection) -> None:
    """An automatic checkpoint runs inside a COMMIT and stalls it by tens of milliseconds (R44)."""
    _pragma(connection, "wal_autocheckpoint", 0)


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
    _no_automatic_checkpoints,
    _temporary_tables_in_memory,
    _small_cache,
)


def _pragma(connection: apsw.Connection, name: str, value: int) -> None:
    connection.execute(f"PRAGMA {name} = {value}").fetchall()
    found = connection.pragma(name)
    if found != value:
        raise OpenError(f"SQLite did not take PRAGMA {name} = {value} (it says {found})")
