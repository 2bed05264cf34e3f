"""What is not ours stays as it was, to the byte and with nothing beside it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import apsw
import pytest

from mqlite_actor.contract.errors import OpenError, SchemaVersionMismatch
from mqlite_actor.storage import schema
from mqlite_actor.storage.sqlite import open_store
from tests.storage.foreign import (
    BUSINESS,
    MAKERS,
    TOKEN_5,
    WAL,
    die,
    execute,
    original_killed_in_a_transaction,
    others,
    start_holder,
    stop,
)
from tests.storage.writer import snapshot, writing


@pytest.mark.promise("E136")
@pytest.mark.parametrize("what", MAKERS)
def test_a_foreign_file_is_refused_and_nothing_changes(tmp_path: Path, what: str) -> None:
    path = tmp_path / "q.db"
    MAKERS[what](path)
    before = snapshot(tmp_path)
    with pytest.raises(SchemaVersionMismatch, match="not touched"):
        open_store(str(path))
    assert snapshot(tmp_path) == before


@pytest.mark.promise("E136")
def test_a_foreign_file_that_is_in_use_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    path = tmp_path / "q.db"
    owner = start_holder(path, WAL, *TOKEN_5)
    try:
        before = snapshot(tmp_path)
        assert before["q.db-wal"]
        with pytest.raises(SchemaVersionMismatch, match="not touched"):
            open_store(str(path))
        assert snapshot(tmp_path) == before
    finally:
        stop(owner)


@pytest.mark.promise("E136")
def test_a_foreign_file_that_is_being_written_is_refused_and_nothing_changes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "q.db"
    owner = start_holder(path, *TOKEN_5, "BEGIN EXCLUSIVE")
    try:
        before = snapshot(tmp_path)
        with pytest.raises(OpenError):
            open_store(str(path))
        assert snapshot(tmp_path) == before
    finally:
        stop(owner)


@pytest.mark.promise("E136")
def test_a_file_with_a_transaction_to_be_undone_is_left_to_its_program(tmp_path: Path) -> None:
    path = tmp_path / "q.db"
    original_killed_in_a_transaction(path)
    before = snapshot(tmp_path)
    with pytest.raises(OpenError, match="open it once"):
        open_store(str(path))
    assert snapshot(tmp_path) == before


@pytest.mark.promise("E136")
def test_the_originals_owner_goes_on_undisturbed_after_our_refusal(tmp_path: Path) -> None:
    path = tmp_path / "q.db"
    owner = start_holder(path, WAL, *TOKEN_5)
    with pytest.raises(SchemaVersionMismatch):
        open_store(str(path))
    stop(owner)
    connection = apsw.Connection(str(path))
    assert connection.execute("SELECT value FROM meta").fetchall() == [("5",)]
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


def test_the_refusal_of_the_originals_file_says_how_to_move(tmp_path: Path) -> None:
    path = tmp_path / "q.db"
    MAKERS["the original's file"](path)
    with pytest.raises(SchemaVersionMismatch, match=r"export .* over HTTP.* import"):
        open_store(str(path))


def test_a_refusal_names_the_tables_in_the_way(tmp_path: Path) -> None:
    path = tmp_path / "q.db"
    others("CREATE TABLE messages (a)", "CREATE TABLE queues (b)")(path)
    with pytest.raises(SchemaVersionMismatch, match="messages, queues"):
        open_store(str(path))


@pytest.mark.parametrize("table", ["messages", "BODIES", "meta"])
def test_a_trigger_that_another_program_put_on_our_tables_is_refused(
    tmp_path: Path, table: str
) -> None:
    path = tmp_path / "q.db"
    with writing(path):
        pass
    execute(path, f"CREATE TRIGGER theirs AFTER INSERT ON {table} BEGIN SELECT 1; END")
    before = snapshot(tmp_path)
    with pytest.raises(SchemaVersionMismatch, match=r"'theirs'.*drop it"):
        open_store(str(path))
    assert snapshot(tmp_path) == before


@pytest.mark.promise("E136")
def test_the_original_would_refuse_our_file(tmp_path: Path) -> None:
    with writing(tmp_path / "q.db") as writer:
        stored = writer.store.run([("SELECT value FROM meta WHERE key = 'schema_version'", ())])
    assert stored == [[("mqlite-actor/1",)]]
    assert schema.WIRE_SCHEMA_VERSION == "5"


# -- files with an application's own tables --------------------------------------------------------


def business_closed(path: Path) -> None:
    execute(path, *BUSINESS)


def business_with_log(path: Path) -> None:
    execute(path, WAL, *BUSINESS)


def business_killed(path: Path) -> None:
    die(path, WAL, *BUSINESS)


def business_beside_ours(path: Path) -> None:
    open_store(str(path)).close()
    execute(path, *BUSINESS)


@pytest.mark.promise("E137")
@pytest.mark.parametrize(
    "make", [business_closed, business_with_log, business_killed, business_beside_ours]
)
def test_business_tables_stay_beside_ours(tmp_path: Path, make: object) -> None:
    path = tmp_path / "q.db"
    assert callable(make)
    make(path)
    for _ in range(2):
        with writing(path) as writer:
            writer.create("q")
            writer.send("q", b"beside")
            writer.check()
    connection = apsw.Connection(str(path))
    try:
        assert connection.execute("SELECT item FROM orders ORDER BY id").fetchall() == [
            ("tea",),
            ("salt",),
        ]
        assert connection.execute("SELECT count(*) FROM teas").fetchall() == [(1,)]
        assert connection.execute("SELECT count(*) FROM messages").fetchall() == [(2,)]
        with pytest.raises(apsw.ConstraintError, match="kept"):
            connection.execute("DELETE FROM orders")
    finally:
        connection.close()


@pytest.mark.promise("E137")
def test_an_empty_file_and_an_empty_database_are_fresh(tmp_path: Path) -> None:
    empty, vacuumed = tmp_path / "empty.db", tmp_path / "vacuumed.db"
    empty.touch()
    execute(vacuumed, "VACUUM")
    for path in (empty, vacuumed):
        with writing(path) as writer:
            writer.create("q")
            assert writer.send("q", b"x") == [1]


LAYOUTS = {"mqlite-actor/1": "829ced82b884404568565709831ab37a62957713f23bee4ebbcd211b408acad1"}
"""Format → digest of its tables and indexes."""


def test_the_layout_changes_only_with_the_format() -> None:
    text = "\n".join(f"{name}: {sql}" for name, sql in sorted(schema.layout().items()))
    assert LAYOUTS[schema.FORMAT] == hashlib.sha256(text.encode()).hexdigest()
