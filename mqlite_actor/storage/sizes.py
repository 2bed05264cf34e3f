"""How much a store takes of its disk, and how much that has left.

Called by the stores, by `room` and by what looks at a store from outside. Nothing here fails for
what the system does not tell, or for memory, which has no disk.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

from mqlite_actor.storage.files import MEMORY


def size_on_disk(path: str) -> int:
    """Bytes of the database, its log and its index; 0 for memory."""
    if path == MEMORY:
        return 0
    total = 0
    for suffix in ("", "-wal", "-shm"):
        try:
            total += os.stat(path + suffix).st_size
        except FileNotFoundError:
            continue
    return total


def log_size(path: str) -> int | None:
    """Bytes of the log; None for memory, and when there is none to look at."""
    return None if path == MEMORY else _or_none(lambda: os.stat(path + "-wal").st_size)


def disk_free(path: str) -> int | None:
    """Bytes that an ordinary user may still write on the file's disk; None for memory, and when the
    system does not say."""
    if path == MEMORY:
        return None
    return _or_none(lambda: shutil.disk_usage(os.path.dirname(path)).free)


def cut(path: str, size: int) -> None:
    """Make a file so long at most. OSError if that cannot be."""
    if os.stat(path).st_size > size:
        os.truncate(path, size)


def _or_none(look: Callable[[], int]) -> int | None:
    try:
        return look()
    except OSError:
        return None
