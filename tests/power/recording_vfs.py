"""A file system that writes down what SQLite does to its files, for disk.py to replay.

`with recording(journal)` makes it the default of this process, as the store opens its files by path
alone. Syncs are written down and not done: no test waits for a real disk. The store makes two
names by itself, the lock's and an empty database's; `Journal.begin` writes those down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from tests.power.disk import (
    Event,
    FolderSynced,
    Made,
    Removed,
    Resized,
    Synced,
    Written,
)
from tests.storage.fault_vfs import spelled

NAME = "mqlite-recording"

NAMED_AT_SYNC = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL
"""Files with whose first sync the system's VFS syncs their folder too, if it may create them."""


class Journal:
    """Everything that was done in one folder, in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[Event] = []
        self.files: dict[str, int] = {}
        self.numbers = 0
        self.first = 0  # events before this one made the folder what it was
        self.at_write: Callable[[str], None] | None = None  # told of a write before it is done

    def begin(self, path: Path) -> None:
        """Take the folder as it is, all of it on disk, then the names that opening makes."""
        for each in sorted(self.folder.iterdir()):
            self.events.append(Made(each.name, self._numbered(each.name)))
            self.events.append(Written(self.files[each.name], 0, each.read_bytes()))
            self.events.append(Synced(self.files[each.name]))
        self.events.append(FolderSynced())
        self.first = len(self.events)
        for name in (f"{path.name}.lock", path.name):
            self.opened(name)

    def opened(self, name: str) -> int:
        """The file of this name, made if there is none."""
        if name not in self.files:
            self.events.append(Made(name, self._numbered(name)))
        return self.files[name]

    def removed(self, name: str) -> None:
        if self.files.pop(name, None) is not None:
            self.events.append(Removed(name))

    def _numbered(self, name: str) -> int:
        self.numbers += 1
        self.files[name] = self.numbers
        return self.numbers


class RecordingVfs(apsw.VFS):
    """The system's VFS, with a witness."""

    def __init__(self, base: str, journal: Journal) -> None:
        self.base = base
        self.journal = journal
        super().__init__(NAME, base, True)

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        path = Path(spelled(name))
        if path.parent != self.journal.folder:
            return apsw.VFSFile(self.base, name, flags)
        return RecordingFile(self, name, flags)

    def xDelete(self, name: str, is_synced: bool) -> None:  # noqa: FBT001, N802 - SQLite's name
        super().xDelete(name, is_synced)
        if Path(name).parent == self.journal.folder:
            self.journal.removed(Path(name).name)
            if is_synced:
                self.journal.events.append(FolderSynced())


class RecordingFile(apsw.VFSFile):
    """A file whose changes are written down."""

    def __init__(
        self, vfs: RecordingVfs, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        asked = flags[0]
        self._is_read_only = bool(asked & apsw.SQLITE_OPEN_READONLY)
        super().__init__(vfs.base, name, flags)
        self._journal = vfs.journal
        self._name = Path(spelled(name)).name
        self._file = vfs.journal.opened(self._name)
        self._syncs_folder = bool(asked & apsw.SQLITE_OPEN_CREATE and asked & NAMED_AT_SYNC)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        if self._journal.at_write is not None:
            self._journal.at_write(self._name)
        super().xWrite(data, offset)
        self._journal.events.append(Written(self._file, offset, bytes(data)))

    def xTruncate(self, size: int) -> None:  # noqa: N802 - SQLite's name
        super().xTruncate(size)
        self._journal.events.append(Resized(self._file, size))

    def xSync(self, _flags: int) -> None:  # noqa: N802 - SQLite's name
        self._journal.events.append(Synced(self._file))
        if self._syncs_folder:
            self._journal.events.append(FolderSynced())
            self._syncs_folder = False

    def xLock(self, level: int) -> None:  # noqa: N802 - SQLite's name
        if self._is_read_only and level > apsw.SQLITE_LOCK_SHARED:
            # The system refuses it with an error that SQLite ignores and APSW would raise at close.
            raise apsw.BusyError("opened for reading only")
        super().xLock(level)


@contextmanager
def recording(journal: Journal) -> Iterator[None]:
    """Write down what happens in the journal's folder. Close what was opened before leaving."""
    base = apsw.vfs_names()[0]
    vfs = RecordingVfs(base, journal)
    try:
        yield
    finally:
        apsw.set_default_vfs(base)
        vfs.unregister()
