"""Redrive and purge as long works: paced, in chunks between others, stopped in order."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import Closed, QueueNotFound, StorageFull
from mqlite_actor.engine import commands
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from tests.engine.gate import (
    Call,
    Gate,
    bodies,
    bounded,
    create,
    in_loop,
    rest,
    sending,
    settled,
    take,
    teach,
    until,
)

EXPIRING = wire.QueueConfig(default_ttl_ms=1000)
MANY = 3 * limits.CHORE_ROWS + 5


async def bury(engine: Engine, clock: ManualClock, number: int) -> list[bytes]:
    """So many dead letters in `q`."""
    await create(engine, "q", config=EXPIRING)
    await create(engine, "target")
    names = [b"%d" % each for each in range(number)]
    await engine.call(sending("q", *names))
    clock.advance(1000)
    await engine.run_maintenance_once()
    assert await count(engine, "q", "dead_lettered") == number
    return names


async def count(engine: Engine, queue: str, state: str) -> int:
    stats = await engine.call(wire.StatsRequest(queue=queue))
    number: int = getattr(stats, state)
    return number


# -- pace ------------------------------------------------------------------------------------------


@pytest.mark.promise("E127")
@pytest.mark.parametrize("target", ["", "target"])
async def test_a_paced_redrive_moves_its_rate_each_second(
    engine: Engine,
    clock: ManualClock,
    mock_clock: trio.testing.MockClock,
    nursery: trio.Nursery,
    target: str,
) -> None:
    await bury(engine, clock, 10)
    where = target or "q"
    call = Call(engine, wire.RedriveRequest(queue="q", target=target, rate_per_sec=4))
    nursery.start_soon(call.run)
    moved: list[int] = []
    for _ in range(3):
        await rest(engine)
        moved.append(await count(engine, where, "active"))
        mock_clock.jump(0.99)
        await rest(engine)
        assert await count(engine, where, "active") == moved[-1], "not before the second is over"
        mock_clock.jump(0.02)
    await rest(engine)
    assert moved == [4, 8, 10]
    assert call.reply == wire.RedriveResponse(moved=10)


@pytest.mark.promise("E127")
async def test_a_rate_above_a_chunk_is_moved_in_several_chunks_of_one_second(
    engine: Engine,
    clock: ManualClock,
    mock_clock: trio.testing.MockClock,
    nursery: trio.Nursery,
) -> None:
    await bury(engine, clock, MANY)
    rate = limits.CHORE_ROWS + 44
    call = Call(engine, wire.RedriveRequest(queue="q", rate_per_sec=rate))
    nursery.start_soon(call.run)
    moved = []
    while not call.ended.is_set():
        await rest(engine)
        moved.append(await count(engine, "q", "active"))
        mock_clock.jump(1)
        await settled()
        await rest(engine)
    assert moved == [rate, 2 * rate, MANY][: len(moved)]
    assert call.reply == wire.RedriveResponse(moved=MANY)


async def test_a_redrive_that_is_done_does_not_wait_for_its_second(
    engine: Engine, clock: ManualClock, mock_clock: trio.testing.MockClock
) -> None:
    assert mock_clock.rate == 0
    await bury(engine, clock, 4)
    reply = await engine.call(wire.RedriveRequest(queue="q", target="target", rate_per_sec=4))
    assert reply.moved == 4
    await bury(engine, clock, 6)
    reply = await engine.call(wire.RedriveRequest(queue="q", rate_per_sec=2, max=2))
    assert reply.moved == 2


async def test_what_is_younger_than_asked_for_is_left(engine: Engine, clock: ManualClock) -> None:
    await bury(engine, clock, 2)
    await engine.call(sending("q", b"younger"))
    clock.advance(1000)
    await engine.run_maintenance_once()
    moved = await engine.call(wire.RedriveRequest(queue="q", older_than_ms=1001, max=1))
    purged = await engine.call(wire.PurgeRequest(queue="q", older_than_ms=1001))
    assert (moved.moved, purged.purged) == (1, 1)
    assert await bodies(engine, "q", "dead_lettered") == [b"younger"]


# -- others in between -----------------------------------------------------------------------------


@pytest.mark.parametrize("request_", [wire.RedriveRequest(queue="q"), wire.PurgeRequest(queue="q")])
async def test_others_are_served_between_two_chunks(
    engine: Engine,
    clock: ManualClock,
    nursery: trio.Nursery,
    request_: wire.RedriveRequest | wire.PurgeRequest,
) -> None:
    await bury(engine, clock, MANY)
    stop = await Gate(engine, nursery).stop()
    call = Call(engine, request_)
    nursery.start_soon(call.run)
    await settled()
    left: list[int] = []

    async def look() -> None:
        left.extend([await count(engine, "q", "dead_lettered") for _ in range(3)])

    nursery.start_soon(look)
    stop.release()
    with bounded():
        await call.ended.wait()
    await until(lambda: len(left) == 3)
    assert left[0] >= MANY - limits.CHORE_ROWS, "before the second chunk"
    assert left == sorted(left, reverse=True)


async def test_a_purge_during_a_redrive_is_neither_undone_nor_counted(
    engine: Engine,
    clock: ManualClock,
    mock_clock: trio.testing.MockClock,
    nursery: trio.Nursery,
) -> None:
    await bury(engine, clock, 10)
    call = Call(engine, wire.RedriveRequest(queue="q", target="target", rate_per_sec=3))
    nursery.start_soon(call.run)
    await rest(engine)
    assert (await engine.call(wire.PurgeRequest(queue="q"))).purged == 7
    mock_clock.jump(1)
    await settled()
    await rest(engine)
    assert call.reply == wire.RedriveResponse(moved=3)
    assert await bodies(engine, "target") == [b"0", b"1", b"2"]
    assert await bodies(engine, "q") == []


async def test_what_dies_during_a_redrive_is_not_its_business(
    engine: Engine,
    clock: ManualClock,
    mock_clock: trio.testing.MockClock,
    nursery: trio.Nursery,
) -> None:
    """Otherwise a consumer that fails would keep a paced redrive going for ever."""
    await bury(engine, clock, 4)
    call = Call(engine, wire.RedriveRequest(queue="q", target="target", rate_per_sec=2))
    nursery.start_soon(call.run)
    await rest(engine)
    await engine.call(sending("q", b"later"))
    clock.advance(1000)
    await engine.run_maintenance_once()
    mock_clock.jump(1)
    await settled()
    await rest(engine)
    assert call.reply == wire.RedriveResponse(moved=4)
    assert await bodies(engine, "q", "dead_lettered") == [b"later"]


async def test_a_target_deleted_during_a_redrive_ends_it_and_loses_nothing(
    engine: Engine,
    clock: ManualClock,
    mock_clock: trio.testing.MockClock,
    nursery: trio.Nursery,
) -> None:
    await bury(engine, clock, 4)
    call = Call(engine, wire.RedriveRequest(queue="q", target="target", rate_per_sec=2))
    nursery.start_soon(call.run)
    await rest(engine)
    for _ in range(2):
        await engine.call(wire.ReceiveRequest(queue="target", receive_mode=1))
    found = (await engine.call(wire.ListQueuesRequest())).queues
    generation = next(each.generation for each in found if each.name == "target")
    await engine.call(wire.DeleteQueueRequest(name="target", generation=generation))
    mock_clock.jump(1)
    await settled()
    await rest(engine)
    assert isinstance(call.error, QueueNotFound)
    assert await bodies(engine, "q", "dead_lettered") == [b"2", b"3"]


# -- ends ------------------------------------------------------------------------------------------


async def test_closing_ends_a_paced_redrive_which_answers_what_it_did(
    store: Path, clock: ManualClock, mock_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    assert mock_clock.rate == 0
    options = EngineOptions(clock=clock, background=False)
    async with open_engine(str(store), options) as engine:
        await bury(engine, clock, 10)
        call = Call(engine, wire.RedriveRequest(queue="q", rate_per_sec=3))
        nursery.start_soon(call.run)
        await rest(engine)
        engine.close()
        await call.ended.wait()
    assert call.reply == wire.RedriveResponse(moved=3)
    async with open_engine(str(store), options) as engine:
        assert await count(engine, "q", "active") == 3
        assert await count(engine, "q", "dead_lettered") == 7


@pytest.mark.parametrize("verb", [wire.RedriveRequest, wire.PurgeRequest])
async def test_closing_ends_a_long_chore_after_its_chunk(
    store: Path,
    clock: ManualClock,
    nursery: trio.Nursery,
    verb: type[wire.RedriveRequest | wire.PurgeRequest],
) -> None:
    options = EngineOptions(clock=clock, background=False)
    chunk = commands.RedriveChunk if verb is wire.RedriveRequest else commands.PurgeChunk
    async with open_engine(str(store), options) as engine:
        await bury(engine, clock, MANY)
        operation, close = engine._table[chunk], in_loop(engine.close)

        def close_meanwhile(tx: object, request: object, now_ms: int) -> object:
            close()
            return operation(tx, request, now_ms)  # type: ignore[arg-type] # what came goes on

        teach(engine, chunk, close_meanwhile)
        call = Call(engine, verb(queue="q"))
        nursery.start_soon(call.run)
        with bounded():
            await call.ended.wait()
    done = getattr(call.reply, "moved", getattr(call.reply, "purged", None))
    assert done == limits.CHORE_ROWS
    async with open_engine(str(store), options) as engine:
        assert await count(engine, "q", "dead_lettered") == MANY - limits.CHORE_ROWS
        engine.close()
        call = Call(engine, verb(queue="q"))
        await call.run()
        assert isinstance(call.error, Closed)


async def test_a_cancelled_redrive_stops_at_once_between_two_chunks(
    engine: Engine,
    clock: ManualClock,
    mock_clock: trio.testing.MockClock,
    nursery: trio.Nursery,
) -> None:
    await bury(engine, clock, 10)
    call = Call(engine, wire.RedriveRequest(queue="q", rate_per_sec=3))
    nursery.start_soon(call.run)
    await rest(engine)
    call.scope.cancel()
    await rest(engine)
    assert call.was_cancelled
    mock_clock.jump(10)
    await rest(engine)
    assert await count(engine, "q", "active") == 3


@pytest.mark.promise("E127")
async def test_an_error_in_a_later_chunk_leaves_the_earlier_ones(
    engine: Engine, clock: ManualClock
) -> None:
    names = await bury(engine, clock, MANY)
    operation = engine._table[commands.RedriveChunk]
    chunks = 0

    def fail_third(tx: object, request: object, now_ms: int) -> object:
        nonlocal chunks
        chunks += 1
        if chunks >= 3:
            raise StorageFull("no room")
        return operation(tx, request, now_ms)  # type: ignore[arg-type] # what came goes on

    teach(engine, commands.RedriveChunk, fail_third)
    with pytest.raises(StorageFull, match=f"no room; {2 * limits.CHORE_ROWS} before it are done"):
        await engine.call(wire.RedriveRequest(queue="q", target="target"))
    assert await count(engine, "target", "active") == 2 * limits.CHORE_ROWS
    teach(engine, commands.RedriveChunk, operation)
    await engine.call(wire.RedriveRequest(queue="q", target="target"))
    taken: list[bytes] = []
    while batch := await take(engine, "target", limits.RECEIVE_MESSAGES_MAX):
        taken += [message.body for message in batch]
    assert taken == names
