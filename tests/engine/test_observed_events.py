"""Which message event counts what: every verb by how much, through the embedded handle.

Every snapshot that a test takes goes through `snapshots.check`, the rules of a strict client.
"""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.observe import MAINTENANCE_TASKS, MESSAGE_EVENTS
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.sdk.embedded import Embedded
from mqlite_actor.storage.database import Transaction
from tests.conformance import asking
from tests.engine.event_scripts import QUEUES, SCRIPTS, Script, furnish, held, spelled
from tests.engine.gate import Custom, Gate, bounded, settled, teach
from tests.engine.snapshots import EVENTS, TASKS, depth, events, observe


@pytest.fixture
async def furnished(engine: Engine) -> Engine:
    """An engine with every queue of the scripts."""
    await furnish(engine)
    return engine


@pytest.mark.promise("E99", "W125", "T77")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
async def test_counters_move_by_what_happened_and_by_nothing_else(
    furnished: Engine, clock: ManualClock, script: Script
) -> None:
    steps = script(furnished, clock)
    await anext(steps)
    before = events(await observe(furnished))
    with pytest.raises(StopAsyncIteration):
        await anext(steps)
    after = events(await observe(furnished))
    moved = {key: number - before.get(key, 0) for key, number in after.items()}
    assert {key: number for key, number in moved.items() if number} == spelled(SCRIPTS[script])


def test_every_event_has_a_script_that_moves_it() -> None:
    moved = {event for counts in SCRIPTS.values() for _, event in spelled(counts)}
    assert moved | {"recovered"} == set(EVENTS) == set(MESSAGE_EVENTS)
    assert list(MAINTENANCE_TASKS) == TASKS


@pytest.mark.promise("T77")
async def test_the_counters_of_a_queue_outlive_its_messages_and_start_anew_with_the_program(
    store: Path, clock: ManualClock
) -> None:
    options = EngineOptions(clock=clock, background=False)
    async with open_engine(f"file:{store}", options) as engine:
        await asking.make(engine, "q")
        for message in await held(engine, number=3):
            await asking.complete(engine, "q", message)
        seen = await observe(engine)
        assert (events(seen)["q", "completed"], depth(seen, "q")["total"]) == (3, 0)
    async with open_engine(f"file:{store}", options) as engine:
        seen = await observe(engine)
        assert events(seen) == {}
        assert len(seen["messages"]) == len(EVENTS), "a known queue shows its zeros"


async def test_leases_that_an_opening_ends_are_counted_as_recovered(
    store: Path, clock: ManualClock
) -> None:
    options = EngineOptions(clock=clock, background=False)
    async with open_engine(f"file:{store}", options) as engine:
        for name in ("q", "once"):
            await asking.make(engine, name, QUEUES[name])
            await held(engine, name, 2)
    async with open_engine(f"file:{store}", options) as engine:
        expected = {"recovered": 2, "once__recovered": 2, "once__dead_lettered": 2}
        assert events(await observe(engine)) == spelled(expected)


async def test_a_publish_that_every_target_refuses_is_a_conflict_in_each(engine: Engine) -> None:
    for name in ("s1", "s2"):
        await asking.subscribe(engine, "topic", name)
        await asking.make(engine, name, QueueConfig(kind="subscription", dedup_window_ms=60_000))
    await asking.send(engine, "topic", Message(body=b"1", message_id="a"))
    batch = [Message(body=b"2", message_id="a")]
    await asking.refusal(engine, wire.SendRequest(queue="topic", messages=batch))
    counted = events(await observe(engine))
    assert {key: counted.get((key, "dedup_conflict")) for key in ("s1", "s2")} == {"s1": 1, "s2": 1}


# -- only what was committed -----------------------------------------------------------------------


class Undo(Exception):
    """What a test raises to make a transaction roll back."""


async def send_in_vain(q: Embedded) -> None:
    async with q.tx() as tx:
        await tx.send_one("q", b"never")
        raise Undo


async def test_a_transaction_counts_when_it_commits_and_never_when_it_does_not(
    furnished: Engine,
) -> None:
    q = Embedded(furnished)
    with pytest.raises(Undo):
        await send_in_vain(q)
    assert events(await observe(furnished)) == {}
    async with q.tx() as tx:
        await tx.send_one("q", b"now")
    assert events(await observe(furnished)) == {("q", "enqueued"): 1}


async def test_a_group_that_is_rolled_back_counts_once_what_its_repetition_did(
    furnished: Engine, nursery: trio.Nursery
) -> None:
    calls = 0

    def fails_after_writing(tx: Transaction, _request: object, _now_ms: int) -> object:
        nonlocal calls
        calls += 1
        tx.happened("q", "purged", 7)
        raise apsw.FullError

    teach(furnished, Custom, fails_after_writing)
    stop = await Gate(furnished, nursery).stop()
    refused: list[str] = []

    async def ask() -> None:
        refused.append(await asking.refusal(furnished, Custom()))

    for name in ("q", "once"):
        nursery.start_soon(asking.send_bodies, furnished, name, b"1")
        await settled()
    nursery.start_soon(ask)
    await settled()
    stop.release()
    with bounded():
        while not refused:
            await settled()
    assert (refused, calls) == (["storage_full"], 4), "each try has the log cut and is repeated"
    counted = events(await observe(furnished))
    assert counted == {("q", "enqueued"): 1, ("once", "enqueued"): 1}
