"""An older format of ours becomes the present one when it is opened, wholly or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqlite_actor.contract.errors import OpenError, SchemaVersionMismatch
from mqlite_actor.storage import schema
from mqlite_actor.storage.schema import MIGRATIONS, Migration
from mqlite_actor.storage.sqlite import open_store
from tests.storage.foreign import as_rollback_journal, execute
from tests.storage.writer import snapshot, writing

OLDER, OLDEST = "mqlite-actor/0", "mqlite-actor/-1"

TOMBSTONES = schema.layout()["tombstones"]
KEYS = (schema.layout()["access_keys"], schema.layout()["access_keys_by_age"])


def token(path: Path) -> str:
    """The format that the file says it has."""
    with writing(path) as writer:
        rows = writer.store.run([("SELECT value FROM meta WHERE key = 'schema_version'", ())])[0]
    return str(rows[0][0])


def made_older(path: Path, *statements: str, format_: str = OLDER) -> None:
    """A file with a message, of a format that lacked something."""
    with writing(path) as writer:
        writer.create("q")
        writer.send("q", b"kept")
    renamed = f"UPDATE meta SET value = '{format_}' WHERE key = 'schema_version'"
    execute(path, *statements, renamed)
    as_rollback_journal(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "q.db"


def test_an_older_file_is_brought_up_to_date_and_keeps_its_messages(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_older(path, "DROP TABLE tombstones")
    monkeypatch.setitem(MIGRATIONS, OLDER, Migration(schema.FORMAT, (TOMBSTONES,)))
    for _ in range(2):
        assert token(path) == schema.FORMAT
        with writing(path) as writer:
            assert writer.bodies("q") == [b"kept"]
            writer.check()
    assert schema.inspect(str(path))


def test_steps_follow_each_other(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_older(path, "DROP TABLE tombstones", "DROP TABLE access_keys", format_=OLDEST)
    monkeypatch.setitem(MIGRATIONS, OLDEST, Migration(OLDER, KEYS))
    monkeypatch.setitem(MIGRATIONS, OLDER, Migration(schema.FORMAT, (TOMBSTONES,)))
    assert token(path) == schema.FORMAT
    assert schema.inspect(str(path))


def test_a_step_that_fails_leaves_the_file_as_old_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_older(path, "DROP TABLE tombstones")
    half = Migration(schema.FORMAT, (TOMBSTONES, "INSERT INTO nowhere VALUES (1)"))
    with monkeypatch.context() as patch:
        patch.setitem(MIGRATIONS, OLDER, half)
        for _ in range(2):
            with pytest.raises(OpenError, match="nowhere"):
                open_store(str(path))
    monkeypatch.setitem(MIGRATIONS, OLDER, Migration(schema.FORMAT, (TOMBSTONES,)))
    assert token(path) == schema.FORMAT


@pytest.mark.promise("E136")
@pytest.mark.parametrize("format_", [OLDER, "mqlite-actor/2", "mqlite-actor", ""])
def test_a_format_without_a_way_to_ours_is_refused_untouched(path: Path, format_: str) -> None:
    made_older(path, format_=format_)
    before = snapshot(path.parent)
    with pytest.raises(SchemaVersionMismatch, match="not touched"):
        open_store(str(path))
    assert snapshot(path.parent) == before


def test_every_step_leads_to_the_present_format() -> None:
    for start in MIGRATIONS:
        reached, steps = start, 0
        while reached != schema.FORMAT:
            reached = MIGRATIONS[reached].after
            steps += 1
            assert steps <= len(MIGRATIONS)
