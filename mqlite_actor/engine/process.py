"""What the system says of this process: time, memory, descriptors.

Called by the observer for each snapshot. Read from /proc where there is one; what a system does not
tell is None, and never zero.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from mqlite_actor.contract.observe import ProcessInfo

T = TypeVar("T")

_SELF: Final = Path("/proc/self")

_START_TICKS: Final = 19
"""Place of `starttime` in /proc/self/stat, counted behind the name of the program (proc(5))."""


def this_process() -> ProcessInfo:
    """The process as it is now."""
    memory = _or_none(_memory)
    return ProcessInfo(
        cpu_seconds=time.process_time(),
        start_time_seconds=_or_none(_start_time),
        resident_bytes=memory and memory[1],
        virtual_bytes=memory and memory[0],
        open_descriptors=_or_none(lambda: len(list((_SELF / "fd").iterdir()))),
        max_descriptors=_or_none(_max_descriptors),
    )


def _memory() -> tuple[int, int]:
    """Bytes of address space, and of it in memory."""
    page = os.sysconf("SC_PAGE_SIZE")
    virtual, resident = (_SELF / "statm").read_text("ascii").split()[:2]
    return int(virtual) * page, int(resident) * page


@cache
def _start_time() -> float:
    """Seconds since 1970; the system counts from its own start."""
    behind_name = (_SELF / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    ticks = int(behind_name[_START_TICKS])
    lines = Path("/proc/stat").read_text("ascii").splitlines()
    booted_at = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    return booted_at + ticks / os.sysconf("SC_CLK_TCK")


def _max_descriptors() -> int | None:
    import resource  # noqa: PLC0415  # not on Windows

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def _or_none(look: Callable[[], T]) -> T | None:
    try:
        return look()
    except (OSError, ImportError, ValueError, StopIteration):
        return None
