"""Where tests keep their files: in memory where there is room, else on the disk.

Asked by tests/conftest.py for every `tmp_path`, and by suites that make folders of their own. A
store asks the disk to sync a dozen times a test, for some milliseconds each, in which a core has
nothing to do. What a power cut leaves of writes that were never synced is tested with recorded
writes (tests/power), which no real disk would show. The suites in which a kill strikes a process
that may be syncing stay on the disk: tests/crash/conftest.py.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_MEMORY: Final = Path("/dev/shm")
_ROOM_BYTES: Final = 2 << 30
"""A run holds some 100 MB at once; containers often have 64 MB here, which are not enough."""


def memory() -> Path | None:
    """A file system in memory with room for a run, on which programs can be started; or None."""
    try:
        found = os.statvfs(_MEMORY)
    except OSError:
        return None
    fits = found.f_bavail * found.f_frsize >= _ROOM_BYTES
    if not fits or found.f_flag & os.ST_NOEXEC or not os.access(_MEMORY, os.W_OK):
        return None
    return _MEMORY
