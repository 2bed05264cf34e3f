"""Names: queues, subscriptions and topics share one name space; who comes first has the name."""

from __future__ import annotations

import pytest
import trio

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import (
    GroupRequired,
    InvalidArgument,
    NameConflict,
    NotFound,
)
from mqlite_actor.contract.wire import QueueConfig
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking

WATCHED = QueueConfig(kind="subscription", dedup_window_ms=60_000)


async def exists(handle: Handle, queue: str) -> bool:
    return await asking.refusal(handle, wire.StatsRequest(queue=queue)) == "ok"


async def depths(handle: Handle, *queues: str) -> list[int]:
    return [(await asking.stats(handle, queue)).total for queue in queues]


@pytest.mark.promise("W63")
async def test_a_subscription_makes_a_topic_and_a_queue_of_its_kind(
    handle: Handle, queue: str
) -> None:
    topic, name = f"{queue}-topic", f"{queue}-sub"
    await asking.subscribe(handle, topic, name)
    (row,) = await asking.subscriptions(handle, topic)
    assert (row.name, row.expr) == (name, "")
    info = await asking.info(handle, name)
    assert (info.kind, info.lock_duration_ms, info.max_delivery_count) == (
        "subscription",
        30_000,
        10,
    )
    assert not await exists(handle, topic)


@pytest.mark.promise("E7", "W64", "W65")
async def test_empty_names_are_refused_and_equal_ones_a_conflict(
    handle: Handle, queue: str
) -> None:
    for topic, name in (("", queue), (queue, ""), ("", "")):
        with pytest.raises(InvalidArgument):
            await asking.subscribe(handle, topic, name)
    with pytest.raises(NameConflict):
        await asking.subscribe(handle, queue, queue)
    assert not await exists(handle, queue)


@pytest.mark.promise("E8", "W65")
async def test_a_taken_name_is_a_conflict_and_leaves_no_queue_behind(
    handle: Handle, queue: str
) -> None:
    plain, topic, sub = f"{queue}-plain", f"{queue}-topic", f"{queue}-sub"
    fresh = f"{queue}-fresh"
    await asking.make(handle, plain)
    await asking.subscribe(handle, topic, sub)
    conflicts = [
        (plain, fresh),  # the topic is a queue
        (sub, fresh),  # the topic is a subscription
        (topic, plain),  # the name is a plain queue
        (fresh, sub),  # the name listens to another topic
        (fresh, topic),  # the name is a topic
    ]
    for chosen_topic, name in conflicts:
        with pytest.raises(NameConflict):
            await asking.subscribe(handle, chosen_topic, name)
    assert not await exists(handle, fresh)
    assert await asking.subscriptions(handle, fresh) == []
    assert [row.name for row in await asking.subscriptions(handle, topic)] == [sub]


@pytest.mark.promise("E4", "E5", "W61")
async def test_a_queue_cannot_take_the_name_of_a_topic_or_subscription(
    handle: Handle, queue: str
) -> None:
    topic, sub = f"{queue}-topic", f"{queue}-sub"
    await asking.subscribe(handle, topic, sub)
    before = await asking.info(handle, sub)
    for name, kind in ((topic, ""), (topic, "subscription"), (sub, ""), (sub, "queue")):
        with pytest.raises(NameConflict):
            await asking.make(handle, name, QueueConfig(kind=kind, lock_duration_ms=5))
    assert not await exists(handle, topic)
    assert await asking.info(handle, sub) == before


@pytest.mark.promise("W133")
async def test_an_orphan_subscription_queue_is_adopted_with_its_configuration(
    handle: Handle, queue: str
) -> None:
    topic, sub = f"{queue}-topic", f"{queue}-sub"
    await asking.make(handle, sub, QueueConfig(kind="subscription", lock_duration_ms=1234))
    early = await asking.send_one(handle, sub)
    before = await asking.info(handle, sub)
    await asking.subscribe(handle, topic, sub)
    assert await asking.info(handle, sub) == before
    assert [row.name for row in await asking.subscriptions(handle, topic)] == [sub]
    later = await asking.send_one(handle, topic)
    assert sorted(await asking.states(handle, sub)) == [early, later]


@pytest.mark.promise("E9")
async def test_subscribing_again_leaves_the_queue_as_it_is(handle: Handle, queue: str) -> None:
    topic, sub = f"{queue}-topic", f"{queue}-sub"
    await asking.subscribe(handle, topic, sub)
    config = QueueConfig(
        kind="subscription",
        lock_duration_ms=5000,
        max_delivery_count=3,
        default_ttl_ms=7000,
        dedup_window_ms=9000,
        ordering_mode="group_fifo",
        dlq_max_count=7,
    )
    await asking.make(handle, sub, config)
    before = await asking.info(handle, sub)
    await asking.subscribe(handle, topic, sub)
    assert await asking.info(handle, sub) == before
    with pytest.raises(GroupRequired):  # so the ordering survived too
        await asking.send_one(handle, topic)


@pytest.mark.promise("E11")
async def test_of_a_queue_and_a_subscription_for_one_name_exactly_one_is_made(
    handle: Handle, queue: str
) -> None:
    topic = f"{queue}-topic"
    answers: list[str] = []

    async def ask(request: wire.Request[wire.EmptyResponse]) -> None:
        answers.append(await asking.refusal(handle, request))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, wire.CreateQueueRequest(name=queue))
        nursery.start_soon(ask, wire.SubscribeRequest(topic=topic, name=queue))
    assert sorted(answers) == ["name_conflict", "ok"]
    kind = (await asking.info(handle, queue)).kind
    assert len(await asking.subscriptions(handle, topic)) == (kind == "subscription")


@pytest.mark.promise("E46", "E132", "W69")
async def test_a_topic_is_no_queue(handle: Handle, queue: str) -> None:
    topic = f"{queue}-topic"
    await asking.subscribe(handle, topic, f"{queue}-sub")
    for ask in (asking.take, asking.take_deferred, asking.stats, asking.redrive, asking.purge):
        with pytest.raises(NotFound):
            await ask(handle, topic)
    assert await asking.look(handle, topic) == []


@pytest.mark.promise("E13")
async def test_subscriptions_are_listed_by_topic_and_name(engine: Engine) -> None:
    assert (await engine.call(wire.ListSubscriptionsRequest())).subscriptions == []
    pairs = [("b", "x"), ("a", "z"), ("é", "1"), ("a", "Z"), ("a b", "2"), ("B", "y")]
    for topic, name in pairs:
        await asking.subscribe(engine, topic, name)
    await asking.make(engine, "orphan", QueueConfig(kind="subscription"))
    listed = (await engine.call(wire.ListSubscriptionsRequest())).subscriptions
    found = [(row.topic, row.name) for row in listed]
    assert found == sorted(pairs, key=lambda pair: (pair[0].encode(), pair[1].encode()))
