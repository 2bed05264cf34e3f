"""The rebuilt disks are what a cut can leave, and the judge notices when they should not be."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.power.disk import (
    KEPT,
    SECTOR,
    Disk,
    Event,
    FolderSynced,
    Made,
    Removed,
    Resized,
    Synced,
    Written,
)
from tests.power.fates import FATES, Lost, Scattered, Torn, sectors
from tests.power.judge import Violation
from tests.power.test_cuts import Trial

NAMED: list[Event] = [Made("f", 1), FolderSynced()]


def after(*events: Event) -> Disk:
    disk = Disk()
    for event in events:
        disk.happens(event)
    return disk


@pytest.mark.parametrize("name", FATES)
def test_what_was_synced_is_there_whatever_the_fate(name: str) -> None:
    disk = after(*NAMED, Written(1, 0, b"a" * 2000), Resized(1, 1500), Synced(1))
    for number in range(20):
        assert disk.remains(FATES[name](random.Random(number), 0)) == {"f": b"a" * 1500}


@pytest.mark.parametrize("name", FATES)
def test_a_write_in_doubt_touches_nothing_outside_of_its_range(name: str) -> None:
    disk = after(*NAMED, Written(1, 0, b"a" * 3000), Synced(1), Written(1, 700, b"b" * 900))
    for number in range(50):
        found = disk.remains(FATES[name](random.Random(number), 1))["f"]
        assert (found[:700], found[1600:]) == (b"a" * 700, b"a" * 1400)


def test_what_was_not_synced_may_be_there_or_not() -> None:
    disk = after(*NAMED, Written(1, 0, b"old"), Synced(1), Written(1, 0, b"new"))
    assert disk.remains(Lost()) == {"f": b"old"}
    assert disk.remains(KEPT) == {"f": b"new"}
    assert disk.unsynced() == 1


def test_a_write_is_split_where_sectors_begin() -> None:
    pieces = sectors(Written(1, SECTOR - 10, b"x" * (SECTOR + 30)))
    assert [(at, len(data)) for at, data in pieces] == [
        (SECTOR - 10, 10), (SECTOR, SECTOR), (2 * SECTOR, 20),
    ]  # fmt: skip


def test_sectors_of_one_write_may_arrive_apart() -> None:
    disk = after(*NAMED, Written(1, 0, b"x" * (3 * SECTOR)))
    found = {disk.remains(Scattered(random.Random(n), 1))["f"] for n in range(200)}
    assert bytes(SECTOR) + b"x" * (2 * SECTOR) in found
    assert b"" in found


def test_a_later_write_may_arrive_without_an_earlier_one() -> None:
    disk = after(*NAMED, Written(1, 0, b"1"), Written(1, 1, b"2"))
    found = {disk.remains(FATES["some"](random.Random(n), 2))["f"] for n in range(100)}
    assert {b"", b"1", b"12", bytes(1) + b"2"} <= found


def test_a_torn_write_is_torn_once_and_nothing_follows_it() -> None:
    disk = after(*NAMED, Written(1, 0, b"ab"), Written(1, 2, b"cd"))
    found = {disk.remains(Torn(random.Random(n), 2))["f"] for n in range(100)}
    room = {bytes(2), b"ab" + bytes(2)}  # the length alone
    assert found == {b"", b"a", b"\0b", b"ab", b"abc", b"ab\0d", b"abcd"} | room


def test_names_are_kept_in_order_up_to_some_moment() -> None:
    disk = after(*NAMED, Made("g", 2), Removed("f"), Made("f", 3))
    found = {frozenset(disk.remains(FATES["some"](random.Random(n), 0))) for n in range(100)}
    assert found == {frozenset("f"), frozenset("fg"), frozenset("g")}
    assert disk.remains(Lost()) == {"f": b""}


# -- the judge -------------------------------------------------------------------------------------

LIVES, CUTS = 6, 60
"""Enough for a store that breaks its word to be found out in each of a thousand runs."""


@pytest.mark.parametrize(
    ("synchronous", "judged_as"),
    [("NORMAL", "FULL"), ("OFF", "FULL"), ("OFF", "NORMAL")],
)
def test_a_store_that_syncs_less_than_it_says_is_found_out(
    folder: Path, synchronous: str, judged_as: str
) -> None:
    for number in range(LIVES):
        trial = Trial(folder, random.Random(number), synchronous)
        try:
            trial.run(1, CUTS, judged_as=judged_as)
        except Violation:
            return
    pytest.fail(f"{synchronous} passed for {judged_as}")
