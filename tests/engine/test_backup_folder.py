"""A backup in a folder that gives trouble: it fails or not, and the engine goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqlite_actor.contract import ext
from mqlite_actor.contract.errors import StorageFailed
from mqlite_actor.engine.engine import Engine
from tests.engine.gate import bounded, create
from tests.engine.test_backup import at_step, backup


async def test_a_folder_that_goes_away_meanwhile_ends_the_backup_and_nothing_else(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a network share does: the rest cannot be removed there either. The engine waits for the
    end of a backup when it closes."""
    share, aside = tmp_path / "share", tmp_path / "aside"
    share.mkdir()
    await create(engine, "q")

    def pull_away() -> None:
        share.rename(aside)
        share.write_bytes(b"")

    at_step(monkeypatch, 1, pull_away)
    with bounded():
        with pytest.raises(StorageFailed, match="the backup failed"):
            await backup(engine, share / "copy.db")
        assert (await backup(engine, tmp_path / "copy.db")).done


async def test_an_old_snapshot_that_cannot_be_removed_does_not_undo_the_new_one(
    engine: Engine, tmp_path: Path
) -> None:
    await create(engine, "q")
    (tmp_path / "nightly.20200101T000000000Z.db").mkdir()
    reply = await engine.call(ext.BackupRequest(str(tmp_path / "nightly.db"), keep=1))
    assert (reply.done, reply.removed) == (True, [])
