"""A backup in the making: a snapshot of the store, copied page by page into a new file.

Driven by `engine/backups.py`, one method at a time, in whatever thread. The copy is read through a
connection of its own inside one read transaction, so it is the store as it was at one commit, and
the writer is never asked to stop; only the log cannot be cut while it lasts
(docs/decisions/0010-backup.md). A database in memory has no second connection: there the steps run
in the storage thread between two groups.

Rules: the file is made for the owner alone, under a name that says that it is unfinished; it gets
its own name only when it is whole, synced and checked; a name that is taken is never written to.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import apsw

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import (
    InvalidArgument,
    MqliteError,
    StorageDamaged,
    StorageFailed,
    StorageFull,
)
from mqlite_actor.logs import logger
from mqlite_actor.storage import files, schema

_log = logger("mqlite.engine")

SIDECARS: Final = ("-wal", "-shm", "-journal", ".lock", ".restoring")
"""A file of such a name beside a database would be taken for a part of it."""

NAME_ROOM: Final = len(".20270115T080000000Z") + len(".01234567.partial")
"""Characters that a file's name grows by while it is being made, in a series."""

STEPS_OF_CHECK: Final = 50_000
"""SQLite's own instructions between two looks at `is_over` in the check: about a millisecond."""


def destination(text: str, folder: str | None) -> str:
    """The absolute path that a caller means; InvalidArgument if no backup may be made there.

    With a `folder`, relative paths start there and none may lead out of it.
    """
    if not text or "\0" in text:
        raise InvalidArgument("path: give the name of a file that does not exist yet")
    try:
        base = "" if folder is None else os.path.realpath(folder)
        path = os.path.join(base, os.path.expanduser(text) if folder is None else text)
        parent = os.path.realpath(os.path.dirname(path))
    except FileNotFoundError as error:  # of the current folder: nothing else has to exist
        raise InvalidArgument("path: the current folder was deleted; name it in full") from error
    path = os.path.join(parent, os.path.basename(path))
    if folder is not None and os.path.commonpath([base, parent]) != base:
        raise InvalidArgument(f"path: this broker makes backups only in {base} and below")
    if not os.path.isdir(parent):
        raise InvalidArgument(f"path: the folder {parent} does not exist; create it first")
    if os.path.basename(path) in ("", ".", "..") or os.path.lexists(path):
        raise InvalidArgument(f"path: {path} exists; a backup never replaces anything")
    try:
        os.lstat(path + "x" * NAME_ROOM)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise InvalidArgument(f"path: {error.strerror}") from error
    if path.endswith(SIDECARS):
        raise InvalidArgument(
            f"path: a name that ends in {', '.join(SIDECARS)} belongs to a database beside it"
        )
    return path


def in_series(path: str, now_ms: int) -> str:
    """The name of the series' snapshot of this moment: `a/nightly.db` is
    `a/nightly.20270115T080000000Z.db`."""
    seconds, ms = divmod(now_ms, 1000)
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(seconds))
    root, end = os.path.splitext(path)
    return f"{root}.{stamp}{ms:03}Z{end}"


def prune_series(path: str, keep: int, now_ms: int) -> list[str]:
    """Remove all but the `keep` newest snapshots of the series; those that are gone, oldest first.

    Newest by the time in their names. One from after `now_ms` was named by a clock that has been
    set back since, and is older than whatever has been made then, as the one just made. What has
    another name is nobody's business here, and what has become a database of somebody's is no
    snapshot any more, as one that is served since a disaster: it stays and is not counted. What
    cannot be removed stays: the new one is made.
    """
    folder, name = os.path.split(path)
    root, end = os.path.splitext(name)
    series = re.compile(rf"{re.escape(root)}\.[0-9]{{8}}T[0-9]{{9}}Z{re.escape(end)}")
    now = os.path.basename(in_series(path, now_ms))
    gone: list[str] = []
    try:
        named = [
            os.path.join(folder, each) for each in os.listdir(folder) if series.fullmatch(each)
        ]
    except OSError as error:
        _log.warning("older snapshots of %s cannot be seen: %s", path, error.strerror)
        return gone
    found = [each for each in named if not _is_lived_in(each)]
    found.sort(key=lambda each: (os.path.basename(each) <= now, each))
    for each in found[:-keep]:
        try:
            Path(each).unlink(missing_ok=True)
            gone.append(each)
            for rest in ("-wal", "-shm"):  # of whoever looked into it
                Path(each + rest).unlink(missing_ok=True)
        except OSError as error:
            _log.warning("the older snapshot %s cannot be removed: %s", each, error.strerror)
    return gone


def _holds(log: str) -> bool:
    try:
        return os.lstat(log).st_size > 0
    except FileNotFoundError:
        return False
    except OSError:  # not to be seen: rather one file too many
        return True


def _is_lived_in(path: str) -> bool:
    """Whether an engine has had this file, or its log holds something: it is somebody's store. What
    only looks into a snapshot leaves empty sidecars at most."""
    if not (
        os.path.lexists(path + ".lock") or any(_holds(path + log) for log in ("-wal", "-journal"))
    ):
        return False
    _log.warning("%s has the name of a snapshot, but is a store by now; it is not removed", path)
    return True


