"""A file that another process owns, looked at from outside (ruling R13).

Called by `engine/outside.py`. The owner is an engine elsewhere, which keeps the log and its index
in place; an outsider takes no sidecar lock and opens a connection for each look, so that between
two of them it holds nothing: no transaction, no lock that would keep the owner from leaving tidily,
no share in an index. It never creates, recovers, upgrades or changes a file. What a killed owner
left can be looked at too: SQLite then reads the log by an index in its own memory.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Final, TypeVar

import apsw

from mqlite_actor.contract.errors import (
    InvalidArgument,
    MqliteError,
    OpenError,
    SchemaVersionMismatch,
    Unavailable,
)
from mqlite_actor.storage import files, schema, sizes
from mqlite_actor.storage.connection import check_sqlite, connect_outsider
from mqlite_actor.storage.database import Transaction
from mqlite_actor.storage.failures import mapped
from mqlite_actor.storage.guard import FileGuard, FileReplaced
from mqlite_actor.storage.reading import Look, Reader, Step

T = TypeVar("T")

TRIES: Final = 5
"""Of a look that finds the index of the log half written. It may not write there, nor wait for the
writer, so SQLite says that the log has to be recovered, though its owner was just amid it."""

PAUSE_SECONDS: Final = 0.005
"""Between two of them: the end of a commit is far shorter."""

_MEND: Final = "start its broker or program, or open it with open_embedded"


class OutsideFile:
    """A database file to look at. Holds nothing; for any thread."""

    __slots__ = ("_checked_layout", "_guard", "path")

    def __init__(self, dsn: str) -> None:
        """InvalidArgument or OpenError when there is nothing to look at."""
        check_sqlite(apsw.sqlite_lib_version())
        self.path = files.canonical_path(dsn)
        if self.path == files.MEMORY:
            raise InvalidArgument(
                "a database in memory belongs to its engine alone; name a file with file:PATH"
            )
        self._check_place()
        files.check_local_disk(os.path.dirname(self.path))
        self._guard = FileGuard(self.path)
        self._checked_layout = -1  # SQLite's number of the layout that was found good

    def look(self, step: Step[T], look: Look) -> T:
        """A step's result on a snapshot of what is committed now.

        OpenError when nobody has the file open, SchemaVersionMismatch when it is not ours,
        FileReplaced when it is not the file any more that it was at first, Unavailable when its
        owner is just coming or leaving, and for a look that was stopped.
        """
        self._check_place()
        self._guard.check_database()
        log = FileGuard(self.path)
        log.watch()
        try:
            found = self._on_connection(step, look)
        except MqliteError:
            raise
        except apsw.NotADBError as error:
            raise SchemaVersionMismatch(f"{self.path} is not a SQLite database") from error
        except apsw.CantOpenError as error:
            self._check_place()  # it may just have been left
            raise OpenError(f"{self.path} cannot be opened for reading: {error}") from error
        except apsw.ReadOnlyError as error:
            raise OpenError(
                f"the log of {self.path} has to be recovered, which a reader does not do; {_MEND}"
            ) from error
        except Exception as error:
            raise mapped(error) from error
        self._guard.check_database()
        try:
            log.check_log()
        except FileReplaced as error:
            raise Unavailable(f"{self.path} got another log meanwhile; look again") from error
        return found

    def size_bytes(self) -> int:
        """Bytes on disk, log included."""
        return sizes.size_on_disk(self.path)

    def log_bytes(self) -> int | None:
        """Bytes of the log."""
        return sizes.log_size(self.path)

    def disk_free_bytes(self) -> int | None:
        """Room on the file's disk."""
        return sizes.disk_free(self.path)

    def _on_connection(self, step: Step[T], look: Look) -> T:
        for _ in range(TRIES - 1):
            with suppress(apsw.ReadOnlyError):
                return self._once(step, look)
            threading.Event().wait(PAUSE_SECONDS)
        return self._once(step, look)

    def _once(self, step: Step[T], look: Look) -> T:
        connection = connect_outsider(self.path)
        try:

            def checked(tx: Transaction) -> T:
                number: int = connection.pragma("schema_version")
                if number != self._checked_layout:
                    schema.check_current(connection, self.path)
                    self._checked_layout = number
                return step(tx)

            return Reader(connection).run(checked, look)
        finally:
            connection.close(True)

    def _check_place(self) -> None:
        """Before SQLite sees the file: without these it would make some of them."""
        path = self.path
        if not os.path.isfile(path):
            raise OpenError(f"{path} does not exist, or is no file")
        for each in (path, path + "-wal", path + "-shm"):
            if os.path.exists(each) and not os.access(each, os.R_OK):
                raise OpenError(f"{each} is not readable for this user")
        if schema.has_unfinished_transaction(path):
            raise OpenError(
                f"{path} has an unfinished transaction of another program (its -journal)"
            )
        if os.path.exists(path + "-shm") and os.path.exists(path + "-wal"):
            return
        if sizes.log_size(path):
            raise OpenError(
                f"{path} was left with a log (-wal) but without its index (-shm), which would have"
                f" to be recovered; {_MEND}"
            )
        raise OpenError(f"no program has {path} open, so there is nothing to join; {_MEND}")
