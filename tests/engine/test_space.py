"""Free pages go back to the disk when they are many; compaction does it at once."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
import trio.testing

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import MqliteError, StorageFailed, StorageFull, Unavailable
from mqlite_actor.engine import commands
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from tests.engine.gate import bodies, bounded, create, pass_time, sending, settled, taking
from tests.storage.fault_vfs import Fault, faulty
from tests.storage.foreign import BUSINESS, execute, start_holder, stop

PAGE = 4096
BODY = bytes(100_000)


@pytest.fixture
def options(clock: ManualClock) -> EngineOptions:
    return EngineOptions(clock=clock, background=False)


async def free_pages(engine: Engine, number: int) -> None:
    """Write and remove so much that about this many pages become free."""
    count = number * PAGE // len(BODY) + 1
    await create(engine, "q")
    for _ in range(count):
        await engine.call(sending("q", BODY))
    for _ in range(count):
        await engine.call(wire.ReceiveRequest(queue="q", receive_mode=1, max_messages=9))


async def count_free(engine: Engine) -> int:
    number: int = await engine._submit(commands.CountFreePages())
    return number


async def move_log(engine: Engine) -> None:
    """Until everything is in the file itself; the checkpointer may be in the way for a moment."""
    with bounded():
        while not await engine._submit(commands.TruncateLog()):
            await settled()


def size(store: Path) -> int:
    return store.stat().st_size


@pytest.mark.promise("E120")
async def test_a_file_shrinks_after_a_mass_delete(store: Path, options: EngineOptions) -> None:
    async with open_engine(str(store), options) as engine:
        await free_pages(engine, 4 * limits.RECLAIM_PAGES_MIN)
        await move_log(engine)
        before = size(store)
        assert await count_free(engine) >= 4 * limits.RECLAIM_PAGES_MIN
        await engine.run_maintenance_once()
        await move_log(engine)
        assert size(store) <= before - 4 * limits.RECLAIM_PAGES_MIN * PAGE
        assert await count_free(engine) == 0
        await engine.call(sending("q", b"x"))
        assert await bodies(engine, "q") == [b"x"]


@pytest.mark.promise("E120")
async def test_a_few_free_pages_are_left_for_the_next_messages(
    store: Path, options: EngineOptions
) -> None:
    async with open_engine(str(store), options) as engine:
        await free_pages(engine, limits.RECLAIM_PAGES_MIN // 2)
        free = await count_free(engine)
        assert 0 < free < limits.RECLAIM_PAGES_MIN
        await engine.run_maintenance_once()
        assert await count_free(engine) == free


async def test_as_many_free_pages_as_the_bound_are_given_back_and_the_log_is_cut_either_way(
    engine: Engine, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = store.with_name(f"{store.name}-wal")
    await free_pages(engine, limits.RECLAIM_PAGES)
    await move_log(engine)
    free = await count_free(engine)
    before = size(store)
    await engine.call(sending("q", b"x"))
    assert log.stat().st_size
    monkeypatch.setattr(limits, "RECLAIM_PAGES_MIN", free + 1)
    assert await engine._chores.reclaim() == 0
    assert (log.stat().st_size, size(store)) == (0, before)
    free = await count_free(engine)
    monkeypatch.setattr(limits, "RECLAIM_PAGES_MIN", free)
    assert await engine._chores.reclaim() == free > 0
    assert (log.stat().st_size, size(store)) == (0, before - free * PAGE)


async def test_compacting_ends_after_its_slice_when_the_engine_closes(
    store: Path, options: EngineOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RECLAIM_PAGES", 10)
    async with open_engine(str(store), options) as engine:
        await free_pages(engine, 60)
        await move_log(engine)
        before = await count_free(engine)
        engine.stop_waiting()  # as its end begins
        await engine.compact()
        assert await count_free(engine) == before


async def test_a_file_made_without_incremental_vacuum_is_left_alone(
    store: Path, options: EngineOptions
) -> None:
    execute(store, *BUSINESS)
    async with open_engine(str(store), options) as engine:
        await free_pages(engine, 2 * limits.RECLAIM_PAGES_MIN)
        free = await count_free(engine)
        await engine.run_maintenance_once()
        await engine.compact()
        assert await count_free(engine) == free
        await engine.compact(is_full=True)
        assert await count_free(engine) == 0


@pytest.mark.parametrize("is_full", [False, True])
async def test_compacting_frees_every_page_and_keeps_every_message(
    store: Path,
    options: EngineOptions,
    is_full: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    async with open_engine(str(store), options) as engine:
        await free_pages(engine, limits.RECLAIM_PAGES_MIN // 2)
        last = (await engine.call(sending("q", b"a", b"b", BODY))).seq_numbers
        held = (await engine.call(taking("q"))).messages[0]
        await engine.compact(is_full=is_full)
        assert await count_free(engine) == 0
        assert await bodies(engine, "q") == [b"a", b"b", BODY]
        await engine.call(
            wire.CompleteRequest(queue="q", seq_number=held.seq_number, lock_token=held.lock_token)
        )
        assert last is not None
        following = (await engine.call(sending("q", b"c"))).seq_numbers
        assert following == [last[-1] + 1]
        engine._store.check_files()


@pytest.mark.promise("E19")
async def test_numbers_go_on_after_a_full_compaction_of_an_empty_file(
    store: Path, options: EngineOptions
) -> None:
    async with open_engine(str(store), options) as engine:
        await free_pages(engine, 10)
        last = (await engine.call(sending("q", b"x"))).seq_numbers
        await engine.call(wire.ReceiveRequest(queue="q", receive_mode=1))
        await engine.compact(is_full=True)
    async with open_engine(str(store), options) as engine:
        assert last is not None
        assert (await engine.call(sending("q", b"y"))).seq_numbers == [last[0] + 1]


@pytest.mark.parametrize("is_full", [False, True])
async def test_compacting_memory_is_harmless(
    clock: ManualClock,
    is_full: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    async with open_engine(":memory:", EngineOptions(clock=clock, background=False)) as engine:
        await create(engine, "q")
        await engine.call(sending("q", b"x"))
        await engine.compact(is_full=is_full)
        assert await bodies(engine, "q") == [b"x"]


async def test_a_reader_in_the_way_is_no_failure(store: Path, options: EngineOptions) -> None:
    async with open_engine(str(store), options) as engine:
        await free_pages(engine, 2 * limits.RECLAIM_PAGES_MIN)
        reader = start_holder(store, "BEGIN", "SELECT * FROM messages")
        try:
            await engine.run_maintenance_once()
            await engine.compact()
        finally:
            stop(reader)
        assert await count_free(engine) == 0
        await engine.run_maintenance_once()


# -- trouble ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_full", [False, True])
async def test_a_foreign_lock_makes_compacting_unavailable(
    store: Path,
    options: EngineOptions,
    monkeypatch: pytest.MonkeyPatch,
    is_full: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    monkeypatch.setattr(limits, "BUSY_MS", 10)
    async with open_engine(str(store), options) as engine:
        await free_pages(engine, limits.RECLAIM_PAGES_MIN)
        owner = start_holder(store, "BEGIN IMMEDIATE")
        try:
            with pytest.raises(Unavailable):
                await engine.compact(is_full=is_full)
        finally:
            stop(owner)
        await engine.compact(is_full=is_full)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault("write", 1, apsw.FullError, lasting=True, ending="-wal"), StorageFull),
        (Fault("write", 1, apsw.IOError, lasting=True, ending="-wal"), StorageFailed),
    ],
    ids=["full", "failing"],
)
@pytest.mark.parametrize("is_full", [False, True])
async def test_a_disk_in_trouble_is_reported_in_our_words_and_nothing_is_lost(
    store: Path,
    options: EngineOptions,
    fault: Fault,
    kind: type[MqliteError],
    is_full: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    with faulty() as vfs:
        async with open_engine(str(store), options) as engine:
            await free_pages(engine, limits.RECLAIM_PAGES_MIN)
            await engine.call(sending("q", b"kept"))
            vfs.arm(fault)
            with pytest.raises(kind):
                await engine.compact(is_full=is_full)
            vfs.disarm()
            assert await bodies(engine, "q") == [b"kept"]
            await engine.compact(is_full=is_full)
            assert await bodies(engine, "q") == [b"kept"]


@pytest.mark.promise("E118")
@pytest.mark.parametrize("error", [apsw.BusyError, apsw.FullError, apsw.IOError, RuntimeError])
async def test_a_reclaim_that_fails_is_counted_and_never_ends_the_engine(
    store: Path,
    clock: ManualClock,
    mock_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
    error: type[Exception],
) -> None:
    def refuse(*_: object) -> int:
        raise error

    async with open_engine(str(store), EngineOptions(clock=clock)) as engine:
        await create(engine, "q")
        with monkeypatch.context() as patch:
            alone: dict[type, object] = {**commands.ALONE, commands.CountFreePages: refuse}
            patch.setattr("mqlite_actor.engine.group.ALONE", alone)
            await pass_time(engine, clock, mock_clock, 61)
            reclaim = engine.statistics()["maintenance"]["reclaim"]
            assert reclaim.consecutive_failures == 1
        await pass_time(engine, clock, mock_clock, 61)
        reclaim = engine.statistics()["maintenance"]["reclaim"]
        assert (reclaim.consecutive_failures, reclaim.failures) == (0, 1)
        assert reclaim.recovered_at_ms
        await engine.call(sending("q", b"x"))