class Snapshot:
    """One copy. `start`, then `step` until it says True, `close`, `finish`; in the end `discard`.

    `is_over` is asked during the check, which takes as long as reading the copy: True breaks it off
    with StorageFailed.
    """

    __slots__ = (
        "_backup", "_copy", "_is_over", "_own_source", "_partial", "_source", "is_named", "path",
    )  # fmt: skip

    def __init__(
        self, source: str | apsw.Connection, path: str, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        """Of the file of this path, or of a connection to a database in memory."""
        self.path = path
        self.is_named = False
        self._is_over = is_over
        self._source = source
        self._partial = f"{path}.{secrets.token_hex(4)}.partial"
        self._own_source: apsw.Connection | None = None
        self._copy: apsw.Connection | None = None
        self._backup: apsw.Backup | None = None

    def start(self) -> None:
        """Make the file, and pin what it is to hold."""
        try:
            os.close(files.make(self._partial))
            # The folder may be another's, who puts a link to some database of ours in between.
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
            self._copy = apsw.Connection(self._partial, flags=flags)
            # Nobody reads it before it is whole, and a crash only leaves a file that says so.
            for setting in ("journal_mode = OFF", "synchronous = OFF"):
                self._copy.execute(f"PRAGMA {setting}").fetchall()
            self._backup = self._copy.backup("main", self._pinned(), "main")
        except (OSError, apsw.Error) as error:
            raise self._explained(error) from error

    def step(self) -> bool:
        """Copy the next pages; True when all are there."""
        assert self._backup is not None, "started before"
        try:
            return bool(self._backup.step(limits.BACKUP_PAGES))
        except apsw.Error as error:
            raise self._explained(error) from error

    def finish(self) -> int:
        """Sync and check the file and give it its name; its size. Needs nothing of the source.

        When it raises, there is no file, unless `is_named` is set: then it is there and whole.
        """
        try:
            _sync(self._partial)
            self._check()
            size = os.path.getsize(self._partial)
            _publish(self._partial, self.path)
        except FileExistsError as error:
            raise InvalidArgument(f"path: {self.path} exists by now; choose another") from error
        except (OSError, apsw.Error) as error:
            raise self._explained(error) from error
        self.is_named = True
        self._unlink()  # its other name, if it was linked
        try:
            if os.name == "posix":
                _sync(os.path.dirname(self.path))
        except OSError as error:
            raise StorageFailed(
                f"the backup {self.path} is made and sound, but its folder could not be synced "
                f"({error.strerror}); a loss of power may take its name away"
            ) from error
        return size

    def close(self) -> None:
        """Let go of source and copy; harmless when repeated."""
        if self._backup is not None:
            self._backup.close(True)
        for connection in (self._copy, self._own_source):
            if connection is not None:
                connection.close(True)
        self._backup = self._copy = self._own_source = None

    def discard(self) -> None:
        """Remove what has no name of its own; harmless after `finish`. To be closed before. What
        cannot be removed stays, and its name says what it is."""
        self._unlink()

    def _unlink(self) -> None:
        try:
            Path(self._partial).unlink(missing_ok=True)
        except OSError as error:  # the folder is gone, or its disk
            _log.warning("%s cannot be removed: %s", self._partial, error.strerror)

    def _pinned(self) -> apsw.Connection:
        """The source, at one commit until the copy is done."""
        if isinstance(self._source, apsw.Connection):
            return self._source
        source = apsw.Connection(self._source, flags=apsw.SQLITE_OPEN_READONLY)
        self._own_source = source
        source.set_busy_timeout(limits.BUSY_MS)
        source.execute("BEGIN")
        source.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchall()
        return source

    def _check(self) -> None:
        """The copy is sound and is ours, seen without leaving a trace beside it."""
        uri = f"{Path(self._partial).as_uri()}?immutable=1"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(uri, flags=flags)
        try:
            connection.set_progress_handler(self._is_over, STEPS_OF_CHECK)
            found = connection.execute("PRAGMA integrity_check(1)").fetchall()
        finally:
            connection.close(True)
        if found != [("ok",)] or not schema.inspect(self._partial):
            raise StorageDamaged(f"the copy is not sound ({found[0][0]}); it was thrown away")

    def _explained(self, error: Exception) -> MqliteError:
        folder = os.path.dirname(self.path)
        if isinstance(error, apsw.FullError) or getattr(error, "errno", 0) == errno.ENOSPC:
            return StorageFull(f"the disk of {folder} is full; no backup was made")
        if isinstance(error, PermissionError):
            return InvalidArgument(f"path: {folder} may not be written to")
        reason = error.strerror if isinstance(error, OSError) else type(error).__name__
        return StorageFailed(f"the backup failed ({reason}); no file was made")


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _publish(partial: str, path: str) -> None:
    """Give a finished file its name; FileExistsError if that was taken meanwhile.

    A link, because a rename would silently replace what is there. Where the file system knows no
    links (FAT, some network shares), the name is taken by an empty file first.
    """
    try:
        os.link(partial, path)
    except FileExistsError:
        raise
    except OSError:
        os.close(files.make(path))
        try:
            os.replace(partial, path)
        except OSError as error:
            _take_away(path, error)
            raise


def _take_away(path: str, cause: OSError) -> None:
    """Remove the empty file that has taken a name for nothing; StorageFailed if it stays."""
    try:
        os.unlink(path)
    except OSError as error:
        raise StorageFailed(
            f"the backup failed ({cause.strerror}), and {path}, which is empty, could not be "
            f"removed ({error.strerror}); remove it"
        ) from cause
