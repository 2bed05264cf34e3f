"""Redrive and purge: which dead letters they take, how many, and that nothing else is touched."""

from __future__ import annotations

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import InvalidArgument, QueueNotFound
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking

FULL = Message(
    body=b"\0body",
    message_id="m",
    correlation_id="c",
    reply_to="r",
    group_id="g",
    content_type="t",
    subject="s",
    properties={"k": "v"},
)
CARRIED = (
    "body", "message_id", "correlation_id", "reply_to", "group_id", "content_type", "subject",
    "properties",
)  # fmt: skip


def carried(message: Message) -> dict[str, object]:
    return {name: getattr(message, name) for name in CARRIED}


@pytest.mark.promise("E125", "W122")
@pytest.mark.parametrize("field", ["max", "older_than_ms", "rate_per_sec"])
async def test_negative_bounds_are_refused_before_the_queue_is_looked_up(
    handle: Handle, queue: str, field: str
) -> None:
    await asking.make(handle, queue)
    (seq,) = await asking.kill(handle, queue)
    for name in (queue, f"{queue}-unknown"):
        redrives = {
            "max": wire.RedriveRequest(queue=name, max=-1),
            "older_than_ms": wire.RedriveRequest(queue=name, older_than_ms=limits.INT64_MIN),
            "rate_per_sec": wire.RedriveRequest(queue=name, rate_per_sec=-1),
        }
        with pytest.raises(InvalidArgument):
            await handle.call(redrives[field])
        if field != "rate_per_sec":
            purges = {
                "max": wire.PurgeRequest(queue=name, max=-1),
                "older_than_ms": wire.PurgeRequest(queue=name, older_than_ms=-1),
            }
            with pytest.raises(InvalidArgument):
                await handle.call(purges[field])
    assert await asking.states(handle, queue) == {seq: "dead_lettered"}


@pytest.mark.promise("E125", "W121", "W123")
async def test_unknown_queues_are_not_found(handle: Handle, queue: str) -> None:
    with pytest.raises(QueueNotFound):
        await asking.redrive(handle, queue)
    with pytest.raises(QueueNotFound):
        await asking.purge(handle, queue)
    await asking.make(handle, queue)
    (seq,) = await asking.kill(handle, queue)
    topic = f"{queue}-topic"
    await asking.subscribe(handle, topic, f"{queue}-sub")
    for target in (f"{queue}-unknown", topic):
        with pytest.raises(QueueNotFound):
            await asking.redrive(handle, queue, target)
    assert await asking.states(handle, queue) == {seq: "dead_lettered"}


@pytest.mark.promise("E126", "E129")
@pytest.mark.parametrize("chore", ["redrive", "move", "purge"])
async def test_the_oldest_go_first_and_no_more_than_asked(
    handle: Handle, queue: str, chore: str
) -> None:
    target = f"{queue}-target"
    for name in (queue, target):
        await asking.make(handle, name)
    numbers = await asking.kill(handle, queue, 5)
    if chore == "purge":
        assert await asking.purge(handle, queue, most=2) == 2
    else:
        to = target if chore == "move" else ""
        assert await asking.redrive(handle, queue, to, most=2) == 2
    left = await asking.look(handle, queue, "dead_lettered")
    assert [message.seq_number for message in left] == numbers[2:]
    if chore == "move":
        assert [message.body for message in await asking.look(handle, target)] == [b"0", b"1"]


@pytest.mark.promise("E126", "E129", "W123")
@pytest.mark.parametrize("chore", [asking.redrive, asking.purge])
@pytest.mark.needs_clock
async def test_only_messages_older_than_the_bound_are_touched(
    handle: Handle, queue: str, clock: ManualClock, chore: object
) -> None:
    await asking.make(handle, queue)
    (old,) = await asking.kill(handle, queue)
    clock.advance(1000)
    (young,) = await asking.kill(handle, queue)
    run = asking.redrive if chore is asking.redrive else asking.purge
    assert await run(handle, queue, older_than_ms=1000) == 0
    clock.advance(1)
    assert await run(handle, queue, older_than_ms=1000) == 1
    left = {old: "active", young: "dead_lettered"}
    if run is asking.purge:
        del left[old]
    assert await asking.states(handle, queue) == left


@pytest.mark.promise("E129", "W123")
async def test_purge_deletes_dead_letters_alone(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.kill(handle, queue, 3)
    await asking.send_bodies(handle, queue, b"active", b"locked", b"deferred", b"retry")
    active, _, aside, retry = await asking.take(handle, queue, 4)
    await asking.abandon(handle, queue, active)
    await asking.defer(handle, queue, aside)
    await asking.abandon(handle, queue, retry, delay_ms=3_600_000)
    await asking.send_one(handle, queue, at=4_000_000_000_000)
    before = await asking.look(handle, queue)
    assert await asking.purge(handle, queue) == 3
    assert await asking.look(handle, queue) == [m for m in before if m.state != "dead_lettered"]
    assert await asking.purge(handle, queue) == 0


async def test_thousands_are_moved_and_purged_in_one_call(engine: Engine) -> None:
    await asking.make(engine, "q", QueueConfig(max_delivery_count=1))
    await asking.make(engine, "t")
    for _ in range(3):
        await asking.send_bodies(engine, "q", *[b"x"] * 1000)
    while batch := await asking.take(engine, "q", 256):
        for message in batch:
            await asking.abandon(engine, "q", message)
    assert await asking.redrive(engine, "q", "t", most=1500) == 1500
    assert await asking.purge(engine, "q") == 1500
    assert (await asking.stats(engine, "t")).active == 1500
