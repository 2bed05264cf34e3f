"""The long works of our own routes: in chunks between others, stopped in order, never in the way of
a lease."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import ext, limits, wire
from mqlite_actor.contract.errors import Closed, GenerationConflict, QueueNotFound
from mqlite_actor.engine import commands
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from tests.conformance import asking
from tests.engine.gate import (
    Call,
    Gate,
    bodies,
    bounded,
    completing,
    create,
    in_loop,
    parked,
    sending,
    settled,
    take,
    taking,
    teach,
)

MANY = 2 * limits.CHORE_ROWS + 5


async def full(engine: Engine, number: int = MANY) -> str:
    """So many active messages in `q`, a subscription of `t`; its generation."""
    await asking.subscribe(engine, "t", "q")
    batch = [wire.Message(body=b"%d" % each) for each in range(number)]
    await engine.call(wire.SendRequest(queue="t", messages=batch))
    return (await asking.info(engine, "q")).generation


def purging(generation: str) -> ext.PurgeActiveRequest:
    return ext.PurgeActiveRequest("q", generation=generation)


def deleting(generation: str) -> ext.DeleteSubscriptionRequest:
    return ext.DeleteSubscriptionRequest("t", "q", generation, discard_messages=True)


async def count(engine: Engine) -> int:
    return (await asking.stats(engine, "q")).total


def before_chunk(engine: Engine, chunk: type[Any], number: int, do: Callable[[], object]) -> None:
    """Have something done in the writer's thread right before this chunk of a chore."""
    operation = engine._table[chunk]
    chunks = 0

    def meanwhile(tx: object, request: object, now_ms: int) -> object:
        nonlocal chunks
        chunks += 1
        if chunks == number:
            do()
        return operation(tx, request, now_ms)  # type: ignore[arg-type] # what came goes on

    teach(engine, chunk, meanwhile)


# -- with others in between ------------------------------------------------------------------------


async def test_a_lease_that_is_taken_during_a_purge_stays_its_holders(
    engine: Engine, nursery: trio.Nursery
) -> None:
    generation = await full(engine)
    gate = Gate(engine, nursery)
    stop = await gate.stop()
    call = Call(engine, purging(generation))
    nursery.start_soon(call.run)
    await settled()
    holder = Call(engine, taking("q", 10))
    nursery.start_soon(holder.run)
    await settled()
    stop.release()
    with bounded():
        await call.ended.wait()
        await holder.ended.wait()
    held = holder.reply.messages
    assert len(held) == 10
    assert call.reply.purged == MANY - 10
    assert await count(engine) == 10
    for message in held:
        await engine.call(completing("q", message))


async def test_what_is_sent_during_a_purge_is_not_its_business(
    engine: Engine, nursery: trio.Nursery
) -> None:
    generation = await full(engine)
    stop = await Gate(engine, nursery).stop()
    call = Call(engine, purging(generation))
    nursery.start_soon(call.run)
    await settled()
    nursery.start_soon(engine.call, sending("q", b"later"))
    await settled()
    stop.release()
    with bounded():
        await call.ended.wait()
    assert call.reply.purged in (MANY, MANY + 1)  # a send in the very group of the start was there
    assert await bodies(engine, "q") in ([b"later"], [])


@pytest.mark.parametrize("ordering", ["standard", "group_fifo", "strict_fifo"])
async def test_a_waiting_receive_gets_what_is_released(
    engine: Engine, nursery: trio.Nursery, ordering: str
) -> None:
    await create(engine, "q", config=wire.QueueConfig(ordering_mode=ordering))
    await engine.call(sending("q", b"head", b"next", group_id="g"))
    (head,) = await take(engine, "q")
    waiting = Call(engine, taking("q", wait_ms=20_000))
    nursery.start_soon(waiting.run)
    await parked(engine, "q", 1)
    await engine.call(ext.ReleaseRequest("q", [wire.SettleItem(head.seq_number, head.lock_token)]))
    with bounded():
        await waiting.ended.wait()
    assert [m.body for m in waiting.reply.messages] == [b"head"]


@pytest.mark.parametrize("ordering", ["standard", "group_fifo", "strict_fifo"])
async def test_a_waiting_receive_gets_what_is_resubmitted(
    engine: Engine, nursery: trio.Nursery, ordering: str
) -> None:
    await create(engine, "q", config=wire.QueueConfig(ordering_mode=ordering))
    await engine.call(sending("q", b"dead", group_id="g"))
    (dead,) = await take(engine, "q")
    await asking.reject(engine, "q", dead)
    waiting = Call(engine, taking("q", wait_ms=20_000))
    nursery.start_soon(waiting.run)
    await parked(engine, "q", 1)
    await engine.call(ext.ResubmitRequest("q", dead.seq_number, ext.MessagePatch(body=b"mended")))
    with bounded():
        await waiting.ended.wait()
    assert [m.body for m in waiting.reply.messages] == [b"mended"]


