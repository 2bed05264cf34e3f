"""A shop that keeps orders beside its queue, until somebody kills it.

`python -m tests.crash.outbox_worker PATH SYNCHRONOUS SEED MODE` writes one line per event to
stdout, each in one write: `ready`, `ordered N` after the commit of order N with its message,
`handled N` after the commit that completed N's message and noted it, `alive WORD` in answer to a
line WORD on stdin. With the mode `stop` it makes a few orders, then writes the row of one more,
says `inside N`, and stays there with the transaction open.
"""

from __future__ import annotations

import os
import random
import sys

import trio

from mqlite_actor.sdk.embedded import Embedded, open_embedded
from mqlite_actor.sdk.message import ReceivedMessage
from mqlite_actor.sdk.transaction import SyncTx

TABLES = """
CREATE TABLE IF NOT EXISTS orders (nonce TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS handled (nonce TEXT NOT NULL)"""
ORDER = "INSERT INTO orders VALUES (?)"
HANDLED = "INSERT INTO handled VALUES (?)"

ORDERS_BEFORE_STOP = 5


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


class Shop:
    """Producers and consumers of one process."""

    def __init__(self, q: Embedded, seed: int) -> None:
        self.q = q
        self.dice = random.Random(seed)
        self.name = f"{os.getpid()}-{seed}"
        self.number = 0

    def nonce(self) -> str:
        self.number += 1
        return f"{self.name}-{self.number}"

    async def order(self) -> None:
        """An order and its message, in either of the two ways."""
        nonce = self.nonce()
        body = nonce.encode() + b" " * self.dice.choice((0, 500, 5_000))

        def work(tx: SyncTx) -> None:
            tx.execute(ORDER, (nonce,))
            tx.send_one("q", body)

        if self.dice.random() < 0.5:
            await self.q.run_tx(work)
        else:
            async with self.q.tx() as tx:
                await tx.execute(ORDER, (nonce,))
                await tx.send_one("q", body)
        say(f"ordered {nonce}")

    async def handle(self, message: ReceivedMessage) -> None:
        """Note what was received, and complete it; now and then change one's mind."""
        nonce = message.text.strip()

        def work(tx: SyncTx) -> bool:
            tx.execute(HANDLED, (nonce,))
            if self.dice.random() < 0.2:
                raise Undo
            tx.complete(message)
            return True

        try:
            await self.q.run_tx(work)
        except Undo:
            await message.abandon()
        else:
            say(f"handled {nonce}")

    async def produce(self) -> None:
        while True:
            await self.order()

    async def consume(self) -> None:
        while True:
            for message in await self.q.receive("q", max_messages=3, wait=20):
                await self.handle(message)

    async def stop_inside(self) -> None:
        for _ in range(ORDERS_BEFORE_STOP):
            await self.order()
        async with self.q.tx(seconds=30) as tx:
            nonce = self.nonce()
            await tx.execute(ORDER, (nonce,))
            say(f"inside {nonce}")
            await trio.sleep_forever()


class Undo(Exception):
    """The handler changed its mind."""


async def answer() -> None:
    """Prove to whoever asks that this process runs."""
    stdin = trio.wrap_file(sys.stdin)
    async for line in stdin:
        say(f"alive {line.strip()}")


async def main(path: str, synchronous: str, seed: str, mode: str) -> None:
    async with open_embedded(f"file:{path}", synchronous=synchronous) as q:
        async with q.tx() as tx:
            await tx.execute(TABLES)
        await q.create_queue("q", lock_duration=3_600, max_delivery_count=1_000)
        shop = Shop(q, int(seed))
        say("ready")
        if mode == "stop":
            await shop.stop_inside()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            for task in (shop.produce, shop.produce, shop.consume, shop.consume):
                nursery.start_soon(task)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4])
