"""The room on the disk of a local store: what sends may take of it, and what is kept for others.

Asked by the engine before groups. Three things are held: what is committed can always be moved from
the log into the file; sends are refused while there is still room for what works a queue off; and
of that room nothing may take the last part but what frees some. The second is judged before a send
runs (`has_room`), the first and third by SQLite, which is told how many pages the file may have
(`permit`) and refuses whatever would need more, fan-out, receipts and a program's own rows alike.
It cannot be told how many pages may be written anew, which take of the log alone: of those it is
asked before COMMIT (`check`).
The disk is asked seldom, for that is a system call: each time the log has grown by ROOM_PAGES, and
before every group while little is left.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

import apsw

from mqlite_actor.contract import limits
from mqlite_actor.storage import files, sizes
from mqlite_actor.storage.database import Ledger

PAGES_MAX: Final = 0xFFFF_FFFE
"""SQLite's own bound, https://sqlite.org/limits.html#max_page_count"""

_SPILL: Final = apsw.SQLITE_DBSTATUS_CACHE_SPILL

SLACK_BYTES: Final = limits.RESERVE_BYTES // 8
"""What the log may take of the reserve for a moment. As much has to become free before sends that
were refused are taken again, or they would be refused and taken in turn."""

UNASKED: Final = -limits.ROOM_PAGES
"""As if the disk had been asked, or the log cut, when it was so much shorter."""

GAIN_FACTOR: Final = 8
"""The log gives much if all that is left is less than so many times as long."""

NEED_FACTOR: Final = 2
"""It is needed if all that is left is less than so many times as long."""

COMMIT_BYTES: Final = 40 * limits.KIB
"""What a COMMIT takes after all pages were written: one more, and now and then a piece of the log's
index, https://sqlite.org/walformat.html#the_wal_index_file_format"""


class Owner(Protocol):
    """What a store is to its room."""

    path: str
    log_pages: int
    connection: apsw.Connection
    ledger: Ledger


