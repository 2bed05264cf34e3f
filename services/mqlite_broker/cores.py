"""How many front-end processes a broker has: what was said, or what fits the machine.

Called by `settings.py`; calls nothing of ours but the reading of a store's name (design.md 4, R14).
"""

from __future__ import annotations

import os
import re
from typing import Final

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.sdk.address import StoreKind, parse_store

WORKERS_MAX: Final = 64
"""More front-end processes than any writer could feed."""

FITTING_MAX: Final = 4
CORES_MIN: Final = 3
"""With fewer cores the writer and one worker only take each other's time."""


def workers(text: str, *, source: str, db: str) -> int:
    """How many; "" is as many as fit. InvalidArgument for no number, and for a store in memory,
    which is in one process only."""
    kind = parse_store(db, bare_paths=True).kind
    if not text:
        return _fitting() if kind is StoreKind.FILE else 0
    if not re.fullmatch(r"[0-9]{1,4}", text) or int(text) > WORKERS_MAX:
        raise InvalidArgument(f"{source}={text!r} is no number from 0 to {WORKERS_MAX}")
    if int(text) and kind is StoreKind.MEMORY:
        raise InvalidArgument(
            f"{source}={text}: a database in memory cannot be shared by several processes; use"
            " 0, or a file"
        )
    return int(text)


def _fitting() -> int:
    if not hasattr(os, "sched_getaffinity"):
        return 0  # no Linux: descriptors are not passed on there
    cores = len(os.sched_getaffinity(0))
    return 0 if cores < CORES_MIN else min(FITTING_MAX, cores - 1)
