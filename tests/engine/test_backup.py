"""Backup: a whole and checked file, whatever goes on meanwhile, or none."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import ext, limits, wire
from mqlite_actor.contract.errors import (
    InvalidArgument,
    StorageDamaged,
    StorageFailed,
    StorageFull,
    Unavailable,
)
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine, run_engine
from mqlite_actor.storage.snapshot import Snapshot
from mqlite_actor.storage.sqlite import SqliteStore
from tests.conformance.audit import audit_file
from tests.engine.gate import (
    Call,
    bodies,
    bounded,
    completing,
    create,
    in_loop,
    sending,
    settled,
    take,
)

BIG = bytes(100_000)
SEVERAL_STEPS = 30
"""Bodies of that size fill more than two steps."""


@pytest.fixture(params=["file", "memory"])
def place(request: pytest.FixtureRequest, store: Path) -> str:
    return f"file:{store}" if request.param == "file" else ":memory:"


def options(clock: ManualClock, folder: str | None = None) -> EngineOptions:
    return EngineOptions(clock=clock, background=False, backup_folder=folder)


async def backup(engine: Engine, path: Path | str) -> ext.BackupResponse:
    return await engine.call(ext.BackupRequest(str(path)))


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def at_step(monkeypatch: pytest.MonkeyPatch, number: int, do: Callable[[], object]) -> None:
    """Have something happen before this step of the copying, in its thread."""
    step = Snapshot.step
    steps = 0

    def stepping(snapshot: Snapshot) -> bool:
        nonlocal steps
        steps += 1
        if steps == number:
            do()
        return step(snapshot)

    monkeypatch.setattr(Snapshot, "step", stepping)


async def test_a_backup_opens_with_everything_in_it(
    place: str, tmp_path: Path, clock: ManualClock
) -> None:
    target = tmp_path / "copy.db"
    async with open_engine(place, options(clock)) as engine:
        await create(engine, "q", "dead")
        await engine.call(sending("q", b"1", BIG, b"3"))
        (held,) = await take(engine, "q")
        reply = await backup(engine, target)
        await engine.call(completing("q", held))
        await engine.call(sending("q", b"later"))
    assert (reply.done, reply.path, reply.size_bytes) == (
        True, str(target), target.stat().st_size,
    )  # fmt: skip
    assert target.stat().st_mode & 0o777 == 0o600
    assert audit_file(target) == []
    async with open_engine(f"file:{target}", options(clock)) as engine:
        assert await bodies(engine, "q", "active") == [b"1", BIG, b"3"]
        (again,) = await take(engine, "q")
        assert again.delivery_count == 2, "its lease ended with the process"
        await engine.call(sending("q", b"new"))


async def test_a_backup_is_the_store_at_one_moment_while_others_write(
    place: str, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counts agree with the messages (audit), and it is neither older nor torn."""
    async with open_engine(place, options(clock)) as engine:
        await create(engine, "q", "other")
        await engine.call(sending("q", *[BIG] * SEVERAL_STEPS))
        reached = trio.Event()

        def wait_for_writes() -> None:
            trio.from_thread.run_sync(reached.set)
            trio.from_thread.run(written.wait)

        written = trio.Event()
        if place != ":memory:":  # there the step itself is in the writer's thread
            at_step(monkeypatch, 2, wait_for_writes)
        else:
            reached.set()
        call = Call(engine, ext.BackupRequest(str(tmp_path / "copy.db")))
        with bounded():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call.run)
                await reached.wait()
                for message in await take(engine, "q", 10):
                    await engine.call(completing("q", message))
                await engine.call(sending("other", *[b"x"] * 100))
                written.set()
        assert call.reply.done
    assert audit_file(tmp_path / "copy.db") == []
    async with open_engine(f"file:{tmp_path}/copy.db", options(clock)) as engine:
        if place != ":memory:":
            assert len(await bodies(engine, "q")) == SEVERAL_STEPS
            assert await bodies(engine, "other") == []


