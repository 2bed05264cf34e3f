"""What a publish costs with 1, 10 and 100 subscriptions, and what hostile filters cost others.

    python -m bench.publish [--runs 5] [--quick]

Embedded, NORMAL. Each subscription has one of the ten realistic filters of `bench/filters.py`; the
message passes about half of them. Then one producer sends to a plain queue while another publishes
to a topic whose filters use their whole step budget (ruling R12: p99 at most 50 ms).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median, quantiles

import trio

from bench.embedded import fresh
from bench.filters import MESSAGE, REALISTIC
from bench.measure import interleaved
from bench.yardstick import BODY
from mqlite_actor.sdk.handle import Handle

HOSTILE = (
    "all(1..900000, # > 0)",
    "any(1..900, any(1..900, # < 0))",
    "count(map(1..300000, # * 2), # > 5) > 0",
)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    given = parser.parse_args()
    scale = 0.1 if given.quick else 1.0
    with tempfile.TemporaryDirectory(prefix="mqlite-bench-") as name:
        folder = Path(name)
        things: dict[str, Callable[[], float]] = {
            f"publish to {number} subscriptions": partial(
                trio.run, publishes, folder, number, int(scale * 20_000 / (number + 9)) or 1
            )
            for number in (1, 10, 100)
        }
        for figure in interleaved(given.runs, things).values():
            print(f"  {figure}")
        found = [trio.run(beside_hostile, folder, 10 * scale) for _ in range(given.runs)]
    for label in found[0]:
        values = [run[label] for run in found]
        print(f"  {label:54} {median(values):8.2f}   [{min(values):.2f} … {max(values):.2f}]")


async def publishes(folder: Path, subscriptions: int, number: int) -> float:
    """Publishes per second of one producer."""
    filters = list(REALISTIC.values())
    async with fresh(folder, "NORMAL") as q:
        for place in range(subscriptions):
            await q.subscribe("t", f"s{place}", filter=filters[place % len(filters)])
        await q.send("t", [MESSAGE])
        started = time.perf_counter()
        for _ in range(number):
            await q.send("t", [MESSAGE])
        return number / (time.perf_counter() - started)


async def beside_hostile(folder: Path, seconds: float) -> dict[str, float]:
    """Milliseconds of a send to a plain queue, alone and while hostile filters are asked."""
    async with fresh(folder, "NORMAL") as q:
        await q.create_queue("q")
        for place, source in enumerate(HOSTILE):
            await q.subscribe("t", f"s{place}", filter=source)
        alone = await _sends(q, seconds / 4)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_publish_for_ever, q)
            beside = await _sends(q, seconds)
            nursery.cancel_scope.cancel()
    return {
        "send alone, p50 ms": median(alone) * 1000,
        "send beside hostile filters, p50 ms": median(beside) * 1000,
        "send beside hostile filters, p99 ms": quantiles(beside, n=100)[98] * 1000,
        "send beside hostile filters, longest ms": max(beside) * 1000,
    }


async def _sends(q: Handle, seconds: float) -> list[float]:
    found: list[float] = []
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        began = time.perf_counter()
        await q.send_one("q", BODY)
        found.append(time.perf_counter() - began)
    return found


async def _publish_for_ever(q: Handle) -> None:
    while True:
        await q.send_one("t", BODY)


if __name__ == "__main__":
    main()
