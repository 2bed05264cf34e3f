"""Receive attempt ids: a repeated Receive returns the same batch and delivers nothing twice."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import LockLost
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.handles import Sweep, opened


def attempt(queue: str, number: int = 1, *, mode: int = 0, id: str = "a") -> wire.ReceiveRequest:
    return wire.ReceiveRequest(
        queue=queue, max_messages=number, receive_mode=mode, receive_attempt_id=id
    )


async def take(handle: asking.Callee, request: wire.ReceiveRequest) -> list[Message]:
    return (await handle.call(request)).messages


@pytest.mark.promise("E73", "W100")
async def test_the_same_id_returns_the_same_batch_and_counts_one_delivery(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, b"a", b"b", b"c")
    first = await handle.call(attempt(queue, 2))
    again = await handle.call(attempt(queue, 2))
    assert msgspec.json.encode(first) == msgspec.json.encode(again)
    counts = [message.delivery_count for message in await asking.look(handle, queue)]
    assert counts == [1, 1, 0]
    for message in again.messages:
        await asking.complete(handle, queue, message)


@pytest.mark.promise("E74", "W100")
async def test_a_replay_ignores_what_else_the_retry_asks_for(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, *[b"x"] * 10)
    first = await take(handle, attempt(queue, 2))
    assert await take(handle, attempt(queue, 10)) == first
    assert await take(handle, attempt(queue, 0, mode=1)) == first
    waiting = wire.ReceiveRequest(queue=queue, wait_time_ms=20_000, receive_attempt_id="a")
    with trio.fail_after(15):
        assert await take(handle, waiting) == first
    assert (await asking.stats(handle, queue)).locked == 2


@pytest.mark.promise("E75", "W100")
async def test_an_empty_answer_is_not_remembered(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    assert await take(handle, attempt(queue)) == []
    seq = await asking.send_one(handle, queue)
    (message,) = await take(handle, attempt(queue))
    assert message.seq_number == seq


@pytest.mark.promise("E77", "W100")
async def test_a_replay_returns_the_batch_though_its_messages_are_gone(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, b"a", b"b")
    first = await take(handle, attempt(queue, 2))
    await asking.complete(handle, queue, first[0])
    await asking.abandon(handle, queue, first[1])
    (redelivered,) = await asking.take(handle, queue)
    assert await take(handle, attempt(queue, 2)) == first
    with pytest.raises(LockLost):
        await asking.complete(handle, queue, first[1])
    await asking.complete(handle, queue, redelivered)


@pytest.mark.promise("E78", "W101")
async def test_receive_and_delete_replays_its_bodies_without_a_lease(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    await asking.send(handle, queue, Message(body=b"\0\xff", properties={"k": "v"}, subject="s"))
    first = await take(handle, attempt(queue, mode=1))
    assert (await asking.stats(handle, queue)).total == 0
    again = await take(handle, attempt(queue, mode=1))
    assert again == first
    (message,) = again
    assert (message.body, message.properties, message.subject) == (b"\0\xff", {"k": "v"}, "s")
    assert (message.lock_token, message.locked_until_ms) == ("", 0)


@pytest.mark.promise("E76")
@pytest.mark.parametrize(("lock_ms", "lives_ms"), [(1000, 300_000), (600_000, 600_000)])
@pytest.mark.needs_clock
async def test_an_attempt_lives_for_the_lock_duration_and_at_least_five_minutes(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep, lock_ms: int, lives_ms: int
) -> None:
    assert lives_ms == max(lock_ms, limits.ATTEMPT_MS_MIN)
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=lock_ms))
    await asking.send_bodies(handle, queue, b"a", b"b")
    first = await take(handle, attempt(queue))
    clock.advance(lives_ms - 1)
    await sweep()
    assert await take(handle, attempt(queue)) == first
    clock.advance(1)
    fresh = await take(handle, attempt(queue))
    assert fresh != first
    assert fresh[0].lock_token != first[0].lock_token
    assert await take(handle, attempt(queue)) == fresh


@pytest.mark.promise("E121")
@pytest.mark.needs_clock
async def test_an_attempt_is_remembered_through_the_passes_until_it_ends(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep
) -> None:
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=1000))
    await asking.send_one(handle, queue)
    (message,) = await take(handle, attempt(queue))
    await asking.complete(handle, queue, message)
    clock.advance(limits.ATTEMPT_MS_MIN - 1)
    await sweep()
    assert await take(handle, attempt(queue)) == [message]
    clock.advance(1)
    await sweep()
    assert await take(handle, attempt(queue)) == []


@pytest.mark.promise("E79", "W100")
async def test_ids_belong_to_a_queue(handle: Handle, queue: str) -> None:
    other = f"{queue}-other"
    for name in (queue, other):
        await asking.make(handle, name)
        await asking.send_one(handle, name)
    (here,) = await take(handle, attempt(queue))
    (there,) = await take(handle, attempt(other))
    assert here.seq_number < there.seq_number


@pytest.mark.promise("E79")
async def test_attempts_survive_a_restart_and_their_leases_do_not(
    store: Path, clock: ManualClock
) -> None:
    async with opened(store, clock) as engine:
        await asking.make(engine, "q")
        await asking.send_one(engine, "q")
        first = await take(engine, attempt("q"))
    async with opened(store, clock) as engine:
        assert await take(engine, attempt("q")) == first
        with pytest.raises(LockLost):
            await asking.complete(engine, "q", first[0])
        (again,) = await take(engine, attempt("q", id="b"))
        assert again.delivery_count == 2


@pytest.mark.promise("E80")
async def test_two_concurrent_receives_with_one_id_are_one_claim(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, *[b"x"] * 10)
    batches: list[list[Message]] = []

    async def receive() -> None:
        batches.append(await take(handle, attempt(queue, 3)))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(receive)
    assert len(batches) == 4
    assert all(batch == batches[0] for batch in batches)
    assert (await asking.stats(handle, queue)).locked == 3


async def test_another_id_claims_anew(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    numbers = await asking.send_bodies(handle, queue, b"a", b"b")
    taken = [await take(handle, attempt(queue, id=each)) for each in ("a", "A")]
    assert [batch[0].seq_number for batch in taken] == numbers
