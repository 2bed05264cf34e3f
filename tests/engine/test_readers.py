"""Looks go past the writer: they answer while it stands, and keep nothing when they are done.

Every request type of READS is asked, so a new row joins these tests by itself if it is given an
example below.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import apsw
import pytest
import trio
import trio.testing

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import ext, limits, wire
from mqlite_actor.contract.errors import Closed, StorageFailed, Unavailable
from mqlite_actor.contract.keys import ListKeysRequest
from mqlite_actor.contract.observe import ObserveRequest
from mqlite_actor.engine import commands
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.engine.readers import READS
from mqlite_actor.sdk.embedded import Embedded
from mqlite_actor.storage.database import Transaction
from mqlite_actor.storage.reading import NoReader
from tests.engine.gate import (
    PATIENCE,
    Call,
    Gate,
    Stuck,
    bodies,
    bounded,
    create,
    sending,
    settled,
    teach,
    until,
)
from tests.engine.local import local
from tests.engine.snapshots import observe, storage
from tests.engine.test_keeper import move
from tests.storage.foreign import start_holder, stop
from tests.storage.writer import snapshot

EXAMPLES: dict[type[Any], Any] = {
    wire.StatsRequest: wire.StatsRequest(queue="q"),
    wire.PeekRequest: wire.PeekRequest(queue="q"),
    wire.ListQueuesRequest: wire.ListQueuesRequest(),
    wire.ListSubscriptionsRequest: wire.ListSubscriptionsRequest(),
    ext.DescribeQueueRequest: ext.DescribeQueueRequest(name="q"),
    ext.ExplainRequest: ext.ExplainRequest(queue="q"),
    ext.SearchRequest: ext.SearchRequest(queue="q"),
    ListKeysRequest: ListKeysRequest(),
    commands.Authenticate: commands.Authenticate(bytes(32)),
    commands.Gather: commands.Gather(ext.SearchRequest(queue="q"), needs_body=True),
    commands.CountEntities: commands.CountEntities(),
    commands.Collect: commands.Collect(),
}


ENDLESS = """
WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT sum(n) FROM c"""


@pytest.fixture
async def furnished(engine: Engine) -> Engine:
    """An engine with a queue and a message."""
    await create(engine, "q")
    await engine.call(sending("q", b"body"))
    return engine


async def ask_everything(engine: Engine) -> None:
    """Every look there is, and the calls that are made of looks."""
    for request in EXAMPLES.values():
        await engine._look(request)
    await engine.authenticate("mqk_" + "0" * 64)
    await engine.call(wire.StatusRequest())
    await engine.call(ObserveRequest())


def test_every_look_has_an_example() -> None:
    assert EXAMPLES.keys() == READS.keys()


async def test_looks_answer_while_the_writer_stands_and_cost_it_nothing(
    furnished: Engine, nursery: trio.Nursery
) -> None:
    groups = furnished.statistics()["groups"]
    stop = await Gate(furnished, nursery).stop()
    with bounded():
        for _ in range(3):
            await ask_everything(furnished)
    assert furnished.statistics()["mailbox_commands"] == 0
    stop.release()
    await settled()
    assert furnished.statistics()["groups"] <= groups + 1, "the gate's own"


async def test_looks_answer_while_a_transaction_of_the_program_is_open(furnished: Engine) -> None:
    q = Embedded(furnished)
    begun, looked = trio.Event(), trio.Event()

    async def hold() -> None:
        async with q.tx() as tx:
            await tx.send_one("q", b"not yet")
            begun.set()
            await looked.wait()

    with bounded():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hold)
            await begun.wait()
            await ask_everything(furnished)
            assert await bodies(furnished, "q") == [b"body"], "what is not committed is not seen"
            assert (await q.stats("q")).active == 1
            looked.set()
    assert await bodies(furnished, "q") == [b"body", b"not yet"]


@pytest.mark.promise("E132", "E133")
@pytest.mark.parametrize("kind", READS, ids=lambda kind: kind.__name__)
async def test_a_look_changes_nothing(furnished: Engine, kind: type[Any]) -> None:
    store = furnished._store
    before, size = store.changes, store.log_bytes()
    for _ in range(3):
        await furnished._look(EXAMPLES[kind])
    assert (store.changes, store.log_bytes()) == (before, size)
    assert store.truncate_log(), "nothing is left open behind a look"


async def test_a_look_that_would_write_is_refused(furnished: Engine) -> None:
    def write(tx: Transaction, _request: object, _now_ms: int) -> object:
        return tx.run([("DELETE FROM messages", ())])

    teach(furnished, wire.PeekRequest, write)
    with pytest.raises(StorageFailed, match="readonly"):
        await furnished.call(wire.PeekRequest(queue="q"))


async def test_memory_is_looked_at_through_the_writer(clock: ManualClock) -> None:
    async with open_engine(":memory:", EngineOptions(clock=clock, background=False)) as engine:
        await create(engine, "q")
        await engine.call(sending("q", b"body"))
        await ask_everything(engine)
        seen = await observe(engine)
        assert seen["storage"]["pool"] == {
            "max_open": 1, "open": 1, "in_use": 0, "idle": 1, "wait_count": 0,
            "wait_duration_seconds": 0.0,
        }  # fmt: skip
        assert seen["queues"][0]["active"] == 1


# -- bounds ----------------------------------------------------------------------------------------


async def test_a_look_that_takes_too_long_is_stopped_and_the_reader_goes_on(
    furnished: Engine, clock: ManualClock
) -> None:
    peek = furnished._table[wire.PeekRequest]

    def forever(tx: Transaction, request: object, now_ms: int) -> object:
        clock.advance(round(limits.READ_SECONDS * 1000) + 1)
        return peek(tx, request, now_ms)

    teach(furnished, wire.PeekRequest, forever)
    with pytest.raises(Unavailable, match="took longer than 5 s"):
        await furnished.call(wire.PeekRequest(queue="q"))
    teach(furnished, wire.PeekRequest, peek)
    assert await bodies(furnished, "q") == [b"body"]
    assert furnished._store.healthy
    assert storage(await observe(furnished))["read", "error", "busy"] == 1


async def test_one_endless_statement_is_stopped_as_well(
    furnished: Engine, clock: ManualClock
) -> None:
    started = threading.Event()

    def count(tx: Transaction, _request: object, _now_ms: int) -> object:
        started.set()
        return tx.run([(ENDLESS, ())])

    teach(furnished, wire.PeekRequest, count)
    call = Call(furnished, wire.PeekRequest(queue="q"))
    with bounded():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call.run)
            await until(started.is_set)
            clock.advance(round(limits.READ_SECONDS * 1000) + 1)
    assert isinstance(call.error, Unavailable)


async def test_more_looks_than_readers_wait_and_small_ones_do_not(furnished: Engine) -> None:
    stuck = Stuck()
    teach(furnished, wire.PeekRequest, stuck)
    calls = [
        Call(furnished, wire.PeekRequest(queue="q")) for _ in range(limits.READ_THREADS_MAX + 2)
    ]
    with bounded():
        async with trio.open_nursery() as nursery:
            for call in calls:
                nursery.start_soon(call.run)
            await until(lambda: stuck.inside == limits.READ_THREADS_MAX)
            await settled()
            assert local(furnished)._readers.in_use == limits.READ_THREADS_MAX
            pool = furnished._look_out.pool()
            assert pool.in_use == limits.READ_THREADS_MAX
            assert pool.idle == pool.open - pool.in_use == 1, "the writer's own"
            for _ in range(3):
                assert (await furnished.call(wire.StatsRequest(queue="q"))).active == 1
                assert (await furnished.authenticate("mqk_" + "0" * 64))[0] == "invalid"
            stuck.may_go_on.set()
    assert all(call.error is None for call in calls)
    pool = (await observe(furnished))["storage"]["pool"]
    assert (pool["max_open"], pool["wait_count"]) == (1 + limits.READERS_MAX, 2)
    assert pool["open"] <= pool["max_open"]
    assert pool["in_use"] + pool["idle"] == pool["open"]
    assert 0 < pool["wait_duration_seconds"] <= pool["wait_count"] * PATIENCE


async def test_who_waits_too_long_for_a_reader_is_told_so(
    store: Path, clock: ManualClock, mock_clock: trio.testing.MockClock
) -> None:
    """As long as for room in the mailbox, and then as long as a look may take."""
    options = EngineOptions(clock=clock, background=False, room_seconds=2)
    async with open_engine(f"file:{store}", options) as engine:
        await create(engine, "q")
        stuck = Stuck()
        teach(engine, wire.PeekRequest, stuck)
        calls = [
            Call(engine, wire.PeekRequest(queue="q")) for _ in range(limits.READ_THREADS_MAX + 1)
        ]
        with bounded():
            async with trio.open_nursery() as nursery:
                for call in calls:
                    nursery.start_soon(call.run)
                await until(lambda: stuck.inside == limits.READ_THREADS_MAX)
                await settled()
                mock_clock.jump(2 + limits.READ_SECONDS - 0.1)
                await settled()
                assert not any(call.ended.is_set() for call in calls)
                mock_clock.jump(0.2)
                await until(lambda: all(call.ended.is_set() for call in calls))
                stuck.may_go_on.set()
        assert {type(call.error) for call in calls} == {Unavailable}
        await until(lambda: not local(engine)._readers.in_use)


@pytest.mark.promise("E142")
async def test_a_look_that_is_cancelled_ends_at_once_and_its_reader_comes_back(
    furnished: Engine,
) -> None:
    stuck = Stuck()
    teach(furnished, wire.PeekRequest, stuck)
    call = Call(furnished, wire.PeekRequest(queue="q"))
    with bounded():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call.run)
            await until(lambda: stuck.inside)
            call.scope.cancel()
            await call.ended.wait()
    assert call.was_cancelled
    stuck.may_go_on.set()
    await until(lambda: not local(furnished)._readers.in_use)


async def test_a_statement_whose_caller_is_cancelled_is_stopped(furnished: Engine) -> None:
    started = threading.Event()

    def count(tx: Transaction, _request: object, _now_ms: int) -> object:
        started.set()
        return tx.run([(ENDLESS, ())])

    teach(furnished, wire.PeekRequest, count)
    call = Call(furnished, wire.PeekRequest(queue="q"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run)
        await until(started.is_set)
        call.scope.cancel()
    assert call.was_cancelled
    await until(lambda: not local(furnished)._readers.in_use)


# -- trouble ---------------------------------------------------------------------------------------


@pytest.mark.promise("E145")
async def test_after_close_every_look_says_closed(furnished: Engine) -> None:
    furnished.close()
    for request in EXAMPLES.values():
        with pytest.raises(Closed):
            await furnished._look(request)


async def test_closing_stops_a_look_and_leaves_the_file_tidy(
    store: Path, clock: ManualClock
) -> None:
    started = threading.Event()

    def count(tx: Transaction, _request: object, _now_ms: int) -> object:
        started.set()
        return tx.run([(ENDLESS, ())])

    with bounded():
        async with (
            trio.open_nursery() as nursery,
            open_engine(f"file:{store}", EngineOptions(clock=clock, background=False)) as engine,
        ):
            await create(engine, "q")
            teach(engine, wire.PeekRequest, count)
            call = Call(engine, wire.PeekRequest(queue="q"))
            nursery.start_soon(call.run)
            await until(started.is_set)
    assert isinstance(call.error, Unavailable)
    assert "broken off" in call.error.message
    assert sorted(snapshot(store.parent)) == ["mq.db", "mq.db.lock"]


async def test_a_look_at_a_file_that_was_replaced_is_refused_and_so_is_the_next_write(
    furnished: Engine, store: Path
) -> None:
    await ask_everything(furnished)
    away = move(store, "away.db")
    with pytest.raises(StorageFailed, match="moved, deleted or replaced"):
        await furnished.call(wire.StatsRequest(queue="q"))
    with pytest.raises(StorageFailed, match="moved, deleted or replaced"):
        await furnished.call(wire.PeekRequest(queue="q"))
    with pytest.raises(StorageFailed):
        await furnished.call(sending("q", b"lost?"))
    assert (await observe(furnished))["collection"]["error_code"] == "io"
    move(away, store.name)
    assert await bodies(furnished, "q") == [b"body"]
    await furnished.call(sending("q", b"after"))
    assert (await furnished.call(wire.StatsRequest(queue="q"))).active == 2


async def test_a_file_in_doubt_is_opened_anew_before_anybody_looks(furnished: Engine) -> None:
    await ask_everything(furnished)
    store = local(furnished)
    assert store._readers.open
    store.healthy = False
    with pytest.raises(NoReader):
        store.look(lambda _: None, None)  # type: ignore[arg-type]  # refused before it is used
    connection = store.connection
    await ask_everything(furnished)
    assert store.healthy
    assert store.connection is not connection


async def test_the_writer_answers_when_no_connection_can_be_opened(furnished: Engine) -> None:
    def out_of_descriptors() -> object:
        raise apsw.CantOpenError("too many open files")

    readers = local(furnished)._readers
    readers.shut()
    readers.admit()
    readers._open_one = out_of_descriptors  # type: ignore[assignment]  # it never returns
    groups = furnished.statistics()["groups"]
    assert await bodies(furnished, "q") == [b"body"]
    assert furnished.statistics()["groups"] == groups + 1
    assert furnished._store.healthy


async def test_a_foreign_reader_and_writer_do_not_stop_a_look(
    furnished: Engine, store: Path
) -> None:
    holders = [
        start_holder(store, "BEGIN", "SELECT * FROM messages"),
        start_holder(store, "BEGIN IMMEDIATE"),
    ]
    try:
        with bounded():
            await ask_everything(furnished)
    finally:
        for holder in holders:
            stop(holder)
