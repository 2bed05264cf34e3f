"""Counters of queues that come and go: none is left behind, and none that is shown ever falls."""

from __future__ import annotations

import pytest
import trio

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import QueueNotEmpty
from mqlite_actor.engine.engine import Engine
from mqlite_actor.engine.meters import forget_queue
from mqlite_actor.sdk.embedded import Embedded
from tests.conformance import asking
from tests.engine.gate import Gate, settled
from tests.engine.snapshots import events, observe


async def delete(engine: Engine, name: str) -> None:
    """Delete the queue that has this name now."""
    queues = (await engine.call(wire.ListQueuesRequest())).queues
    (generation,) = [each.generation for each in queues if each.name == name]
    await engine.call(wire.DeleteQueueRequest(name=name, generation=generation))


async def live_and_die(engine: Engine, name: str) -> None:
    """A queue through which one message passes, and that is deleted then."""
    await asking.make(engine, name)
    await asking.send_one(engine, name)
    await asking.take(engine, name, mode=1)
    await delete(engine, name)


async def test_queues_that_come_and_go_leave_no_counter_behind(engine: Engine) -> None:
    await asking.make(engine, "stays")
    await asking.send_one(engine, "stays")
    before = await observe(engine)
    for number in range(100):
        await live_and_die(engine, f"goes-{number}")
    after = await observe(engine)
    assert len(after["messages"]) == len(before["messages"])
    assert events(after) == {("stays", "enqueued"): 1}
    assert engine.statistics()["events"] == {("stays", "enqueued"): 1}


async def test_a_queue_of_a_deleted_name_begins_at_zero(engine: Engine) -> None:
    await live_and_die(engine, "again")
    await asking.make(engine, "again")
    assert events(await observe(engine)) == {}
    await asking.send_bodies(engine, "again", b"1", b"2")
    assert events(await observe(engine)) == {("again", "enqueued"): 2}


async def test_what_follows_a_deletion_in_the_same_transaction_is_counted(
    engine: Engine, nursery: trio.Nursery
) -> None:
    await asking.make(engine, "q")
    await asking.send_one(engine, "q")
    await asking.take(engine, "q", mode=1)
    (before,) = (await engine.call(wire.ListQueuesRequest())).queues
    stop = await Gate(engine, nursery).stop()
    gone = wire.DeleteQueueRequest(name="q", generation=before.generation)
    nursery.start_soon(engine.call, gone)
    await settled()
    nursery.start_soon(engine.call, wire.CreateQueueRequest(name="q"))
    await settled()
    groups = engine.statistics()["groups"]
    stop.release()
    await asking.send_one(engine, "q")
    assert engine.statistics()["groups"] == groups + 2, "the gate's group, and one for the rest"
    assert events(await observe(engine)) == {("q", "enqueued"): 1}


async def delete_in_vain(q: Embedded, row: wire.QueueInfo) -> None:
    async with q.tx() as tx:
        await tx._hold.call(wire.DeleteQueueRequest(name=row.name, generation=row.generation))
        raise trio.TooSlowError


async def test_a_deletion_that_is_refused_or_rolled_back_forgets_nothing(engine: Engine) -> None:
    await asking.make(engine, "q")
    await asking.send_one(engine, "q")
    with pytest.raises(QueueNotEmpty):
        await delete(engine, "q")
    assert events(await observe(engine)) == {("q", "enqueued"): 1}
    q = Embedded(engine)
    await asking.take(engine, "q", mode=1)
    counted = events(await observe(engine))
    (row,) = await q.list_queues()
    with pytest.raises(trio.TooSlowError):
        await delete_in_vain(q, row)
    assert events(await observe(engine)) == counted


def test_failures_of_a_deleted_subscriptions_filter_stay_in_the_sum() -> None:
    failures = {("s", "compile"): 1, ("s", "evaluate"): 2, ("other", "evaluate"): 3}
    counted = {("s", "enqueued"): 5, ("other", "enqueued"): 7}
    for name in ("s", "other", "never"):
        forget_queue(name, counted, failures)
    assert failures == {("", "compile"): 1, ("", "evaluate"): 5}
    assert counted == {}
