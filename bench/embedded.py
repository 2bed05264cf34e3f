"""The engine in this process under producers and consumers; called by the bench programs."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

import mqlite_actor as mq
from bench.yardstick import BODY


def sends(folder: Path, synchronous: str, *, producers: int, number: int) -> float:
    """Single-message sends per second by concurrent producers."""
    return trio.run(partial(_sends, folder, synchronous, producers=producers, number=number))


def cycles(folder: Path, synchronous: str, *, consumers: int, number: int) -> float:
    """receive(1) + complete per second by concurrent consumers of a filled queue."""
    return trio.run(partial(_cycles, folder, synchronous, consumers=consumers, number=number))


async def _sends(folder: Path, synchronous: str, *, producers: int, number: int) -> float:
    async with fresh(folder, synchronous) as q:
        await q.create_queue("q")
        each = number // producers

        async def produce() -> None:
            for _ in range(each):
                await q.send_one("q", BODY)

        started = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(producers):
                nursery.start_soon(produce)
        return each * producers / (time.perf_counter() - started)


async def _cycles(folder: Path, synchronous: str, *, consumers: int, number: int) -> float:
    async with fresh(folder, synchronous) as q:
        await q.create_queue("q")
        for start in range(0, number, 1000):
            await q.send("q", [BODY] * min(1000, number - start))

        async def consume() -> None:
            while received := await q.receive("q"):
                await received[0].complete()

        started = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(consumers):
                nursery.start_soon(consume)
        return number / (time.perf_counter() - started)


@asynccontextmanager
async def fresh(folder: Path, synchronous: str) -> AsyncIterator[mq.Embedded]:
    """An engine on a file of its own; the bench's temporary folder goes with all of them."""
    path = folder / f"engine-{secrets.token_hex(4)}.db"
    async with mq.open_embedded(f"file:{path}", synchronous=synchronous) as q:
        yield q
