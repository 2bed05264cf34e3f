"""A program that moves and mends dead letters, sends under request ids and makes backups until
somebody kills it.

`python -m tests.crash.ext_worker PATH NUMBER` begins to send at NUMBER, which may have been sent
already. Every message is one number for ever, in its property `n`; its body says `n:revision`, and
so does its property `revision`, so that a half edit would show. Two queues pass them to and fro. A
line on stdout, in one write, tells of each send that was acknowledged. Read by test_ext_kill.py.
"""

from __future__ import annotations

import os
import sys
from itertools import count
from pathlib import Path

import trio

from mqlite_actor.contract import ext, wire
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine

QUEUES = {
    "plain": wire.QueueConfig(lock_duration_ms=3_600_000, max_delivery_count=1000),
    "groups": wire.QueueConfig(
        lock_duration_ms=3_600_000, max_delivery_count=1000, ordering_mode="group_fifo"
    ),
}
OTHER = {"plain": "groups", "groups": "plain"}
BATCH = 3
LONG = 1200
"""Padding of every other revision, so that bodies move in and out of their rows."""


def body(number: int, revision: int) -> bytes:
    return f"{number}:{revision}:".encode() + b"." * (LONG * (revision % 2))


def message(number: int, revision: int) -> wire.Message:
    return wire.Message(
        body=body(number, revision),
        group_id=f"g{number % 4}",
        properties={"n": str(number), "revision": str(revision)},
    )


def sending(first: int) -> ext.SendResultRequest:
    """The one send of these numbers, whenever it is made."""
    batch = [message(number, 0) for number in range(first, first + BATCH)]
    return ext.SendResultRequest(queue="plain", messages=batch, request_id=f"from {first}")


async def produce(engine: Engine, first: int) -> None:
    for number in count(first, BATCH):
        await engine.call(sending(number))
        os.write(1, f"{number}\n".encode())


async def take(engine: Engine, queue: str, number: int) -> list[wire.Message]:
    request = wire.ReceiveRequest(queue=queue, max_messages=number, wait_time_ms=1000)
    return (await engine.call(request)).messages


async def bury(engine: Engine, queue: str, batch: list[wire.Message]) -> None:
    for each in batch:
        await engine.call(
            wire.RejectRequest(queue=queue, seq_number=each.seq_number, lock_token=each.lock_token)
        )


async def move(engine: Engine, queue: str) -> None:
    """Take some; release one, and send the others through the dead letters to the other queue."""
    while True:
        batch = await take(engine, queue, 5)
        if not batch:
            continue
        first, *rest = batch
        lease = wire.SettleItem(first.seq_number, first.lock_token)
        await engine.call(ext.ReleaseRequest(queue, [lease]))
        await bury(engine, queue, rest)
        numbers = [each.seq_number for each in rest]
        await engine.call(ext.RedriveSelectedRequest(queue, numbers, OTHER[queue]))


async def mend(engine: Engine, queue: str) -> None:
    """Take one, bury it and edit it on its way back, here or to the other queue in turn."""
    for turn in count():
        for each in await take(engine, queue, 1):
            await bury(engine, queue, [each])
            number = int(each.properties["n"])
            edited = message(number, int(each.properties["revision"]) + 1)
            patch = ext.MessagePatch(body=edited.body, properties=edited.properties)
            target = OTHER[queue] if turn % 2 else ""
            await engine.call(ext.ResubmitRequest(queue, each.seq_number, patch, target))


async def back_up(engine: Engine, folder: Path, first: int) -> None:
    for number in count(first):
        await engine.call(ext.BackupRequest(str(folder / f"{number}.db")))


async def main(path: Path, folder: Path, made: int, first: int) -> None:
    async with (
        open_engine(f"file:{path}", EngineOptions()) as engine,
        trio.open_nursery() as nursery,
    ):
        for queue, config in QUEUES.items():
            await engine.call(wire.CreateQueueRequest(name=queue, config=config))
        nursery.start_soon(produce, engine, first)
        nursery.start_soon(back_up, engine, folder, made)
        for queue in QUEUES:
            nursery.start_soon(move, engine, queue)
            nursery.start_soon(mend, engine, queue)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    backups = place.parent / "backups"
    backups.mkdir(exist_ok=True)
    trio.run(main, place, backups, len(list(backups.iterdir())), int(sys.argv[2]))
