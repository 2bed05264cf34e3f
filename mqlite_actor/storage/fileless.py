"""What the engine may ask of a file, answered for a store that has none.

The base of `hrana.HranaStore`. The engine asks little of this where `has_file` is False; whatever
is asked all the same has a true and harmless answer.
"""

# ruff: noqa: ARG002 -- the arguments are the protocol's (`store.Store`)

from __future__ import annotations

from typing import Any

from mqlite_actor.storage.reading import Readers
from mqlite_actor.storage.room import AnyRoom, Boundless
from mqlite_actor.storage.store import REMOTE, Backend


class Fileless:
    """A store without file, log, readers or pages."""

    __slots__ = ("leaves_log", "log_pages", "room")

    is_memory = False
    has_file = False
    may_flush = True
    copy_source = ""
    upkeep_refusal = "a remote database is compacted and backed up by its provider, not from here"

    def __init__(self) -> None:
        self.log_pages = 0
        self.room: AnyRoom = Boundless()
        self.leaves_log = False

    @property
    def backend(self) -> Backend:
        """How Status and Observe call it."""
        return REMOTE

    @property
    def readers(self) -> Readers | None:
        """The writer is asked, since no other connection is sure to see what it wrote."""
        return None

    def look(self, step: Any, look: Any, *, busy_ms: int = 0) -> Any:  # noqa: ANN401  # never asked
        """There are no readers."""
        raise AssertionError("a store without readers is not asked to look")

    def check_files(self) -> None:
        """There are none."""

    def checkpoint_passive(self) -> None:
        """There is no log."""

    def truncate_log(self, *, keeps_room: bool = False, waits: bool = False) -> bool:
        """There is no log."""
        return True

    def trim_log(self) -> None:
        """There is no log."""

    def reclaim(self, pages: int) -> int:
        """No page is ours."""
        return 0

    def free_pages(self) -> int:
        """No page is ours."""
        return 0

    def vacuum(self) -> None:
        """Refused before it comes here (`upkeep_refusal`)."""

    def size_bytes(self) -> int:
        """Unknown, which the contract calls 0."""
        return 0

    def log_bytes(self) -> int | None:
        """There is no log."""
        return None

    def disk_free_bytes(self) -> int | None:
        """Nobody can tell from here."""
        return None
