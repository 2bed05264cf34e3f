"""File descriptors: the standard ones, and room for connections.

Called by `serve.py`, `front.py` and `__main__.py` before anything is opened. Each connection needs
a descriptor, and the usual soft limit is 1,024: it is raised as far as the connections need and the
hard limit allows, as most servers do; what does not fit is said, and left out.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import msgspec

from mqlite_broker.settings import Settings

if sys.platform != "win32":  # which has neither the module nor the limit
    import resource

SPARE: Final = 64
"""The store's files, its checkpointer, standard streams, listeners, the event loop; under twenty in
all."""


def hold_standard() -> None:
    """Put the null device where a standard stream is closed, for this process and its children.

    The next socket or database file would get its number otherwise, and the log would be written
    into it. `sys.stderr` is there afterwards, too: what is printed to None goes to stdout.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", errors="backslashreplace", closefd=False)


def make_room(settings: Settings) -> Settings:
    """The settings with as many connections as there can be; if that is fewer, with a warning."""
    if sys.platform == "win32":
        return settings
    wanted = settings.connections_max + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return settings
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
        most = soft
    if most >= wanted:
        return settings
    fitting = max(1, most - SPARE)
    warning = (
        f"MQLITE_MAX_CONNECTIONS={settings.connections_max} does not fit the limit of {most} open"
        f" files; serving {fitting} connections"
    )
    return msgspec.structs.replace(
        settings, connections_max=fitting, warnings=(*settings.warnings, warning)
    )


def left(wanted: int) -> int:
    """How many connections a program can serve beside what it has open and SPARE more, if it wants
    so many; for `q.serve`. Its limit stays as it is: `select` works with no descriptor above the
    usual one."""
    if sys.platform == "win32":
        return wanted
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    try:
        held = len(list(Path("/dev/fd").iterdir()))
    except OSError:
        held = 0
    return max(1, min(wanted, soft - held - SPARE))