@pytest.mark.parametrize(
    "name",
    [
        "", "there", "a/b/c.db", "q.db-wal", "q.db-journal", "q.db-shm", "q.db.lock", ".", "\0",
        "x" * 220, "x" * 5000,
    ],
    ids=lambda name: name[:12],
)  # fmt: skip
async def test_a_path_that_cannot_be_is_refused_and_nothing_is_made(
    engine: Engine, tmp_path: Path, name: str
) -> None:
    (tmp_path / "there").write_bytes(b"mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    before = files(tmp_path)
    for path in (f"{tmp_path}/{name}" if name else "", tmp_path / "dangling"):
        with pytest.raises(InvalidArgument, match="path"):
            await backup(engine, path)
    assert files(tmp_path) == before
    assert (tmp_path / "there").read_bytes() == b"mine"


async def test_the_store_itself_is_never_written_over(engine: Engine, store: Path) -> None:
    await create(engine, "q")
    for path in (store, store.with_name(f"{store.name}-wal")):
        with pytest.raises(InvalidArgument):
            await backup(engine, path)


def no_link(_source: str, _target: str) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")


async def test_a_disk_without_hard_links_gets_backups_too(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", no_link)
    await create(engine, "q")
    await engine.call(sending("q", b"x"))
    target = tmp_path / "copy.db"
    assert (await backup(engine, target)).size_bytes == target.stat().st_size
    assert audit_file(target) == []
    assert target.stat().st_mode & 0o777 == 0o600
    assert not [name for name in files(tmp_path) if "partial" in name]


@pytest.mark.parametrize("has_links", [True, False])
async def test_a_name_that_is_taken_meanwhile_keeps_its_file(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_links: bool
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "link", no_link)
    target = tmp_path / "copy.db"
    at_step(monkeypatch, 1, lambda: target.write_bytes(b"mine"))
    with pytest.raises(InvalidArgument, match="exists by now"):
        await backup(engine, target)
    assert target.read_bytes() == b"mine"
    assert not [name for name in files(tmp_path) if "partial" in name]


async def test_inside_its_folder_a_broker_makes_backups_and_nowhere_else(
    store: Path, tmp_path: Path, clock: ManualClock
) -> None:
    allowed = tmp_path / "allowed"
    (allowed / "below").mkdir(parents=True)
    (allowed / "out").symlink_to(tmp_path)
    async with open_engine(f"file:{store}", options(clock, str(allowed))) as engine:
        for name in ("a.db", "below/b.db", str(allowed / "c.db"), "below/../d.db"):
            assert (await backup(engine, name)).done
        for name in ("../a.db", str(tmp_path / "a.db"), "out/a.db", "~/a.db", "below/../../a.db"):
            with pytest.raises(InvalidArgument, match="path"):
                await backup(engine, name)
    assert files(allowed) == {"a.db", "c.db", "d.db", "below", "out"}
    async with open_engine(f"file:{store}", options(clock, "")) as engine:
        assert (await backup(engine, "beside.db")).path == str(store.with_name("beside.db"))


async def test_one_backup_is_made_at_a_time(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[bool] = []

    async def second() -> None:
        with pytest.raises(Unavailable):
            await backup(engine, tmp_path / "second.db")
        refused.append(True)

    at_step(monkeypatch, 1, lambda: trio.from_thread.run(second))
    assert (await backup(engine, tmp_path / "first.db")).done
    assert refused
    assert (await backup(engine, tmp_path / "second.db")).done


async def test_closing_ends_a_backup_after_its_step_and_no_file_stays(
    place: str, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "backups" / "copy.db"
    target.parent.mkdir()
    async with open_engine(place, options(clock)) as engine:
        await create(engine, "q")
        await engine.call(sending("q", *[BIG] * SEVERAL_STEPS))
        at_step(monkeypatch, 2, in_loop(engine.close))
        reply = await backup(engine, target)
    assert (reply.done, reply.size_bytes) == (False, 0)
    assert files(target.parent) == set()


@pytest.mark.parametrize("how", ["close", "cancel"])
async def test_the_store_is_closed_only_when_a_backup_has_let_go_of_it(
    place: str, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    order: list[str] = []
    close, discard = SqliteStore.close, Snapshot.discard

    def closing(store: SqliteStore) -> None:
        order.append("store")
        close(store)

    def discarding(snapshot: Snapshot) -> None:
        trio.from_thread.run(settled)  # whoever does not wait for it goes on
        assert snapshot._copy is None, "closed before"
        order.append("copy")
        discard(snapshot)

    monkeypatch.setattr(SqliteStore, "close", closing)
    monkeypatch.setattr(Snapshot, "discard", discarding)
    async with trio.open_nursery() as callers, trio.open_nursery() as nursery:
        engine = await nursery.start(run_engine, place, options(clock))
        await create(engine, "q")
        await engine.call(sending("q", *[BIG] * SEVERAL_STEPS))
        end = engine.close if how == "close" else nursery.cancel_scope.cancel
        at_step(monkeypatch, 2, in_loop(end))
        callers.start_soon(Call(engine, ext.BackupRequest(str(tmp_path / "copy.db"))).run)
    assert order == ["copy", "store"]


async def test_a_series_loses_its_oldest_once_the_newest_is_whole(
    engine: Engine, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.advance(60_000)
    monkeypatch.setattr(limits, "BACKUP_PAGES", 10)
    replies: list[ext.BackupResponse] = []

    async def make(keep: int, do: Callable[[], object]) -> None:
        clock.advance(1000)
        with monkeypatch.context() as patch:
            at_step(patch, 1, do)
            request = ext.BackupRequest(str(tmp_path / "nightly.db"), keep=keep)
            replies.append(await engine.call(request))

    for keep in (2, 2, 2):
        await make(keep, lambda: clock.advance(2000))
    await make(1, in_loop(engine.close))
    first, second, third, broken_off = replies
    assert [reply.duration_ms for reply in replies] == [2000, 2000, 2000, 0]
    assert [reply.removed for reply in replies] == [[], [], [first.path], []]
    assert not broken_off.done
    left = {Path(reply.path).name for reply in (second, third)}
    assert {name for name in files(tmp_path) if "nightly" in name} == left


async def test_closing_breaks_off_the_check(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(engine, "q")
    await engine.call(sending("q", *[b"x" * 500] * 5000))
    monkeypatch.setattr("mqlite_actor.storage.snapshot.STEPS_OF_CHECK", 10)
    finish = Snapshot.finish

    def finishing(snapshot: Snapshot) -> int:
        trio.from_thread.run_sync(engine.close)
        return finish(snapshot)

    monkeypatch.setattr(Snapshot, "finish", finishing)
    assert not (await backup(engine, tmp_path / "copy.db")).done
    assert not [name for name in files(tmp_path) if "copy" in name]


@pytest.mark.parametrize("where", ["copying", "check"])
async def test_a_cancelled_backup_leaves_no_file_and_lets_the_next_one_go(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    await create(engine, "q")
    await engine.call(sending("q", *[BIG] * SEVERAL_STEPS))
    monkeypatch.setattr("mqlite_actor.storage.snapshot.STEPS_OF_CHECK", 10)
    with monkeypatch.context() as patch, trio.CancelScope() as scope:
        method = "step" if where == "copying" else "finish"
        original = getattr(Snapshot, method)

        def cancelling(snapshot: Snapshot) -> object:
            trio.from_thread.run_sync(scope.cancel)
            return original(snapshot)

        patch.setattr(Snapshot, method, cancelling)
        await backup(engine, tmp_path / "copy.db")
    assert scope.cancelled_caught
    assert not [name for name in files(tmp_path) if "copy" in name]
    assert (await backup(engine, tmp_path / "copy.db")).done


async def test_a_copy_that_is_not_sound_is_thrown_away(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(engine, "q")
    await engine.call(sending("q", *[b"x" * 500] * 500))
    close = Snapshot.close

    def damaging(snapshot: Snapshot) -> None:
        close(snapshot)
        partial = Path(snapshot._partial)
        if partial.exists():
            with partial.open("r+b") as file:
                file.seek(4096)
                file.write(bytes(range(256)) * 64)

    monkeypatch.setattr(Snapshot, "close", damaging)
    with pytest.raises((StorageDamaged, StorageFailed)):
        await backup(engine, tmp_path / "copy.db")
    assert not [name for name in files(tmp_path) if "copy" in name]
    assert await bodies(engine, "q"), "the store itself is untouched"


async def test_a_full_disk_names_its_folder_and_leaves_the_engine_alone(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(engine, "q")
    await engine.call(sending("q", *[BIG] * SEVERAL_STEPS))
    start = Snapshot.start

    def starting(snapshot: Snapshot) -> None:
        start(snapshot)
        assert snapshot._copy is not None
        snapshot._copy.pragma("max_page_count", 300)

    monkeypatch.setattr(Snapshot, "start", starting)
    with pytest.raises(StorageFull, match=str(tmp_path)):
        await backup(engine, tmp_path / "copy.db")
    assert not [name for name in files(tmp_path) if "copy" in name]
    await engine.call(sending("q", b"goes on"))


async def test_the_log_is_cut_again_after_a_backup(
    engine: Engine, tmp_path: Path, store: Path
) -> None:
    await create(engine, "q")
    await engine.call(sending("q", *[BIG] * SEVERAL_STEPS))
    await backup(engine, tmp_path / "copy.db")
    await engine.compact()
    assert store.with_name(f"{store.name}-wal").stat().st_size < limits.MIB


async def test_queue_names_and_configuration_are_those_of_the_store(
    engine: Engine, tmp_path: Path, clock: ManualClock
) -> None:
    config = wire.QueueConfig(ordering_mode="strict_fifo", max_delivery_count=3)
    await create(engine, "ü", config=config)
    before = await engine.call(ext.DescribeQueueRequest("ü"))
    await backup(engine, tmp_path / "copy.db")
    async with open_engine(f"file:{tmp_path}/copy.db", options(clock)) as copy:
        assert await copy.call(ext.DescribeQueueRequest("ü")) == before
