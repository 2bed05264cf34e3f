"""The clients of a soak: producers, consumers, those who look, purge, redrive, schedule, and kill.

Each lives until its nursery is cancelled, and takes an error that says `repeat` for what it is. A
producer pauses while enough is stored, so that a soak is steady, however fast the machine.
"""

from __future__ import annotations

import datetime as dt
import os
import random
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

import mqlite_actor as mq
from mqlite_actor.contract.errors import InvalidArgument, LockLost, WorldError
from mqlite_actor.contract.wire import QueueConfig
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.message import ReceivedMessage
from mqlite_actor.sdk.reader import open_reader
from tests.soak.ledger import Ledger

LOCK_MS = 300_000
"""Longer than a soak's worst pause: a lease that is lost is a fault of somebody."""

QUEUES = {
    "plain": QueueConfig(lock_duration_ms=LOCK_MS, max_delivery_count=100),
    "groups": QueueConfig(
        lock_duration_ms=LOCK_MS, max_delivery_count=100, ordering_mode="group_fifo"
    ),
    "dedup": QueueConfig(lock_duration_ms=LOCK_MS, max_delivery_count=100, dedup_window_ms=60_000),
    "few": QueueConfig(lock_duration_ms=LOCK_MS, max_delivery_count=3),
}
STORED_MAX = 2_000
PAUSE_SECONDS = 0.1


class Load:
    """One soak's clients, around one ledger."""

    def __init__(self, q: Handle, ledger: Ledger, seed: int) -> None:
        self.q = q
        self.ledger = ledger
        self.stored = 0
        self._dice = random.Random(seed)

    async def repeat(self, deed: Callable[[], Awaitable[None]], pause: float = 0.0) -> None:
        """Do it for ever."""
        while True:
            try:
                await deed()
            except WorldError as error:  # a worker was killed, or too much waits
                self.ledger.errors[type(error).__name__] += 1
            self.ledger.deeds[getattr(deed, "__name__", "deed")] += 1
            await trio.sleep(pause)

    async def produce(self) -> None:
        if self.stored > STORED_MAX:
            await trio.sleep(PAUSE_SECONDS)
            return
        queue = self._dice.choice([*QUEUES])
        bodies = self.ledger.bodies(self._dice.choice((1, 1, 5, 20)))
        size = self._dice.choice((10, 10, 200, 5_000))
        messages = [
            mq.Message(body=f"{body} {'x' * size}".encode(), group_id=f"g{int(body) % 7}",
                       message_id=body)
            for body in bodies
        ]  # fmt: skip
        later = self._dice.random() < 0.1 and queue == "plain"
        at = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=15) if later else None
        try:
            await self.q.send(queue, messages, at=at)  # if it raises, the doubt stays
        except InvalidArgument:
            if at is None or at > dt.datetime.now(dt.UTC):
                raise
            self.ledger.errors["too late"] += 1  # under way for longer than it was to wait
        else:
            self.ledger.were_sent(bodies)

    async def consume(self) -> None:
        queue = self._dice.choice([*QUEUES])
        wait = self._dice.choice((0, 0.2, 1))
        for message in await self.q.receive(queue, max_messages=10, wait=wait):
            body = name_of(message.body)
            self.ledger.was_delivered(body)
            try:
                await self._settle(message, body)
            except LockLost:
                self.ledger.errors["LockLost"] += 1  # a repeated call, or a slow machine

    async def _settle(self, message: ReceivedMessage, body: str) -> None:
        chance = self._dice.random()
        if chance < 0.05:
            self.ledger.rejected.add(body)
            await message.reject("soak")
        elif chance < 0.1:
            self.ledger.rejected.add(body)  # the last delivery of `few` ends as a dead letter
            await message.abandon()
        else:
            self.ledger.maybe_completed.add(body)
            await message.complete()
            self.ledger.completed.add(body)

    async def redrive(self) -> None:
        await self.q.redrive(self._dice.choice([*QUEUES]))

    async def purge(self) -> None:
        self.ledger.purges_in_doubt += 1
        self.ledger.purged += await self.q.purge(self._dice.choice([*QUEUES]))
        self.ledger.purges_in_doubt -= 1

    async def count(self) -> None:
        self.stored = sum([(await self.q.stats(queue)).total for queue in QUEUES])

    async def read(self, store: Path) -> None:
        """A reader of the file, as another process would be one; for ever."""
        async with open_reader(f"file:{store}") as reader:

            async def look() -> None:
                await reader.peek("plain", max_messages=100)
                await reader.stats("groups")

            await self.repeat(look, pause=0.05)

    async def kill(self, workers: Callable[[], list[int]], every: float) -> None:
        """Kill a worker now and then; the broker starts another."""
        while True:
            await trio.sleep(every)
            if running := workers():
                os.kill(self._dice.choice(running), signal.SIGKILL)
                self.ledger.deeds["kill"] += 1


def name_of(body: bytes) -> str:
    """The text in front of the padding."""
    return body.partition(b" ")[0].decode()
