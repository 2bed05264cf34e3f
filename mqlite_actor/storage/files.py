"""Where the file is, and that it is ours alone.

Called by `sqlite.open_store` before SQLite sees the file. Every spelling of one file leads to one
path and one lock; the lock is an OS lock on a sidecar, so it ends with the process and never
disturbs SQLite's own. Nothing is created before the caller's mistakes are ruled out. The folder may
belong to somebody with fewer rights than we have: what is made or given away there is never what a
link of his leads to.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from mqlite_actor.contract.errors import DatabaseLocked, InvalidArgument, OpenError

MEMORY: Final = ":memory:"

FILE_MODE: Final = 0o600
"""Messages are nobody else's business: the database, its sidecars and the lock are the owner's
only."""

_NOT_BY_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
"""Of a file that is ours under this name alone; Windows has no such flag."""

# WAL needs memory shared between processes, which these do not give (sqlite.org/wal.html, point 2).
NETWORK_FILE_SYSTEMS: Final = {
    "nfs": "NFS", "nfs4": "NFS", "cifs": "SMB", "smb3": "SMB", "smbfs": "SMB", "9p": "9p",
    "ceph": "Ceph", "lustre": "Lustre", "gpfs": "GPFS", "fuse.sshfs": "SSHFS",
    "fuse.glusterfs": "GlusterFS", "afs": "AFS", "ocfs2": "OCFS2", "gfs2": "GFS2",
}  # fmt: skip


def canonical_path(dsn: str) -> str:
    """The one absolute path that every spelling of a local store leads to, or `:memory:`.

    Takes `file:PATH`, a bare path, an optional `?query` (dropped), relative paths and symbolic
    links, also one that points to a file that does not exist yet. OpenError for a relative one in a
    folder that was deleted, and for a path that is not UTF-8.
    """
    text = dsn.strip()
    if text in ("", MEMORY):
        return MEMORY
    text = text.removeprefix("file:").partition("?")[0]
    if text in ("", MEMORY):
        return MEMORY
    if "\0" in text:
        raise InvalidArgument("the database path holds a NUL character")
    if text.startswith("///"):
        text = text[2:]  # file:///abs is file: with an empty host
    return real_path(text)


def real_path(text: str) -> str:
    """The same for a path to the letter. OpenError also for one that SQLite cannot be told."""
    try:
        path = os.path.realpath(text)
    except FileNotFoundError as error:  # of the current folder: nothing else has to exist
        raise OpenError(f"{text}: the current folder was deleted; name an absolute path") from error
    try:
        path.encode("utf-8")
    except UnicodeEncodeError as error:
        raise OpenError(
            f"{path!r} is not UTF-8, as SQLite needs the path of a database; rename the folder or"
            " file"
        ) from error
    return path


def check_place(path: str) -> None:
    """Refuse a place that cannot hold a live database, before anything is created there."""
    folder = os.path.dirname(path)
    if os.path.isdir(path):
        raise OpenError(f"{path} is a folder; name a file in it")
    if not os.path.isdir(folder):
        raise OpenError(f"the folder {folder} does not exist; create it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OpenError(f"the folder {folder} is not writable; the database and its log live there")
    if os.path.exists(path):
        if not os.access(path, os.R_OK | os.W_OK):
            raise OpenError(f"{path} is not readable and writable for this user")
        if os.stat(path).st_nlink > 1:
            raise OpenError(
                f"{path} has several hard links; SQLite needs one name for a file and its log"
            )
    check_name(path + "-journal")
    check_local_disk(folder)


def check_name(path: str) -> None:
    """Refuse a name that the system does not take, with what is put behind it beside the store."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise OpenError(f"{path} cannot be there: {error.strerror}") from error


def check_local_disk(folder: str) -> None:
    """Refuse a folder of another machine."""
    kind = _network_file_system(folder)
    if kind is not None:
        raise OpenError(f"{folder} is on {kind}; SQLite's log needs a local disk")


def make(path: str) -> int:
    """The descriptor, for reading and writing, of a new file that only its owner may open.

    FileExistsError where anything is already, a link that leads nowhere too.
    """
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, FILE_MODE)


def create_private(path: str) -> None:
    """Make an empty database file readable by its owner alone, if there is none.

    SQLite gives its log and index files the mode of the database.
    """
    try:
        os.close(make(path))
    except FileExistsError:
        return


def give_away(descriptor: int, path: str) -> None:
    """Give a file that root has made to the owner of what is at `path`, or else of its folder, as
    SQLite does with a log: the service whose store it is could not open it.

    Only for what `make` has just returned: any other file may be one that the owner of the folder
    wants to have, and has put a link to.
    """
    if os.name != "posix" or os.geteuid() != 0:
        return
    with suppress(OSError):  # of another's namespace, or of a disk without owners
        owner = os.stat(path if os.path.exists(path) else os.path.dirname(path))
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def in_use(database: str) -> DatabaseLocked:
    """What is said to whoever comes second."""
    return DatabaseLocked(
        f"{database} is in use by another engine; close it, or connect to its broker"
    )


def _locks(descriptor: int) -> bool:
    try:
        _lock(descriptor)
    except OSError:
        return False
    return True


def _looked_at(database: str) -> DatabaseLocked:
    return DatabaseLocked(
        f"{database} is being looked at by a check (check, doctor, restore --dry-run), and nobody"
        " may change it meanwhile; wait for its end, or end it"
    )


