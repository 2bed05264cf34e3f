"""One file, one lock, however it is spelled; places where no database can live are refused."""

from __future__ import annotations

import os
import re
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqlite_actor.contract.errors import DatabaseLocked, InvalidArgument, OpenError
from mqlite_actor.storage import files
from mqlite_actor.storage.files import MEMORY, canonical_path
from mqlite_actor.storage.snapshot import destination
from mqlite_actor.storage.sqlite import open_store
from tests.storage.child import NOBODY, holding
from tests.storage.writer import snapshot, writing

SPELLINGS: dict[str, Callable[[Path], str]] = {
    "absolute": str,
    "relative": lambda path: path.name,
    "dotted": lambda path: f"./../{path.parent.name}/./{path.name}",
    "symbolic link": lambda path: str(path.with_name("link")),
    "link to a link": lambda path: str(path.with_name("link2")),
    "through a linked folder": lambda path: str(path.parent.parent / "folder" / path.name),
    "file:": lambda path: f"file:{path}",
    "file: relative": lambda path: f"file:{path.name}",
    "file:// without a host": lambda path: f"file://{path}",
    "with a query": lambda path: f"{path}?mode=rwc",
    "file: with a query": lambda path: f"file:{path}?cache=shared&x=1",
    "among spaces": lambda path: f"  {path} ",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a database may go; the links point there already, dangling."""
    home = tmp_path / "home"
    home.mkdir()
    path = home / "q.db"
    (home / "link").symlink_to(path)
    (home / "link2").symlink_to("link")
    (tmp_path / "folder").symlink_to(home)
    monkeypatch.chdir(home)
    return path


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that everybody can reach, unlike pytest's."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


def denied_uid() -> int | None:
    """Root is denied nothing: then the child becomes nobody."""
    return NOBODY if os.geteuid() == 0 else None


def old_file(place: Path) -> None:
    open_store(str(place)).close()


def new_file(place: Path) -> None:
    assert not place.exists()


@pytest.mark.promise("E134")
@pytest.mark.parametrize("prepare", [old_file, new_file])
@pytest.mark.parametrize("first", SPELLINGS)
def test_every_spelling_of_an_open_file_is_locked(
    place: Path, first: str, prepare: Callable[[Path], None]
) -> None:
    prepare(place)
    with writing(SPELLINGS[first](place)) as writer:
        assert writer.store.path == str(place)
        for spell in SPELLINGS.values():
            with pytest.raises(DatabaseLocked, match=re.escape(str(place))):
                open_store(spell(place))


@pytest.mark.promise("E134")
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_closed_file_is_the_same_by_every_spelling(place: Path, spelling: str) -> None:
    with writing(place) as writer:
        writer.create("q")
        writer.send("q", b"kept")
    with writing(SPELLINGS[spelling](place)) as writer:
        assert writer.bodies("q") == [b"kept"]


@pytest.mark.promise("E134")
def test_a_dangling_link_makes_its_target_and_locks_that(place: Path) -> None:
    with writing(place.with_name("link")):
        assert {path.name for path in place.parent.iterdir() if not path.is_symlink()} == {
            "q.db",
            "q.db-shm",
            "q.db-wal",
            "q.db.lock",
        }


@pytest.mark.promise("E134")
def test_a_link_that_leads_to_itself_is_refused(place: Path) -> None:
    loop = place.with_name("loop")
    loop.symlink_to(loop)
    with pytest.raises(OpenError):
        open_store(str(loop))


def test_a_current_folder_that_was_deleted_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(OpenError, match="the current folder was deleted"):
        canonical_path("file:x.db")
    with pytest.raises(InvalidArgument, match="the current folder was deleted"):
        destination("x.db", None)
    there = str(tmp_path / "x.db")
    assert canonical_path(there) == destination(there, None) == os.path.realpath(there)


@pytest.mark.promise("E134")
def test_another_process_is_locked_out_until_close(place: Path) -> None:
    with writing(place), holding(place) as (line, _):
        assert line.startswith("DatabaseLocked: ")
    with holding(place) as (line, _):
        assert line == "open"


def test_whoever_comes_during_a_check_is_told_that_it_is_one(tmp_path: Path) -> None:
    path = str(tmp_path / "q.db")
    open_store(path).close()
    with files.undisturbed(path), pytest.raises(DatabaseLocked, match="looked at by a check"):
        open_store(path)
    store = open_store(path)
    with files.undisturbed(path) as is_live, pytest.raises(DatabaseLocked, match="another engine"):
        open_store(path)
    assert is_live
    store.close()


@pytest.mark.promise("E134")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_dies_leaves_the_file_free(place: Path, end: signal.Signals) -> None:
    with holding(place) as (line, process):
        assert line == "open"
        with pytest.raises(DatabaseLocked):
            open_store(str(place))
        process.send_signal(end)
        process.wait(15)
        open_store(str(place)).close()


def test_the_lock_is_free_after_an_opening_that_failed(place: Path) -> None:
    place.write_bytes(b"")
    place.with_name("q.db-wal").mkdir()  # SQLite cannot put its log there
    with pytest.raises(OpenError):
        open_store(str(place))
    place.with_name("q.db-wal").rmdir()
    open_store(str(place)).close()


def test_closing_twice_is_harmless_and_does_not_free_a_later_lock(place: Path) -> None:
    first = open_store(str(place))
    first.close()
    second = open_store(str(place))
    first.close()
    with pytest.raises(DatabaseLocked):
        open_store(str(place))
    second.close()


# -- places ----------------------------------------------------------------------------------------


def no_folder(place: Path) -> Path:
    return place.parent / "missing" / "q.db"


def folder_is_a_file(place: Path) -> Path:
    (place.parent / "file").write_bytes(b"x")
    return place.parent / "file" / "q.db"


def a_folder(place: Path) -> Path:
    (place.parent / "q.d").mkdir()
    return place.parent / "q.d"


def a_hard_link(place: Path) -> Path:
    open_store(str(place)).close()
    os.link(place, place.with_name("second.db"))
    return place.with_name("second.db")


def a_hard_linked_file(place: Path) -> Path:
    a_hard_link(place)
    return place


def no_room_for_a_longer_name(place: Path) -> Path:
    return place.with_name("n" * 250)


BAD_PLACES = (
    no_folder, folder_is_a_file, a_folder, a_hard_link, a_hard_linked_file,
    no_room_for_a_longer_name,
)  # fmt: skip


@pytest.mark.promise("E134")
@pytest.mark.parametrize("make", BAD_PLACES)
def test_a_bad_place_is_refused_and_left_as_it_was(
    place: Path, make: Callable[[Path], Path]
) -> None:
    path = make(place)
    before = snapshot(place.parent)
    with pytest.raises(OpenError) as refusal:
        open_store(str(path))
    assert type(refusal.value) is OpenError
    assert str(path) in refusal.value.message or str(path.parent) in refusal.value.message
    assert snapshot(place.parent) == before


def test_a_missing_file_is_not_made_unless_asked(place: Path) -> None:
    with pytest.raises(OpenError, match="does not exist"):
        open_store(str(place), create=False)
    assert snapshot(place.parent) == {}


def test_a_path_with_a_nul_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        open_store("file:a\0b")


@pytest.mark.parametrize("name", ["", "  ", ":memory:", "file::memory:", "file:", "file:?x=1"])
def test_no_path_means_memory(name: str) -> None:
    assert canonical_path(name) == MEMORY


# -- rights ----------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written_is_refused(public_folder: Path) -> None:
    public_folder.chmod(0o555)
    with holding(public_folder / "q.db", uid=denied_uid()) as (line, _):
        assert line.startswith("OpenError: ")
        assert "not writable" in line
    public_folder.chmod(0o777)
    assert snapshot(public_folder) == {}


@pytest.mark.parametrize("mode", [0o444, 0o222, 0o000], ids=["read-only", "write-only", "neither"])
def test_a_file_that_cannot_be_read_and_written_is_refused(public_folder: Path, mode: int) -> None:
    path = public_folder / "q.db"
    open_store(str(path)).close()
    path.with_name("q.db.lock").unlink()
    before = snapshot(public_folder)
    path.chmod(mode)
    with holding(path, uid=denied_uid()) as (line, _):
        assert line.startswith("OpenError: ")
        assert "not readable and writable" in line
    path.chmod(0o600)
    assert snapshot(public_folder) == before


def test_somebody_elses_lock_file_is_an_error_that_names_it(public_folder: Path) -> None:
    path = public_folder / "q.db"
    lock = path.with_name("q.db.lock")
    lock.touch(0o000)
    if denied_uid() is None:
        lock.chmod(0o000)
    with holding(path, uid=denied_uid()) as (line, _):
        assert line.startswith("OpenError: ")
        assert "q.db.lock" in line
    assert not path.exists()


@pytest.mark.parametrize("mask", [0o022, 0o000])
def test_every_file_belongs_to_its_owner_alone(tmp_path: Path, mask: int) -> None:
    old = os.umask(mask)
    try:
        with writing(tmp_path / "q.db") as writer:
            writer.create("q")
            modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    finally:
        os.umask(old)
    assert modes == {"q.db": 0o600, "q.db-wal": 0o600, "q.db-shm": 0o600, "q.db.lock": 0o600}
