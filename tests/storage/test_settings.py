"""What every connection is set to, read back; which SQLite may open a file at all."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import DatabaseLocked, InvalidArgument, OpenError
from mqlite_actor.storage.connection import check_sqlite
from mqlite_actor.storage.sqlite import open_store
from tests.storage.foreign import BUSINESS, execute
from tests.storage.writer import snapshot, writing

PRAGMAS = {
    "auto_vacuum": 2,
    "journal_mode": "wal",
    "synchronous": 1,
    "foreign_keys": 1,
    "busy_timeout": limits.BUSY_MS,
    "temp_store": 2,
    "cache_size": -limits.CACHE_KIB,
    "journal_size_limit": limits.WAL_BYTES_KEPT,
    "wal_autocheckpoint": 0,
}

WORDS = {
    "OFF": 0,
    "NORMAL": 1,
    "FULL": 2,
    "EXTRA": 3,
    "full": 2,
    "Normal": 1,
    "  FULL\n": 2,
}


@pytest.mark.promise("E139")
def test_every_pragma_has_its_value_on_a_fresh_file_and_ever_after(tmp_path: Path) -> None:
    for _ in range(2):
        with writing(tmp_path / "q.db") as writer:
            connection = writer.store.connection
            assert {name: connection.pragma(name) for name in PRAGMAS} == PRAGMAS
            writer.store.reopen()
            connection = writer.store.connection
            assert {name: connection.pragma(name) for name in PRAGMAS} == PRAGMAS


@pytest.mark.promise("E139")
def test_memory_has_the_pragmas_that_mean_something_there() -> None:
    with writing(":memory:") as writer:
        connection = writer.store.connection
        assert connection.pragma("foreign_keys") == 1
        assert connection.pragma("busy_timeout") == limits.BUSY_MS


@pytest.mark.parametrize("dsn", ["q.db", ":memory:"])
def test_plans_never_depend_on_bound_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dsn: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with writing(dsn) as writer:
        connection = writer.store.connection
        assert connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1) == 1


@pytest.mark.promise("E138")
@pytest.mark.parametrize("word", WORDS)
def test_the_durability_word_is_what_the_pragma_says(tmp_path: Path, word: str) -> None:
    with writing(tmp_path / "q.db", synchronous=word) as writer:
        assert writer.store.connection.pragma("synchronous") == WORDS[word]
        writer.store.reopen()
        assert writer.store.connection.pragma("synchronous") == WORDS[word]


@pytest.mark.promise("E138")
@pytest.mark.parametrize("word", ["FULLL", "", "2", "on", "NORMAL;", "full off", "ＦＵＬＬ"])
def test_an_unknown_durability_word_is_refused_before_the_file_is_touched(
    tmp_path: Path, word: str
) -> None:
    path = tmp_path / "q.db"
    with pytest.raises(InvalidArgument, match="NORMAL, FULL, OFF or EXTRA"):
        open_store(str(path), synchronous=word)
    assert snapshot(tmp_path) == {}
    execute(path, *BUSINESS)
    before = snapshot(tmp_path)
    with pytest.raises(InvalidArgument):
        open_store(str(path), synchronous=word)
    assert snapshot(tmp_path) == before


@pytest.mark.promise("E138")
def test_an_unknown_durability_word_is_refused_even_for_memory_and_for_a_file_in_use(
    tmp_path: Path,
) -> None:
    with pytest.raises(InvalidArgument):
        open_store(":memory:", synchronous="SOMETIMES")
    with writing(tmp_path / "q.db"):
        with pytest.raises(InvalidArgument):
            open_store(str(tmp_path / "q.db"), synchronous="SOMETIMES")
        with pytest.raises(DatabaseLocked):
            open_store(str(tmp_path / "q.db"))


@pytest.mark.promise("E135")
def test_memory_stores_are_apart_and_touch_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with writing(":memory:") as first, writing("") as second, writing("file::memory:") as third:
        for number, writer in enumerate((first, second, third)):
            writer.create("q")
            writer.send("q", *[b"x"] * (number + 1))
        lengths = [len(writer.bodies("q")) for writer in (first, second, third)]
        assert lengths == [1, 2, 3]
        assert first.store.size_bytes() == 0
    assert snapshot(tmp_path) == {}
    with writing(":memory:") as again, pytest.raises(Exception, match="does not exist"):
        again.take("q")


def test_a_database_made_without_automatic_vacuum_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "q.db"
    execute(path, *BUSINESS)
    with writing(path) as writer:
        assert writer.store.connection.pragma("auto_vacuum") == 0
        assert writer.store.connection.pragma("journal_mode") == "wal"


def test_a_closed_store_leaves_one_file_and_its_lock(tmp_path: Path) -> None:
    with writing(tmp_path / "q.db") as writer:
        writer.create("q")
        assert writer.store.size_bytes() == sum(
            path.stat().st_size for path in tmp_path.iterdir() if path.suffix != ".lock"
        )
    assert sorted(snapshot(tmp_path)) == ["q.db", "q.db.lock"]


SQLITE_VERSIONS = {
    "3.7.0": False,
    "3.40.1": False,
    "3.50.4": False,
    "3.51.2": False,
    "3.51.3": True,
    "3.51.4": True,
    "3.52.0": False,
    "3.52.1": True,
    "3.54.1": True,
    "4.0.0": True,
}


@pytest.mark.parametrize("version", SQLITE_VERSIONS)
def test_an_sqlite_that_can_lose_commits_is_refused(version: str) -> None:
    if SQLITE_VERSIONS[version]:
        check_sqlite(version)
    else:
        with pytest.raises(OpenError, match=rf"SQLite {version} can lose"):
            check_sqlite(version)


def test_the_sqlite_in_this_process_is_fit() -> None:
    check_sqlite(apsw.sqlite_lib_version())
