"""An engine on a disk that is full, fails, is locked by others or vanishes: true answers, and back
to work without a restart when the trouble is over."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import (
    MqliteError,
    OutcomeUnknown,
    StorageFailed,
    StorageFull,
    Unavailable,
)
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.storage.database import Transaction
from tests.conformance.audit import audit_file
from tests.engine.gate import (
    Call,
    Gate,
    bodies,
    bounded,
    completing,
    create,
    parked,
    sending,
    settled,
    take,
    taking,
    teach,
)
from tests.engine.local import local
from tests.storage.fault_vfs import Fault, FaultVfs, faulty
from tests.storage.foreign import start_holder, stop
from tests.storage.quota_vfs import small_disk
from tests.storage.writer import snapshot

MUCH = [bytes(limits.MIB)]


@pytest.fixture
def vfs() -> Iterator[FaultVfs]:
    with faulty() as each:
        yield each


@pytest.fixture(params=["NORMAL", "FULL"])
async def engine(
    request: pytest.FixtureRequest, vfs: FaultVfs, store: Path, clock: ManualClock
) -> AsyncIterator[Engine]:
    """On the faulty file system, with a queue and one message in hand."""
    options = EngineOptions(clock=clock, background=False, synchronous=request.param)
    async with open_engine(str(store), options) as each:
        await create(each, "q")
        yield each
        vfs.disarm()
    assert not audit_file(store)


async def together(engine: Engine, *requests: wire.Request[Any]) -> list[object]:
    """Run requests as one group; a response or an error for each."""
    calls = [Call(engine, request) for request in requests]
    with bounded():
        async with trio.open_nursery() as nursery:
            stop = await Gate(engine, nursery).stop()
            for call in calls:
                nursery.start_soon(call.run)
                await settled()
            stop.release()
    return [call.error or call.reply for call in calls]


def kinds(answers: list[object]) -> list[type]:
    return [type(answer) for answer in answers]


# -- full ------------------------------------------------------------------------------------------


@pytest.mark.promise("E158")
async def test_a_full_disk_refuses_sends_and_takes_settles(store: Path, clock: ManualClock) -> None:
    options = EngineOptions(clock=clock, background=False)
    with small_disk(store.parent, limits.RESERVE_BYTES + limits.MIB) as disk:
        async with open_engine(str(store), options) as engine:
            await create(engine, "q")
            await engine.call(sending("q", b"held"))
            held = (await take(engine, "q"))[0]
            answers = await together(
                engine, sending("q", *MUCH), completing("q", held), sending("q", *MUCH), taking("q")
            )
            assert kinds(answers) == [
                StorageFull, wire.OkResponse, StorageFull, wire.MessagesResponse
            ]  # fmt: skip
            assert await bodies(engine, "q") == []
            disk.grow(100 * limits.MIB)
            await engine.call(sending("q", *MUCH))
            assert await bodies(engine, "q") == MUCH
    assert not audit_file(store)


async def test_after_the_first_refusal_the_other_sends_are_not_tried(engine: Engine) -> None:
    await engine.call(sending("q", b"held"))
    held = (await take(engine, "q"))[0]
    tried: list[bytes] = []

    def fail(_tx: Transaction, request: wire.SendRequest, _now_ms: int) -> object:
        tried.append(request.messages[0].body)
        raise apsw.FullError

    teach(engine, wire.SendRequest, fail)
    engine._table.runs.pop(wire.SendRequest)
    sends = [sending("q", b"%d" % number) for number in range(5)]
    answers = await together(engine, *sends, completing("q", held))
    assert kinds(answers) == [StorageFull] * 5 + [wire.OkResponse]
    assert tried == [b"0"] * 3, "in the group, again with the log's room, and once more alone"


@pytest.mark.promise("E158")
async def test_a_full_disk_is_left_as_soon_as_there_is_space(engine: Engine, vfs: FaultVfs) -> None:
    """Nothing can be written at all: settles fail too, and are as they were."""
    await engine.call(sending("q", b"held"))
    held = (await take(engine, "q"))[0]
    vfs.arm(Fault("write", 1, apsw.FullError, lasting=True))
    for _ in range(3):
        answers = await together(engine, sending("q", b"a"), completing("q", held), taking("q"))
        assert kinds(answers)[:2] == [StorageFull, StorageFull]
    assert await bodies(engine, "q", "locked") == [b"held"], "reading goes on"
    vfs.disarm()
    answers = await together(engine, sending("q", b"a"), completing("q", held))
    assert kinds(answers) == [wire.SendResponse, wire.OkResponse]
    assert await bodies(engine, "q") == [b"a"]


async def test_a_full_disk_is_one_line_in_the_log(
    engine: Engine, vfs: FaultVfs, caplog: pytest.LogCaptureFixture
) -> None:
    vfs.arm(Fault("write", 1, apsw.FullError, lasting=True))
    with caplog.at_level(logging.WARNING, "mqlite"):
        for _ in range(5):
            await together(engine, *[sending("q", b"x")] * 20)
    assert len(caplog.records) <= 2, [record.getMessage() for record in caplog.records]
    caplog.clear()
    vfs.disarm()
    await engine.call(sending("q", b"x"))
    vfs.arm(Fault("write", 1, apsw.FullError, lasting=True))
    with caplog.at_level(logging.WARNING, "mqlite"), pytest.raises(StorageFull):
        await engine.call(sending("q", b"x"))
    assert len(caplog.records) == 1, "a new outage is a new line"


# -- a commit of which nobody knows ----------------------------------------------------------------


@pytest.mark.promise("E158")
async def test_a_commit_that_fails_is_unknown_to_everybody_and_the_file_is_opened_anew(
    engine: Engine, vfs: FaultVfs, caplog: pytest.LogCaptureFixture
) -> None:
    connection = local(engine).connection
    vfs.arm(Fault("write", 3))
    with caplog.at_level(logging.WARNING, "mqlite"):
        answers = await together(engine, sending("q", b"a", b"b"), sending("q", b"c"))
    vfs.disarm()
    assert kinds(answers) == [OutcomeUnknown, OutcomeUnknown]
    stored = await bodies(engine, "q")
    assert stored in ([], [b"a", b"b", b"c"])
    assert local(engine).connection is not connection
    await engine.call(sending("q", b"after"))
    assert await bodies(engine, "q") == [*stored, b"after"]


async def test_what_a_lost_commit_left_behind_reaches_whoever_waits(
    engine: Engine, vfs: FaultVfs, nursery: trio.Nursery
) -> None:
    call = Call(engine, taking("q", wait_ms=20_000))
    nursery.start_soon(call.run)
    await parked(engine, "q", 1)
    vfs.arm(Fault("sync", 1))
    answer = (await together(engine, sending("q", b"perhaps")))[0]
    vfs.disarm()
    if isinstance(answer, OutcomeUnknown):  # NORMAL does not sync at a commit
        await until_answered_or_absent(engine, call)
    else:
        with bounded():
            await call.ended.wait()
    engine.stop_waiting()


async def until_answered_or_absent(engine: Engine, call: Call) -> None:
    """The waiting receive gets the message long before its own time is over, or nobody will find
    one. A look may come between the commit and the claim."""
    if await bodies(engine, "q"):
        with bounded():
            await call.ended.wait()


@pytest.mark.promise("E158")
async def test_a_disk_that_fails_for_a_while_refuses_and_then_goes_on(
    engine: Engine, vfs: FaultVfs
) -> None:
    await engine.call(sending("q", b"before"))
    vfs.arm(Fault("write", 1, lasting=True))
    for number in range(4):
        with pytest.raises((StorageFailed, OutcomeUnknown)):
            await engine.call(sending("q", b"%d" % number))
    vfs.disarm()
    await engine.call(sending("q", b"after"))
    stored = await bodies(engine, "q")
    assert (stored[0], stored[-1]) == (b"before", b"after")


# -- others at the file ----------------------------------------------------------------------------


async def test_a_foreign_lock_answers_a_whole_group_after_one_wait(
    engine: Engine, store: Path, nursery: trio.Nursery
) -> None:
    local(engine).connection.set_busy_timeout(300)
    other = apsw.Connection(str(store))
    other.execute("BEGIN IMMEDIATE")
    calls = [Call(engine, sending("q", b"x")) for _ in range(100)]
    with bounded():  # a wait for each would take twice as long
        async with trio.open_nursery() as inner:
            for call in calls:
                inner.start_soon(call.run)
    assert {type(call.error) for call in calls} == {Unavailable}
    nursery.start_soon(engine.call, sending("q", b"waits a little"))
    await settled()
    other.execute("COMMIT")
    other.close()
    while await bodies(engine, "q") != [b"waits a little"]:
        await settled()


async def test_a_reader_elsewhere_stops_nobody(engine: Engine, store: Path) -> None:
    await engine.call(sending("q", b"1"))
    reader = start_holder(store, "BEGIN", "SELECT * FROM messages")
    try:
        with bounded():
            for number in range(2, 5):
                await engine.call(sending("q", b"%d" % number))
        assert len(await bodies(engine, "q")) == 4
    finally:
        stop(reader)


async def test_a_database_that_vanished_is_not_silently_begun_anew(
    store: Path, clock: ManualClock
) -> None:
    options = EngineOptions(clock=clock, background=False)
    async with open_engine(str(store), options) as engine:
        await create(engine, "q")
        await engine.call(sending("q", b"x"))
        for suffix in ("", "-wal", "-shm"):
            store.with_name(store.name + suffix).unlink()
        engine._store.healthy = False
        for _ in range(2):
            with pytest.raises(StorageFailed):
                await engine.call(sending("q", b"y"))
        assert store.name not in snapshot(store.parent)


async def test_memory_is_never_opened_anew(clock: ManualClock) -> None:
    """It would be empty."""
    async with open_engine(":memory:", EngineOptions(clock=clock, background=False)) as engine:
        await create(engine, "q")
        await engine.call(sending("q", b"x"))

        def fail(_tx: object, _request: object, _now_ms: int) -> object:
            raise apsw.IOError

        engine._table[wire.StatsRequest] = fail
        with pytest.raises(MqliteError):
            await engine.call(wire.StatsRequest(queue="q"))
        assert await bodies(engine, "q") == [b"x"]


# -- nothing pins the log --------------------------------------------------------------------------


async def test_no_call_leaves_a_statement_behind_that_pins_the_log(
    store: Path, clock: ManualClock
) -> None:
    options = EngineOptions(clock=clock, background=False)
    async with open_engine(str(store), options) as engine:
        await create(engine, "q")
        await engine.call(sending("q", *[b"x"] * 50))
        calls: list[wire.Request[Any]] = [
            wire.PeekRequest(queue="q", max=3),
            wire.StatsRequest(queue="q"),
            wire.ListQueuesRequest(),
            wire.StatusRequest(),
            taking("q", 5),
            wire.ReceiveRequest(queue="q", receive_mode=1, max_messages=5),
        ]
        for request in calls:
            await engine.call(request)
            held = local(engine)
            assert not held.in_transaction
            checkpoint = held.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            assert checkpoint == (0, 0), request
        assert limits.WAL_BYTES_KEPT > store.with_name("mq.db-wal").stat().st_size == 0
