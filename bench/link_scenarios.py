"""Scenarios over the link: a broker process at one end of a Unix socket, this program at the other.

The broker's HTTP side stands idle beside it. Processor time, memory and bytes written are the
broker's; sends are of 256 bytes, a cycle is a receive of one message and its complete.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import trio

from bench import http
from bench.scenario import Sample, Scenario, Watch
from bench.yardstick import BODY
from mqlite_actor.sdk.linked import Linked, open_link

Load = Callable[[Path, float], Awaitable[Sample]]


@asynccontextmanager
async def linked(folder: Path) -> AsyncIterator[tuple[Linked, int]]:
    """A handle with a queue q, and the id of the process that holds it."""
    with TemporaryDirectory(prefix="bench-") as short:  # a socket's path has 107 bytes at most
        path = f"{short}/link"
        with http.broker(folder, "NORMAL", link_socket=path) as running:
            async with open_link(path) as q:
                await q.create_queue("q", lock_duration=300)
                yield q, running.process


async def produce(folder: Path, scale: float, *, producers: int, number: int = 20_000) -> Sample:
    """Single sends by concurrent producers."""
    each = max(1, int(number * scale) // producers)
    async with linked(folder) as (q, process):
        with Watch(process) as watch:

            async def send() -> None:
                for _ in range(each):
                    began = time.perf_counter()
                    await q.send_one("q", BODY)
                    watch.latencies.append(time.perf_counter() - began)

            await _together(send, producers)
    return watch.sample(each * producers, folder)


async def cycles(folder: Path, scale: float, *, consumers: int) -> Sample:
    """Receive one and complete it, until a filled queue is empty."""
    number = max(consumers, int(10_000 * scale))
    done = 0
    async with linked(folder) as (q, process):
        for _ in range(number // 100 + 1):
            await q.send("q", [BODY] * 100)
        with Watch(process) as watch:

            async def consume() -> None:
                nonlocal done
                while done < number:
                    began = time.perf_counter()
                    for message in await q.receive("q"):
                        await message.complete()
                        done += 1
                    watch.latencies.append(time.perf_counter() - began)

            await _together(consume, consumers)
    return watch.sample(done, folder)


async def _together(work: Callable[[], Awaitable[None]], number: int) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(number):
            nursery.start_soon(work)


def _run(load: Load) -> Callable[[Path, float], Sample]:
    return lambda folder, scale: trio.run(load, folder, scale)


SCENARIOS: Final = (
    Scenario("link send 1", "single sends, one producer",
             _run(partial(produce, producers=1, number=5_000))),
    Scenario("link send 64", "64 producers on one link", _run(partial(produce, producers=64))),
    Scenario("link cycle 64", "receive one and complete it, 64 consumers on one link",
             _run(partial(cycles, consumers=64))),
)  # fmt: skip
