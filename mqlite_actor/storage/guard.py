"""The guard against a file that is pulled away under an open engine (fault S1 of ruling R45).

When a program opens and closes the engine's file through a second SQLite library (the `sqlite3`
module beside APSW), the process loses its POSIX locks on it without a word. The next program that
opens and closes the file then believes to be the last, moves the log into the file and deletes it;
whatever this engine commits afterwards goes into a deleted log, invisible to all and gone at the
end. No error shows. So after each COMMIT the log's identity is compared (one stat, 3 microseconds),
and every second that of the file and its index. What was committed before the log was deleted is in
the file; what was committed after it was not acknowledged.

And against a second engine, which can come after somebody has deleted the sidecar lock: a
transaction that finds the file changed since the last one of ours asks whose lock it is, before it
does anything. Called by the store; a remote or in-memory store has none.
"""

from __future__ import annotations

import os

from mqlite_actor.contract.errors import StorageFailed
from mqlite_actor.storage.files import FileLock

Identity = tuple[int, int]
"""Device and inode."""


class FileReplaced(StorageFailed):
    """The database, its log or its index is not the file that was opened."""


class FileGuard:
    """Remembers which files the connection has open; `watch` after every opening.

    A look through a reader is held to the same: what it read counts only if the files are still
    those.
    """

    __slots__ = ("_database", "_index", "_lock", "_log", "_path")

    def __init__(self, path: str, lock: FileLock | None = None) -> None:
        """`lock`: the owner's; a guest has none."""
        self._lock = lock
        self._path = path
        self._database = _identity(path)
        self._log: Identity | None = None
        self._index: Identity | None = None

    def watch(self) -> None:
        """Take the log and index as they are now: right after a connection was opened."""
        self._log = _identity(self._path + "-wal")
        self._index = _identity(self._path + "-shm")

    def check_log(self) -> None:
        """After a COMMIT: FileReplaced if it went into a log that nobody else sees."""
        found = _identity(self._path + "-wal")
        if found != self._log:
            raise FileReplaced(
                f"the log of {self._path} was {'deleted' if found is None else 'replaced'} while it"
                " was in use: another SQLite library in this process (the sqlite3 module?) opened"
                " and closed the file. Use tx() or open_reader instead"
            )

    def check_for_look(self) -> None:
        """After a look: FileReplaced if what it read is not what everybody else sees."""
        self.check_database()
        self.check_log()

    def check_files(self) -> None:
        """Once a second: FileReplaced if the database, its log, its index or its lock was."""
        self.check_database()
        self.check_log()
        if _identity(self._path + "-shm") != self._index:
            raise FileReplaced(f"the index of {self._path} (-shm) was replaced while it was in use")
        self.check_owner()

    def check_owner(self) -> None:
        """FileReplaced if another engine may have the file as well, or had it."""
        try:
            is_held = self._lock is None or self._lock.is_held
        except OSError as error:
            raise StorageFailed(
                f"the lock of {self._path} cannot be seen: {error.strerror}"
            ) from error
        if self._lock is not None and not is_held:
            raise FileReplaced(
                f"{self._lock.path} was deleted while it was in use, so another engine may have"
                " opened the file; never delete it: a lock ends with its process"
            )

    def check_database(self) -> None:
        """FileReplaced if another file stands at the path, or none."""
        if _identity(self._path) != self._database:
            raise FileReplaced(
                f"{self._path} was moved, deleted or replaced while it was in use; put it back, or"
                " restart to use what is there now"
            )


def _identity(path: str) -> Identity | None:
    """None if nothing has this name; StorageFailed where nobody can tell."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:  # a folder closed to us, a disk or a server that does not answer
        raise StorageFailed(f"{path} cannot be seen: {error.strerror}") from error
    return found.st_dev, found.st_ino