class Room:
    """What is left beside one file. `is_near`: there is so little left that each group is watched.
    `is_short`: a send was refused when the disk was asked last."""

    __slots__ = (
        "_cut_at", "_left", "_looked_at", "_page_bytes", "_pages", "_pages_max", "_spilled",
        "_store", "_unused_bytes", "is_near", "is_short",
    )  # fmt: skip

    def __init__(self, store: Owner, page_bytes: int) -> None:
        self._store: Final = store
        self._page_bytes: Final = page_bytes
        self._left = 0  # bytes, when the log has been moved into the file
        self._unused_bytes = 0  # of the file itself: pages that hold nothing
        self._pages = 0  # of the file, with what the log has of it
        self._cut_at = UNASKED  # length of the log after it was cut, or should have been
        self._spilled = 0  # pages that did not stay in the cache until their COMMIT, ever
        self.is_near = self.is_short = False
        self.forget()

    def forget(self) -> None:
        """The connection is a new one, or somebody else has made or taken room."""
        self._looked_at = self._cut_at = UNASKED
        self._pages_max = self._spilled = 0

    @property
    def asks_disk(self) -> bool:
        """Whether `look` is due."""
        is_grown = abs(self._store.log_pages - self._looked_at) >= limits.ROOM_PAGES
        return (self.is_near or is_grown) and self._store.path != files.MEMORY

    def look(self) -> bool:
        """Ask the disk and the file, and permit what leaves the reserve whole; whether that is more
        than before. Between transactions.

        Where that cannot be known now (the folder is gone, or a lock is in the way) all stays as it
        was: what is wrong is said by the write itself.
        """
        store = self._store
        try:
            pages, size = self._sizes()
            unused: int = store.connection.pragma("freelist_count")
        except (apsw.Error, OSError):
            return False
        free = sizes.disk_free(store.path)  # last: what moves meanwhile only makes it seem less
        self._looked_at = store.log_pages
        if free is None:
            return False
        before = self._pages_max
        self._pages = pages
        self._unused_bytes = unused * self._page_bytes
        self._left = free - max(0, pages * self._page_bytes - size)
        self.is_near = self._left - limits.RESERVE_BYTES < 2 * limits.GROUP_BYTES_MAX
        self.is_short = self.is_short and self.is_near
        store.ledger.is_tight = self.is_near
        with suppress(apsw.Error):  # as above
            self._permit(1.0)
        return self._pages_max > before

    def has_room(self, weigh: Callable[[], int]) -> bool:
        """Whether sends of `weigh()` bytes fit beside the reserve. Sets `is_short`.

        What finds pages in the file that hold nothing needs only the log, which is cut again: a
        queue that was worked off takes messages at once, however large its file has become.
        """
        if self.is_near:
            weight = weigh()
            growth = max(0, weight - self._unused_bytes)
            if growth or weight > SLACK_BYTES:
                need = weight + growth + (SLACK_BYTES if self.is_short else 0)
            else:
                need = -SLACK_BYTES
            self.is_short = self._left - limits.RESERVE_BYTES < need
        return not self.is_short

    def permit(self, kept: float) -> None:
        """Let the file grow until that part of the reserve is left, from now on; also amid a
        transaction. While there is plenty, the whole reserve is left by all."""
        if self.is_near:
            self._permit(kept)

    def _permit(self, kept: float) -> None:
        # Each new page is written to the log first and to the file later, so it counts twice.
        growth = max(0, self._left - int(kept * limits.RESERVE_BYTES)) // (2 * self._page_bytes)
        pages_max = min(self._pages + growth, PAGES_MAX)
        if pages_max != self._pages_max:
            self._store.connection.pragma("max_page_count", pages_max)
            self._pages_max = pages_max

    def check(self, *, has_changed: bool) -> None:
        """Before COMMIT: FullError, as if SQLite had met it, if the pages that the transaction has
        added could not be moved into the file then, because those that it wrote anew take the room
        in the log. Asked while little is left, and of what is larger than the cache: for less there
        is room in any case. Not asked of what changed no row and added no page. What it has written
        is taken back after the ROLLBACK (`trim_log`).
        """
        connection = self._store.connection
        if not has_changed and connection.pragma("page_count") == self._pages:
            return
        if not self.is_near and connection.status(_SPILL)[0] == self._spilled:
            return
        with suppress(apsw.BusyError):  # some page is in use and stays in the cache
            connection.cache_flush()
        self._spilled = connection.status(_SPILL)[0]
        try:
            pages, size = self._sizes()
        except OSError:  # as above
            return
        free = sizes.disk_free(self._store.path)
        need = pages * self._page_bytes - size
        if free is not None and need > 0 and free < need + COMMIT_BYTES:
            raise apsw.FullError("what was written could not be moved from the log into the file")

    def _sizes(self) -> tuple[int, int]:
        """Pages that the file has with what is in the log, and the bytes that it has by itself."""
        pages: int = self._store.connection.pragma("page_count")
        return pages, os.stat(self._store.path).st_size

    @property
    def wants_cut(self) -> bool:
        """Whether the log takes of the room that is kept: little is left, and it has grown by
        ROOM_PAGES since it was cut, or since a reader kept that from being done."""
        return self.is_near and self._has_grown

    def would_gain(self, log_bytes: int) -> bool:
        """Whether much more would be left if the log, which is so long on the disk, was cut. While
        there is plenty, one that could not be cut is tried again when it is a quarter longer."""
        if self.is_near:
            return self._has_grown
        grown = abs(self._store.log_pages - self._cut_at)
        is_due = grown >= max(limits.ROOM_PAGES, self._cut_at // 4)
        return is_due and self._left < GAIN_FACTOR * log_bytes

    def needs(self, log_bytes: int) -> bool:
        """Whether it is worth to wait for that."""
        return self.is_near or self._left < NEED_FACTOR * log_bytes

    @property
    def _has_grown(self) -> bool:
        return abs(self._store.log_pages - self._cut_at) >= limits.ROOM_PAGES

    def cut(self, *, keeps_room: bool = False) -> None:
        """The log was cut, or could not be. One that keeps its room on the disk was not, for us."""
        self._cut_at = UNASKED if keeps_room else self._store.log_pages


class Boundless:
    """The room of a store that knows of no disk."""

    is_near = is_short = asks_disk = wants_cut = False

    def look(self) -> bool:
        """There is nothing to look at."""
        return False

    def has_room(self, weigh: Callable[[], int]) -> bool:  # noqa: ARG002  # as the other's
        """Nobody can tell from here."""
        return True

    def permit(self, kept: float) -> None:
        """Nothing is kept."""

    def check(self, *, has_changed: bool) -> None:
        """Nothing is moved."""

    def would_gain(self, log_bytes: int) -> bool:  # noqa: ARG002  # as the other's
        """There is no log."""
        return False

    def needs(self, log_bytes: int) -> bool:  # noqa: ARG002  # as the other's
        """There is no log."""
        return False

    def cut(self, *, keeps_room: bool = False) -> None:
        """There is no log."""

    def forget(self) -> None:
        """Nothing was known."""


AnyRoom = Room | Boundless
