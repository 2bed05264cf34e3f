"""What people would pick instead, on the same work: durable sends of 256 bytes, and take one and
acknowledge it.

Local libraries on SQLite run in this process; servers from the distribution are started on loopback
with the durability nearest to ours (each acknowledged message is on disk or in the log of the
kernel) and ended by their process. A peer that is not installed is left out and named.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.scenario import Sample, Scenario, Watch
from bench.yardstick import BODY

Client = Any
"""A peer's client; their libraries bring no types."""

CLIENTS: Final = 64

RABBITMQ: Final = "/usr/lib/rabbitmq/bin/rabbitmq-server"
"""The program itself; the one on the path changes to a user who may not write into our folder."""


# -- libraries on SQLite ---------------------------------------------------------------------------


def litequeue(folder: Path, scale: float, *, takes: bool) -> Sample:
    """One client, a commit an operation."""
    from litequeue import LiteQueue

    queue: Client = LiteQueue(str(folder / "lite.db"))
    body = BODY.decode()

    def take() -> None:
        queue.done(queue.pop().message_id)

    return _local(partial(queue.put, body), take if takes else None, int(4_000 * scale))


def persist_queue(folder: Path, scale: float, *, takes: bool) -> Sample:
    """SQLiteAckQueue, one client."""
    import persistqueue

    queue: Client = persistqueue.SQLiteAckQueue(str(folder), auto_commit=True)
    return _local(
        partial(queue.put, BODY),
        (lambda: queue.ack(queue.get())) if takes else None,
        int(2_000 * scale),
    )


def huey(folder: Path, scale: float, *, takes: bool) -> Sample:
    """Its SQLite storage; a taken task is gone, there is nothing to acknowledge."""
    from huey.storage import SqliteStorage

    queue: Client = SqliteStorage("bench", filename=str(folder / "huey.db"))
    return _local(
        partial(queue.enqueue, BODY), queue.dequeue if takes else None, int(2_000 * scale)
    )


def _local(put: Callable[[], object], take: Callable[[], object] | None, number: int) -> Sample:
    number = max(number, 16)
    if take is not None:
        for _ in range(number):
            put()
    work = take or put
    with Watch() as watch:
        for _ in range(number):
            began = time.perf_counter()
            work()
            watch.latencies.append(time.perf_counter() - began)
    return watch.sample(number)


# -- servers ---------------------------------------------------------------------------------------


def redis(folder: Path, scale: float, *, takes: bool) -> Sample:
    """Streams with an append-only file, flushed at each write, 64 clients."""
    port = free_port()
    command = [
        "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder),
        "--appendonly", "yes", "--appendfsync", "always", "--save", "",
    ]  # fmt: skip
    with serving(command, port) as process:
        return asyncio.run(_redis(port, process, int(16_000 * scale), takes=takes))


async def _redis(port: int, process: int, number: int, *, takes: bool) -> Sample:
    from redis.asyncio import Redis

    client: Client = Redis(port=port, max_connections=CLIENTS + 2)
    await client.xgroup_create("q", "g", mkstream=True)

    async def put(_: int) -> bool:
        await client.xadd("q", {"b": BODY})
        return True

    async def take(who: int) -> bool:
        found = await client.xreadgroup("g", f"c{who}", {"q": ">"}, count=1)
        if not found:
            return False
        await client.xack("q", "g", found[0][1][0][0])
        return True

    try:
        return await _served(put, take if takes else None, number, process)
    finally:
        await client.aclose()


def nats(folder: Path, scale: float, *, takes: bool) -> Sample:
    """JetStream with its file store and default flushing, 64 clients."""
    port = free_port()
    command = ["nats-server", "-js", "-sd", str(folder), "-a", "127.0.0.1", "-p", str(port)]
    with serving(command, port) as process:
        return asyncio.run(_nats(port, process, int(8_000 * scale), takes=takes))


async def _nats(port: int, process: int, number: int, *, takes: bool) -> Sample:
    import nats as library

    connection: Client = await library.connect(f"nats://127.0.0.1:{port}")
    stream = connection.jetstream()
    await stream.add_stream(name="s", subjects=["q"], retention="workqueue")
    pulls = await stream.pull_subscribe("q", durable="d")

    async def put(_: int) -> bool:
        await stream.publish("q", BODY)
        return True

    async def take(_: int) -> bool:
        with suppress(library.errors.TimeoutError):
            for message in await pulls.fetch(1, timeout=1):
                await message.ack_sync()
            return True
        return False

    try:
        return await _served(put, take if takes else None, number, process)
    finally:
        await connection.close()


def beanstalkd(folder: Path, scale: float, *, takes: bool) -> Sample:
    """A flush at each write, 8 clients in threads of this process."""
    port = free_port()
    command = ["beanstalkd", "-l", "127.0.0.1", "-p", str(port), "-b", str(folder), "-f", "0"]
    with serving(command, port) as process:
        return asyncio.run(_beanstalkd(port, process, int(4_000 * scale), takes=takes))


