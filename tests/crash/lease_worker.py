"""Sixteen tasks over an embedded engine with short leases, until they are killed or asked to leave.

`python -m tests.crash.lease_worker PATH SYNCHRONOUS SEED LIFE OFFSET` writes an Event to stdout
before each call and after each answer, in one write each; the end of its stdin closes the engine in
order. Its clock is OFFSET milliseconds beside the machine's, and a line of stdin sets it forth.
Consumers complete, abandon with and without a delay, reject, renew, dawdle past the end of a lease,
or forget. Producers send to groups, and repeat keys inside and outside their window, sometimes with
another body.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Awaitable, Callable

import msgspec
import trio

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import DedupConflict, LockLost
from mqlite_actor.sdk.embedded import Embedded, open_embedded
from mqlite_actor.sdk.message import ReceivedMessage
from tests.crash.timeline import LOCK_MS, QUEUES, WINDOW_MS, Event, Item, Kind, Verb

PRODUCERS = ("plain", "plain", "groups", "groups", "strict", "drain", "once", "once")
CONSUMERS = ("plain", "plain", "groups", "groups", "strict", "drain", "once", "once")
GROUPS = 4
KEYS = 5

AHEAD_MAX = 40
"""How far the producers of a queue run ahead of its consumers."""


class SteppedClock(SystemClock):
    """The machine's clock, and how far it was set beside it."""

    __slots__ = ("offset_ms",)

    def __init__(self) -> None:
        self.offset_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.offset_ms


CLOCK = SteppedClock()
now = CLOCK.now_ms

VERBS: dict[Verb, Callable[[ReceivedMessage, float], Awaitable[None]]] = {
    Verb.COMPLETE: lambda message, _: message.complete(),
    Verb.ABANDON: lambda message, delay: message.abandon(delay=delay),
    Verb.REJECT: lambda message, _: message.reject("bad"),
    Verb.RENEW: lambda message, _: message.renew(),
}


