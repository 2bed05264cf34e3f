"""Where a look runs: in the trio thread, in a thread of its own, through the writer, from outside.

    python -m bench.looks [--runs 5] [--quick]

One Stats of a queue with 1,000 messages, alone and beside 16 producers; the figures of
docs/decisions/0007-readers.md. The ways alternate within each run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

import trio

from bench.embedded import fresh
from bench.yardstick import BODY
from mqlite_actor.contract import wire
from mqlite_actor.engine.outside import Outside
from mqlite_actor.engine.readers import READS, Place
from mqlite_actor.sdk.embedded import Embedded

ASK = wire.StatsRequest(queue="q")
PRODUCERS = 16

Way = Callable[[], Awaitable[object]]
Figures = dict[str, float]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    given = parser.parse_args()
    number = 200 if given.quick else 2_000
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="mqlite-bench-") as name:
        for _ in range(given.runs):
            for label, value in trio.run(run, Path(name), number).items():
                found.setdefault(label, []).append(value)
    print("  microseconds per look: median of the medians [least … most]")
    for label, values in found.items():
        print(f"  {label:42} {median(values):10.1f}   [{min(values):.1f} … {max(values):.1f}]")


async def run(folder: Path, number: int) -> Figures:
    """Every way, alone and beside producers."""
    figures: Figures = {}
    async with fresh(folder, "NORMAL") as q:
        await q.create_queue("q")
        for _ in range(10):
            await q.send("q", [BODY] * 100)
        path = (await q.status()).location
        for label, way in ways(q, path).items():
            figures[f"{label}, alone"] = await timed(way, number)
        async with trio.open_nursery() as nursery:
            await q.create_queue("busy")
            for _ in range(PRODUCERS):
                nursery.start_soon(produce, q)
            for label, way in ways(q, path).items():
                figures[f"{label}, {PRODUCERS} producers"] = await timed(way, number // 4)
            nursery.cancel_scope.cancel()
    return figures


def ways(q: Embedded, path: str) -> dict[str, Way]:
    """By name."""
    outside = Outside(f"file:{path}")

    async def at(place: Place) -> None:
        usual, READS[wire.StatsRequest] = READS[wire.StatsRequest], place
        try:
            await q.engine.call(ASK)
        finally:
            READS[wire.StatsRequest] = usual

    return {
        "in the trio thread": lambda: at(Place.HERE),
        "in a thread of its own": lambda: at(Place.THREAD),
        "through the writer": lambda: q.engine._submit(ASK),
        "from outside, a connection each": lambda: trio.to_thread.run_sync(outside.call, ASK),
    }


async def produce(q: Embedded) -> None:
    while True:
        await q.send_one("busy", BODY)


async def timed(way: Way, number: int) -> float:
    """Median microseconds."""
    taken: list[float] = []
    for _ in range(number):
        began = time.perf_counter()
        await way()
        taken.append((time.perf_counter() - began) * 1e6)
    return median(taken)


if __name__ == "__main__":
    main()
