"""A group on a failing disk: every answer is true, at every call that can fail."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import (
    OutcomeUnknown,
    StorageFailed,
    StorageFull,
)
from tests.engine.faulted import Trial, prepare
from tests.storage.fault_vfs import Fault, FaultVfs, faulty

STEPS_MAX = 300
"""More calls of one kind than the groups make; the loop ends when the fault is not reached."""

WORLD = (OutcomeUnknown, StorageFailed, StorageFull)


@pytest.fixture(scope="module")
def template(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, dict[bytes, wire.Message]]:
    path = tmp_path_factory.mktemp("template") / "q.db"
    return path, prepare(path)


@pytest.fixture
def vfs(caplog: pytest.LogCaptureFixture) -> Iterator[FaultVfs]:
    caplog.set_level(logging.CRITICAL)  # thousands of expected lines
    with faulty() as each:
        yield each


FAULTS = [
    Fault("write", 0),
    Fault("write", 0, lasting=True),
    Fault("write", 0, apsw.FullError),
    Fault("write", 0, apsw.FullError, lasting=True),
    Fault("sync", 0),
    Fault("sync", 0, lasting=True),
    Fault("truncate", 0),
    Fault("read", 0),
    Fault("read", 0, lasting=True),
    Fault("read", 0, apsw.CorruptError),
    Fault("open", 0, apsw.CantOpenError, lasting=True),
    Fault("lock", 0),
]


def name_of(fault: Fault) -> str:
    kind = fault.error.__name__.removesuffix("Error")
    return f"{fault.call}-{kind}-{'lasting' if fault.lasting else 'once'}"


@pytest.mark.promise("E21", "E64", "E88", "E158")
@pytest.mark.parametrize("synchronous", ["NORMAL", "FULL"])
@pytest.mark.parametrize("fault", FAULTS, ids=name_of)
def test_ok_is_there_refused_is_not_and_nothing_is_half_done(
    tmp_path: Path,
    vfs: FaultVfs,
    template: tuple[Path, dict[bytes, wire.Message]],
    fault: Fault,
    synchronous: str,
) -> None:
    for step in range(1, STEPS_MAX):
        folder = tmp_path / str(step)
        folder.mkdir()
        trial = Trial(*template, folder)
        armed = Fault(fault.call, step, fault.error, fault.lasting)
        trial.run(vfs, armed, synchronous=synchronous)
        if not vfs.fired:
            return
        shutil.rmtree(folder)
    pytest.fail(f"the groups make {STEPS_MAX} calls of {fault.call}")
