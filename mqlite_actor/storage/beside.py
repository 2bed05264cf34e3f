"""Looks through connections that stay open, beside the one writer of a file.

`SqliteStore` looks so at its own file, and a front-end process of a broker (`BesideFile`) at the
file of the writer that it serves: that one keeps the log and its index in place as long as the
front end lives, and ends after it. A look counts only if the files are still those that were
opened. Rule: whatever is wrong with the file is the writer's business; a front end then says
NoReader, and asks it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import apsw

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import (
    CallerError,
    MqliteError,
    OpenError,
    StorageFailed,
    Unavailable,
)
from mqlite_actor.storage import files
from mqlite_actor.storage.connection import check_sqlite, connect_outsider
from mqlite_actor.storage.failures import mapped
from mqlite_actor.storage.guard import FileGuard
from mqlite_actor.storage.reading import Look, NoReader, Reader, Readers, Step

T = TypeVar("T")


def look_through(
    readers: Readers, check: Callable[[], object], step: Step[T], look: Look, *, busy_ms: int
) -> T:
    """A step's result on a snapshot of what is committed now, if the `check` afterwards says that
    the files are still the same. Any thread.

    NoReader when no connection can be had. Raises the contract's errors; a StorageFailed puts the
    file in doubt.
    """
    try:
        reader = readers.borrow()
    except (apsw.Error, OpenError) as error:
        raise NoReader from error  # out of descriptors, perhaps: the writer has its own
    is_sound = False
    try:
        found = reader.run(step, look, busy_ms=busy_ms)
        check()
        is_sound = True
    except Exception as error:
        is_sound = not isinstance(mapped(error), StorageFailed)
        if isinstance(error, MqliteError):
            raise  # no error is its own cause, or held by the frame that it holds: it would stay
        raise mapped(error) from error
    finally:
        readers.give_back(reader, is_sound=is_sound)
    return found


class BesideFile:
    """The file of a writer in another process, for as long as that one serves it."""

    __slots__ = ("_guard", "_is_closed", "_readers", "complaint", "path")

    def __init__(self, dsn: str) -> None:
        """InvalidArgument or OpenError for what is no file."""
        check_sqlite(apsw.sqlite_lib_version())
        self.path = files.canonical_path(dsn)
        self.complaint = ""  # as a store has it; nothing is logged here, the writer is asked
        self._is_closed = False
        self._readers = Readers(lambda: Reader(connect_outsider(self.path)))
        self._guard = self._watched()

    @property
    def readers(self) -> Readers:
        """Connections that are open."""
        return self._readers

    def look(self, step: Step[T], look: Look, *, busy_ms: int = limits.READ_BUSY_MS) -> T:
        """A step's result on a snapshot of what is committed now; NoReader where the writer has to
        be asked. Any thread."""
        try:
            return look_through(self._readers, self._guard.check_files, step, look, busy_ms=busy_ms)
        except (CallerError, NoReader, Unavailable):
            raise
        except Exception as error:
            # The writer has opened it anew, perhaps. Connections of a process share the log's
            # index: one that stayed would tie the next ones to the old index.
            self._readers.shut()
            self._guard = self._watched()
            if not self._is_closed:
                self._readers.admit()
            raise NoReader from error

    def close(self) -> None:
        """Stop the looks that run, and close every connection; every later look is NoReader."""
        self._is_closed = True
        self._readers.shut()

    def _watched(self) -> FileGuard:
        guard = FileGuard(self.path)
        guard.watch()
        return guard
