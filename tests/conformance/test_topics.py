"""Publishing to a topic: one copy for each subscription, in all of them or in none."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import (
    DedupConflict,
    GroupRequired,
    MessageTooLarge,
    MqliteError,
)
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.handles import opened

WATCHED = QueueConfig(kind="subscription", dedup_window_ms=60_000)


async def exists(handle: Handle, queue: str) -> bool:
    return await asking.refusal(handle, wire.StatsRequest(queue=queue)) == "ok"


async def depths(handle: Handle, *queues: str) -> list[int]:
    return [(await asking.stats(handle, queue)).total for queue in queues]


@pytest.mark.promise("E23", "W67")
async def test_a_message_is_stored_once_for_each_subscription(handle: Handle, queue: str) -> None:
    topic, first, last = f"{queue}-topic", f"{queue}-a", f"{queue}-z"
    await asking.subscribe(handle, topic, last)
    await asking.subscribe(handle, topic, first)
    slots = await asking.send(handle, topic, *(Message(body=b, subject="s") for b in (b"1", b"2")))
    copies = {name: await asking.look(handle, name) for name in (first, last)}
    for name in (first, last):
        assert [(m.body, m.subject) for m in copies[name]] == [(b"1", "s"), (b"2", "s")]
    assert slots == [message.seq_number for message in copies[last]]
    assert len({message.seq_number for name in copies for message in copies[name]}) == 4


async def test_a_copy_lives_by_the_rules_of_its_own_queue(
    engine: Engine, clock: ManualClock
) -> None:
    await asking.make(engine, "a", QueueConfig(kind="subscription", default_ttl_ms=1000))
    for name in ("a", "b"):
        await asking.subscribe(engine, "t", name)
    await asking.send_one(engine, "t", ttl_ms=5000)
    expiries = [(await asking.look(engine, name))[0].expires_at_ms for name in ("a", "b")]
    assert expiries == [clock.now_ms() + 1000, clock.now_ms() + 5000]
    message = await asking.take_one(engine, "a")
    await asking.complete(engine, "a", message)
    assert len(await asking.look(engine, "b")) == 1


@pytest.mark.promise("E26")
async def test_a_message_sent_to_a_subscription_goes_there_alone(
    handle: Handle, queue: str
) -> None:
    topic, first, second = f"{queue}-topic", f"{queue}-a", f"{queue}-b"
    for name in (first, second):
        await asking.subscribe(handle, topic, name)
    await asking.send_one(handle, first)
    assert await depths(handle, first, second) == [1, 0]


async def test_a_subscription_gets_nothing_that_was_sent_before_it(
    handle: Handle, queue: str
) -> None:
    topic, first, second = f"{queue}-topic", f"{queue}-a", f"{queue}-b"
    await asking.subscribe(handle, topic, first)
    await asking.send_one(handle, topic)
    await asking.subscribe(handle, topic, second)
    await asking.send_one(handle, topic)
    assert await depths(handle, first, second) == [2, 1]


@pytest.mark.promise("E22", "E25")
async def test_a_refused_publish_is_stored_in_no_subscription(handle: Handle, queue: str) -> None:
    topic, first, second = f"{queue}-topic", f"{queue}-a", f"{queue}-b"
    for name in (first, second):
        await asking.subscribe(handle, topic, name)
    await asking.make(handle, second, QueueConfig(kind="subscription", ordering_mode="group_fifo"))
    with pytest.raises(GroupRequired):
        await asking.send(handle, topic, Message(group_id="g"), Message())
    with pytest.raises(MessageTooLarge):
        await asking.send_one(handle, topic, bytes(1_048_577), group_id="g")
    assert await depths(handle, first, second) == [0, 0]
    await asking.send_one(handle, topic, group_id="g")
    assert await depths(handle, first, second) == [1, 1]


@pytest.mark.promise("E41", "W135")
async def test_each_subscription_detects_duplicates_for_itself(handle: Handle, queue: str) -> None:
    topic, watched, plain = f"{queue}-topic", f"{queue}-a", f"{queue}-b"
    await asking.make(handle, watched, WATCHED)
    for name in (watched, plain):
        await asking.subscribe(handle, topic, name)
    first = await asking.send_one(handle, topic, b"1", message_id="m")
    # A duplicate in one and a new message in the other: the number is the new one's.
    second = await asking.send_one(handle, topic, b"1", message_id="m")
    assert second > first
    # A conflict in one and a new message in the other: no error, the new one's number.
    third = await asking.send_one(handle, topic, b"2", message_id="m")
    assert third > second
    assert await depths(handle, watched, plain) == [1, 3]


@pytest.mark.promise("E41", "W135")
async def test_a_conflict_in_every_subscription_is_a_conflict(handle: Handle, queue: str) -> None:
    topic, first, second = f"{queue}-topic", f"{queue}-a", f"{queue}-b"
    for name in (first, second):
        await asking.make(handle, name, WATCHED)
        await asking.subscribe(handle, topic, name)
    seq = await asking.send_one(handle, topic, b"1", message_id="m")
    assert await asking.send_one(handle, topic, b"1", message_id="m") == seq
    with pytest.raises(DedupConflict):
        await asking.send_one(handle, topic, b"2", message_id="m")
    slots = await asking.send(handle, topic, Message(body=b"2", message_id="m"), Message(body=b"3"))
    assert slots[0] == 0
    assert slots[1] > seq
    assert await depths(handle, first, second) == [2, 2]


async def test_subscriptions_survive_a_restart(store: Path, clock: ManualClock) -> None:
    async with opened(store, clock) as engine:
        await asking.subscribe(engine, "t", "s")
    async with opened(store, clock) as engine:
        await asking.send_one(engine, "t")
        assert (await asking.stats(engine, "s")).total == 1
        with pytest.raises(MqliteError):
            await asking.make(engine, "t")


async def test_a_publish_wakes_who_waits_at_any_subscription(handle: Handle, queue: str) -> None:
    topic = f"{queue}-topic"
    names = [f"{queue}-{number}" for number in range(3)]
    got: list[str] = []

    async def wait(name: str) -> None:
        request = wire.ReceiveRequest(queue=name, wait_time_ms=20_000)
        got.extend(name for _ in (await handle.call(request)).messages)

    for name in names:
        await asking.subscribe(handle, topic, name)
    with trio.fail_after(15):
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(wait, name)
            await asking.send_one(handle, topic)
    assert sorted(got) == names
