"""DeleteSubscription: routing ends, and the queue goes with what it holds, if that is meant."""

from __future__ import annotations

import pytest

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import (
    GenerationConflict,
    InvalidArgument,
    LockLost,
    NameConflict,
    NotFound,
    QueueNotEmpty,
    QueueNotFound,
)
from mqlite_actor.contract.wire import Message
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking


@pytest.fixture
def topic(queue: str) -> str:
    return f"{queue}-topic"


async def generation_of(handle: Handle, name: str) -> str:
    return (await handle.describe_queue(name)).generation


async def test_an_empty_subscription_is_gone_and_gets_nothing_any_more(
    handle: Handle, queue: str, topic: str
) -> None:
    for name in (queue, f"{queue}-other"):
        await asking.subscribe(handle, topic, name)
    reply = await handle.delete_subscription(topic, queue)
    assert (reply.deleted, reply.discarded) == (True, 0)
    assert [each.name for each in await asking.subscriptions(handle, topic)] == [f"{queue}-other"]
    with pytest.raises(QueueNotFound):
        await asking.stats(handle, queue)
    await asking.send_one(handle, topic)
    assert (await asking.stats(handle, f"{queue}-other")).active == 1


async def test_with_its_last_subscription_the_topic_is_gone(
    handle: Handle, queue: str, topic: str
) -> None:
    await asking.subscribe(handle, topic, queue)
    await handle.delete_subscription(topic, queue)
    with pytest.raises(QueueNotFound):
        await asking.send_one(handle, topic)
    await asking.make(handle, topic)  # the name is free


async def test_one_that_holds_messages_stays_whole(handle: Handle, queue: str, topic: str) -> None:
    await asking.subscribe(handle, topic, queue)
    await asking.send_one(handle, topic, b"1")
    with pytest.raises(QueueNotEmpty):
        await handle.delete_subscription(topic, queue)
    await asking.send_one(handle, topic, b"2")
    assert [m.body for m in await asking.look(handle, queue)] == [b"1", b"2"]


async def test_to_discard_needs_the_generation_and_takes_every_state(
    handle: Handle, queue: str, topic: str
) -> None:
    await asking.subscribe(handle, topic, queue)
    await asking.send(handle, topic, *[Message(group_id="g" * (n % 2)) for n in range(6)])
    held = (await handle.receive(queue, max_messages=3))[0]
    others = await handle.receive(queue, max_messages=2)
    for each in others[:1]:
        await each.defer()
    await asking.send_one(handle, topic, at=4_000_000_000_000)
    with pytest.raises(InvalidArgument, match="generation"):
        await handle.delete_subscription(topic, queue, discard_messages=True)
    with pytest.raises(GenerationConflict):
        await handle.delete_subscription(topic, queue, generation="0", discard_messages=True)
    generation = await generation_of(handle, queue)
    reply = await handle.delete_subscription(
        topic, queue, generation=generation, discard_messages=True
    )
    assert (reply.deleted, reply.discarded) == (True, 7)
    with pytest.raises(LockLost):
        await held.complete()
    with pytest.raises(QueueNotFound):
        await asking.stats(handle, queue)


async def test_many_are_discarded_in_chunks(handle: Handle, queue: str, topic: str) -> None:
    await asking.subscribe(handle, topic, queue)
    number = 2 * limits.CHORE_ROWS + 1
    await asking.send(handle, topic, *[Message(group_id="g")] * number)
    reply = await handle.delete_subscription(
        topic, queue, generation=await generation_of(handle, queue), discard_messages=True
    )
    assert (reply.deleted, reply.discarded) == (True, number)


async def test_a_repetition_succeeds_and_never_hits_a_successor(
    handle: Handle, queue: str, topic: str
) -> None:
    await asking.subscribe(handle, topic, queue)
    generation = await generation_of(handle, queue)
    for _ in range(2):
        assert (await handle.delete_subscription(topic, queue, generation=generation)).deleted
    await asking.subscribe(handle, topic, queue)
    assert (await handle.delete_subscription(topic, queue, generation=generation)).deleted
    assert len(await asking.subscriptions(handle, topic)) == 1
    with pytest.raises(GenerationConflict):
        await handle.delete_subscription(topic, queue, generation="0" * 32)


async def test_what_is_no_such_subscription_is_said_to_be_none(
    handle: Handle, queue: str, topic: str
) -> None:
    with pytest.raises(QueueNotFound):
        await handle.delete_subscription(topic, queue)
    await asking.make(handle, queue)
    with pytest.raises(NameConflict):
        await handle.delete_subscription(topic, queue)
    await asking.subscribe(handle, topic, f"{queue}-s")
    with pytest.raises(NotFound, match="listen"):
        await handle.delete_subscription("another", f"{queue}-s")
    for names in (("", "x"), ("x", "")):
        with pytest.raises(InvalidArgument):
            await handle.delete_subscription(*names)