class Worker:
    """The tasks and their pen."""

    def __init__(self, q: Embedded, seed: int, life: int) -> None:
        self.q = q
        self.dice = random.Random(seed)
        self.name = f"{life}"
        self.call = 0
        self.ahead = dict.fromkeys(QUEUES, 0)
        self.closing = trio.Event()

    def write(self, kind: Kind, queue: str = "", call: int = 0, *items: Item) -> None:
        self.write_event(Event(kind, now(), queue, call, items))

    def write_event(self, event: Event) -> None:
        line = msgspec.json.encode(event) + b"\n"
        assert len(line) <= 4096, "longer than a pipe takes whole"
        os.write(1, line)

    def next_call(self) -> int:
        self.call += 1
        return self.call

    async def pause(self, ms: float) -> None:
        """Do something else for so long, or until the end."""
        with trio.move_on_after(ms / 1000):
            await self.closing.wait()

    # -- sending -----------------------------------------------------------------------------------

    async def produce(self, queue: str, place: int) -> None:
        for number in range(sys.maxsize):
            while self.ahead[queue] >= AHEAD_MAX:
                await self.pause(20)
            self.ahead[queue] += 1
            if queue == "once":
                await self.send_once()
                continue
            group = f"g{self.dice.randrange(GROUPS)}" if queue == "groups" else ""
            size = self.dice.choice((1, 1, 3))
            bodies = [f"{self.name}-{place}-{number}.{part}" for part in range(size)]
            await self.send(queue, [Item(body, group=group) for body in bodies])

    async def send_once(self) -> None:
        """A key that is probably in its window; now and then with another body."""
        key = f"k{self.dice.randrange(KEYS)}"
        body = key if self.dice.random() < 0.9 else f"{key} otherwise"
        await self.send("once", [Item(body, key=key)])
        await self.pause(self.dice.random() * WINDOW_MS / 4)

    async def send(self, queue: str, items: list[Item]) -> None:
        call = self.next_call()
        self.write(Kind.SENDING, queue, call, *items)
        batch = [
            wire.Message(body=item.body.encode(), group_id=item.group, message_id=item.key)
            for item in items
        ]
        try:
            reply = await self.q.call(wire.SendRequest(queue=queue, messages=batch))
        except DedupConflict:
            self.write(Kind.CONFLICT, queue, call)
            return
        numbers = reply.seq_numbers or []
        sent = [
            msgspec.structs.replace(item, seq=seq) for item, seq in zip(items, numbers, strict=True)
        ]
        self.write(Kind.SENT, queue, call, *sent)

    # -- receiving ---------------------------------------------------------------------------------

    async def consume(self, queue: str) -> None:
        while True:
            most = self.dice.randint(1, 3)
            found = await self.q.receive(queue, max_messages=most, wait=20)
            self.write(Kind.CLAIMED, queue, 0, *map(as_item, found))
            self.ahead[queue] = max(0, self.ahead[queue] - len(found))
            for message in found:  # one after another, so the last one may have waited too long
                await self.deal_with(queue, message)

    async def deal_with(self, queue: str, message: ReceivedMessage) -> None:
        roll = self.dice.random()
        if roll < 0.10:  # too long, or nearly
            await self.pause(LOCK_MS * (0.7 + self.dice.random()))
        elif roll < 0.20:  # renewed in time, mostly
            await self.pause(LOCK_MS * self.dice.random())
            await self.ask(queue, message, Verb.RENEW)
            await self.pause(LOCK_MS * self.dice.random())
        elif roll < 0.27:
            return  # forgotten
        roll = self.dice.random()
        if roll < 0.70:
            await self.ask(queue, message, Verb.COMPLETE)
        elif roll < 0.96:
            await self.ask(queue, message, Verb.ABANDON, delay=self.dice.choice((0, 0, 80)))
        else:
            await self.ask(queue, message, Verb.REJECT)

    async def ask(
        self, queue: str, message: ReceivedMessage, verb: Verb, *, delay: int = 0
    ) -> None:
        call = self.next_call()
        item = as_item(message)
        self.write_event(Event(Kind.SETTLING, now(), queue, call, (item,), verb, delay))
        try:
            await VERBS[verb](message, delay / 1000)
        except LockLost:
            self.write(Kind.LOST, queue, call)
        else:
            self.write(Kind.SETTLED, queue, call)

    async def drain(self, queue: str) -> None:
        while True:
            call, most = self.next_call(), self.dice.randint(1, 3)
            self.write(Kind.DRAINING, queue, call, *[Item("")] * most)
            found = await self.q.receive(queue, max_messages=most, wait=20, at_most_once=True)
            self.write(Kind.CLAIMED, queue, call, *map(as_item, found))
            self.ahead[queue] = max(0, self.ahead[queue] - len(found))


def as_item(message: ReceivedMessage) -> Item:
    raw = message.raw
    return Item(
        message.text,
        message.seq_number,
        message.group_id,
        message.message_id,
        message.delivery_count,
        raw.enqueued_at_ms,
        raw.locked_until_ms,
    )


async def main(path: str, synchronous: str, seed: str, life: str, offset: str) -> None:
    CLOCK.offset_ms = int(offset)
    async with open_embedded(f"file:{path}", synchronous=synchronous, clock=CLOCK) as q:
        for queue, config in QUEUES.items():
            await q.call(wire.CreateQueueRequest(name=queue, config=config))
        worker = Worker(q, int(seed), int(life))
        worker.write(Kind.READY)
        async with trio.open_nursery() as nursery:
            for place, queue in enumerate(PRODUCERS):
                nursery.start_soon(worker.produce, queue, place)
            for queue in CONSUMERS:
                nursery.start_soon(worker.drain if queue == "drain" else worker.consume, queue)
            async for line in trio.wrap_file(sys.stdin):  # the end of it is the sign
                CLOCK.offset_ms += int(line)
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5])
