"""A disk as a list of what was done to it, and what a power cut leaves of that.

`recording_vfs.py` fills a Journal; `Disk` replays one up to any moment and then says what the disk
may hold when the power goes. Between a write and the next sync of its file nothing is certain: the
write may be there, or not, or some of its sectors, whatever became of others before and after it.
What was synced is there. SQLite assumes no more than this (sqlite.org/atomiccommit.html, 2.0, and
sqlite.org/psow.html): a write disturbs no bytes outside of its range, a file may grow before its
data arrives, names are made and removed in order. The memory of the log's index is no file here:
it ends with the power.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

SECTOR = 512
"""A torn write is torn at a multiple of this; smaller than the page of any database here."""


@dataclass(frozen=True)
class Made:
    """A name now stands for this file, new and empty."""

    name: str
    file: int


@dataclass(frozen=True)
class Removed:
    """A name stands for nothing any more."""

    name: str


@dataclass(frozen=True)
class FolderSynced:
    """The names as they are now are on disk."""


@dataclass(frozen=True)
class Written:
    file: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class Resized:
    file: int
    size: int


@dataclass(frozen=True)
class Synced:
    """All that was done to the file is on disk."""

    file: int


@dataclass(frozen=True)
class Begun:
    """Transaction `number` may be on disk from here on."""

    number: int


@dataclass(frozen=True)
class Acknowledged:
    """Transaction `number` was answered; `is_safe`: whatever the level, it is on disk."""

    number: int
    is_safe: bool = False


Change = Written | Resized
Event = Made | Removed | FolderSynced | Written | Resized | Synced | Begun | Acknowledged


class Fate(Protocol):
    """What becomes of changes that no sync covers."""

    def names(self, number: int, /) -> int:
        """How many of so many changes of names are kept, from the first."""

    def is_resized(self, change: Resized, /) -> bool:
        """Whether a change of length is kept."""

    def pieces(self, change: Written, /) -> list[tuple[int, bytes]]:
        """What is found of a write: (offset, bytes)."""


@dataclass
class Disk:
    """The state after some events. `names` and `files` are certain, the rest is not."""

    names: dict[str, int] = field(default_factory=dict)
    files: dict[int, bytes] = field(default_factory=dict)
    renamed: list[Made | Removed] = field(default_factory=list)
    changes: dict[int, list[Change]] = field(default_factory=dict)
    begun: int = 0
    acknowledged: int = 0
    safe: int = 0

    def happens(self, event: Event) -> None:
        """One more event."""
        match event:
            case Made() | Removed():
                self.renamed.append(event)
            case Written() | Resized():
                self.changes.setdefault(event.file, []).append(event)
            case FolderSynced():
                self.names = self._named(len(self.renamed))
                self.renamed.clear()
            case Synced(file):
                self.files[file] = self._content(file, KEPT)
                self.changes.pop(file, None)
            case Begun(number):
                self.begun = number
            case Acknowledged(number, is_safe):
                self.acknowledged = number
                self.safe = number if is_safe else self.safe

    def unsynced(self) -> int:
        """How many changes are in doubt."""
        return sum(map(len, self.changes.values()))

    def remains(self, fate: Fate) -> dict[str, bytes]:
        """The files that are found if the power goes now."""
        kept = fate.names(len(self.renamed))
        assert 0 <= kept <= len(self.renamed)
        named = self._named(kept)
        return {name: self._content(file, fate) for name, file in named.items()}

    def _named(self, kept: int) -> dict[str, int]:
        names = dict(self.names)
        for each in self.renamed[:kept]:
            if isinstance(each, Made):
                names[each.name] = each.file
            else:
                names.pop(each.name, None)
        return names

    def _content(self, file: int, fate: Fate) -> bytes:
        changes = self.changes.get(file)
        if not changes:
            return self.files.get(file, b"")
        data = bytearray(self.files.get(file, b""))
        for change in changes:
            if isinstance(change, Resized):
                if fate.is_resized(change):
                    data[change.size :] = b""
                    data.extend(bytes(change.size - len(data)))
            else:
                for offset, piece in fate.pieces(change):
                    data.extend(bytes(max(0, offset - len(data))))
                    data[offset : offset + len(piece)] = piece
        return bytes(data)


class Kept:
    """Everything arrived, as after a kill of the process alone."""

    def names(self, number: int) -> int:
        return number

    def is_resized(self, _: Resized) -> bool:
        return True

    def pieces(self, change: Written) -> list[tuple[int, bytes]]:
        return [(change.offset, change.data)]


KEPT = Kept()
