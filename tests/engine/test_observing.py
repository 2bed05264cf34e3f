"""Observe through the embedded handle: what counts, by how much, and what a snapshot never does.

Every snapshot that a test takes goes through `snapshots.check`, the rules of a strict client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import apsw
import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import MqliteError, StorageFull
from mqlite_actor.contract.wire import Message
from mqlite_actor.engine import commands
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.meters import Meter, StorageMeter
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.storage.database import Transaction
from mqlite_actor.version import __version__
from tests.conformance import asking
from tests.conformance.audit import audit_file
from tests.engine.event_scripts import QUEUES, furnish, held
from tests.engine.gate import Custom, empty_caches, settled, taking, teach
from tests.engine.local import local
from tests.engine.snapshots import (
    BOUNDS,
    TASKS,
    Document,
    check_duration,
    depth,
    events,
    observe,
    storage,
)
from tests.storage.fault_vfs import Fault, FaultVfs, faulty
from tests.storage.foreign import start_holder, stop


@pytest.fixture
async def furnished(engine: Engine) -> Engine:
    """An engine with every queue of the scripts."""
    await furnish(engine)
    return engine


# -- the store cannot be read ----------------------------------------------------------------------


@pytest.fixture
def vfs() -> Iterator[FaultVfs]:
    with faulty() as each:
        yield each


@pytest.fixture
async def frail(vfs: FaultVfs, store: Path, clock: ManualClock) -> AsyncIterator[Engine]:
    """An engine on the faulty file system, with one queue, one message and one good snapshot."""
    options = EngineOptions(clock=clock, background=False)
    async with open_engine(f"file:{store}", options) as engine:
        await asking.make(engine, "q")
        await asking.send_one(engine, "q")
        await observe(engine)
        yield engine
        vfs.disarm()
    assert not audit_file(store)


def is_unreadable(seen: Document, code: str, last_success_at_ms: int) -> bool:
    """Null and the reason instead of zeros, and what this process counted is shown all the same."""
    collection = seen["collection"]
    assert (collection["state"], collection["error_code"]) == ("unavailable", code)
    assert collection["last_success_at_ms"] == last_success_at_ms
    assert (seen["queues"], seen["queue_count"], seen["subscription_count"]) == (None, 0, 0)
    assert seen["runtime"]["ping_seconds"] == 0
    assert events(seen) == {("q", "enqueued"): 1}
    return True


async def test_a_disk_that_cannot_be_read_is_null_with_its_reason_and_then_numbers_again(
    frail: Engine, vfs: FaultVfs, clock: ManualClock
) -> None:
    read_at = clock.now_ms()
    clock.advance(1_000)
    empty_caches(frail)
    vfs.arm(Fault("read", 1, lasting=True))
    for _ in range(3):
        assert is_unreadable(await observe(frail), "io", read_at)
    vfs.disarm()
    seen = await observe(frail)
    assert seen["collection"]["last_success_at_ms"] == read_at + 1_000
    assert depth(seen, "q")["active"] == 1


async def test_a_file_that_cannot_be_opened_again_is_null_with_its_reason(
    frail: Engine, vfs: FaultVfs, clock: ManualClock
) -> None:
    vfs.arm(Fault("write", 1, lasting=True))
    with pytest.raises(MqliteError):
        await asking.send_one(frail, "q")
    vfs.arm(Fault("open", 1, apsw.CantOpenError, lasting=True))
    assert is_unreadable(await observe(frail), "io", clock.now_ms())
    vfs.disarm()
    assert (await observe(frail))["collection"]["state"] == "available"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (apsw.IOError, "io"),
        (apsw.FullError, "full"),
        (apsw.BusyError, "busy"),
        (apsw.CorruptError, "corrupt"),
        (apsw.NotADBError, "corrupt"),
        (ZeroDivisionError, "other"),
    ],
)
async def test_each_failure_of_a_collection_has_its_word(
    frail: Engine, clock: ManualClock, kind: type[Exception], code: str
) -> None:
    collect = frail._table[commands.Collect]

    def fail(_tx: object, _request: object, _now_ms: int) -> object:
        raise kind

    teach(frail, commands.Collect, fail)
    seen = await observe(frail)
    assert is_unreadable(seen, code, clock.now_ms())
    assert storage(seen)["read", "error", code] == 1
    teach(frail, commands.Collect, collect)
    assert (await observe(frail))["collection"]["state"] == "available"


async def test_a_full_disk_can_be_read(frail: Engine, vfs: FaultVfs) -> None:
    vfs.arm(Fault("write", 1, apsw.FullError, lasting=True))
    with pytest.raises(StorageFull):
        await asking.send_one(frail, "q")
    seen = await observe(frail)
    assert depth(seen, "q")["active"] == 1
    assert ("transaction", "error", "full") in storage(seen)


async def test_a_lock_of_another_program_that_stops_every_write_stops_no_look(
    frail: Engine, store: Path
) -> None:
    local(frail).connection.set_busy_timeout(0)
    holder = start_holder(store, "BEGIN IMMEDIATE")
    try:
        assert (
            await asking.refusal(frail, wire.SendRequest(queue="q", messages=[Message()]))
            == "unavailable"
        )
        assert depth(await observe(frail), "q")["active"] == 1
    finally:
        stop(holder)
    assert (await observe(frail))["collection"]["state"] == "available"


async def test_an_engine_that_is_closed_shows_its_counters_and_why_it_has_no_queues(
    frail: Engine, clock: ManualClock
) -> None:
    frail.close()
    await settled()
    assert is_unreadable(await observe(frail), "closed", clock.now_ms())


async def test_a_file_that_nobody_can_look_at_has_no_size(
    tmp_path: Path, clock: ManualClock
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    options = EngineOptions(clock=clock, background=False)
    async with open_engine(f"file:{folder}/mq.db", options) as engine:
        folder.rename(tmp_path / "away")
        folder.write_text("in the way")
        seen = await observe(engine)
        folder.unlink()
        (tmp_path / "away").rename(folder)
    assert not seen["runtime"]["db_size_available"]
    assert seen["runtime"]["db_size_bytes"] == 0


async def test_before_the_first_good_collection_there_is_no_last_one(
    store: Path, clock: ManualClock
) -> None:
    async with open_engine(f"file:{store}", EngineOptions(clock=clock, background=False)) as engine:
        engine.close()
        seen = await observe(engine)
    assert (seen["collection"]["last_success_at_ms"], seen["messages"]) == (0, [])


# -- depths ----------------------------------------------------------------------------------------


async def test_a_queue_is_counted_by_state_and_by_the_age_of_who_waits(
    furnished: Engine, clock: ManualClock
) -> None:
    await asking.kill(furnished, "q")
    clock.advance(1_000)
    _, second, _ = await held(furnished, number=3)
    await asking.defer(furnished, "q", second)
    clock.advance(500)
    await asking.send(furnished, "q", Message(), Message(), at=clock.now_ms() + 1)
    await asking.send_bodies(furnished, "q", b"1", b"2", b"3", b"4")
    clock.advance(250)
    seen = await observe(furnished)
    assert depth(seen, "q") == {
        "queue": "q", "active": 4, "locked": 2, "deferred": 1, "scheduled": 2, "dead_lettered": 1,
        "total": 10, "oldest_message_age_ms": 750, "kind": "queue", "unexpected": 0,
    }  # fmt: skip
    assert depth(seen, "once")["oldest_message_age_ms"] == 0
    assert (seen["queue_count"], seen["subscription_count"]) == (len(QUEUES), 2)
    assert depth(seen, "sub 1")["kind"] == "subscription"
    assert "topic" not in [row["queue"] for row in seen["queues"]]


async def test_names_come_in_the_order_of_their_code_points(engine: Engine) -> None:
    names = ["a", "Z", "é", "\U0001f600", "ﬀ", "a b", "a-b", '"', "\\", "\n"]
    for name in names:
        await asking.make(engine, name)
    assert [row["queue"] for row in (await observe(engine))["queues"]] == sorted(names)


async def test_a_deleted_queue_has_neither_depth_nor_counters(engine: Engine) -> None:
    await asking.make(engine, "q")
    await asking.complete(engine, "q", (await held(engine))[0])
    await asking.delete(engine, "q", (await asking.info(engine, "q")).generation)
    seen = await observe(engine)
    assert (seen["queues"], seen["queue_count"]) == ([], 0)
    assert seen["messages"] == []


async def test_a_name_that_is_no_queue_is_never_shown(engine: Engine) -> None:
    await asking.make(engine, "q")
    for number in range(50):
        name = f"none {number}"
        await asking.refusal(engine, wire.SendRequest(queue=name, messages=[Message()]))
        await asking.refusal(engine, taking(name))
        await asking.refusal(engine, wire.StatsRequest(queue=name))
    assert {row["queue"] for row in (await observe(engine))["messages"]} == {"q"}


# -- the frame -------------------------------------------------------------------------------------


@pytest.mark.promise("W124")
async def test_an_embedded_snapshot_says_what_it_is(engine: Engine, clock: ManualClock) -> None:
    started_at = clock.now_ms()
    clock.advance(5_000)
    seen = await observe(engine)
    assert (seen["started_at_ms"], seen["sampled_at_ms"]) == (started_at, started_at + 5_000)
    assert (seen["backend"], seen["access"]) == ("local", "embedded")
    assert (seen["version"], seen["runtime"]["schema_version"]) == (__version__, "5")
    assert seen["runtime"]["db_size_available"]
    assert seen["runtime"]["db_size_bytes"] > 0
    assert seen["http"]["state"] == "not_applicable"
    assert [row["enabled"] for row in seen["maintenance"]] == [True] * len(TASKS)


async def test_a_database_in_memory_has_no_size_and_reclaims_nothing(clock: ManualClock) -> None:
    async with open_engine(":memory:", EngineOptions(clock=clock, background=False)) as engine:
        seen = await observe(engine)
    assert seen["backend"] == "memory"
    assert not seen["runtime"]["db_size_available"]
    assert seen["runtime"]["db_size_bytes"] == 0
    assert [row["task"] for row in seen["maintenance"] if not row["enabled"]] == ["reclaim"]


async def test_a_collection_says_how_long_it_took_and_a_queue_without_waiters_has_none(
    engine: Engine, clock: ManualClock
) -> None:
    await asking.make(engine, "q")
    clock.advance(60_000)
    collect = engine._table[commands.Collect]

    def slow(tx: Transaction, request: object, now_ms: int) -> object:
        clock.advance(250)
        return collect(tx, request, now_ms)

    teach(engine, commands.Collect, slow)
    seen = await observe(engine)
    assert seen["collection"]["duration_seconds"] == seen["runtime"]["ping_seconds"] == 0.25
    assert seen["receive_waiters"] == [{"queue": "q", "count": 0}]


async def test_status_says_how_long_it_took_and_since_when_the_engine_runs(
    store: Path, clock: ManualClock
) -> None:
    clock.advance(60_000)
    async with open_engine(f"file:{store}", EngineOptions(clock=clock, background=False)) as engine:
        await asking.make(engine, "q")
        count = engine._table[commands.CountEntities]

        def slow(tx: Transaction, request: object, now_ms: int) -> object:
            clock.advance(2000)
            return count(tx, request, now_ms)

        teach(engine, commands.CountEntities, slow)
        clock.advance(3000)
        status = await engine.call(wire.StatusRequest())
    assert (status.ping_ms, status.uptime_ms) == (2000, 5000)
    assert (status.queues, status.subscriptions) == (1, 0)
    assert (status.backend, status.remote, status.auth) == ("local file", False, False)
    assert (status.version, status.schema_version) == (__version__, "5")


async def test_storage_calls_are_told_apart_by_what_they_did(engine: Engine) -> None:
    await asking.make(engine, "q")
    before = storage(await observe(engine))
    await asking.send_one(engine, "q")
    await asking.stats(engine, "q")
    await asking.refusal(engine, wire.StatsRequest(queue="nowhere"))
    after = storage(await observe(engine))
    moved = {key: number - before.get(key, 0) for key, number in after.items()}
    assert {key: number for key, number in moved.items() if number} == {
        ("read", "ok", ""): 2,  # the second is the first snapshot's own
        ("read", "rejected", "application"): 1,
        ("write", "ok", ""): 1,
        ("transaction", "ok", ""): 1,
    }


async def test_filters_that_fail_are_counted_by_stage(furnished: Engine) -> None:
    def fail(tx: Transaction, _request: object, _now_ms: int) -> wire.EmptyResponse:
        for name, stage in (("sub 1", "compile"), ("sub 1", "evaluate"), ("sub 2", "evaluate")):
            tx.filter_failed(name, stage)
        return wire.EmptyResponse()

    teach(furnished, Custom, fail)
    await furnished.call(Custom())
    assert (await observe(furnished))["filters"] == [
        {"stage": "compile", "count": 1},
        {"stage": "evaluate", "count": 2},
    ]


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_bucket_counts_what_took_at_most_its_bound(bound: float) -> None:
    meter = Meter()
    for seconds in (bound, bound * 1.001, 0.0, 1e6):
        meter.add(seconds)
    shown = meter.shown()
    place = BOUNDS.index(bound)
    assert shown.bucket_counts == [1] * place + [2] + [3] * (len(BOUNDS) - place - 1)
    assert shown.count == 4
    assert shown.sum_seconds == pytest.approx(bound * 2.001 + 1e6)
    check_duration(
        {
            "bounds_seconds": shown.bounds_seconds,
            "bucket_counts": shown.bucket_counts,
            "count": shown.count,
        }
    )


def test_calls_of_another_process_are_counted_by_its_words_and_unknown_words_are_not() -> None:
    meter = StorageMeter()
    before = meter.shown()
    meter.note("read", "error", "busy", 0.5)
    meter.note("read", "error", "application", 0.5)
    moved = [row for row, was in zip(meter.shown(), before, strict=True) if row != was]
    (row,) = moved
    assert (row.operation, row.outcome, row.error_code, row.retries) == ("read", "error", "busy", 0)
    assert (row.duration.count, row.duration.sum_seconds) == (1, 0.5)
