"""A file that is pulled away under an open engine: nothing acknowledged is lost, and it is said.

The sequence that loses commits without an error (ruling R45): the standard library's SQLite, a
second one in this process, opens and closes the file, and the process loses its locks; another
program then opens and closes it, believes to be the last, and deletes the log that we write to.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from outcome import Error

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import (
    DatabaseLocked,
    OutcomeUnknown,
    QueueNotFound,
    StorageFailed,
)
from mqlite_actor.storage.guard import FileGuard, FileReplaced
from mqlite_actor.storage.sqlite import open_store
from tests.storage.child import ROOT
from tests.storage.foreign import execute
from tests.storage.writer import Writer, killed_copy, writing

ELSEWHERE = """
import sys
import apsw
connection = apsw.Connection(sys.argv[1])
print(connection.execute("SELECT count(*) FROM messages").fetchall()[0][0])
connection.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "q.db"


@pytest.fixture
def writer(path: Path) -> Iterator[Writer]:
    with writing(path) as each:
        each.create("q")
        each.send("q", b"before")
        yield each


def use_second_library(path: Path) -> None:
    """What an application does that keeps its own rows in the file, the forbidden way."""
    connection = sqlite3.connect(path)
    connection.execute("SELECT count(*) FROM messages").fetchall()
    connection.close()


def use_elsewhere(path: Path) -> int:
    """Another program looks into the file and leaves; how many messages it saw."""
    ran = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(path)], capture_output=True, check=True, text=True
    )
    return int(ran.stdout)


def told(writer: Writer, body: bytes) -> type[BaseException] | None:
    """Send, and the class of the refusal if there was one."""
    request = wire.SendRequest(queue="q", messages=[wire.Message(body=body)])
    outcome = writer.group(request)[0]
    return type(outcome.error) if isinstance(outcome, Error) else None


def test_a_second_library_cannot_make_acknowledged_commits_vanish(
    path: Path, writer: Writer, tmp_path: Path
) -> None:
    acknowledged = [b"before"]
    log = path.with_name("q.db-wal").stat().st_ino
    use_second_library(path)
    assert use_elsewhere(path) == 1
    was_lost = not path.with_name("q.db-wal").exists()
    assert was_lost or path.with_name("q.db-wal").stat().st_ino != log, "the fault is still there"
    assert told(writer, b"into the deleted log") is OutcomeUnknown
    for number in range(5):
        body = b"after %d" % number
        if told(writer, body) is None:
            acknowledged.append(body)
    assert len(acknowledged) == 6, "the file was opened anew, and the engine goes on"
    stored = writer.bodies("q")
    assert [body for body in stored if body in acknowledged] == acknowledged
    assert use_elsewhere(path) == len(stored)
    with writing(killed_copy(path, tmp_path / "killed")) as dead:
        assert dead.bodies("q") == stored
        dead.check()


def test_a_second_library_that_stays_open_is_harmless(path: Path, writer: Writer) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM messages").fetchall() == [(1,)]
    assert use_elsewhere(path) == 1
    assert told(writer, b"after") is None
    assert connection.execute("SELECT count(*) FROM messages").fetchall() == [(2,)]
    connection.close()


def test_a_replaced_database_is_refused_until_it_is_put_back(path: Path, writer: Writer) -> None:
    kept = path.with_name("kept.db")
    path.rename(kept)
    shutil.copyfile(kept, path)
    with pytest.raises(FileReplaced, match="moved, deleted or replaced"):
        writer.store.check_files()
    writer.store.healthy = False  # as the engine's watch says
    for _ in range(2):
        assert told(writer, b"lost?") is StorageFailed
    path.unlink()
    kept.rename(path)
    assert told(writer, b"after") is None
    assert writer.bodies("q") == [b"before", b"after"]


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_a_deleted_file_is_noticed(path: Path, writer: Writer, suffix: str) -> None:
    writer.store.check_files()
    path.with_name(path.name + suffix).unlink()
    with pytest.raises(FileReplaced):
        writer.store.check_files()


def test_a_log_that_was_replaced_is_left_alone_at_the_end(path: Path) -> None:
    """Moving the pages of a deleted log over a newer file would destroy it."""
    with writing(path) as writer:
        writer.create("q")
        writer.send("q", b"old")
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).rename(path.with_name("away" + suffix))
        with writing(path.with_name("other.db")) as other:
            other.create("q")
            other.send("q", b"new")
        path.with_name("other.db").rename(path)
        newer = path.read_bytes()
    assert path.read_bytes() == newer


def test_our_own_checkpoints_and_readers_alarm_nobody(path: Path, writer: Writer) -> None:
    reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    for _ in range(3):
        assert told(writer, b"x" * 5000) is None
        writer.store.checkpoint_passive()
        writer.store.truncate_log()
        reader.execute("SELECT count(*) FROM messages").fetchall()
        writer.store.check_files()
    reader.close()
    writer.store.check_files()
    assert use_elsewhere(path) == 4
    writer.store.check_files()
    assert told(writer, b"after") is None


# -- the very sequence, in a program that is killed -----------------------------------------------

