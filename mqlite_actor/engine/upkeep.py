"""What is done to a store's file without an engine on it: check it, mend its counts, put a snapshot
in its place, look at what it stands on.

The face of `storage.checking`, `restoring` and `surroundings`, and of a diagnostic log that is only
read, for front ends, which know nothing of the storage itself. Nothing here is a call of the
contract: it concerns a file of this machine, and most of it is for when no engine can be had. All
of it blocks, for as long as the file is large.
"""

from __future__ import annotations

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.engine.diagnostics import earlier_boots, log_files
from mqlite_actor.storage import files
from mqlite_actor.storage.checking import Finding, Verdict, check_file, failures, mend_counts
from mqlite_actor.storage.restoring import NotAlone, Restored, foretell, restore
from mqlite_actor.storage.surroundings import (
    examine_library,
    examine_place,
    examine_size,
    layout_found,
    queues_found,
)

__all__ = [
    "Finding", "NotAlone", "Restored", "Verdict", "check_file", "earlier_boots",
    "examine_library", "examine_place", "examine_size", "failures", "file_at", "foretell",
    "layout_found", "log_files", "mend_counts", "path_of", "queues_found", "restore",
]  # fmt: skip


def file_at(path: str) -> str:
    """The one absolute path of a file whose path is `path` to the letter. OpenError."""
    return files.real_path(path)


def path_of(dsn: str) -> str:
    """The one absolute path of a store's file; InvalidArgument for a store that has none."""
    path = files.canonical_path(dsn)
    if path == files.MEMORY:
        raise InvalidArgument(f"{dsn!r} names no file")
    return path
