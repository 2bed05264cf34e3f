"""The fates of changes that were in flight when the power went; each is one of FATES.

A fate is made for one cut from dice and the number of changes in doubt, and asked once per change,
file by file and in the order of each file.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.power.disk import KEPT, SECTOR, Fate, Resized, Written

Pieces = list[tuple[int, bytes]]


def sectors(change: Written) -> Pieces:
    """A write cut where sectors of the disk begin."""
    found: Pieces = []
    start, end = change.offset, change.offset + len(change.data)
    while start < end:
        stop = min(end, start - start % SECTOR + SECTOR)
        found.append((start, change.data[start - change.offset : stop - change.offset]))
        start = stop
    return found


class Lost:
    """Nothing arrived that was not synced."""

    def names(self, _: int) -> int:
        return 0

    def is_resized(self, _: Resized) -> bool:
        return False

    def pieces(self, _: Written) -> Pieces:
        return []


class Some:
    """Each write arrived whole or not at all, in any order; a lost one may have made room."""

    def __init__(self, dice: random.Random, _: int) -> None:
        self.dice = dice
        self.chance = dice.choice((0.1, 0.5, 0.9))

    def names(self, number: int) -> int:
        return self.dice.randint(0, number)

    def is_resized(self, _: Resized) -> bool:
        return self.dice.random() < self.chance

    def pieces(self, change: Written) -> Pieces:
        if self.dice.random() < self.chance:
            return [(change.offset, change.data)]
        if self.dice.random() < 0.5:
            return [(change.offset + len(change.data), b"")]  # only the length
        return []


class Scattered(Some):
    """Each sector for itself."""

    def pieces(self, change: Written) -> Pieces:
        return [piece for piece in sectors(change) if self.dice.random() < self.chance]


class Spoilt(Some):
    """Each sector for itself, and some of the lost ones hold what nobody wrote."""

    def pieces(self, change: Written) -> Pieces:
        found: Pieces = []
        for offset, data in sectors(change):
            roll = self.dice.random()
            if roll < self.chance:
                found.append((offset, data))
            elif roll < self.chance + 0.3 * (1 - self.chance):
                found.append((offset, self.dice.randbytes(len(data))))
        return found


class Torn:
    """In order up to one change, which is torn in the middle, and nothing after it."""

    def __init__(self, dice: random.Random, unsynced: int) -> None:
        self.dice = dice
        self.left = dice.randint(0, unsynced)

    def names(self, number: int) -> int:
        return number

    def is_resized(self, _: Resized) -> bool:
        self.left -= 1
        return self.left >= 0

    def pieces(self, change: Written) -> Pieces:
        self.left -= 1
        if self.left >= 0:
            return [(change.offset, change.data)]
        if self.left < -1:
            return []
        at = self.dice.randint(0, len(change.data))
        if self.dice.random() < 0.5:
            return [(change.offset, change.data[:at])]
        return [(change.offset + at, change.data[at:])]


FATES: dict[str, Callable[[random.Random, int], Fate]] = {
    "kept": lambda dice, unsynced: KEPT,
    "lost": lambda dice, unsynced: Lost(),
    "some": Some,
    "scattered": Scattered,
    "spoilt": Spoilt,
    "torn": Torn,
}
"""By name, what makes a fate for one cut."""
