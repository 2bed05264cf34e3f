"""A backup in a folder that gives trouble: it fails or not, and the engine goes on."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import ext, wire
from mqlite_actor.contract.errors import StorageFailed
from mqlite_actor.engine.engine import Engine
from tests.conformance.audit import audit_file
from tests.conformance.handles import opened
from tests.engine.gate import bounded, create, sending
from tests.engine.test_backup import at_step, backup, files, no_link


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
    (tmp_path / "nightly.19600101T000000000Z.db").mkdir()
    other = tmp_path / "nightly.19610101T000000000Z.db"
    other.touch()
    reply = await engine.call(ext.BackupRequest(str(tmp_path / "nightly.db"), keep=1))
    assert (reply.done, reply.removed) == (True, [str(other)])


def beside(path: Path) -> list[str]:
    """The file and all that has its name in front."""
    return sorted(each.name for each in path.parent.glob(f"{path.name}*"))


@pytest.mark.parametrize(
    ("rest", "content", "is_removed"),
    [("-wal", b"", True), ("-shm", b"x", True), ("-wal", b"x", False), (".lock", b"", False)],
)
async def test_a_snapshot_that_somebody_only_looked_into_is_removed_in_its_turn(
    engine: Engine, tmp_path: Path, *, rest: str, content: bytes, is_removed: bool
) -> None:
    await create(engine, "q")
    old = tmp_path / "nightly.19610101T000000000Z.db"
    old.touch()
    (tmp_path / f"{old.name}{rest}").write_bytes(content)
    reply = await engine.call(ext.BackupRequest(str(tmp_path / "nightly.db"), keep=1))
    assert reply.removed == ([str(old)] if is_removed else [])
    assert beside(old) == ([] if is_removed else [old.name, f"{old.name}{rest}"])


async def test_a_snapshot_that_is_served_is_removed_by_no_series(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    series = ext.BackupRequest(str(tmp_path / "nightly.db"), keep=1)
    async with opened(tmp_path / "mq.db", clock) as first:
        await create(first, "q")
        served = Path((await first.call(series)).path)
    clock.advance(60_000)
    async with opened(served, clock) as engine:
        await engine.call(sending("q", b"paid"))
        made: list[str] = []
        for _ in range(3):
            clock.advance(60_000)
            reply = await engine.call(series)
            assert reply.removed == made[-1:], "of the others one is kept"
            made.append(reply.path)
        assert "but is a store by now" in caplog.text
        await engine.call(sending("q", b"later"))
    async with opened(served, clock) as engine:
        assert (await engine.call(wire.StatsRequest("q"))).active == 2


@pytest.mark.parametrize("has_links", [True, False])
@pytest.mark.parametrize("is_ending", [True, False])
async def test_a_backup_whose_name_may_not_last_is_not_told_as_none(
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_links: bool,
    is_ending: bool,
) -> None:
    """It is whole and has its name, and then the folder cannot be synced."""
    await create(engine, "q")
    sync = os.fsync

    def failing(descriptor: int) -> None:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            sync(descriptor)
            return
        if is_ending:
            trio.from_thread.run_sync(engine.close)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    if not has_links:
        monkeypatch.setattr(os, "link", no_link)
    target = tmp_path / "copy.db"
    with pytest.raises(StorageFailed) as caught:
        await backup(engine, target)
    assert caught.value.message == (
        f"the backup {target} is made and sound, but its folder could not be synced "
        "(Input/output error); a loss of power may take its name away"
    )
    assert [name for name in files(tmp_path) if "copy" in name] == ["copy.db"]
    assert audit_file(target) == []


@pytest.mark.parametrize("is_stuck", [True, False])
async def test_a_name_that_was_taken_for_nothing_is_given_up_or_told(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_stuck: bool
) -> None:
    await create(engine, "q")
    target, unlink = tmp_path / "copy.db", os.unlink

    def no_move(_source: str, _target: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    def no_removal(path: str | Path) -> None:
        if is_stuck and Path(path) == target:
            raise OSError(errno.EROFS, "Read-only file system")
        unlink(path)

    monkeypatch.setattr(os, "link", no_link)
    monkeypatch.setattr(os, "replace", no_move)
    monkeypatch.setattr(os, "unlink", no_removal)
    with pytest.raises(StorageFailed) as caught:
        await backup(engine, target)
    monkeypatch.undo()
    assert target.exists() == is_stuck
    assert ("no file was made" in caught.value.message) != is_stuck
    assert (f"{target}, which is empty, could not be removed" in caught.value.message) == is_stuck
    assert not [name for name in files(tmp_path) if "partial" in name]
