"""A file system that fails on purpose: the k-th write, sync, truncate, read, open or lock.

Used by the fault tests of storage and engine. `FaultVfs` stands in front of the system's own VFS
and becomes the default one, because the store opens its files by path alone; `with faulty() as vfs`
puts the old default back. Nothing fails until `arm`; a fault fires at its k-th call since then,
once or from there on. The shared memory of the log's index is not in SQLite's reach here and never
fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

import apsw

CALLS = ("write", "sync", "truncate", "read", "open", "lock")
"""What can be made to fail."""

NAME = "mqlite-faults"


@dataclass(frozen=True)
class Fault:
    """The `at`-th call of this kind fails with `error`; with `lasting` every later one too.

    `ending` narrows it to files whose name ends so.
    """

    call: str
    at: int
    error: type[apsw.Error] = apsw.IOError
    lasting: bool = False
    ending: str = ""


class FaultVfs(apsw.VFS):
    """The system's VFS with one fault in it."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.fault: Fault | None = None
        self.seen: Counter[str] = Counter()
        self.fired = 0
        super().__init__(NAME, base, True)

    def arm(self, fault: Fault) -> None:
        """Count from zero, and fail when the fault's call comes."""
        self.seen.clear()
        self.fired = 0
        self.fault = fault

    def disarm(self) -> None:
        """Everything works again."""
        self.fault = None

    def count(self, call: str, name: str) -> None:
        """One call is about to happen; raises if it is to fail."""
        fault = self.fault
        if fault is None or fault.call != call or not name.endswith(fault.ending):
            return
        self.seen[call] += 1
        number = self.seen[call]
        if number == fault.at or (fault.lasting and number > fault.at):
            self.fired += 1
            raise fault.error(f"{call} number {number} fails on purpose")

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        self.count("open", spelled(name))
        return FaultFile(self, name, flags)

    def excepthook(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> bool:
        """Called for an error that SQLite cannot report, as at close. Ours are what a test asked
        for; any other goes on to sys.excepthook."""
        return isinstance(error, apsw.Error)


class FaultFile(apsw.VFSFile):
    """A file whose calls are counted."""

    def __init__(
        self, vfs: FaultVfs, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        self._vfs = vfs
        self._name = spelled(name)
        self._is_read_only = bool(flags[0] & apsw.SQLITE_OPEN_READONLY)
        super().__init__(vfs.base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        self._vfs.count("write", self._name)
        super().xWrite(data, offset)

    def xSync(self, _flags: int) -> None:  # noqa: N802 - SQLite's name
        """Only counted: the kernel keeps what a process wrote, and no test cuts the power."""
        self._vfs.count("sync", self._name)

    def xTruncate(self, size: int) -> None:  # noqa: N802 - SQLite's name
        self._vfs.count("truncate", self._name)
        super().xTruncate(size)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802 - SQLite's name
        self._vfs.count("read", self._name)
        return super().xRead(amount, offset)

    def xLock(self, level: int) -> None:  # noqa: N802 - SQLite's name
        self._vfs.count("lock", self._name)
        if self._is_read_only and level > apsw.SQLITE_LOCK_SHARED:
            # The system refuses it with an error that SQLite ignores and APSW would raise at close.
            raise apsw.BusyError("opened for reading only")
        super().xLock(level)


def spelled(name: str | apsw.URIFilename | None) -> str:
    """The path that SQLite asked for; "" for a file that has none."""
    return name.filename() if isinstance(name, apsw.URIFilename) else name or ""


@contextmanager
def faulty() -> Iterator[FaultVfs]:
    """A FaultVfs as the default of this process. Close what was opened under it before leaving."""
    base = apsw.vfs_names()[0]
    vfs = FaultVfs(base)
    try:
        yield vfs
    finally:
        apsw.set_default_vfs(base)
        vfs.unregister()
