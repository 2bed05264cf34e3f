"""`python -m bench --verify N`: numbers 1 to N through a broker, each settled once, bodies whole.

    python -m bench --verify 100000 [--endpoint URL]

Producers send numbers with random bodies, whose SHA-256 is a property, as fast as the broker takes
them; consumers settle what comes, abandon some, and forget some until the lock ends. At the end
every number was completed exactly once and every body that came had its hash (ruling R30). Without
`--endpoint` a broker of its own serves; with it, MQLITE_TOKEN holds the credential. The queue is
the run's own, is named when it begins, so that `mqlite top` can be pointed at it, and is deleted at
the end.
"""

from __future__ import annotations

import hashlib
import os
import random
import secrets
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final, NamedTuple

import trio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import mqlite_actor as mq
from bench import http
from mqlite_actor.contract.wire import Message
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.message import ReceivedMessage

PRODUCERS: Final = 4
CONSUMERS: Final = 4
BATCH: Final = 50
BODY_BYTES_MAX: Final = 2048
LOCK_SECONDS: Final = 5
ABANDONED: Final = 0.05
FORGOTTEN: Final = 0.002
BEHIND_MAX: Final = 20_000
"""Messages that the producers may be ahead of the consumers."""


class Place(NamedTuple):
    """Where the broker is."""

    url: str
    token: str


class Verdict(NamedTuple):
    """What came of it."""

    number: int
    seconds: float
    missing: int
    doubled: int
    damaged: int
    deliveries: int

    @property
    def is_clean(self) -> bool:
        """Whether each number was settled once, and every body was the one that was sent."""
        return not (self.missing or self.doubled or self.damaged)


class Sweep:
    """The numbers: which were sent, which were settled how often."""

    def __init__(self, queue: str, number: int, progress: Progress) -> None:
        self.queue = queue
        self.number = number
        self.settled = bytearray(number + 1)
        self.sent = self.done = self.damaged = self.deliveries = 0
        self.finished = trio.Event()
        self._progress = progress
        self._bars = [progress.add_task(word, total=number) for word in ("sent", "settled")]

    async def produce(self, handle: Handle) -> None:
        """Send batches of the next numbers until all are taken by some producer."""
        while self.sent < self.number:
            if self.sent - self.done > BEHIND_MAX:
                await trio.sleep(0.01)
                continue
            first = self.sent + 1
            self.sent = min(self.number, self.sent + BATCH)
            await handle.send(self.queue, [_message(n) for n in range(first, self.sent + 1)])
            self._progress.update(self._bars[0], completed=self.sent)

    async def consume(self, handle: Handle) -> None:
        """Settle what comes until everything is settled."""
        while not self.finished.is_set():
            for message in await handle.receive(self.queue, max_messages=16, wait=1):
                await self._settle(message)

    async def _settle(self, message: ReceivedMessage) -> None:
        self.deliveries += 1
        is_whole = hashlib.sha256(message.body).hexdigest() == message.properties["sha256"]
        self.damaged += not is_whole
        dice = random.random()  # a load, no secret
        if dice < FORGOTTEN:
            return
        if dice < FORGOTTEN + ABANDONED:
            await message.abandon()
            return
        try:
            await message.complete()
        except mq.LockLost:
            return  # it was slower than its lock, and comes again
        self.settled[int(message.properties["number"])] += 1
        self.done += 1
        self._progress.update(self._bars[1], completed=self.done)
        if self.done >= self.number:
            self.finished.set()

    def verdict(self, seconds: float) -> Verdict:
        """What the numbers say."""
        return Verdict(
            number=self.number,
            seconds=seconds,
            missing=self.settled[1:].count(0),
            doubled=sum(times > 1 for times in self.settled),
            damaged=self.damaged,
            deliveries=self.deliveries,
        )


def verify(number: int, endpoint: str, console: Console) -> Verdict:
    """Run the sweep; against a broker of its own if there is no endpoint."""
    with (
        tempfile.TemporaryDirectory(prefix="mqlite-bench-") as folder,
        _place(endpoint, Path(folder)) as server,
    ):
        place = (
            Place(f"http://127.0.0.1:{server.port}", http.TOKEN)
            if isinstance(server, http.Server)
            else server
        )
        columns = (
            TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn(),
            TimeElapsedColumn(),
        )  # fmt: skip
        with Progress(*columns, console=console) as progress:
            return trio.run(_sweep, place, number, progress)


def _place(
    endpoint: str, folder: Path
) -> AbstractContextManager[http.Server] | AbstractContextManager[Place]:
    if endpoint:
        return nullcontext(Place(endpoint, os.environ.get("MQLITE_TOKEN", "")))
    return http.broker(folder, "NORMAL")


async def _sweep(place: Place, number: int, progress: Progress) -> Verdict:
    queue = f"verify-{secrets.token_hex(3)}"
    async with mq.connect(place.url, token=place.token) as handle:
        await handle.create_queue(queue, lock_duration=LOCK_SECONDS, max_delivery_count=10_000)
        progress.console.print(f"queue {queue} at {place.url}", markup=False, highlight=False)
        sweep = Sweep(queue, number, progress)
        began = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(PRODUCERS):
                nursery.start_soon(sweep.produce, handle)
            for _ in range(CONSUMERS):
                nursery.start_soon(sweep.consume, handle)
        verdict = sweep.verdict(time.perf_counter() - began)
        if verdict.is_clean:  # else it stays, to be looked at
            (found,) = [each for each in await handle.list_queues() if each.name == queue]
            await handle.delete_queue(queue, generation=found.generation)
        return verdict


def _message(number: int) -> Message:
    body = random.randbytes(random.randrange(BODY_BYTES_MAX))  # a load, no secret
    digest = hashlib.sha256(body).hexdigest()
    return Message(body=body, properties={"number": str(number), "sha256": digest})
