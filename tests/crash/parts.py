"""Many kills as tests of some twenty each, so that a long run costs as much for its last kill as
for its first, and uses every core.

One part in four is on the disk, the first of them always: there a process waits for syncs, and a
kill finds more in flight. The others are in memory, where the same time has ten times the kills.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Final

from tests.places import memory

KILLS_OF_A_PART: Final = 20

ON_DISK: Final = 4
"""One part in so many."""


def parts(kills: int) -> list[range]:
    """The numbers of so many kills, in parts of nearly the same size."""
    number = -(-kills // KILLS_OF_A_PART)
    ends = [kills * part // number for part in range(number + 1)]
    return [range(begin, end) for begin, end in pairwise(ends)]


def place_of(kills: range) -> Path | None:
    """Where a part's files are to be; None: on the disk."""
    return memory() if kills.start // KILLS_OF_A_PART % ON_DISK else None
