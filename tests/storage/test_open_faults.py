"""Opening fails at every call in turn: it says so, frees the lock, and the file opens later."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from mqlite_actor.contract.errors import OpenError
from mqlite_actor.storage.sqlite import open_store
from tests.storage.fault_vfs import CALLS, Fault, FaultVfs, faulty
from tests.storage.foreign import BUSINESS, execute
from tests.storage.writer import killed_copy, snapshot, writing

STEPS_MAX = 200
"""More calls of one kind than any opening makes; the loop ends when the fault is not reached."""


@pytest.fixture
def vfs() -> Iterator[FaultVfs]:
    with faulty() as each:
        yield each


def fresh(folder: Path) -> Path:
    return folder / "q.db"


def business(folder: Path) -> Path:
    execute(folder / "q.db", *BUSINESS)
    return folder / "q.db"


def closed(folder: Path) -> Path:
    with writing(folder / "q.db") as writer:
        writer.create("q")
        writer.send("q", b"kept")
    return folder / "q.db"


def killed(folder: Path) -> Path:
    """With a live log, half of it already in the file."""
    with writing(folder / "source.db") as writer:
        writer.create("q")
        writer.store.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        writer.send("q", b"kept")
        copy = killed_copy(folder / "source.db", folder / "killed")
    for suffix in ("", "-wal"):
        shutil.move(f"{copy}{suffix}", folder / f"q.db{suffix}")
    return folder / "q.db"


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("make", [fresh, business, closed, killed])
def test_an_opening_that_fails_anywhere_can_be_repeated(
    tmp_path: Path,
    vfs: FaultVfs,
    make: object,
    call: str,
    lasting: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    assert callable(make)
    for step in range(1, STEPS_MAX):
        folder = tmp_path / str(step)
        folder.mkdir()
        path = make(folder)
        vfs.arm(Fault(call, at=step, lasting=lasting))
        was_refused = refuses(path, vfs)
        with writing(path) as writer:
            if make in (closed, killed):
                assert writer.bodies("q") == [b"kept"]
            writer.create("q2")
            writer.send("q2", b"new")
            writer.check()
        if not vfs.fired:
            assert not was_refused
            break
        shutil.rmtree(folder)
    else:
        pytest.fail(f"an opening with {STEPS_MAX} calls of {call}")


def refuses(path: Path, vfs: FaultVfs) -> bool:
    """Open, and close in peace; True if opening was refused, with an OpenError as it must be."""
    try:
        store = open_store(str(path))
    except OpenError:
        return True
    finally:
        vfs.disarm()
    store.close()
    return False


@pytest.mark.promise("E136")
@pytest.mark.parametrize("call", ["read", "open"])
def test_a_file_that_cannot_be_inspected_is_left_alone(
    tmp_path: Path, vfs: FaultVfs, call: str
) -> None:
    path = closed(tmp_path)
    path.with_name("q.db.lock").unlink()
    before = snapshot(tmp_path)
    vfs.arm(Fault(call, at=1))
    with pytest.raises(OpenError, match="cannot be read"):
        open_store(str(path))
    vfs.disarm()
    assert snapshot(tmp_path) == before
