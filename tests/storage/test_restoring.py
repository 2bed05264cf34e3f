"""A restore that dies at any moment leaves the old store whole, with its log, or the new one."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from mqlite_actor.contract.errors import DatabaseLocked, OpenError, StorageFailed
from mqlite_actor.storage import aside, checking, restoring
from mqlite_actor.storage.files import FileLock
from mqlite_actor.storage.snapshot import Snapshot
from mqlite_actor.storage.sqlite import open_store
from tests.storage.foreign import execute
from tests.storage.writer import killed_copy, snapshot, writing

DEATH = 9
NOBODY = 65534

OLD, NEW, ALONE = [b"in the file", b"in the log"], [b"in the snapshot"], b"a log without its store"


def dies_at(step: int, work: Callable[[], object]) -> bool:
    """Do it in a process that ends at its so manieth change of a name; False if it lived."""
    pid = os.fork()
    if not pid:  # pragma: no cover - it never comes back
        left = step

        def look(event: str, _: object) -> None:
            nonlocal left
            if event in {"os.rename", "os.remove", "open"}:
                left -= 1
                if not left:
                    os._exit(DEATH)

        sys.addaudithook(look)
        try:
            work()
        finally:
            os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, DEATH)
    return status == DEATH


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`new.db` is a snapshot; `q.db` a store whose owner was killed, so that its log holds much."""
    with writing(tmp_path / "made.db") as writer:
        writer.create("q")
        writer.send("q", *NEW)
        execute(tmp_path / "made.db", f"VACUUM INTO '{tmp_path / 'new.db'}'")
    (tmp_path / "live").mkdir()
    with writing(tmp_path / "live" / "q.db") as writer:
        writer.create("q")
        writer.send("q", OLD[0])
        writer.store.checkpoint_passive()
        writer.send("q", OLD[1])
        killed_copy(tmp_path / "live" / "q.db", tmp_path / "lab")
    shutil.copy(tmp_path / "new.db", tmp_path / "lab")
    return tmp_path / "lab"


def deaths(folder: Path, prepare: Callable[[Path], object]) -> Iterator[Path]:
    """A copy of the folder for each moment at which a restore in it can die."""
    for step in count(1):
        copy = folder.with_name(f"death{step}")
        shutil.copytree(folder, copy)
        prepare(copy)
        if not dies_at(step, partial(restore, copy)):
            assert step > 6
            return
        yield copy


def restore(folder: Path) -> restoring.Restored:
    return restoring.restore(str(folder / "new.db"), str(folder / "q.db"), may_replace=True)


def assert_in_turn(found: list[object], old: object, new: object) -> None:
    """First the old one, then the new one, which stays; and nothing else."""
    turn = found.index(new)
    assert turn > 6
    assert found == [*[old] * turn, *[new] * (len(found) - turn)]


def bodies(path: Path) -> list[bytes]:
    with writing(path) as writer:
        return writer.bodies("q")


def test_a_restore_that_dies_at_any_moment_leaves_the_store_with_its_log(folder: Path) -> None:
    found: list[object] = []
    for lab in deaths(folder, lambda _: None):
        found.append(bodies(lab / "q.db"))
        assert not aside.is_broken_off(str(lab / "q.db"))
        restore(lab)
        assert bodies(lab / "q.db") == NEW
    assert_in_turn(found, OLD, NEW)


def test_a_restore_that_died_can_be_repeated_at_once(folder: Path) -> None:
    found: list[object] = []
    for lab in deaths(folder, lambda _: None):
        found.append(bodies(Path(restore(lab).kept)))
        assert bodies(lab / "q.db") == NEW
    assert_in_turn(found, OLD, NEW)


def test_what_was_moved_is_put_back_even_if_that_dies_as_well(folder: Path) -> None:
    path = str(folder / "q.db")
    before = snapshot(folder)
    for has_new in (False, True):
        for step in count(1):
            aside.move(path)
            if has_new:
                shutil.copy(folder / "new.db", path)
                Path(f"{path}-shm").write_bytes(b"somebody looked at the copy")
            has_died = dies_at(step, lambda: aside.put_back(path))
            aside.recover(path)
            Path(f"{path}.lock").unlink(missing_ok=True)
            assert snapshot(folder) == before
            if not has_died:
                break
        assert step > 2


def test_a_log_that_stood_alone_is_put_back_alone(folder: Path) -> None:
    def prepare(lab: Path) -> None:
        (lab / "q.db").unlink()
        (lab / "q.db-wal").write_bytes(ALONE)

    found: list[object] = []
    for lab in deaths(folder, prepare):
        aside.recover(str(lab / "q.db"))
        found.append((lab / "q.db").exists())
        log = "q.db.before-restore-1-wal" if found[-1] else "q.db-wal"
        assert (lab / log).read_bytes() == ALONE
    assert_in_turn(found, False, True)


