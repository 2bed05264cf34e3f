"""The local store: one APSW connection, opened with care, and its transactions.

Called by the engine's storage thread only, one caller at a time, except for `checkpoint_passive`
and `look`, which have connections of their own and may run in other threads. The order of opening
is spec/engine.md 2.5: check the caller's words, inspect, take the lock, open, pragmas, schema. Any
failure closes and unlocks again and leaves a refused file byte for byte as it was.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeVar

import apsw

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import OpenError, StorageFailed
from mqlite_actor.storage import allocator, aside, blocks, database, files, schema, sizes
from mqlite_actor.storage.beside import look_through
from mqlite_actor.storage.checkpointer import Checkpointer
from mqlite_actor.storage.connection import (
    SYNCHRONOUS,
    check_sqlite,
    connect,
    connect_reader,
    synchronous_level,
)
from mqlite_actor.storage.database import Ledger, Row, Statement, Transaction, Value
from mqlite_actor.storage.guard import FileGuard
from mqlite_actor.storage.reading import Look, NoReader, Reader, Readers, Step
from mqlite_actor.storage.room import AnyRoom, Room
from mqlite_actor.storage.store import FILE, MEMORY, Backend
from mqlite_actor.storage.user_sql import UserSql

T = TypeVar("T")

_CUTS: Final = (apsw.SQLITE_CHECKPOINT_TRUNCATE, apsw.SQLITE_CHECKPOINT_RESTART)


class SqliteStore:
    """An open local store. Made by `open_store`; `close` releases the file.

    `healthy` is False after a failure that leaves the file's state in doubt; `reopen` mends it or
    raises. `log_pages` is how long the log was after the last commit. `room` knows what is left on
    the disk.
    """

    __slots__ = (
        "_checkpointer", "_guard", "_is_patient", "_lock", "_page_bytes", "_readers",
        "_synchronous", "_version", "complaint", "connection", "healthy", "leaves_log", "ledger",
        "log_pages", "path", "room", "user_sql",
    )  # fmt: skip

    def __init__(self, path: str, synchronous: int, lock: files.FileLock | None) -> None:
        self.path = path
        self.ledger = Ledger()
        self.healthy = True
        self.leaves_log = False  # to another program, which alone moves the log into the file
        self.complaint = ""  # the failure that was logged last and still lasts
        self.log_pages = 0
        self._synchronous = synchronous
        self._lock = lock
        self._checkpointer = Checkpointer(path, synchronous)
        self._guard = None if lock is None else FileGuard(path, lock)
        self._readers = Readers(lambda: Reader(connect_reader(path)))
        self._is_patient = True  # as its connection is made
        self._version = 0  # of the file, as it was after the last COMMIT here
        self.connection = self._connect()
        self.user_sql = UserSql(self.connection)
        self._page_bytes: int = self.connection.pragma("page_size")
        self.room: AnyRoom = Room(self, self._page_bytes)

    @property
    def backend(self) -> Backend:
        """How Status and Observe call it."""
        return MEMORY if self.is_memory else FILE

    @property
    def location(self) -> str:
        """The path; `:memory:` for none."""
        return self.path

    @property
    def is_memory(self) -> bool:
        """A private database that ends with its connection."""
        return self.path == files.MEMORY

    @property
    def has_file(self) -> bool:
        """Whether there is a file to be looked after."""
        return self.path != files.MEMORY

    @property
    def readers(self) -> Readers | None:
        """Connections that look beside the writer; a database in memory has none."""
        return None if self._guard is None else self._readers

    @property
    def upkeep_refusal(self) -> str:
        """Nothing stands against compacting or copying it."""
        return ""

    @property
    def copy_source(self) -> apsw.Connection | str:
        """What a backup reads: the file, or the connection that has the memory."""
        return self.connection if self.is_memory else self.path

    @property
    def may_flush(self) -> bool:
        """Whether a COMMIT waits until the disk has it (synchronous FULL and EXTRA)."""
        return not self.is_memory and self._synchronous > SYNCHRONOUS["NORMAL"]

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

    def run_many(self, sql: str, arguments: Sequence[tuple[Value, ...]]) -> list[Row]:
        """Run one statement once for each row of arguments; what it returned, in that order."""
        return self.connection.executemany(sql, arguments).fetchall()

    def begin(self, *, is_patient: bool = True) -> Transaction:
        """Start a write transaction; BusyError when a foreign lock outlasts BUSY_MS, or at once if
        not patient."""
        self._be_patient(is_patient)
        database.read_last_seq(self.run, self.ledger)
        self.connection.execute("BEGIN IMMEDIATE")
        if self._guard is not None and self.connection.data_version() != self._version:
            try:  # somebody else has written since our COMMIT
                self._guard.check_owner()
            except BaseException:
                self.rollback()
                raise
        return Transaction(self.run, self.run_many, self.ledger, write_many=self._write_many)

    def _be_patient(self, is_patient: bool) -> None:  # noqa: FBT001  # its only word
        """Whether to wait for a foreign lock from now on; asked of SQLite only when it changes."""
        if is_patient is not self._is_patient:
            self.connection.set_busy_timeout(limits.BUSY_MS if is_patient else 0)
            self._is_patient = is_patient

    def _write_many(self, sql: str, arguments: Sequence[tuple[Value, ...]]) -> None:
        blocks.write_many(self.connection, sql, arguments)

    def commit(self) -> None:
        """COMMIT. Raises SQLite's own error, or FileReplaced when it went into a log that is gone:
        what that means for the group is not decided here."""
        self.connection.execute("COMMIT")
        self._version = self.connection.data_version()
        if self._guard is not None:
            self._guard.check_log()

    def rollback(self) -> None:
        """Undo what is open, if SQLite has not done so, and forget what was cached of it."""
        self.ledger.forget()
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def look(self, step: Step[T], look: Look, *, busy_ms: int = limits.READ_BUSY_MS) -> T:
        """A step's result on a snapshot of what is committed now, beside the writer. Any thread.

        NoReader when the writer has to be asked: for memory, for a file in doubt (it is opened anew
        first), when no connection can be had. `busy_ms` 0 never waits. Raises the contract's
        errors; after one that puts the file in doubt it is opened anew before the next command.
        """
        if self._guard is None or not self.healthy:
            raise NoReader
        try:
            check = self._guard.check_for_look
            return look_through(self._readers, check, step, look, busy_ms=busy_ms)
        except StorageFailed:
            self.healthy = False
            raise

    def doubt(self) -> None:
        """Nobody knows what the file holds until it was opened anew; memory is what it is."""
        self.healthy = self.is_memory

    def stay(self) -> None:
        """Nothing to say: the lock on the sidecar lasts as long as the process."""

    def reopen(self) -> None:
        """Open the file anew, keeping the lock; OpenError or FileReplaced if that cannot be.

        Every connection to it is closed first: the connections of a process share the log's index,
        and one that stayed would tie the new ones to an index that nobody else sees.
        """
        assert self._guard and self._lock, "a database in memory is never opened again"
        self.ledger.forget()
        self._readers.shut()
        self._checkpointer.close()
        try:
            self._lock.hold()
            self._leave_log_alone()
            self.connection.close(True)
            self._guard.check_database()
            if not schema.inspect(self.path):
                raise OpenError(f"{self.path} holds no queue any more; it was emptied meanwhile")
            self.connection = self._connect()
            self.user_sql = UserSql(self.connection)
            self.room.forget()
        except (apsw.Error, OSError) as error:
            raise OpenError(f"{self.path} cannot be opened again: {error}") from error
        self._readers.admit()
        self.healthy = True

    def check_files(self) -> None:
        """FileReplaced if the files under the connection are not those that it opened, or another
        engine may have them too."""
        if self._guard is not None and self.healthy:
            self._guard.check_files()

    def checkpoint_passive(self) -> None:
        """Move what can be moved of the log into the file, beside the writer.

        Runs on its own connection, so it may be called from another thread while the writer works.
        """
        self._checkpointer.move(lambda: self.healthy)

    def truncate_log(self, *, keeps_room: bool = False, waits: bool = False) -> bool:
        """Move all of the log into the file and begin it anew, cut to nothing or (`keeps_room`) to
        be written over; False if a reader or a checkpoint is in the way.

        Between groups. Waits for nobody unless the log is too long, and then for LOG_WAIT_MS, or
        with `waits` for FULL_WAIT_MS: looks that began before end meanwhile, and those that begin
        now need no log.
        """
        if self.is_memory or self.leaves_log:
            return True
        is_long = self.log_pages >= limits.LOG_PAGES_MAX
        wait_ms = limits.FULL_WAIT_MS if waits else limits.LOG_WAIT_MS if is_long else 0
        self.room.cut()  # in vain, if this fails
        if not self._checkpointer.lock.acquire(timeout=wait_ms / 1000):
            return False  # that one moves the log as well, and ends soon
        try:
            return self._cut_log(wait_ms, keeps_room=keeps_room)
        finally:
            self._checkpointer.lock.release()

    def trim_log(self) -> None:
        """Give back the end of the log that nobody reads. Between groups; not while it is moved.

        Raises what is wrong with the files, and BusyError for another program's transaction.
        """
        if self._guard is None or self.leaves_log:
            return
        self._guard.check_log()
        self._be_patient(False)
        if not self._checkpointer.lock.acquire(timeout=limits.FULL_WAIT_MS / 1000):
            return
        try:
            self._checkpointer.trim(self.connection, self._page_bytes)
        finally:
            self._checkpointer.lock.release()

    def _cut_log(self, wait_ms: int, *, keeps_room: bool) -> bool:
        self.connection.set_busy_timeout(wait_ms)
        try:
            self.connection.wal_checkpoint(mode=_CUTS[keeps_room])
        except apsw.BusyError:
            return False
        finally:
            self.connection.set_busy_timeout(limits.BUSY_MS)
            self._is_patient = True
        self.log_pages = 0
        self.room.cut(keeps_room=keeps_room)
        return True

    def reclaim(self, pages: int) -> int:
        """Give up to `pages` free pages back to the disk; how many are left.

        Every result row of the pragma frees one page, so it has to be read to its end.
        """
        self._be_patient(True)
        self.connection.execute(f"PRAGMA incremental_vacuum({int(pages)})").fetchall()
        return self.free_pages()

    def free_pages(self) -> int:
        """Pages of the file that hold nothing."""
        number: int = self.connection.pragma("freelist_count")
        return number

    def vacuum(self) -> None:
        """Write the file anew without free pages; needs as much room again."""
        self._be_patient(True)
        self.connection.execute("VACUUM").fetchall()
        self.truncate_log()

    def size_bytes(self) -> int:
        """Bytes on disk, log included; 0 for memory."""
        return sizes.size_on_disk(self.path)

    def log_bytes(self) -> int | None:
        """Bytes of the log; None for memory, and when there is none to look at."""
        return sizes.log_size(self.path)

    def disk_free_bytes(self) -> int | None:
        """Room on the file's disk; None for memory, and when the system does not say."""
        return sizes.disk_free(self.path)

    def close(self) -> None:
        """Close the connections, the writer's last, then release the lock."""
        try:
            self._readers.shut()
            self._checkpointer.close()
            try:
                self.check_files()
            except StorageFailed:  # replaced, or not to be seen
                self._leave_log_alone()
            if self.leaves_log:
                self._leave_log_alone()
            self.connection.close()
        finally:
            if self._lock is not None:
                self._lock.release()

    def _leave_log_alone(self) -> None:
        """The log under this connection may not be the file's any more: closing must not move its
        pages over newer ones."""
        try:
            self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        except apsw.ConnectionClosedError:
            return  # an earlier try to open it anew got this far

    def _connect(self) -> apsw.Connection:
        connection = connect(self.path, self._synchronous)
        self._is_patient = True
        try:
            schema.establish(connection)
            if self._guard is not None:
                connection.set_wal_hook(self._note_log)
                self._guard.watch()
        except BaseException:
            connection.close(True)
            raise
        return connection

    def _note_log(self, _: apsw.Connection, __: str, pages: int) -> int:
        self.log_pages = pages
        return apsw.SQLITE_OK


