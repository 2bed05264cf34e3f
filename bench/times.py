"""How late things happen: a waiting receive, a scheduled message, an expired lock, a mass expiry.

    python -m bench.times [--runs 5] [--quick]

The figures of design N8, N9 and N13, embedded, on a real clock. Each run opens a fresh file; the
send that others are compared with is measured in the same run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import TypeAlias

import trio
import trio.testing

from bench.embedded import fresh
from bench.yardstick import BODY
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.message import ReceivedMessage

Figures: TypeAlias = dict[str, float]

EXPIRY_LOCK_SECONDS = 15
"""Long enough to claim everything before the first lock ends."""


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    given = parser.parse_args()
    scale = 0.1 if given.quick else 1.0
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="mqlite-bench-") as name:
        for _ in range(given.runs):
            for measure in (waiting, lateness, expiry):
                for label, value in trio.run(measure, Path(name), scale).items():
                    found.setdefault(label, []).append(value)
    for label, values in found.items():
        print(f"  {label:58} {median(values):10.2f}   [{min(values):.2f} … {max(values):.2f}]")


async def waiting(folder: Path, scale: float) -> Figures:
    """From the end of a send to the answer of a receive that waited, beside the send itself."""
    number = int(2_000 * scale)
    sends: list[float] = []
    gaps: list[float] = []
    async with fresh(folder, "NORMAL") as q:
        await q.create_queue("plain")
        for _ in range(number):
            began = time.perf_counter()
            await q.send_one("plain", BODY)
            sends.append(time.perf_counter() - began)
        await q.create_queue("q")
        for _ in range(number):
            answered: list[float] = []
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_receive_one, q, answered)
                await trio.testing.wait_all_tasks_blocked()
                await q.send_one("q", BODY)
                sent = time.perf_counter()
            gaps.append(max(0.0, answered[0] - sent))
    usual = median(sends)
    return {
        "N8 one producer's send p50, µs": usual * 1e6,
        "N8 waiting receive after the send ÷ send, p50": median(gaps) / usual,
        "N8 waiting receive after the send ÷ send, p99": _p99(gaps) / usual,
    }


async def lateness(folder: Path, scale: float) -> Figures:
    """How long after their time messages arrive at a receive that waits."""
    number = int(300 * scale) or 1
    late: dict[str, list[float]] = {"scheduled message": [], "expired lock": []}
    async with fresh(folder, "NORMAL") as q:
        await q.create_queue("later")
        await q.create_queue("held", lock_duration=1)
        for _ in range(number):
            at = datetime.fromtimestamp(int(time.time() * 1000 + 60) / 1000, UTC)
            await q.send_one("later", BODY, at=at)
            (message,) = await q.receive("later", wait=5)
            late["scheduled message"].append(time.time() - at.timestamp())
            await message.complete()
        for _ in range(max(3, number // 30)):
            for _ in range(10):
                await q.send_one("held", BODY)
            first = await q.receive("held", max_messages=10)
            again: list[ReceivedMessage] = []
            while len(again) < len(first):
                found = await q.receive("held", max_messages=10, wait=5)
                now = time.time()
                due = {
                    each.seq_number: each.locked_until.timestamp()
                    for each in first
                    if each.locked_until is not None
                }
                late["expired lock"] += [now - due[m.seq_number] for m in found]
                again += found
            for message in again:
                await message.complete()
    return {f"N9 {name}, p99 lateness, ms": _p99(each) * 1000 for name, each in late.items()}


async def expiry(folder: Path, scale: float) -> Figures:
    """The longest send of one producer while very many locks end at once."""
    number = int(100_000 * scale)
    longest = 0.0
    sends = 0
    async with fresh(folder, "NORMAL") as q:
        await q.create_queue("q", lock_duration=EXPIRY_LOCK_SECONDS)
        await q.create_queue("other")
        for _ in range(0, number, 1000):
            await q.send("q", [BODY] * 1000)
        held = 0
        while held < number:
            held += len(await q.receive("q", max_messages=256))
        began = time.perf_counter()
        while (await q.stats("q")).locked:
            for _ in range(100):
                started = time.perf_counter()
                await q.send_one("other", BODY)
                longest = max(longest, time.perf_counter() - started)
                sends += 1
        assert time.perf_counter() - began < 10 * EXPIRY_LOCK_SECONDS
    return {
        f"N13 longest send while {number:,} locks end, ms": longest * 1000,
        "N13 sends made meanwhile": float(sends),
    }


async def _receive_one(q: Handle, answered: list[float]) -> None:
    (message,) = await q.receive("q", wait=5, at_most_once=True)
    answered.append(time.perf_counter())
    assert message.body == BODY


def _p99(values: list[float]) -> float:
    return quantiles(values, n=100)[98] if len(values) > 1 else values[0]


if __name__ == "__main__":
    main()
