"""Scenarios of the engine inside the program: no socket, no other process.

Each opens a fresh file. Sends are 256 bytes unless the name says otherwise; a cycle is a receive of
one message and its complete.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

import apsw
import msgspec
import trio

from bench.embedded import fresh
from bench.scenario import Sample, Scenario, Watch
from bench.yardstick import BODY
from mqlite_actor import Embedded
from mqlite_actor.contract.wire import Message
from mqlite_actor.sdk.message import ReceivedMessage

PROPERTIES: Final = {f"name{n}": f"value of property {n}" for n in range(6)}

Load = Callable[[Path, float], Awaitable[Sample]]


def _run(load: Load) -> Callable[[Path, float], Sample]:
    return lambda folder, scale: trio.run(load, folder, scale)


async def produce(
    folder: Path,
    scale: float,
    *,
    producers: int,
    number: int = 20_000,
    synchronous: str = "NORMAL",
    message: Message | None = None,
) -> Sample:
    """Single sends by concurrent producers."""
    one = message or Message(body=BODY)
    each = max(1, int(number * scale) // producers)
    async with fresh(folder, synchronous) as q:
        await q.create_queue("q")
        with Watch() as watch:

            async def send() -> None:
                for _ in range(each):
                    began = time.perf_counter()
                    await q.send("q", [one])
                    watch.latencies.append(time.perf_counter() - began)

            await _together(send, producers)
    return watch.sample(each * producers, folder)


async def batches(folder: Path, scale: float, *, size: int, producers: int) -> Sample:
    """Sends of many messages a call; operations are messages, latencies are of calls."""
    calls = max(1, int(64_000 * scale) // size // producers)
    async with fresh(folder, "NORMAL") as q:
        await q.create_queue("q")
        with Watch() as watch:

            async def send() -> None:
                for _ in range(calls):
                    began = time.perf_counter()
                    await q.send("q", [BODY] * size)
                    watch.latencies.append(time.perf_counter() - began)

            await _together(send, producers)
    return watch.sample(calls * producers * size, folder)


async def cycles(
    folder: Path, scale: float, *, consumers: int, groups: int = 0, ordering: str = ""
) -> Sample:
    """Receive one and complete it, until a filled queue is empty."""
    number = max(consumers, int(10_000 * scale))
    async with fresh(folder, "NORMAL") as q:
        await q.create_queue("q", ordering_mode=ordering)
        await fill(q, number, groups=groups)
        with Watch() as watch:

            async def consume() -> None:
                began = time.perf_counter()
                while received := await q.receive("q", wait=1 if groups else 0):
                    await received[0].complete()
                    watch.latencies.append(time.perf_counter() - began)
                    began = time.perf_counter()
                    if (groups or ordering) and len(watch.latencies) >= number:
                        return

            await _together(consume, consumers)
    return watch.sample(len(watch.latencies), folder)


async def end_to_end(
    folder: Path, scale: float, *, producers: int, consumers: int, groups: int = 0
) -> Sample:
    """Producers and consumers at once; latency is from before the send to after the complete."""
    each = max(1, int(8_000 * scale) // producers)
    number = each * producers
    async with fresh(folder, "NORMAL") as q:
        await q.create_queue("q", ordering_mode="group_fifo" if groups else "")
        with Watch() as watch:

            async def produce_all() -> None:
                for n in range(each):
                    body = time.perf_counter_ns().to_bytes(8, "big") + BODY[8:]
                    await q.send_one("q", body, group_id=f"g{n % groups}" if groups else "")

            async def consume() -> None:
                while len(watch.latencies) < number:
                    for message in await q.receive("q", max_messages=16, wait=0.2):
                        await message.complete()
                        sent = int.from_bytes(message.body[:8], "big")
                        watch.latencies.append((time.perf_counter_ns() - sent) / 1e9)

            async with trio.open_nursery() as nursery:
                for _ in range(producers):
                    nursery.start_soon(produce_all)
                for _ in range(consumers):
                    nursery.start_soon(consume)
    return watch.sample(number, folder)


async def drain(folder: Path, scale: float) -> Sample:
    """Remove a backlog by four consumers, 64 messages a call."""
    number = max(64, int(50_000 * scale))
    async with fresh(folder, "NORMAL") as q:
        await q.create_queue("q")
        await fill(q, number)
        with Watch() as watch:

            async def consume() -> None:
                while True:
                    began = time.perf_counter()
                    found = await q.receive("q", max_messages=64, at_most_once=True)
                    if not found:
                        return
                    watch.latencies.append(time.perf_counter() - began)

            await _together(consume, 4)
    return watch.sample(number, folder)


async def backlog(folder: Path, scale: float, *, waiting: int) -> Sample:
    """Claims and completes in front of very many messages that stay."""
    number = max(64, int(4_000 * scale))
    async with fresh(folder, "NORMAL") as q:
        await q.create_queue("q")
        await fill(q, int(waiting * min(1.0, scale * 10)) + number)
        with Watch() as watch:

            async def consume() -> None:
                for _ in range(number // 16):
                    began = time.perf_counter()
                    (message,) = await q.receive("q")
                    await message.complete()
                    watch.latencies.append(time.perf_counter() - began)

            await _together(consume, 16)
    return watch.sample(number // 16 * 16, folder)


async def blocked(folder: Path, scale: float, *, in_front: int) -> Sample:
    """Claims of other groups behind very many messages of one that is held."""
    number = max(64, int(2_000 * scale))
    async with fresh(folder, "NORMAL") as q:
        await q.create_queue("q", ordering_mode="group_fifo")
        for _ in range(max(1, int(in_front * min(1.0, scale * 10)) // 1000)):
            await q.send("q", [Message(body=BODY, group_id="held")] * min(in_front, 1000))
        (held,) = await q.receive("q")
        await fill(q, number, groups=number)
        with Watch() as watch:
            for _ in range(number):
                began = time.perf_counter()
                (message,) = await q.receive("q")
                await message.complete()
                watch.latencies.append(time.perf_counter() - began)
        await held.abandon()
    return watch.sample(number, folder)


async def churn(folder: Path, scale: float) -> Sample:
    """Queues made, used once and deleted."""
    number = max(4, int(400 * scale))
    async with fresh(folder, "NORMAL") as q:
        with Watch() as watch:
            for n in range(number):
                began = time.perf_counter()
                name = f"queue-{n}-{secrets.token_hex(2)}"
                await q.create_queue(name)
                await q.send_one(name, BODY)
                (message,) = await q.receive(name)
                await message.complete()
                (found,) = [each for each in await q.list_queues() if each.name == name]
                await q.delete_queue(name, generation=found.generation)
                watch.latencies.append(time.perf_counter() - began)
    return watch.sample(number, folder)


async def settles(folder: Path, scale: float) -> Sample:
    """Completes of leases that are held; on disk are then the receipts, and no message."""
    number = max(64, int(20_000 * scale)) // 64 * 64
    held: list[ReceivedMessage] = []
    async with fresh(folder, "NORMAL") as q:
        await q.create_queue("q")
        await fill(q, number)
        while len(held) < number:
            held += await q.receive("q", max_messages=256)
        with Watch() as watch:

            async def settle() -> None:
                for _ in range(number // 64):
                    began = time.perf_counter()
                    await held.pop().complete()
                    watch.latencies.append(time.perf_counter() - began)

            await _together(settle, 64)
    stored = await trio.to_thread.run_sync(stored_bytes, folder, "receipts")
    return msgspec.structs.replace(watch.sample(number), disk_bytes=stored)


def stored_bytes(folder: Path, table: str) -> int:
    """What a table and its indexes take in the closed file of a folder."""
    (path,) = folder.glob("*.db")
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        text = (
            "SELECT sum(d.pgsize) FROM dbstat AS d, sqlite_schema AS s"
            " WHERE d.name = s.name AND s.tbl_name = ?"
        )
        ((found,),) = connection.execute(text, (table,)).fetchall()
        assert isinstance(found, int)
        return found
    finally:
        connection.close()


async def fill(q: Embedded, number: int, *, groups: int = 0) -> None:
    """Store messages, a thousand a call."""
    for start in range(0, number, 1000):
        numbers = range(start, min(number, start + 1000))
        await q.send(
            "q", [Message(body=BODY, group_id=f"g{n % groups}" if groups else "") for n in numbers]
        )


async def _together(task: Callable[[], Awaitable[None]], number: int) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(number):
            nursery.start_soon(task)


def _sized(size: int) -> Callable[[Path, float], Sample]:
    number = max(64, min(8_000, (64 << 20) // size))
    message = Message(body=b"x" * size)
    return _run(partial(produce, producers=8, number=number, message=message))


_RICH: Final = Message(
    body=BODY, properties=PROPERTIES, correlation_id="a request", subject="orders",
    content_type="application/json",
)  # fmt: skip

SCENARIOS: Final = (
    Scenario("produce 1", "single sends, 1 producer",
             _run(partial(produce, producers=1, number=4_000))),
    Scenario("produce 8", "single sends, 8 producers", _run(partial(produce, producers=8))),
    Scenario("produce 64", "single sends, 64 producers", _run(partial(produce, producers=64))),
    Scenario("produce 64 FULL", "the same, each commit flushed",
             _run(partial(produce, producers=64, synchronous="FULL"))),
    Scenario("produce 64 rich", "with 6 properties and 3 texts",
             _run(partial(produce, producers=64, message=_RICH))),
    Scenario("batch 16", "16 messages a call, 4 producers",
             _run(partial(batches, size=16, producers=4))),
    Scenario("batch 64", "64 messages a call, 4 producers",
             _run(partial(batches, size=64, producers=4))),
    Scenario("size 64 B", "8 producers", _sized(64)),
    Scenario("size 1 KiB", "8 producers", _sized(1 << 10)),
    Scenario("size 16 KiB", "8 producers", _sized(16 << 10)),
    Scenario("size 256 KiB", "8 producers", _sized(256 << 10)),
    Scenario("size 1 MiB", "8 producers", _sized(1 << 20)),
    Scenario("cycle 1", "receive one, complete it; 1 consumer", _run(partial(cycles, consumers=1))),
    Scenario("cycle 64", "the same, 64 consumers", _run(partial(cycles, consumers=64))),
    Scenario("groups", "the same over 500 groups, 16 consumers",
             _run(partial(cycles, consumers=16, groups=500, ordering="group_fifo"))),
    Scenario("strict", "the same on a strict queue, 1 consumer",
             _run(partial(cycles, consumers=1, ordering="strict_fifo"))),
    Scenario("end to end 1x1", "1 producer, 1 consumer at once",
             _run(partial(end_to_end, producers=1, consumers=1))),
    Scenario("end to end 4x4", "4 producers, 4 consumers at once",
             _run(partial(end_to_end, producers=4, consumers=4))),
    Scenario("settle 64", "complete a held lease, 64 consumers; on disk: the receipts",
             _run(settles)),
    Scenario("drain", "receive and delete, 64 a call, 4 consumers", _run(drain)),
    Scenario("backlog 1k", "cycles in front of 1,000 messages",
             _run(partial(backlog, waiting=1_000))),
    Scenario("backlog 1M", "cycles in front of 1,000,000 messages",
             _run(partial(backlog, waiting=1_000_000))),
    Scenario("blocked 1", "cycles behind one message of a held group",
             _run(partial(blocked, in_front=1))),
    Scenario("blocked 50k", "cycles behind 50,000 messages of a held group",
             _run(partial(blocked, in_front=50_000))),
    Scenario("churn", "a queue made, used and deleted", _run(churn)),
)  # fmt: skip