def open_store(dsn: str, *, synchronous: str = "NORMAL", create: bool = True) -> SqliteStore:
    """Open a local or in-memory store. `create` False refuses a file that does not exist.

    Raises InvalidArgument for a wrong word, DatabaseLocked, SchemaVersionMismatch or OpenError; a
    file that is refused, and its folder, are left as they were.
    """
    level = synchronous_level(synchronous)
    check_sqlite(apsw.sqlite_lib_version())
    allocator.keep_freed_memory()
    path = files.canonical_path(dsn)
    if path == files.MEMORY:
        return SqliteStore(path, level, None)
    aside.recover(path)
    if not create and not os.path.exists(path):
        raise OpenError(f"{path} does not exist")
    files.check_place(path)
    # Only the first opening, which switches to the log, leaves a rollback journal when it dies; the
    # sidecar tells that it was ours.
    is_half_made = schema.has_unfinished_transaction(path) and files.FileLock.was_taken(path)
    if os.path.exists(path) and os.path.getsize(path) and not is_half_made:
        schema.inspect(path)  # before the lock, whose sidecar would be left beside a refused file
    lock = files.FileLock(path)
    try:
        aside.check_whole(path)
        files.create_private(path)
        if is_half_made:
            schema.inspect(path, may_roll_back=True)
        return SqliteStore(path, level, lock)
    except (apsw.Error, OSError, StorageFailed) as error:
        lock.release(is_untouched=not schema.has_unfinished_transaction(path))
        reason = error.strerror if isinstance(error, OSError) else error
        raise OpenError(f"{path} cannot be opened: {reason}") from error
    except BaseException:
        lock.release(is_untouched=not schema.has_unfinished_transaction(path))
        raise
