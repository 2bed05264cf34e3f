"""PurgeActive: what waits to be delivered is deleted, if the caller saw what is there."""

from __future__ import annotations

from typing import Any

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import ext, limits
from mqlite_actor.contract.errors import GenerationConflict, InvalidArgument, NotFound
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking


async def generation_of(handle: Handle, queue: str) -> str:
    return (await asking.info(handle, queue)).generation


async def test_only_active_messages_go(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    sent = await asking.send_bodies(handle, queue, *b"ldrabc".hex(" ").encode().split())
    locked, deferred, rejected = await asking.take(handle, queue, 3)
    await asking.defer(handle, queue, deferred)
    await asking.reject(handle, queue, rejected)
    later = await asking.send_one(handle, queue, at=4_000_000_000_000)
    assert await handle.purge_active(queue, expected_count=3) == 3
    assert await asking.states(handle, queue) == {
        sent[0]: "locked",
        sent[1]: "deferred",
        sent[2]: "dead_lettered",
        later: "scheduled",
    }
    await asking.complete(handle, queue, locked)


@pytest.mark.parametrize(
    "guard", [{}, {"generation": "0" * 32}, {"expected_count": 2}, {"expected_count": 0}]
)
async def test_without_a_guard_that_holds_nothing_goes(
    handle: Handle, queue: str, guard: dict[str, Any]
) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, b"1", b"2", b"3")
    with pytest.raises(GenerationConflict if guard else InvalidArgument):
        await handle.purge_active(queue, **guard)
    generation = await generation_of(handle, queue)
    with pytest.raises(GenerationConflict):
        await handle.purge_active(queue, generation=generation, expected_count=4)
    assert (await asking.stats(handle, queue)).active == 3


async def test_either_guard_is_enough(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    assert await handle.purge_active(queue, expected_count=0) == 0
    await asking.send_one(handle, queue)
    assert await handle.purge_active(queue, generation=await generation_of(handle, queue)) == 1


async def test_at_most_so_many_go_the_oldest_first(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    sent = await asking.send_bodies(handle, queue, *[b"x"] * 5)
    assert await handle.purge_active(queue, expected_count=5, max_messages=2) == 2
    assert list(await asking.states(handle, queue)) == sent[2:]


@pytest.mark.needs_clock
async def test_only_what_is_old_enough_goes(handle: Handle, queue: str, clock: ManualClock) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, *[b"old"] * (limits.CHORE_ROWS + 3))
    clock.advance(1000)
    young = await asking.send_bodies(handle, queue, *[b"young"] * 3)
    clock.advance(1)
    generation = await generation_of(handle, queue)
    assert await handle.purge_active(queue, generation=generation, older_than=1.001) == 0
    purged = await handle.purge_active(queue, generation=generation, older_than=1)
    assert purged == limits.CHORE_ROWS + 3
    assert list(await asking.states(handle, queue)) == young


@pytest.mark.parametrize("ordering", ["standard", "group_fifo", "strict_fifo"])
async def test_lines_go_on_behind_what_was_deleted(
    handle: Handle, queue: str, ordering: str
) -> None:
    await asking.make(handle, queue, QueueConfig(ordering_mode=ordering))
    batch = [Message(group_id=f"g{n % 3}", body=b"%d" % n) for n in range(9)]
    await asking.send(handle, queue, *batch)
    held = await asking.take_one(handle, queue)
    assert await handle.purge_active(queue, expected_count=8, max_messages=4) == 4
    await asking.complete(handle, queue, held)
    left: list[bytes] = []
    while taken := await asking.take(handle, queue, 9):
        for message in taken:
            left.append(message.body)
            await asking.complete(handle, queue, message)
    assert sorted(left) == [b"5", b"6", b"7", b"8"]


async def test_more_than_a_chunk_goes_in_one_call(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue, QueueConfig(ordering_mode="strict_fifo"))
    number = 2 * limits.CHORE_ROWS + 7
    await asking.send(handle, queue, *[Message(body=bytes(2000))] * number)
    assert await handle.purge_active(queue, expected_count=number) == number
    assert (await asking.stats(handle, queue)).total == 0


async def test_bad_bounds_and_unknown_queues_are_refused(handle: Handle, queue: str) -> None:
    with pytest.raises(NotFound):
        await handle.purge_active(queue, expected_count=0)
    await asking.make(handle, queue)
    for field, request in {
        "max": ext.PurgeActiveRequest(queue, expected_count=0, max=-1),
        "older_than_ms": ext.PurgeActiveRequest(queue, expected_count=0, older_than_ms=-1),
    }.items():
        with pytest.raises(InvalidArgument, match=field):
            await handle.call(request)
