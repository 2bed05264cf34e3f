"""A group on a failing disk: every answer is true, at every call that can fail, for every verb.

The random trials take MQLITE_FAULTS for their number and MQLITE_FAULTS_SEED to repeat one run.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tests.engine.faulted import EACH, Pool, Step, Trial, prepare
from tests.figures import record
from tests.storage.fault_vfs import CALLS, Fault, FaultVfs, faulty

STEPS_MAX = 300
"""More calls of one kind than the groups make; the loop ends when the fault is not reached."""

TRIALS = int(os.environ.get("MQLITE_FAULTS", "200"))
SEED = int(os.environ.get("MQLITE_FAULTS_SEED") or random.SystemRandom().randrange(2**32))
WORKERS = 2
"""The trials are two tests, so that two processes share them."""

ERRORS = (apsw.IOError, apsw.FullError, apsw.BusyError, apsw.ReadOnlyError, apsw.CorruptError)
"""What SQLite can be told; whether a real disk tells it at this call or not."""

NEVER = {("sync", apsw.FullError), ("sync", apsw.BusyError)}
"""But these two: SQLite's own file systems call every failed sync an I/O error, so a COMMIT that
ends with them is known to have stopped in front of its last write."""

FAULTS = [
    *(
        Fault(call, 0, error, lasting)
        for call in CALLS
        for error in ERRORS
        if (call, error) not in NEVER
        for lasting in (False, True)
    ),
    Fault("open", 0, apsw.CantOpenError, lasting=True),
]
IS_WHOLE = TRIALS > 1_000
"""In CI each fault meets one of the levels, once the one and lasting the other."""

CASES = [
    (fault, synchronous)
    for place, fault in enumerate(FAULTS)
    for level, synchronous in enumerate(("NORMAL", "FULL"))
    if IS_WHOLE or (place // 2 + place) % 2 == level
]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    return prepare(tmp_path_factory.mktemp("template") / "q.db")


@pytest.fixture
def vfs(caplog: pytest.LogCaptureFixture) -> Iterator[FaultVfs]:
    caplog.set_level(logging.CRITICAL)  # thousands of expected lines
    with faulty() as each:
        yield each


def name_of(fault: Fault, synchronous: str) -> str:
    kind = fault.error.__name__.removesuffix("Error")
    return f"{fault.call}-{kind}-{'lasting' if fault.lasting else 'once'}-{synchronous}"


def chosen(pool: Pool) -> list[list[Step]]:
    """Three groups that write, remove, refuse, and keep a body apart."""
    steps = pool.steps
    return [
        [
            steps["send to q"][0],
            steps["send to q"][2],
            steps["complete"][0],
            steps["refused"][0],
            steps["abandon"][0],
            steps["send to dedup"][1],
        ],
        [steps["drain"][0], steps["complete"][1], steps["publish"][0]],
        [steps["send to dedup"][2]],
    ]


@pytest.mark.promise("E21", "E64", "E88", "E158")
@pytest.mark.parametrize(("fault", "synchronous"), CASES, ids=[name_of(*case) for case in CASES])
def test_ok_is_there_refused_is_not_and_nothing_is_half_done(
    tmp_path: Path, vfs: FaultVfs, pool: Pool, fault: Fault, synchronous: str
) -> None:
    for step in range(1, STEPS_MAX):
        folder = tmp_path / str(step)
        folder.mkdir()
        armed = Fault(fault.call, step, fault.error, fault.lasting)
        Trial(pool, chosen(pool), folder).run(vfs, armed, synchronous=synchronous)
        if not vfs.fired:
            record("failing disk", faults=step - 1)
            return
        shutil.rmtree(folder)
    pytest.fail(f"the groups make {STEPS_MAX} calls of {fault.call}")


def any_groups(pool: Pool, dice: random.Random) -> list[list[Step]]:
    """Up to four groups of up to twelve steps, none of them twice."""
    steps = pool.all()
    dice.shuffle(steps)
    sizes = [dice.randint(1, 12) for _ in range(dice.randint(1, 4))]
    return [[steps.pop() for _ in range(size)] for size in sizes]


def any_fault(dice: random.Random) -> Fault:
    """Mostly in what commands do most: write."""
    call = dice.choice((*CALLS, "write", "write", "write", "sync", "read"))
    at = dice.randint(1, 60 if call in ("write", "read") else 8)
    errors = [each for each in (*ERRORS, apsw.CantOpenError) if (call, each) not in NEVER]
    error = dice.choice(errors)
    return Fault(call, at, error, lasting=dice.random() < 0.4)


@pytest.mark.promise("E21", "E22", "E64", "E88", "E124", "E158")
@pytest.mark.parametrize("worker", range(WORKERS))
def test_any_commands_under_any_fault_were_told_the_truth(
    tmp_path: Path, vfs: FaultVfs, pool: Pool, worker: int
) -> None:
    print(f"MQLITE_FAULTS={TRIALS} MQLITE_FAULTS_SEED={SEED}")
    fired = 0
    for trial in range(worker, TRIALS, WORKERS):
        dice = random.Random(f"{SEED} {trial}")
        folder = tmp_path / str(trial)
        folder.mkdir()
        fault, groups = any_fault(dice), any_groups(pool, dice)
        told = f"trial {trial} of MQLITE_FAULTS_SEED={SEED}: {fault}"
        try:
            Trial(pool, groups, folder).run(vfs, fault, synchronous=dice.choice(("NORMAL", "FULL")))
        except Exception as error:
            error.add_note(told)
            raise
        fired += bool(vfs.fired)
        shutil.rmtree(folder)
    assert fired > TRIALS / WORKERS / 4, "most faults are reached"
    record("failing disk", seed=SEED, faults=fired)


def test_the_pool_has_every_kind_of_command(pool: Pool) -> None:
    assert {len(steps) for steps in pool.steps.values()} == {EACH}
    assert len(pool.steps) > 20
