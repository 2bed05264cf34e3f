"""An engine, its passes and its clients in a world without chance, interrupted at every place.

MQLITE_SIMULATION_SEEDS says how many lives are lived, MQLITE_SIMULATION_SWEEPS of how many lives
every place is tried, MQLITE_SIMULATION_SEED where to begin; a failure says which life repeats it.
"""

from __future__ import annotations

import itertools
import logging
import os
import random
from pathlib import Path

import pytest

from tests.figures import record
from tests.simulation.life import Life, Outcome, live, prepare

SWEEPS = int(os.environ.get("MQLITE_SIMULATION_SWEEPS", "1"))
SEED = int(os.environ.get("MQLITE_SIMULATION_SEED") or random.SystemRandom().randrange(2**32))

PARTS = 2
"""Of the lives; a long run has a core for each."""

SEEDS = max(PARTS, int(os.environ.get("MQLITE_SIMULATION_SEEDS", "25")))

TURNS = (0, 0, 1, 2, 3, 5, 8, 13)
"""How long after the place: at once, or when what is waited for is under way."""


PLACES_MIN = 8
"""A life has some twenty-five; the shortest that was seen has seventeen."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the queues, closed."""
    return prepare(tmp_path_factory.mktemp("template") / "mq.db")


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # slow disks are complained about


def lived(template: Path, folder: Path, life: Life) -> Outcome:
    """Live it, and fail if anything is wrong."""
    outcome = live(template, folder / "mq.db", life)
    assert not outcome.faults, f"{life}\n" + "\n".join(outcome.faults)
    return outcome


@pytest.mark.promise("E142", "E144")
@pytest.mark.parametrize("ends", ["cancel", "close"])
def test_whatever_is_interrupted_wherever_it_stands_everyone_was_told_the_truth(
    template: Path, tmp_path: Path, ends: str
) -> None:
    """Count the places of one client's life, then live it again for each place."""
    places = 0
    for seed in range(SEED, SEED + SWEEPS):
        dice = random.Random(seed)
        for at in itertools.count(1):
            outcome = lived(template, tmp_path, Life(seed, ends, at, dice.choice(TURNS)))
            if not outcome.was_interrupted:
                break
            places += 1
    assert places >= PLACES_MIN * SWEEPS, "a life has places to be interrupted at"
    record("simulation", seed=SEED, interruptions=places)


@pytest.mark.promise("E142")
@pytest.mark.parametrize("part", range(PARTS))
def test_any_life_is_told_truthfully(template: Path, tmp_path: Path, part: int) -> None:
    sent = 0
    lives = range(SEED + part, SEED + SEEDS, PARTS)
    for seed in lives:
        dice = random.Random(seed)
        ends, at, turns = dice.choice(["cancel", "close"]), dice.randint(1, 60), dice.choice(TURNS)
        sent += lived(template, tmp_path, Life(seed, ends, at, turns, clients=5)).sent
    assert sent > 5 * len(lives), "the clients do something"
    record("simulation", seed=SEED, lives=len(lives))


@pytest.mark.parametrize("at", [0, 7])
def test_a_seed_is_a_life(template: Path, tmp_path: Path, at: int) -> None:
    """Without this, a seed would not repeat what it found."""
    life = Life(SEED, "cancel", at)
    assert lived(template, tmp_path, life).trace == lived(template, tmp_path, life).trace
    assert lived(template, tmp_path, Life(SEED + 1, "cancel", at)).trace != (
        lived(template, tmp_path, life).trace
    )


def test_a_lease_whose_holder_was_told_of_its_end_may_show_until_the_sweep(
    template: Path, tmp_path: Path
) -> None:
    """Lives whose last look comes after such an end, and before the sweep, which waits for a slow
    disk in the second one (the judge once minded)."""
    lived(template, tmp_path, Life(955181019, "cancel", 51, 8, clients=5))
    lived(template, tmp_path, Life(3889752065, "cancel", 48, 13, clients=5))
