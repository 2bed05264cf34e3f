"""Scenarios of lateness: a waiting receive, a schedule, an expired lock, a mass expiry, consumers
that come and go.

Embedded, on a real clock, each on a fresh file. Their latencies are waits, not calls: what is
measured is how long after the moment a message was there (designs N8, N9 and N13).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import trio
import trio.testing

from bench.embedded import fresh
from bench.scenario import Sample, Scenario, Watch
from bench.yardstick import BODY
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.message import ReceivedMessage

EXPIRY_LOCK_SECONDS: Final = 15
"""Long enough to claim everything before the first lock ends."""

AHEAD_MS: Final = 60
"""How far ahead a message is scheduled."""

VISITORS: Final = 32
VISIT_SECONDS: Final = 0.02


def _run(load: Callable[[Path, float], Awaitable[Sample]]) -> Callable[[Path, float], Sample]:
    return lambda folder, scale: trio.run(load, folder, scale)


async def wake(folder: Path, scale: float) -> Sample:
    """From the end of a send to the answer of a receive that waited."""
    number = max(50, int(2_000 * scale))
    async with fresh(folder, "NORMAL") as q:
        await q.create_queue("q")
        with Watch() as watch:
            for _ in range(number):
                answered: list[float] = []
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_receive_one, q, answered)
                    await trio.testing.wait_all_tasks_blocked()
                    await q.send_one("q", BODY)
                    sent = time.perf_counter()
                watch.latencies.append(max(0.0, answered[0] - sent))
    return watch.sample(number, folder)


async def scheduled(folder: Path, scale: float) -> Sample:
    """How long after its time a scheduled message arrives at a receive that waits."""
    number = max(20, int(300 * scale))
    async with fresh(folder, "NORMAL") as q:
        await q.create_queue("later")
        with Watch() as watch:
            for _ in range(number):
                at = datetime.fromtimestamp(int(time.time() * 1000 + AHEAD_MS) / 1000, UTC)
                await q.send_one("later", BODY, at=at)
                (message,) = await q.receive("later", wait=5)
                watch.latencies.append(max(0.0, time.time() - at.timestamp()))
                await message.complete()
    return watch.sample(number, folder)


async def expired(folder: Path, scale: float) -> Sample:
    """How long after its end a lock's message arrives at a receive that waits."""
    rounds = max(3, int(10 * scale))
    async with fresh(folder, "NORMAL") as q:
        await q.create_queue("held", lock_duration=1)
        with Watch() as watch:
            for _ in range(rounds):
                await q.send("held", [BODY] * 10)
                await _let_expire(q, watch.latencies)
    return watch.sample(len(watch.latencies), folder)


async def _let_expire(q: Handle, late: list[float]) -> None:
    first = await q.receive("held", max_messages=10)
    due = {m.seq_number: m.locked_until.timestamp() for m in first if m.locked_until is not None}
    again: list[ReceivedMessage] = []
    while len(again) < len(first):
        found = await q.receive("held", max_messages=10, wait=5)
        now = time.time()
        late += [max(0.0, now - due[message.seq_number]) for message in found]
        again += found
    for message in again:
        await message.complete()


async def mass_expiry(folder: Path, scale: float) -> Sample:
    """The sends of one producer while very many locks end at once."""
    number = max(1_000, int(100_000 * scale))
    async with fresh(folder, "NORMAL") as q:
        await q.create_queue("q", lock_duration=EXPIRY_LOCK_SECONDS)
        await q.create_queue("other")
        for _ in range(0, number, 1000):
            await q.send("q", [BODY] * 1000)
        held = 0
        while held < number:
            held += len(await q.receive("q", max_messages=256))
        with Watch() as watch:
            while (await q.stats("q")).locked:
                for _ in range(100):
                    began = time.perf_counter()
                    await q.send_one("other", BODY)
                    watch.latencies.append(time.perf_counter() - began)
    return watch.sample(len(watch.latencies), folder)


async def visitors(folder: Path, scale: float) -> Sample:
    """Consumers that wait for a moment, take one message or none, and leave; one producer."""
    number = max(100, int(4_000 * scale))
    async with fresh(folder, "NORMAL") as q:
        await q.create_queue("q")
        left = number
        taken = trio.Event()
        with Watch() as watch:

            async def visit() -> None:
                nonlocal left
                while left > 0:
                    began = time.perf_counter()
                    with trio.move_on_after(VISIT_SECONDS):
                        for message in await q.receive("q", wait=1):
                            await message.complete()
                            left -= 1
                        if left <= 0:
                            taken.set()
                    watch.latencies.append(time.perf_counter() - began)

            async with trio.open_nursery() as nursery:
                for _ in range(VISITORS):
                    nursery.start_soon(visit)
                for _ in range(number):
                    await q.send_one("q", BODY)
                await taken.wait()  # what a cancelled visit had claimed came back
    return watch.sample(number, folder)


async def _receive_one(q: Handle, answered: list[float]) -> None:
    (message,) = await q.receive("q", wait=5, at_most_once=True)
    answered.append(time.perf_counter())
    assert message.body == BODY


SCENARIOS: Final = (
    Scenario("wake", "from the end of a send to a waiting receive's answer", _run(wake)),
    Scenario("scheduled", "a scheduled message, after its time", _run(scheduled)),
    Scenario("expired lock", "its message, after the lock's end", _run(expired)),
    Scenario("mass expiry", "one producer's sends while 100,000 locks end", _run(mass_expiry)),
    Scenario("visitors", "32 consumers that come and go", _run(visitors)),
)