async def test_a_receive_that_waits_for_a_subscription_learns_that_it_is_gone(
    engine: Engine, nursery: trio.Nursery
) -> None:
    await full(engine, 1)
    await take(engine, "q")
    waiting = Call(engine, taking("q", wait_ms=20_000))
    nursery.start_soon(waiting.run)
    await parked(engine, "q", 1)
    generation = (await asking.info(engine, "q")).generation
    assert (await engine.call(deleting(generation))).deleted
    with bounded():
        await waiting.ended.wait()
    assert isinstance(waiting.error, QueueNotFound)


async def test_one_that_is_subscribed_again_meanwhile_is_left_to_its_new_user(
    engine: Engine,
) -> None:
    generation = await full(engine)
    table = engine._table

    def again() -> None:
        table[wire.SubscribeRequest](seen[0], wire.SubscribeRequest(topic="t", name="q"), 1)

    seen: list[Any] = []
    operation = table[commands.DiscardChunk]
    chunks = 0

    def meanwhile(tx: object, request: object, now_ms: int) -> object:
        nonlocal chunks
        chunks += 1
        if chunks == 1:
            seen.append(tx)
            again()
        return operation(tx, request, now_ms)  # type: ignore[arg-type] # what came goes on

    teach(engine, commands.DiscardChunk, meanwhile)
    with pytest.raises(GenerationConflict, match=f"again meanwhile; {limits.CHORE_ROWS} before"):
        await engine.call(deleting(generation))
    assert await count(engine) == MANY - limits.CHORE_ROWS


# -- ends ------------------------------------------------------------------------------------------


async def test_closing_ends_a_purge_after_its_chunk_which_answers_what_it_did(
    store: Path, clock: ManualClock
) -> None:
    options = EngineOptions(clock=clock, background=False)
    async with open_engine(str(store), options) as engine:
        generation = await full(engine)
        before_chunk(engine, commands.PurgeActiveChunk, 1, in_loop(engine.close))
        assert (await engine.call(purging(generation))).purged == limits.CHORE_ROWS
        with pytest.raises(Closed):
            await engine.call(purging(generation))
    async with open_engine(str(store), options) as engine:
        assert await count(engine) == MANY - limits.CHORE_ROWS


async def test_a_deletion_that_was_stopped_goes_on_when_it_is_repeated(
    store: Path, clock: ManualClock
) -> None:
    options = EngineOptions(clock=clock, background=False)
    async with open_engine(str(store), options) as engine:
        generation = await full(engine)
        before_chunk(engine, commands.DiscardChunk, 1, in_loop(engine.close))
        reply = await engine.call(deleting(generation))
        assert (reply.deleted, reply.discarded) == (False, 2 * limits.CHORE_ROWS)
    async with open_engine(str(store), options) as engine:
        assert await asking.subscriptions(engine, "t") == []
        reply = await engine.call(deleting(generation))
        assert (reply.deleted, reply.discarded) == (True, MANY - 2 * limits.CHORE_ROWS)
        assert (await engine.call(deleting(generation))).deleted


async def test_numbers_that_were_not_tried_are_said_so(store: Path, clock: ManualClock) -> None:
    options = EngineOptions(clock=clock, background=False)
    async with open_engine(str(store), options) as engine:
        await create(engine, "q")
        numbers = await asking.kill(engine, "q", 3)
        before_chunk(
            engine,
            commands.RedriveSelectedChunk,
            1,
            in_loop(engine.close),
        )
        asked = [*numbers[:2], *range(10**9, 10**9 + limits.CHORE_ROWS - 2), numbers[2]]
        reply = await engine.call(ext.RedriveSelectedRequest("q", asked))
        assert reply.moved == 2
        assert reply.results[-1].outcome is ext.RedriveOutcome.NOT_TRIED


async def test_a_cancelled_purge_stops_between_two_chunks(engine: Engine) -> None:
    generation = await full(engine)
    with trio.CancelScope() as scope:
        before_chunk(engine, commands.PurgeActiveChunk, 2, in_loop(scope.cancel))
        await engine.call(purging(generation))
    assert scope.cancelled_caught
    assert await count(engine) == MANY - 2 * limits.CHORE_ROWS
