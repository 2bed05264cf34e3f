"""Scenarios of a remote store at a round trip of 45 ms: what a commit far away costs, and how far
group commit makes up for it.

The database is the tests' reference server (`python -m tests.hrana`), in a process of its own,
which answers each request so much later. Latency is what is measured here, not that server's speed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import trio

import mqlite_actor as mq
from bench.scenario import Sample, Scenario, Watch
from bench.yardstick import BODY

LATENCY_MS: Final = 45
"""A commit on a managed database in the same region (spec/remote.md: 45 to 57 ms)."""

CALLS: Final = 100
"""Of each producer or consumer: some five to ten seconds."""

END_SECONDS: Final = 10.0


@contextmanager
def far_away(folder: Path) -> Iterator[str]:
    """The address of a server that is LATENCY_MS away; ended afterwards."""
    place = folder / "server"
    place.mkdir()
    command = [sys.executable, "-m", "tests.hrana", str(place), "--latency-ms", str(LATENCY_MS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(END_SECONDS)


async def _sends(url: str, scale: float, *, producers: int) -> Sample:
    each = max(5, int(CALLS * scale))
    async with mq.open_embedded(url, background=False) as q:
        await q.create_queue("q")
        await q.send_one("q", BODY)
        with Watch() as watch:

            async def send() -> None:
                for _ in range(each):
                    began = time.perf_counter()
                    await q.send_one("q", BODY)
                    watch.latencies.append(time.perf_counter() - began)

            await _together(send, producers)
    return watch.sample(each * producers)


async def _cycles(url: str, scale: float, *, consumers: int) -> Sample:
    each = max(5, int(CALLS * scale / 2))
    async with mq.open_embedded(url, background=False) as q:
        await q.create_queue("q")
        for _ in range(consumers):
            await q.send("q", [BODY] * each)
        with Watch() as watch:

            async def consume() -> None:
                for _ in range(each):
                    began = time.perf_counter()
                    for message in await q.receive("q"):
                        await message.complete()
                    watch.latencies.append(time.perf_counter() - began)

            await _together(consume, consumers)
    return watch.sample(each * consumers)


async def _together(work: Callable[[], Awaitable[None]], number: int) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(number):
            nursery.start_soon(work)


def _run(load: Callable[[str, float], Awaitable[Sample]]) -> Callable[[Path, float], Sample]:
    def run(folder: Path, scale: float) -> Sample:
        with far_away(folder) as url:
            return trio.run(load, url, scale)

    return run


SCENARIOS: Final = (
    *(
        Scenario(
            f"remote send {producers}",
            f"a remote store {LATENCY_MS} ms away, {producers} producer{'s' * (producers > 1)}",
            _run(partial(_sends, producers=producers)),
            needs="httpcore",
        )
        for producers in (1, 16, 64)
    ),
    Scenario(
        "remote cycle 64",
        f"receive and complete {LATENCY_MS} ms away, 64 consumers",
        _run(partial(_cycles, consumers=64)),
        needs="httpcore",
    ),
)
