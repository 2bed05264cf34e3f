"""How long duplicate detection remembers, and what it survives."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract.errors import DedupConflict
from mqlite_actor.contract.wire import QueueConfig
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.handles import Sweep, opened

WINDOW_MS = 60_000
WATCHED = QueueConfig(dedup_window_ms=WINDOW_MS)


@pytest.mark.promise("E37", "W85")
@pytest.mark.needs_clock
async def test_a_key_is_free_again_when_it_is_exactly_as_old_as_the_window(
    handle: Handle, queue: str, clock: ManualClock
) -> None:
    await asking.make(handle, queue, WATCHED)
    first = await asking.send_one(handle, queue, b"a", message_id="m")
    clock.advance(WINDOW_MS - 1)
    assert await asking.send_one(handle, queue, b"a", message_id="m") == first
    clock.advance(1)
    second = await asking.send_one(handle, queue, b"b", message_id="m")
    assert second > first
    assert await asking.send_one(handle, queue, b"b", message_id="m") == second


@pytest.mark.promise("E38")
@pytest.mark.needs_clock
async def test_a_duplicate_does_not_extend_the_window(
    handle: Handle, queue: str, clock: ManualClock
) -> None:
    await asking.make(handle, queue, WATCHED)
    first = await asking.send_one(handle, queue, b"a", message_id="m")
    numbers = []
    for _ in range(3):
        clock.advance(WINDOW_MS // 3)
        numbers.append(await asking.send_one(handle, queue, b"a", message_id="m"))
    assert numbers[:2] == [first, first]
    assert numbers[2] > first


@pytest.mark.promise("E39", "W85")
@pytest.mark.parametrize("ending", ["completed", "removed", "dead-lettered"])
async def test_a_key_outlives_its_message(handle: Handle, queue: str, ending: str) -> None:
    await asking.make(handle, queue, WATCHED)
    seq = await asking.send_one(handle, queue, b"a", message_id="m")
    if ending == "removed":
        await asking.take(handle, queue, mode=1)
    else:
        message = await asking.take_one(handle, queue)
        settle = asking.complete if ending == "completed" else asking.reject
        await settle(handle, queue, message)
    assert await asking.send_one(handle, queue, b"a", message_id="m") == seq
    assert await asking.take(handle, queue) == []


@pytest.mark.promise("E44")
async def test_keys_survive_a_restart(store: Path, clock: ManualClock) -> None:
    async with opened(store, clock) as engine:
        await asking.make(engine, "q", WATCHED)
        seq = await asking.send_one(engine, "q", b"a", message_id="m")
    async with opened(store, clock) as engine:
        assert await asking.send_one(engine, "q", b"a", message_id="m") == seq
        with pytest.raises(DedupConflict):
            await asking.send_one(engine, "q", b"b", message_id="m")


@pytest.mark.promise("E45")
async def test_cancelling_a_scheduled_message_keeps_its_key(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue, WATCHED)
    at = 4_000_000_000_000
    seq = await asking.send_one(handle, queue, b"a", message_id="m", at=at)
    await asking.cancel(handle, queue, seq)
    assert await asking.send_one(handle, queue, b"a", message_id="m") == seq
    assert (await asking.stats(handle, queue)).total == 0


async def test_a_window_that_is_switched_on_knows_nothing_of_what_was_sent_before(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    first = await asking.send_one(handle, queue, b"a", message_id="m")
    await asking.make(handle, queue, WATCHED)
    second = await asking.send_one(handle, queue, b"a", message_id="m")
    assert second > first
    await asking.make(handle, queue)
    assert await asking.send_one(handle, queue, b"a", message_id="m") > second
    await asking.make(handle, queue, WATCHED)
    assert await asking.send_one(handle, queue, b"a", message_id="m") == second


@pytest.mark.promise("E121")
@pytest.mark.needs_clock
async def test_keys_are_forgotten_after_the_window_of_their_own_queue(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep
) -> None:
    """Seen from outside: a pass before the end of the window forgets nothing."""
    wide = f"{queue}-wide"
    await asking.make(handle, queue, WATCHED)
    await asking.make(handle, wide, QueueConfig(dedup_window_ms=2 * WINDOW_MS))
    numbers = [await asking.send_one(handle, name, message_id="m") for name in (queue, wide)]
    clock.advance(WINDOW_MS - 1)
    await sweep()
    assert await asking.send_one(handle, queue, message_id="m") == numbers[0]
    clock.advance(1)
    await sweep()
    assert await asking.send_one(handle, queue, message_id="m") > numbers[1]
    assert await asking.send_one(handle, wide, message_id="m") == numbers[1]
