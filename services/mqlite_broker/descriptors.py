"""Room for connections: each needs a file descriptor, and the usual soft limit is 1,024.

Called by `serve.py` before anything is opened. The soft limit is raised as far as the connections
need and the hard limit allows, as most servers do; what does not fit is said, and left out. For
`q.serve`, called by `embedding.py`, only what is `left` counts: the limit is the program's.
"""

from __future__ import annotations

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