def test_a_note_that_was_never_whole_says_that_nothing_had_moved(folder: Path) -> None:
    for text in (
        "",
        "q.db.befo",
        "q.db.before-restore-1 st",
        "q.db.before-restore-1 store",
        "\0\0",
    ):
        (folder / "q.db.restoring").write_text(text)
        assert bodies(folder / "q.db") == OLD
        assert not (folder / "q.db.restoring").exists()


def test_somebody_elses_file_is_taken_for_no_note_and_stays(folder: Path) -> None:
    for text in ("../q.db.before-restore-1 store\n", "minutes of the meeting\n", "SQLite format 3"):
        (folder / "q.db.restoring").write_text(text)
        before = snapshot(folder)
        with pytest.raises(OpenError, match=r"q\.db\.restoring is in the way"):
            open_store(str(folder / "q.db"))
        with pytest.raises(OpenError, match=r"q\.db\.restoring is in the way"):
            restore(folder)
        (folder / "q.db.lock").unlink(missing_ok=True)
        assert snapshot(folder) == before


def test_a_store_is_not_looked_at_while_it_is_not_all_there(folder: Path) -> None:
    path = str(folder / "q.db")
    kept = aside.move(path)
    shutil.copy(folder / "new.db", path)
    with pytest.raises(OpenError, match="broken off"):
        checking.check_file(path)
    with pytest.raises(OpenError, match="broken off"):
        restoring.foretell(str(folder / "new.db"), path, may_replace=True)
    lock = FileLock(path)  # as whoever restores has it
    with pytest.raises(DatabaseLocked):
        open_store(path)
    lock.release()
    assert Path(kept).exists()
    assert checking.mend_counts(path) == 0
    assert bodies(folder / "q.db") == OLD


def test_a_restore_that_cannot_name_its_copy_puts_back_what_was_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def refused(source: str, target: str) -> None:
        if source.endswith(".partial"):
            raise OSError(28, "No space left on device", source)
        rename(source, target)

    before = snapshot(folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refused)
        with pytest.raises(OSError, match="No space"):
            restore(folder)
    assert snapshot(folder) == before


@pytest.mark.parametrize("is_there", [True, False], ids=["file", "nothing"])
@pytest.mark.parametrize("name", ["q.db.lock", "q.db.restoring"])
@pytest.mark.parametrize("comes", ["before", "between"])
def test_no_link_in_the_folder_decides_what_is_made_or_given_away(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, comes: str, *, is_there: bool
) -> None:
    """Root restores in a service's folder, and the service wants to have another file of root's."""
    target, link = folder.with_name("wanted"), folder / name
    if is_there:
        target.write_bytes(b"secret")
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
        os.chown(folder / "q.db", NOBODY, NOBODY)
    link.unlink(missing_ok=True)
    opened = os.open

    def racing(path: str, *how: int) -> int:
        if str(path) == str(link) and not os.path.lexists(link):
            link.symlink_to(target)
        return opened(path, *how)

    if comes == "before":
        link.symlink_to(target)
    else:
        monkeypatch.setattr(os, "open", racing)
    # A note that leads nowhere says of nothing that it has moved, and is taken away.
    is_harmless = (name, comes, is_there) == ("q.db.restoring", "before", False)
    with nullcontext() if is_harmless else pytest.raises((OpenError, FileExistsError)):
        restore(folder)
    monkeypatch.undo()
    assert target.exists() == is_there
    if is_there:
        assert target.read_bytes() == b"secret"
        assert target.stat().st_uid == os.geteuid()
    link.unlink(missing_ok=True)
    assert bodies(folder / "q.db") == (NEW if is_harmless else OLD)


def test_a_backup_is_never_written_where_a_link_leads(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = folder.with_name("wanted")
    target.touch()
    made = os.open

    def replacing(path: str, *how: int) -> int:
        descriptor = made(path, *how)
        Path(path).unlink()
        Path(path).symlink_to(target)
        return descriptor

    copy = Snapshot(str(folder / "new.db"), str(folder / "copy.db"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", replacing)
        with pytest.raises(StorageFailed):
            copy.start()
    copy.close()
    copy.discard()
    assert target.read_bytes() == b""
    assert not list(folder.glob("copy*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_restores_belongs_to_whose_store_or_folder_it_is(folder: Path) -> None:
    os.chown(folder / "q.db", NOBODY, NOBODY)
    (folder / "q.db.lock").unlink(missing_ok=True)
    restore(folder)
    fresh = folder / "fresh"
    fresh.mkdir()
    os.chown(fresh, NOBODY, NOBODY)
    restoring.restore(str(folder / "new.db"), str(fresh / "q.db"), may_replace=False)
    for place in (folder, fresh):
        for name in ("q.db", "q.db.lock"):
            found = (place / name).stat()
            assert (found.st_uid, found.st_gid) == (NOBODY, NOBODY), place / name
            assert found.st_mode & 0o777 == 0o600
