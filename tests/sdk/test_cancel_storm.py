"""A thousand calls cancelled at random points: nothing is held, lost, leaked or stuck after it.

A handle gives back what came for a caller who has left, for some seconds at most; then it leaves
the leases to end. On a busy machine that bound is reached, so here it is as long as the storm may
be, and the leases are longer than everything: a lock that shows at the end was forgotten.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import pytest

import mqlite_actor as mq
from mqlite_actor.sdk import background, handing, http_async, http_wire
from mqlite_actor.sdk.handle import Handle
from tests.conformance.broker import Broker
from tests.conformance.handles import leaks
from tests.sdk.loops import both_loops, run

CALLS = 1000
STORM_SECONDS = 200.0
"""A bound for a machine that is busy with other tests; alone it takes some seconds."""

SETTLING_SECONDS = 100.0
"""A broker learns by their sockets that callers have left, and this look comes on another."""

LEASE_SECONDS = 900.0

AT_ONCE = 20
STEPS_MAX = 40
"""Turns of the loop before a call is cancelled: from before it starts to after it ended."""


async def storm(q: Handle, queue: str, seed: int) -> Counter[str]:
    """Sends, receives and settlements, most of them cancelled in the middle; what was answered."""
    draw = random.Random(seed)
    seen: Counter[str] = Counter()

    async def send() -> None:
        await q.send_one(queue, b"x")
        seen["sent"] += 1

    async def receive() -> None:
        for message in await q.receive(queue, max_messages=2, wait=draw.choice((0, 0, 5))):
            seen["received"] += 1
            with anyio.CancelScope(shield=True):
                await message.abandon()

    async def look() -> None:
        await q.stats(queue)

    async def cancelled(work: Callable[[], Coroutine[Any, Any, None]], steps: int) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()

    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def one() -> None:
        async with limiter:
            await cancelled(draw.choice((send, receive, receive, look)), draw.randint(0, STEPS_MAX))

    async with anyio.create_task_group() as tasks:
        for _ in range(CALLS):
            tasks.start_soon(one)
    return seen


async def check_after(q: Handle, queue: str, seen: Counter[str]) -> None:
    counts = await q.stats(queue)
    try:
        with anyio.fail_after(SETTLING_SECONDS):
            while counts.locked:
                counts = await q.stats(queue)
    except TimeoutError:
        pytest.fail(f"{counts.locked} locks were left behind")
    assert counts.total >= seen["sent"]
    taken = 0
    while found := await q.receive(queue, max_messages=256):
        taken += len(found)
        assert await q.complete_batch(found) == [True] * len(found)
    assert taken == counts.total


@pytest.fixture(autouse=True)
def patient_handles(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (background, handing, http_async):
        monkeypatch.setattr(module, "GIVE_BACK_SECONDS", STORM_SECONDS)
    monkeypatch.setattr(http_wire, "LEAVE_SECONDS", STORM_SECONDS)


@pytest.mark.promise("E144")
@both_loops
def test_an_embedded_engine_comes_through_a_storm_of_cancellations(
    backend: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with mq.open_embedded(f"file:{tmp_path}/mq.db") as q:
            await q.create_queue("q", max_delivery_count=100_000, lock_duration=LEASE_SECONDS)
            await check_after(q, "q", await storm(q, "q", seed=1))

    run(backend, main, seconds=STORM_SECONDS)
    assert leaks(tmp_path) == []


@pytest.mark.promise("E144")
@both_loops
def test_a_broker_and_its_client_come_through_a_storm_of_cancellations(
    backend: str, broker: Broker, queue: str
) -> None:
    async def main() -> None:
        async with mq.connect(broker.url, token=broker.token) as q:
            await q.create_queue(queue, max_delivery_count=100_000, lock_duration=LEASE_SECONDS)
            seen = await storm(q, queue, seed=2)
        async with mq.connect(broker.url, token=broker.token) as q:
            await check_after(q, queue, seen)

    run(backend, main, seconds=STORM_SECONDS)