async def _beanstalkd(port: int, process: int, number: int, *, takes: bool) -> Sample:
    import greenstalk

    clients: list[Client] = [greenstalk.Client(("127.0.0.1", port)) for _ in range(8)]

    def put_one(who: int) -> bool:
        clients[who % 8].put(BODY)
        return True

    def take_one(who: int) -> bool:
        try:
            clients[who % 8].delete(clients[who % 8].reserve(timeout=0))
        except greenstalk.TimedOutError:
            return False
        return True

    async def put(who: int) -> bool:
        return await asyncio.to_thread(put_one, who)

    async def take(who: int) -> bool:
        return await asyncio.to_thread(take_one, who)

    return await _served(put, take if takes else None, number, process, clients=8)


def rabbitmq(folder: Path, scale: float, *, takes: bool) -> Sample:
    """A durable queue, persistent messages, each confirmed, 64 channels."""
    names, port = free_port(), free_port()
    own = {
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(names),
        "HOME": str(folder),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_ENABLED_PLUGINS_FILE": "/dev/null",
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_MNESIA_BASE": str(folder),
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
    }
    with (
        serving(["epmd", "-address", "127.0.0.1", "-port", str(names)], names),
        serving([RABBITMQ], port, {**os.environ, **own}, seconds=60) as process,
    ):
        return asyncio.run(_rabbitmq(port, process, int(8_000 * scale), takes=takes))


async def _rabbitmq(port: int, process: int, number: int, *, takes: bool) -> Sample:
    import aio_pika

    connection: Client = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{port}/")
    channels = [await connection.channel(publisher_confirms=True) for _ in range(CLIENTS)]
    queues = [await channel.declare_queue("q", durable=True) for channel in channels]
    inboxes: dict[int, Client] = {}
    left = [max(1, number // CLIENTS)] * CLIENTS
    message = aio_pika.Message(BODY, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)

    async def put(who: int) -> bool:
        await channels[who].default_exchange.publish(message, "q")
        return True

    async def take(who: int) -> bool:
        if who not in inboxes:  # the queue is filled before anybody consumes
            await channels[who].set_qos(prefetch_count=1)
            inboxes[who] = queues[who].iterator(timeout=1)
        try:
            found = await anext(inboxes[who])
        except (StopAsyncIteration, TimeoutError):
            return False
        await found.ack()
        left[who] -= 1
        if not left[who]:  # what it has fetched ahead is somebody else's
            await inboxes[who].close()
        return True

    try:
        return await _served(put, take if takes else None, number, process)
    finally:
        await connection.close()


async def _served(
    put: Callable[[int], Awaitable[bool]],
    take: Callable[[int], Awaitable[bool]] | None,
    number: int,
    process: int,
    *,
    clients: int = CLIENTS,
) -> Sample:
    each = max(1, number // clients)
    if take is not None:
        await _clients(put, clients, each, [])
    with Watch(process) as watch:
        done = await _clients(take or put, clients, each, watch.latencies)
    return watch.sample(done)


async def _clients(
    call: Callable[[int], Awaitable[bool]], clients: int, each: int, latencies: list[float]
) -> int:
    async def client(who: int) -> int:
        for n in range(each):
            began = time.perf_counter()
            if not await call(who):
                return n
            latencies.append(time.perf_counter() - began)
        return each

    return sum(await asyncio.gather(*[client(who) for who in range(clients)]))


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(
    command: list[str], port: int, env: dict[str, str] | None = None, *, seconds: float = 15
) -> Iterator[int]:
    """A server for the length of a block; its process id."""
    server = subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + seconds
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} did not start")
            time.sleep(0.05)
        yield server.pid
    finally:
        server.terminate()
        server.wait(15)


def _pair(name: str, run: Callable[..., Sample], about: str, needs: str) -> list[Scenario]:
    return [
        Scenario(f"{name} send", about, partial(run, takes=False), needs),
        Scenario(f"{name} take", "take one and acknowledge it", partial(run, takes=True), needs),
    ]


SCENARIOS: Final = (
    *_pair("litequeue", litequeue, "1 client, SQLite", "litequeue"),
    *_pair("persist-queue", persist_queue, "1 client, SQLite", "persistqueue"),
    *_pair("huey", huey, "1 client, its SQLite storage", "huey"),
    *_pair("Redis streams", redis, "64 clients, a flush at each write", "redis-server redis"),
    *_pair("NATS JetStream", nats, "64 clients, file store", "nats-server nats"),
    *_pair(
        "RabbitMQ", rabbitmq, "64 channels, durable, each confirmed", f"{RABBITMQ} epmd aio_pika"
    ),
    *_pair("beanstalkd", beanstalkd, "8 clients, a flush at each write", "beanstalkd greenstalk"),
)
