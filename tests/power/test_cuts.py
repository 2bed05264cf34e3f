"""Cut off its power at any moment, a store has lost nothing that it acknowledged (FULL), or only a
tail of whole transactions (NORMAL).

MQLITE_POWER_CUTS is the number of cuts of each level, MQLITE_POWER_SEED repeats a run's choices;
both are printed.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from mqlite_actor.clock import ManualClock
from tests.figures import record
from tests.power.disk import Disk
from tests.power.fates import FATES
from tests.power.judge import Record, Violation, examine, laid_out
from tests.power.life import live

CUTS = int(os.environ.get("MQLITE_POWER_CUTS", "600"))
SEED = int(os.environ.get("MQLITE_POWER_SEED") or random.SystemRandom().randrange(2**32))

LIVES = 3
"""Of one trial; each begins with what a cut left of the life before."""

GROUPS = 25
"""Of one life: some hundreds of writes."""

CUTS_OF_A_LIFE = 40


class Trial:
    """Some lives of one store, each ended by a cut, and many other cuts that it might have been."""

    def __init__(self, folder: Path, dice: random.Random, synchronous: str) -> None:
        self.folder = folder
        self.dice = dice
        self.synchronous = synchronous
        self.clock = ManualClock()
        self.seen: Counter[str] = Counter()

    def run(self, lives: int, cuts: int, *, judged_as: str | None = None) -> None:
        files: dict[str, bytes] = {}
        for number in range(lives):
            path = laid_out(self.folder / "live", files)
            record = Record(judged_as or self.synchronous)
            life = live(
                path, record, self.dice, self.clock, number=0, groups=GROUPS,
                synchronous=self.synchronous,
            )  # fmt: skip
            self.seen["messages told of"] += life.facts
            journal = life.journal
            last = len(journal.events)
            places = sorted(self.dice.randint(journal.first, last) for _ in range(cuts))
            chosen = self.dice.randrange(cuts)
            disk, done = Disk(), 0
            for cut, place in enumerate(places):
                for event in journal.events[done:place]:
                    disk.happens(event)
                done = place
                left = self.cut(disk, record, f"life {number}, event {place}")
                files = left if cut == chosen else files

    def cut(self, disk: Disk, record: Record, where: str) -> dict[str, bytes]:
        """One cut, examined; what it left."""
        name = self.dice.choice(tuple(FATES))
        files = disk.remains(FATES[name](self.dice, disk.unsynced()))
        try:
            found = examine(self.folder / "cut", files, disk, record, {})
        except (Violation, AssertionError) as error:
            error.add_note(f"{where}, fate {name!r}, {disk.unsynced()} changes in doubt")
            raise
        self.seen["cuts"] += 1
        self.seen["with changes in doubt"] += bool(disk.unsynced())
        self.seen["of a transaction in flight"] += disk.begun > disk.acknowledged
        self.seen["that lost a tail"] += found < disk.acknowledged
        self.seen["that kept what was not acknowledged"] += found > disk.acknowledged
        return files


@pytest.mark.promise("E88")
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
def test_no_cut_takes_back_what_was_promised(folder: Path, synchronous: str, part: int) -> None:
    print(f"MQLITE_POWER_SEED={SEED} MQLITE_POWER_CUTS={CUTS}")
    seen: Counter[str] = Counter()
    number = part
    while seen["cuts"] < CUTS // 2:
        trial = Trial(folder, random.Random(f"{SEED} {synchronous} {number}"), synchronous)
        try:
            trial.run(LIVES, CUTS_OF_A_LIFE)
        except Exception as error:
            error.add_note(f"trial {number} of MQLITE_POWER_SEED={SEED}, {synchronous}")
            raise
        seen += trial.seen
        number += 2
    print(f"{synchronous}: {dict(seen)}")
    assert seen["with changes in doubt"] > CUTS / 10
    assert seen["messages told of"] > CUTS / 10
    record("power loss", seed=SEED, cuts=seen["cuts"])
    assert seen["that lost a tail"] == 0 or synchronous == "NORMAL"
