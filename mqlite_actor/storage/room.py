"""The room on the disk of a local store: enough for sends, or kept for what frees some.

Asked by the store before sends and between groups. The disk is asked seldom, for that is a system
call: each time the log has grown by ROOM_PAGES, and before every group while little is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mqlite_actor.contract import limits
from mqlite_actor.storage import files


class Room:
    """What is left beside one file. `is_short`: it had none for sends when the disk was asked
    last."""

    __slots__ = ("_cut_at", "_is_near", "_looked_at", "_page_bytes", "_path", "is_short")

    def __init__(self, path: str, page_bytes: int) -> None:
        self._path: Final = path
        self._page_bytes: Final = page_bytes
        self.is_short = False
        self._is_near = False  # to being short: the next group may be one too many
        self._looked_at = -limits.ROOM_PAGES  # length of the log when the disk was asked last
        self._cut_at = 0  # its length after it was cut, or should have been

    def asks_disk(self, log_pages: int) -> bool:
        """Whether `has_room` has to look: little was left, or the log has grown since."""
        is_grown = abs(log_pages - self._looked_at) >= limits.ROOM_PAGES
        return (self._is_near or is_grown) and self._path != files.MEMORY

    def has_room(self, log_pages: int, weigh: Callable[[], int]) -> bool:
        """Whether sends of `weigh()` bytes fit: what is free must hold them twice (log and file),
        all that the log may still have to move into the file, and the reserve."""
        if not self.asks_disk(log_pages):
            return True
        self._looked_at = log_pages
        free = files.disk_free(self._path)
        if free is None:
            return True  # the folder is gone, or worse: the write itself will say so
        left = free - log_pages * self._page_bytes - limits.RESERVE_BYTES
        self._is_near = left < 2 * limits.GROUP_BYTES_MAX
        self.is_short = self._is_near and left < 2 * weigh()
        return not self.is_short

    def wants_cut(self, log_pages: int) -> bool:
        """Whether the log takes of the reserve what settlements need: sends are refused, and it has
        grown by ROOM_PAGES since it was cut, or since a reader kept that from being done."""
        return self.is_short and abs(log_pages - self._cut_at) >= limits.ROOM_PAGES

    def cut(self, log_pages: int) -> None:
        """The log was cut, or could not be, and is so long now."""
        self._cut_at = log_pages