PROGRAM = """
import sqlite3, sys
from mqlite_actor.contract import wire
from tests.storage.writer import writing

path = sys.argv[1]
with writing(path) as writer:
    writer.create("q")
    for number in range(20):
        if number == 5:
            own = sqlite3.connect(path)
            own.execute("CREATE TABLE orders (id)")
            own.execute("INSERT INTO orders VALUES (1)")
            own.commit()
            own.close()
            print("closed", flush=True)
            sys.stdin.readline()
        body = b"%d" % number
        batch = [wire.Message(body=body)]
        outcome = writer.group(wire.SendRequest(queue="q", messages=batch))[0]
        if hasattr(outcome, "value"):
            print(f"acknowledged {number}", flush=True)
    print("done", flush=True)
    sys.stdin.read()
"""


def test_a_killed_program_that_used_both_libraries_lost_nothing_it_acknowledged(
    path: Path,
) -> None:
    acknowledged: list[bytes] = []
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # the engine's log
        text=True,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for line in program.stdout:
            word, _, number = line.strip().partition(" ")
            if word == "closed":
                assert use_elsewhere(path) == 5
                program.stdin.write("go on\n")
                program.stdin.flush()
            elif word == "acknowledged":
                acknowledged.append(number.encode())
            else:
                program.kill()
    assert len(acknowledged) >= 19, "one commit went into the deleted log, and was not acknowledged"
    with writing(path) as writer:
        stored = writer.bodies("q")
        assert [body for body in stored if body in acknowledged] == acknowledged
        writer.check()


# -- the sidecar lock ------------------------------------------------------------------------------


def test_an_engine_whose_lock_was_deleted_gives_way_to_a_second_one(
    path: Path, writer: Writer
) -> None:
    writer.create("gone")
    assert told(writer, b"kept") is None
    path.with_name("q.db.lock").unlink()
    with writing(path) as second:
        (gone, _) = second.ask(wire.ListQueuesRequest()).queues
        second.ask(wire.DeleteQueueRequest(name="gone", generation=gone.generation))
        second.send("q", b"of the second")
        lost = wire.SendRequest(queue="gone", messages=[wire.Message(body=b"lost")])
        for _ in range(2):
            assert told(writer, b"of both") in (FileReplaced, StorageFailed)
            (outcome,) = writer.group(lost)
            assert isinstance(outcome, Error)
            with pytest.raises(StorageFailed):
                writer.store.begin()
        second.send("q", b"of the second again")
    stored = [b"before", b"kept", b"of the second", b"of the second again"]
    assert writer.bodies("q") == stored, "the second one is gone, so the first goes on"
    assert told(writer, b"after") is None
    assert writer.bodies("q") == [*stored, b"after"]
    with pytest.raises(QueueNotFound):
        writer.ask(lost)
    writer.check()


def test_a_lock_that_was_deleted_is_taken_anew_within_a_second(path: Path, writer: Writer) -> None:
    lock = path.with_name("q.db.lock")
    lock.unlink()
    with pytest.raises(FileReplaced, match="never delete it"):
        writer.store.check_files()
    writer.store.healthy = False  # as the engine's watch says
    assert told(writer, b"after") is None
    assert lock.exists()
    with pytest.raises(DatabaseLocked):
        open_store(str(path))


def test_a_lock_that_cannot_be_looked_at_leaves_no_transaction_open(
    path: Path, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    execute(path, "CREATE TABLE theirs (x)")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", refused)
        with pytest.raises(StorageFailed, match="cannot be seen"):
            writer.store.begin()
    assert not writer.store.in_transaction
    assert told(writer, b"after") is None


@pytest.mark.parametrize("error", ["a loop of links", "a file in a folder's place"])
def test_a_folder_that_cannot_be_looked_into_for_a_while_is_waited_for(
    tmp_path: Path, error: str
) -> None:
    """As one closed by its mode, or a disk or a server that does not answer (EACCES, EIO, ESTALE):
    what was committed is not known, what comes is refused, and then it goes on."""
    folder, aside = tmp_path / "place", tmp_path / "aside"
    folder.mkdir()
    with writing(folder / "q.db") as writer:
        writer.create("q")
        folder.rename(aside)
        if error == "a loop of links":
            folder.symlink_to(folder)
        else:
            folder.write_bytes(b"")
        assert told(writer, b"in doubt") is OutcomeUnknown
        assert [told(writer, b"refused"), told(writer, b"refused")] == [StorageFailed] * 2
        with pytest.raises(StorageFailed, match="cannot be seen"):
            FileGuard(str(folder / "q.db"))
        folder.unlink()
        aside.rename(folder)
        assert told(writer, b"after") is None
        assert {each.body for each in writer.take("q", 9)} == {b"in doubt", b"after"}


def test_a_program_with_tables_of_its_own_is_no_second_engine(path: Path, writer: Writer) -> None:
    for number in range(3):
        execute(path, f"CREATE TABLE theirs{number} (x)")
        assert told(writer, b"after") is None


def test_a_forked_child_has_no_share_in_the_lock(path: Path) -> None:
    store = open_store(str(path))
    reading, writing_end = os.pipe()
    child = os.fork()
    if not child:  # pragma: no cover - it only waits, and never comes back
        os.read(reading, 1)
        os._exit(0)
    try:
        with pytest.raises(DatabaseLocked):
            open_store(str(path))
        store.close()
        open_store(str(path)).close()
    finally:
        os.write(writing_end, b".")
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing_end)


def test_a_child_that_ends_does_not_take_the_lock_with_it(path: Path) -> None:
    store = open_store(str(path))
    child = os.fork()
    if not child:  # pragma: no cover - it never comes back
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(DatabaseLocked):
        open_store(str(path))
    store.close()
