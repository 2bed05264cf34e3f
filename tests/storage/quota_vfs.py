"""A disk of a fixed size: what does not fit is refused with "disk full", as the system would.

Used by the tests of a full disk. `with small_disk(folder, size) as disk` makes it the default file
system of this process for the files of one folder, and what `shutil.disk_usage` says of it;
`disk.grow` and the removal of files make room. The files are real; only their sum is watched, in
whole blocks as a disk counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from tests.storage.fault_vfs import spelled

NAME = "mqlite-small-disk"

BLOCK = 4096


class Usage(NamedTuple):
    """What `shutil.disk_usage` returns."""

    total: int
    used: int
    free: int


class SmallDisk(apsw.VFS):
    """The system's VFS with a bound on the bytes below one folder."""

    def __init__(self, base: str, folder: Path, size: int) -> None:
        self.base = base
        self.folder = folder
        self.size = size
        self.refusals = 0
        super().__init__(NAME, base, True)

    def grow(self, more: int) -> None:
        """Make the disk larger, or with a negative number smaller."""
        self.size += more

    def used(self) -> int:
        """Bytes in use, in whole blocks."""
        return sum(blocks(path.stat().st_size) for path in self.folder.iterdir())

    def usage(self, path: object) -> Usage:
        """As the system would tell it."""
        assert Path(str(path)) == self.folder
        used = self.used()
        return Usage(self.size, used, max(0, self.size - used))

    def need(self, before: int, after: int) -> None:
        """A file is to grow; FullError if there is no room for that."""
        more = blocks(after) - blocks(before)
        if more > 0 and self.used() + more > self.size:
            self.refusals += 1
            raise apsw.FullError("no space is left on the small disk")

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        if Path(spelled(name)).parent != self.folder:
            return apsw.VFSFile(self.base, name, flags)
        return SmallFile(self, name, flags)

    def excepthook(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        """Called for an error that SQLite cannot report, as at close; any but ours goes on to
        sys.excepthook."""
        return isinstance(error, apsw.FullError)


class SmallFile(apsw.VFSFile):
    """A file that may grow only into what is free."""

    def __init__(
        self, vfs: SmallDisk, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        self._vfs = vfs
        self._is_read_only = bool(flags[0] & apsw.SQLITE_OPEN_READONLY)
        super().__init__(vfs.base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        size = self.xFileSize()
        if offset + len(data) > size:
            self._vfs.need(size, offset + len(data))
        super().xWrite(data, offset)

    def xSync(self, _flags: int) -> None:  # noqa: N802 - SQLite's name
        """Not done: no test waits for a real disk."""

    def xLock(self, level: int) -> None:  # noqa: N802 - SQLite's name
        if self._is_read_only and level > apsw.SQLITE_LOCK_SHARED:
            # The system refuses it with an error that SQLite ignores and APSW would raise at close.
            raise apsw.BusyError("opened for reading only")
        super().xLock(level)


def blocks(size: int) -> int:
    """A length in whole blocks."""
    return -(-size // BLOCK) * BLOCK


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[SmallDisk]:
    """Bound the files of a folder. Close what was opened under it before leaving."""
    base = apsw.vfs_names()[0]
    disk = SmallDisk(base, folder, size)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("shutil.disk_usage", disk.usage)
            yield disk
    finally:
        apsw.set_default_vfs(base)
        disk.unregister()