class FileLock:
    """The sidecar lock `<path>.lock`: one engine per file. Released by `release` or by process
    death; a forked child has no share in it."""

    __slots__ = ("__weakref__", "_database", "_descriptor", "_is_new", "path")

    def __init__(self, database: str) -> None:
        """Take it at once or raise DatabaseLocked; never waits."""
        self.path = database + ".lock"
        self._database = database
        self._is_new = False
        self._descriptor: int | None = self._take_any()
        _HELD.add(self)

    @property
    def is_held(self) -> bool:
        """Whether the file that is locked still has its name: if somebody deleted it, the next
        engine takes another one."""
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.lstat(self.path))
        except FileNotFoundError:
            return False

    def hold(self) -> None:
        """Take it anew if its file was deleted; DatabaseLocked if another engine was faster."""
        if not self.is_held:
            lost, self._descriptor = self._descriptor, self._take_any()
            if lost is not None:
                os.close(lost)

    @staticmethod
    def was_taken(database: str) -> bool:
        """Whether an engine has ever had this file: its sidecar is there."""
        return os.path.exists(database + ".lock")

    def release(self, *, is_untouched: bool = False) -> None:
        """Give the file free; harmless when repeated.

        The sidecar stays, except beside a file that was refused untouched, if it was not there
        before.
        """
        if self._descriptor is not None:
            if is_untouched and self._is_new:
                Path(self.path).unlink(missing_ok=True)
            _unlock(self._descriptor)  # a child that was forked elsewhere may share it
            self._forget()

    def _forget(self) -> None:
        """Close it here; whoever else shares it keeps it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _take_any(self) -> int:
        while (descriptor := self._take(self._database)) is None:
            continue
        return descriptor

    def _take(self, database: str) -> int | None:
        """The locked descriptor; None if its file came or went meanwhile, and it must be tried
        anew."""
        try:
            descriptor = self._open(database)
        except OSError as error:
            is_link = os.path.islink(self.path)
            if isinstance(error, FileExistsError) and not is_link:
                return None
            reason = "it is a link" if is_link else error.strerror
            raise OpenError(f"cannot open the lock file {self.path}: {reason}") from error
        try:
            _lock(descriptor)
        except OSError as error:
            # Engines have it alone; who only looks shares it, so then we could as well, and another
            # who comes now may have done just that: one more try tells.
            is_only_looked_at = _share(descriptor)
            if not (is_only_looked_at and _locks(descriptor)):
                os.close(descriptor)
                raise (_looked_at if is_only_looked_at else in_use)(database) from error
        try:
            is_current = os.path.samestat(os.fstat(descriptor), os.lstat(self.path))
        except FileNotFoundError:
            is_current = False
        except OSError as error:
            os.close(descriptor)
            raise OpenError(f"cannot see the lock file {self.path}: {error.strerror}") from error
        if not is_current:
            os.close(descriptor)
            return None
        return descriptor

    def _open(self, database: str) -> int:
        """What is there, or a new one that belongs to whose store it is. FileExistsError where
        that has come between."""
        with suppress(FileNotFoundError):
            return os.open(self.path, os.O_RDWR | os.O_CLOEXEC | _NOT_BY_LINK)
        descriptor = make(self.path)
        self._is_new = True
        give_away(descriptor, database)
        return descriptor


_HELD: Final = weakref.WeakSet[FileLock]()


def _forget_all() -> None:
    """In a child just forked: the engine is its parent's, and so is the lock, which would otherwise
    outlast the parent as long as the child lives."""
    for lock in list(_HELD):
        lock._forget()  # noqa: SLF001  # this module's own


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


@contextmanager
def undisturbed(database: str) -> Iterator[bool]:
    """Whether an engine has the file now. If none has, none can take it inside this block.

    Makes nothing: a file whose sidecar does not exist has no engine, and nothing to hold.
    """
    try:
        descriptor = os.open(database + ".lock", os.O_RDONLY | os.O_CLOEXEC | _NOT_BY_LINK)
    except OSError:
        yield False
        return
    try:
        yield not _share(descriptor)
    finally:
        os.close(descriptor)


def lock_holder(database: str) -> int | None:
    """The process whose engine has the file, where the system tells (Linux does)."""
    try:
        inode = os.stat(database + ".lock").st_ino
        locks = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return None
    for line in locks.splitlines():
        # 1: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF
        fields = line.split()
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
            return int(fields[4])
    return None


if sys.platform == "win32":  # pragma: no cover - no Windows machine in CI
    import msvcrt

    def _share(descriptor: int) -> bool:
        try:
            _lock(descriptor)
        except OSError:
            return False
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        return True

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

    def file_system(_folder: str) -> str:
        return ""

    def _network_file_system(folder: str) -> str | None:
        return "a network share" if folder.startswith("\\\\") else None

else:
    import fcntl

    def _share(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def file_system(folder: str) -> str:
        """The kind of file system that holds `folder`, in the system's words; "" when not to be
        told."""
        if not sys.platform.startswith("linux"):
            return ""
        best, kind = "", ""
        try:
            mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        for line in mounts.splitlines():
            fields = line.split(" ")
            if len(fields) < 3:
                continue
            point = fields[1].replace("\\040", " ").rstrip("/") + "/"
            if (folder + "/").startswith(point) and len(point) >= len(best):
                best, kind = point, fields[2]
        return kind

    def _network_file_system(folder: str) -> str | None:
        """The network file system that holds `folder`; None when local or not to be told."""
        return NETWORK_FILE_SYSTEMS.get(file_system(folder))
