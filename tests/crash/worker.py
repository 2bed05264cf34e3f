"""A program that uses an engine as hard as it can until somebody kills it.

`python -m tests.crash.worker PATH SYNCHRONOUS SEED` reads the bodies to send again from stdin, one
a line, then runs sixteen producers and consumers over QUEUES. It writes a Note to stdout before
each call that changes something and after each acknowledgement, in one write each, so that whoever
reads the pipe knows exactly what had been promised when the process died. Read by history.py.
"""

from __future__ import annotations

import os
import random
import sys
from enum import StrEnum

import msgspec
import trio

from mqlite_actor.contract import wire
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine

HOUR_MS = 3_600_000
DELIVERIES_MAX = 4
GROUPS = 5

QUEUES = {
    "plain": wire.QueueConfig(lock_duration_ms=HOUR_MS, max_delivery_count=DELIVERIES_MAX),
    "groups": wire.QueueConfig(
        lock_duration_ms=HOUR_MS, max_delivery_count=DELIVERIES_MAX, ordering_mode="group_fifo"
    ),
    "strict": wire.QueueConfig(
        lock_duration_ms=HOUR_MS, max_delivery_count=DELIVERIES_MAX, ordering_mode="strict_fifo"
    ),
    "drain": wire.QueueConfig(),
    "once": wire.QueueConfig(lock_duration_ms=HOUR_MS, dedup_window_ms=HOUR_MS),
}
PRODUCERS = ("plain", "plain", "groups", "groups", "strict", "drain", "drain", "once")
CONSUMERS = ("plain", "plain", "groups", "groups", "strict", "drain", "once", "once")


class Kind(StrEnum):
    """What a note says."""

    READY = "ready"
    SENDING = "sending"
    SENT = "sent"
    DELIVERED = "delivered"
    COMPLETING = "completing"
    COMPLETED = "completed"
    GIVEN_UP = "given up"
    DRAINING = "draining"
    DRAINED = "drained"


class Item(msgspec.Struct, frozen=True, array_like=True):
    """A message of a note."""

    body: str
    seq: int = 0
    group: str = ""
    count: int = 0


class Note(msgspec.Struct, frozen=True, array_like=True):
    """One line. `number` tells the calls of a process apart."""

    kind: Kind
    queue: str = ""
    number: int = 0
    items: tuple[Item, ...] = ()
    token: str = ""


class Worker:
    """The sixteen tasks and their pen."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self.engine = engine
        self.dice = random.Random(seed)
        self.name = f"{os.getpid()}-{seed}"
        self.calls = 0

    def write(self, kind: Kind, queue: str, number: int, *items: Item, token: str = "") -> None:
        line = msgspec.json.encode(Note(kind, queue, number, items, token)) + b"\n"
        assert len(line) <= 4096, "longer than a pipe takes whole"
        os.write(1, line)

    def next_call(self) -> int:
        self.calls += 1
        return self.calls

    async def send(self, queue: str, bodies: list[str], group: str) -> None:
        number = self.next_call()
        items = [Item(body, group=group) for body in bodies]
        self.write(Kind.SENDING, queue, number, *items)
        batch = [
            wire.Message(body=body.encode(), group_id=group, message_id=body) for body in bodies
        ]
        reply = await self.engine.call(wire.SendRequest(queue=queue, messages=batch))
        assert reply.seq_numbers
        sent = [Item(b, seq, group) for b, seq in zip(bodies, reply.seq_numbers, strict=True)]
        self.write(Kind.SENT, queue, number, *sent)

    async def produce(self, queue: str, place: int) -> None:
        for number in range(sys.maxsize):
            size = self.dice.choice((1, 1, 2, 3))
            group = f"g{self.dice.randrange(GROUPS)}" if queue == "groups" else ""
            stem = f"{self.name}-{place}-{number}"
            padding = "x" * self.dice.choice((0, 50, 700, 1200))
            bodies = [f"{stem}.{part}{padding}"[:1300] for part in range(size)]
            await self.send(queue, bodies, group)

    async def consume(self, queue: str) -> None:
        while True:
            request = wire.ReceiveRequest(
                queue=queue, max_messages=self.dice.randint(1, 3), wait_time_ms=20_000
            )
            for message in (await self.engine.call(request)).messages:
                await self.settle(queue, message)

    async def settle(self, queue: str, message: wire.Message) -> None:
        item, token = as_item(message), message.lock_token
        self.write(Kind.DELIVERED, queue, 0, item)
        number = self.next_call()
        roll = self.dice.random()
        if roll < 0.75:
            self.write(Kind.COMPLETING, queue, number, item, token=token)
            await self.engine.call(
                wire.CompleteRequest(queue=queue, seq_number=item.seq, lock_token=token)
            )
            self.write(Kind.COMPLETED, queue, number, item, token=token)
            return
        verb = wire.AbandonRequest if roll < 0.97 else wire.RejectRequest
        await self.engine.call(verb(queue=queue, seq_number=item.seq, lock_token=token))
        self.write(Kind.GIVEN_UP, queue, number, item)

    async def drain(self, queue: str) -> None:
        while True:
            number, most = self.next_call(), self.dice.randint(1, 3)
            self.write(Kind.DRAINING, queue, number, *[Item("")] * most)
            request = wire.ReceiveRequest(
                queue=queue, max_messages=most, wait_time_ms=20_000, receive_mode=1
            )
            found = (await self.engine.call(request)).messages
            self.write(Kind.DRAINED, queue, number, *map(as_item, found))


def as_item(message: wire.Message) -> Item:
    return Item(message.body.decode(), message.seq_number, message.group_id, message.delivery_count)


async def main(path: str, synchronous: str, seed: str) -> None:
    again = sys.stdin.read().split()
    async with open_engine(path, EngineOptions(synchronous=synchronous)) as engine:
        for queue, config in QUEUES.items():
            await engine.call(wire.CreateQueueRequest(name=queue, config=config))
        worker = Worker(engine, int(seed))
        worker.write(Kind.READY, "", 0)
        for body in again:
            await worker.send("once", [body], "")
        async with trio.open_nursery() as nursery:
            for place, queue in enumerate(PRODUCERS):
                nursery.start_soon(worker.produce, queue, place)
            for queue in CONSUMERS:
                nursery.start_soon(worker.drain if queue == "drain" else worker.consume, queue)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
