"""DeleteQueue: only an empty plain queue, only the one that the caller saw, and for good."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import (
    GenerationConflict,
    InvalidArgument,
    LockLost,
    NameConflict,
    QueueNotEmpty,
    QueueNotFound,
)
from mqlite_actor.contract.wire import QueueConfig
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.handles import opened
from tests.conformance.polling import BOUND_SECONDS, parked, poll


async def generation(handle: asking.Callee, queue: str) -> str:
    return (await asking.info(handle, queue)).generation


async def names(handle: Handle) -> list[str]:
    return [info.name for info in (await handle.call(wire.ListQueuesRequest())).queues]


@pytest.mark.promise("E152", "W72")
async def test_an_empty_queue_is_deleted_by_its_generation(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.delete(handle, queue, await generation(handle, queue))
    assert queue not in await names(handle)
    with pytest.raises(QueueNotFound):
        await asking.stats(handle, queue)
    with pytest.raises(QueueNotFound):
        await asking.send_one(handle, queue)


STATES = ("active", "waiting", "locked", "deferred", "scheduled", "dead_lettered", "expired")


@pytest.mark.promise("E152", "W73")
@pytest.mark.parametrize("state", STATES)
@pytest.mark.needs_clock
async def test_a_message_in_any_state_stands_in_the_way(
    handle: Handle, queue: str, clock: ManualClock, state: str
) -> None:
    await asking.make(handle, queue)
    at = clock.now_ms() + 1000 if state == "scheduled" else 0
    await asking.send_one(handle, queue, at=at, ttl_ms=1000 if state == "expired" else 0)
    settle = {"deferred": asking.defer, "dead_lettered": asking.reject}.get(state)
    if state == "locked" or settle:
        message = await asking.take_one(handle, queue)
        if settle:
            await settle(handle, queue, message)
    if state == "expired":
        clock.advance(1000)
    before = await asking.look(handle, queue)
    with pytest.raises(QueueNotEmpty):
        await asking.delete(handle, queue, await generation(handle, queue))
    assert await asking.look(handle, queue) == before
    assert queue in await names(handle)


@pytest.mark.promise("E152", "W74")
async def test_another_generation_is_refused(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    with pytest.raises(GenerationConflict):
        await asking.delete(handle, queue, "0" * 32)
    assert queue in await names(handle)


@pytest.mark.promise("E152")
async def test_a_name_and_a_generation_are_needed(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    for name, its_generation in ((queue, ""), ("", "x"), ("", "")):
        with pytest.raises(InvalidArgument):
            await asking.delete(handle, name, its_generation)


@pytest.mark.promise("E152", "W75")
async def test_subscriptions_and_topics_are_refused(handle: Handle, queue: str) -> None:
    topic, sub = f"{queue}-topic", f"{queue}-sub"
    await asking.subscribe(handle, topic, sub)
    its_generation = await generation(handle, sub)
    for name in (topic, sub):
        with pytest.raises(NameConflict):
            await asking.delete(handle, name, its_generation)
    assert sub in await names(handle)


async def test_an_unknown_queue_is_not_found(handle: Handle, queue: str) -> None:
    with pytest.raises(QueueNotFound):
        await asking.delete(handle, queue, "0" * 32)


@pytest.mark.promise("E153", "W74")
async def test_repeating_a_deletion_is_a_success_and_spares_the_successor(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    first = await generation(handle, queue)
    for _ in range(2):
        await asking.delete(handle, queue, first)
    await asking.make(handle, queue)
    second = await generation(handle, queue)
    assert second != first
    await asking.delete(handle, queue, first)
    assert await generation(handle, queue) == second
    await asking.delete(handle, queue, second)
    with pytest.raises(QueueNotFound):
        await asking.delete(handle, queue, "0" * 32)


@pytest.mark.promise("E153")
async def test_concurrent_deletions_and_creations_end_in_one_of_both(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    first = await generation(handle, queue)
    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(asking.delete, handle, queue, first)
            nursery.start_soon(asking.make, handle, queue)
    if queue in await names(handle):
        assert await generation(handle, queue) != first


@pytest.mark.promise("E153")
@pytest.mark.parametrize("is_reopened", [False, True], ids=["running", "reopened"])
async def test_a_deletion_is_remembered_for_a_day(
    store: Path, clock: ManualClock, *, is_reopened: bool
) -> None:
    day_ms = 86_400_000
    async with opened(store, clock) as engine:
        await asking.make(engine, "q")
        first = await generation(engine, "q")
        await asking.delete(engine, "q", first)
        clock.advance(day_ms - 1)
        await engine.run_maintenance_once()
        if not is_reopened:
            await asking.delete(engine, "q", first)
    if is_reopened:
        async with opened(store, clock) as engine:
            await asking.delete(engine, "q", first)


@pytest.mark.promise("E154", "E100")
async def test_a_successor_knows_nothing_of_the_deleted_queue(handle: Handle, queue: str) -> None:
    config = QueueConfig(dedup_window_ms=3_600_000)
    await asking.make(handle, queue, config)
    old = await asking.send_one(handle, queue, message_id="m")
    attempt = wire.ReceiveRequest(queue=queue, receive_attempt_id="a")
    (message,) = (await handle.call(attempt)).messages
    await asking.complete(handle, queue, message)
    await asking.complete(handle, queue, message)
    await asking.delete(handle, queue, await generation(handle, queue))
    with pytest.raises(LockLost):
        await asking.complete(handle, queue, message)
    with pytest.raises(QueueNotFound):
        await asking.renew(handle, queue, message)
    await asking.make(handle, queue, config)
    with pytest.raises(LockLost):
        await asking.complete(handle, queue, message)
    assert (await handle.call(attempt)).messages == []
    new = await asking.send_one(handle, queue, b"other", message_id="m")
    assert new > old
    (fresh,) = (await handle.call(attempt)).messages
    assert fresh.seq_number == new


async def test_the_settings_of_a_deleted_queue_are_gone(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=5000, max_delivery_count=3))
    await asking.delete(handle, queue, await generation(handle, queue))
    await asking.make(handle, queue, QueueConfig(kind="subscription"))
    info = await asking.info(handle, queue)
    assert (info.kind, info.lock_duration_ms, info.max_delivery_count) == (
        "subscription",
        30_000,
        10,
    )


async def test_who_waits_at_a_deleted_queue_is_told(engine: Engine) -> None:
    await asking.make(engine, "q")
    answers: list[str] = []

    async def wait() -> None:
        answers.append(await asking.refusal(engine, poll("q")))

    with trio.fail_after(BOUND_SECONDS):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(wait)
            await parked(engine, 3)
            await asking.delete(engine, "q", await generation(engine, "q"))
    assert answers == ["not_found"] * 3
