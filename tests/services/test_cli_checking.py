"""`check`, `restore` and `backup --keep`: what is wrong is said, what is put back is whole, and
nothing is lost on the way (faults B8, B9; ruling R16)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from mqlite_actor.contract.limits import INLINE_BYTES_MAX
from tests.conformance.audit import audit_file
from tests.services.cli_inline import Inline
from tests.services.cli_process import Shell

LEASE = 30_000


@pytest.fixture
def mqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Inline:
    """A store mq.db with a message in each of three states, one with a body of its own row."""
    mqlite = Inline(tmp_path, monkeypatch, capfd)
    mqlite.ok("create-queue", "q")
    (tmp_path / "big").write_bytes(b"x" * (INLINE_BYTES_MAX + 1))
    mqlite.ok("send", "q", "--file", "big")
    mqlite.ok("schedule", "q", "later", "--at", "1h")
    return mqlite


def names(text: str, verdict: str) -> list[str]:
    return [line.split()[1].rstrip(":") for line in text.splitlines() if line.startswith(verdict)]


def spoil(path: Path, sql: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(sql).fetchall()
    connection.close(True)


def tree(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_sound_store_passes_and_keeps_every_byte(mqlite: Inline) -> None:
    before = tree(mqlite.folder)
    text = mqlite.ok("check", "mq.db")
    assert names(text, "ok") == [
        "mode", "owner", "integrity", "schema", "foreign-keys", "counts", "references", "numbers",
    ]  # fmt: skip
    assert mqlite.run("check", "file:mq.db", "--output", "json", check=0).json["ok"] is True
    assert tree(mqlite.folder) == before


SPOILT = {
    "counts": "UPDATE counts SET active = active + 1",
    "numbers": "DELETE FROM counters",
    "references": "INSERT INTO bodies VALUES (99, x'00')",
    "schema": "CREATE TRIGGER t AFTER DELETE ON messages BEGIN SELECT 1; END",
    "integrity": "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET rootpage = 2"
    " WHERE name = 'messages_by_state'",
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_is_wrong_is_named_with_its_mend(mqlite: Inline, name: str) -> None:
    spoil(mqlite.folder / "mq.db", SPOILT[name])
    done = mqlite.run("check", "mq.db", check=1)
    assert names(done.text, "fail") == [name]
    assert done.errors == [f"error: 1 of {len(done.text.splitlines())} checks failed: {name}"]


def test_counts_are_mended_from_the_messages(mqlite: Inline) -> None:
    assert mqlite.ok("check", "mq.db", "--mend-counts").endswith(" mended=0\n")
    spoil(mqlite.folder / "mq.db", "UPDATE counts SET active = 7, dead_letter_bytes = 1")
    done = mqlite.run("check", "mq.db", check=1)
    assert "queue 'q' keeps 7/0/1/0/0/1, its messages are 1/0/1/0/0/0" in done.text
    assert mqlite.ok("check", "mq.db", "--mend-counts").endswith(" mended=1\n")
    assert audit_file(mqlite.folder / "mq.db") == []
    assert names(mqlite.ok("check", "mq.db"), "fail") == []
    spoil(mqlite.folder / "mq.db", SPOILT["references"])
    assert "cannot be mended" in mqlite.run("check", "mq.db", "--mend-counts", check=1).err


def test_what_is_no_store_is_said(mqlite: Inline) -> None:
    (mqlite.folder / "text").write_text("hello" * 500)
    spoil(mqlite.folder / "other.db", "CREATE TABLE t (x)")
    spoil(mqlite.folder / "tied.db", "CREATE TABLE t (x); CREATE TABLE messages (y)")
    assert "is not a SQLite database" in mqlite.run("check", "text", check=1).text
    assert "holds no queues" in mqlite.run("check", "other.db", check=1).text
    assert "other make" in mqlite.run("check", "tied.db", check=1).text
    for word in ("nothing.db", ".", ":memory:"):
        done = mqlite.run("check", word, check=1)
        assert len(done.errors) == 1, done
        assert done.out == b""


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Shell]:
    """A process that has mq.db open, until the test ends."""
    shell = Shell(tmp_path)
    shell.ok("create-queue", "q")
    shell.ok("send", "q", "x")
    with shell.start("receive", "q", "--max", "1", "--wait", "20s", "--count", "9") as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield shell


def test_a_store_in_use_is_checked_and_never_replaced(
    live: Shell, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    mqlite = Inline(live.folder, monkeypatch, capfd)
    shutil.copy(live.folder / "mq.db", live.folder / "copy.db")
    text = mqlite.ok("check", "mq.db")
    assert "owner:         in use by process " in text
    over = ("restore", "copy.db", "mq.db", "--replace", "mq.db")
    assert "in use" in mqlite.run(*over, check=1).err
    assert "in use" in mqlite.run(*over, "--dry-run", check=1).err
    assert "in use" in mqlite.run("check", "mq.db", "--mend-counts", check=1).err
    assert "backup" in mqlite.run("restore", "mq.db", "new.db", check=1).err
    assert not (live.folder / "new.db").exists()


def test_a_snapshot_comes_back_whole_and_what_was_there_is_kept(mqlite: Inline) -> None:
    folder = mqlite.folder
    mqlite.ok("backup", "snapshot.db")
    mqlite.ok("send", "q", "after the backup")
    log = folder / "mq.db-wal"
    log.write_bytes(b"left by a dead program")  # stale: it must never meet the new file
    before = tree(folder)
    done = mqlite.run("restore", "snapshot.db", "mq.db", check=1)
    assert "--replace mq.db moves what is there aside" in done.err
    assert "mq.db-wal" in done.err
    assert mqlite.run("restore", "snapshot.db", "mq.db", "--replace", "q.db", check=1).errors
    foretold = mqlite.ok("restore", "snapshot.db", "mq.db", "--replace", "mq.db", "--dry-run")
    size = (folder / "snapshot.db").stat().st_size
    assert foretold == (
        f"dry-run: action=restore path={folder / 'mq.db'} size_bytes={size}"
        f" would_keep={folder / 'mq.db.before-restore-1'}\n"
    )
    assert tree(folder) == before
    line = mqlite.ok("restore", "snapshot.db", "mq.db", "--replace", "mq.db")
    assert line.endswith(f" kept={folder / 'mq.db.before-restore-1'}\n")
    assert (folder / "mq.db").read_bytes() == before["snapshot.db"]
    assert (folder / "mq.db").stat().st_mode & 0o777 == 0o600
    assert (folder / "mq.db.before-restore-1").read_bytes() == before["mq.db"]
    assert (folder / "mq.db.before-restore-1-wal").read_bytes() == before["mq.db-wal"]
    assert set(tree(folder)) - set(before) == {
        "mq.db.before-restore-1", "mq.db.before-restore-1-wal",
    }  # fmt: skip
    assert not log.exists()
    assert mqlite.ok("metrics", "q").startswith("queue=q active=1 locked=0 deferred=0 scheduled=1")
    assert "before-restore-2" in mqlite.ok("restore", "snapshot.db", "mq.db", "--replace", "mq.db")


def test_a_dry_run_sees_that_there_is_no_room(mqlite: Inline) -> None:
    mqlite.ok("backup", "snapshot.db")
    restoring = ("restore", "snapshot.db", "new.db", "--verify=false", "--dry-run")
    assert "would_keep" not in mqlite.ok(*restoring)
    free = shutil.disk_usage(mqlite.folder).free
    os.truncate(mqlite.folder / "snapshot.db", 2 * free)  # its length alone, which takes no room
    assert f"{2 * free} bytes are needed" in mqlite.run(*restoring, check=1).err
    assert not (mqlite.folder / "new.db").exists()


def test_a_log_without_its_store_is_not_read_into_a_restored_one(mqlite: Inline) -> None:
    mqlite.ok("backup", "snapshot.db")
    (mqlite.folder / "new.db-wal").write_bytes(b"stale")
    assert (
        "new.db-wal would be replaced"
        in mqlite.run("restore", "snapshot.db", "new.db", check=1).err
    )
    mqlite.ok("restore", "snapshot.db", "new.db", "--replace", "new.db")
    assert (mqlite.folder / "new.db.before-restore-1-wal").read_bytes() == b"stale"
    assert names(mqlite.ok("check", "new.db"), "fail") == []


def test_nothing_is_restored_from_what_is_not_sound(mqlite: Inline) -> None:
    folder = mqlite.folder
    mqlite.ok("backup", "snapshot.db")
    spoil(folder / "snapshot.db", SPOILT["counts"])
    (folder / "text").write_text("hello" * 500)
    shutil.copy(folder / "mq.db", folder / "left.db")
    (folder / "left.db-wal").write_bytes(b"a log")
    before = tree(folder)
    refused = {
        "snapshot.db": "the snapshot's counts: ", "text": "not a SQLite database",
        "left.db": "has a log beside it", "nothing": "does not exist", "mq.db": "the same file",
    }  # fmt: skip
    for snapshot, reason in refused.items():
        target = "mq.db" if snapshot == "mq.db" else "new.db"
        real = mqlite.run("restore", snapshot, target, check=1).err
        assert reason in real
        assert mqlite.run("restore", snapshot, target, "--dry-run", check=1).err == real
    for name in ("n" * 240, "n" * 300):
        real = mqlite.run("restore", "snapshot.db", name, check=1).err
        assert "cannot be there: File name too long" in real
        assert (
            mqlite.run("restore", "snapshot.db", name, "--dry-run", check=1).err[:300] == real[:300]
        )
    assert mqlite.run("restore", "text", "new.db", "--verify=false", check=1).errors
    assert mqlite.run("restore", "snapshot.db", "no/folder.db", check=1).errors
    assert tree(folder) == before
    mqlite.ok("restore", "snapshot.db", "new.db", "--verify=false")


def test_a_word_is_a_path_to_the_letter(mqlite: Inline) -> None:
    """A backup is, and what it wrote is what is checked and restored."""
    mqlite.ok("backup", "snap")
    for name in ("snap?a=b.db", " snap ", "%snap#"):
        mqlite.ok("send", "q", name)
        mqlite.ok("backup", name)
        line = mqlite.ok("check", name)
        assert names(line, "fail") == []
        mqlite.ok("restore", name, "new.db", "--replace", "new.db")
        copies = [(mqlite.folder / each).read_bytes() for each in (name, "new.db", "snap")]
        assert copies[0] == copies[1] != copies[2]
    refused = mqlite.run("restore", "snap", "new.db?mode=rw", check=1)
    assert "use another name" in refused.err
    assert not (mqlite.folder / "new.db?mode=rw").exists()
    mqlite.ok("restore", "file:snap?mode=ro", "file:other.db?mode=rw")
    assert (mqlite.folder / "other.db").exists()
    for words in (["check", "s@libsql://h?k=s"], ["restore", "snap", "libsql://s@h"]):
        refused = mqlite.run(*words, check=1)
        assert "***@" in refused.err
        assert "s@" not in refused.err.replace("***@", "")


def test_a_store_may_be_restored_in_a_folder_with_any_name(
    mqlite: Inline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options stand behind a ? of the word, not of the folder in which it is typed."""
    mqlite.ok("backup", "snap.db")
    folder = mqlite.folder / "what?"
    folder.mkdir()
    monkeypatch.chdir(folder)
    mqlite.ok("restore", "../snap.db", "new.db")
    assert (folder / "new.db").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("list",), ("check", "x.db"), ("restore", "x.db", "y.db"), ("backup", "x.db"),
        ("doctor",), ("support-bundle", "b.tgz"), ("top", "--db", "x.db"),
        ("context", "add", "c", "--endpoint", "http://h", "--token-file", "t"),
    ],
)  # fmt: skip
def test_a_current_folder_that_was_deleted_is_said(
    mqlite: Inline, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    gone = mqlite.folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "the current folder was deleted" in mqlite.run(*words, check=1).err


def test_a_series_of_backups_keeps_the_newest(mqlite: Inline) -> None:
    folder = mqlite.folder
    for name in ("nightly.20000101T000000000Z.db", "nightly.2000.db", "other.db"):
        (folder / name).touch()
    made = [mqlite.run("backup", "nightly.db", "--keep", "2", "--output", "json", check=0).json
            for _ in range(3)]  # fmt: skip
    assert [each["removed"] for each in made] == [0, 1, 1]
    kept = {each.name for each in folder.glob("*.db") if each.name != "mq.db"}
    assert kept == {Path(each["path"]).name for each in made[1:]} | {
        "nightly.2000.db", "other.db",
    }  # fmt: skip
    assert names(mqlite.ok("check", made[-1]["path"]), "fail") == []
    assert mqlite.run("backup", "nightly.db", "--keep", "0", check=1).errors


def test_a_series_keeps_what_was_just_made_after_the_clock_was_set_back(mqlite: Inline) -> None:
    ahead = ["nightly.29990101T000000000Z.db", "nightly.29990102T000000000Z.db"]
    for name in ahead:
        (mqlite.folder / name).touch()
    mqlite.ok("backup", "nightly.db", "--keep", "2")
    left = {each.name for each in mqlite.folder.glob("nightly.*.db")}
    assert len(left) == 2
    assert ahead[1] in left, "named by a clock that was ahead, so it is the older one"
    mqlite.ok("backup", "nightly.db", "--keep", "1")
    (last,) = mqlite.folder.glob("nightly.*.db")
    assert last.name not in left
