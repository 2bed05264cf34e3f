"""Readers and writers at once: what was acknowledged is seen, and the log stays bounded.

Counts only: how fast anything is does not matter here.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.keys import CreateKeyRequest, RevokeKeyRequest, Right
from mqlite_actor.contract.observe import ObserveRequest
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.engine.outside import Outside
from tests.engine.gate import completing, create, sending, taking

ROUNDS = 60
WRITERS = 6


async def test_whoever_was_told_of_a_write_sees_it_whatever_others_do(engine: Engine) -> None:
    """Each writer has a queue of its own and asks after each acknowledgement, in every way there
    is, what became of it; meanwhile all the others write and look."""

    async def write(number: int) -> None:
        queue = f"q{number}"
        await create(engine, queue)
        sent = completed = 0
        chance = random.Random(number)
        for _ in range(ROUNDS):
            if chance.random() < 0.6 or sent == completed:
                await engine.call(sending(queue, b"%d" % sent + bytes(chance.choice([10, 3000]))))
                sent += 1
            else:
                (message,) = (await engine.call(taking(queue))).messages
                await engine.call(completing(queue, message))
                completed += 1
            left = sent - completed
            match chance.randrange(3):
                case 0:
                    assert (await engine.call(wire.StatsRequest(queue=queue))).active == left
                case 1:
                    request = wire.PeekRequest(queue=queue, max=limits.PEEK_MAX)
                    found = (await engine.call(request)).messages
                    assert [int(m.body.rstrip(b"\0")) for m in found] == [*range(completed, sent)]
                case _:
                    seen = await engine.call(ObserveRequest())
                    assert seen.queues is not None
                    (row,) = [row for row in seen.queues if row.queue == queue]
                    assert (row.total, row.locked) == (left, 0)

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            for number in range(WRITERS):
                nursery.start_soon(write, number)


async def test_a_new_queue_is_listed_and_a_deleted_one_is_not_from_the_answer_on(
    engine: Engine,
) -> None:
    async def come_and_go(number: int) -> None:
        name = f"q{number}"
        for _ in range(30):
            await create(engine, name)
            listed = {q.name: q for q in (await engine.call(wire.ListQueuesRequest())).queues}
            assert name in listed
            generation = listed[name].generation
            await engine.call(wire.DeleteQueueRequest(name=name, generation=generation))
            listed = {q.name: q for q in (await engine.call(wire.ListQueuesRequest())).queues}
            assert name not in listed

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            for number in range(WRITERS):
                nursery.start_soon(come_and_go, number)


@pytest.mark.promise("E155")
async def test_a_key_works_from_its_answer_on_and_a_revoked_one_from_its_answer_on_does_not(
    engine: Engine,
) -> None:
    async def mint(number: int) -> None:
        for round_ in range(30):
            key_id = f"{number:016x}{round_:016x}"
            request = CreateKeyRequest(id=key_id, name="k", permissions=["send"])
            token = (await engine.call(request)).token
            assert await engine.authenticate(token) == ("success", frozenset({Right.SEND}))
            await engine.call(RevokeKeyRequest(id=key_id))
            assert await engine.authenticate(token) == ("revoked", frozenset())

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            for number in range(WRITERS):
                nursery.start_soon(mint, number)


LONGEST_PAGES = 1000
"""What is written is at least twice as much: how long the log gets depends on the machine."""


@pytest.mark.parametrize("place", ["inside", "outside"])
async def test_eight_steady_readers_leave_the_log_bounded(
    store: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Never a moment without a look: whoever waits for one to cut the log waits for ever (B2)."""
    monkeypatch.setattr(limits, "CHECKPOINT_PAGES", 25)
    monkeypatch.setattr(limits, "LOG_PAGES_MAX", 100)
    monkeypatch.setattr(limits, "CHECKPOINT_PAUSE_SECONDS", 0.001)
    looks = written = 0
    longest = 0
    is_over = False
    async with open_engine(str(store), EngineOptions(clock=clock, background=False)) as engine:
        await create(engine, "q", "deep")
        await engine.call(sending("deep", *[bytes(5000)] * 40))
        outside = Outside(f"file:{store}")
        requests: list[wire.Request[Any]] = [
            wire.PeekRequest(queue="deep", max=40),
            wire.StatsRequest(queue="deep"),
            wire.PeekRequest(queue="q"),
            ObserveRequest(),
        ]

        async def look(number: int) -> None:
            nonlocal looks
            request = requests[number % len(requests)]
            while not is_over:
                if place == "inside":
                    await engine.call(request)
                else:
                    await trio.to_thread.run_sync(partial(outside.call, request))
                looks += 1

        async def write() -> None:
            nonlocal written, longest, is_over
            # A log that never begins anew is as long as all that was written, and ends this never.
            while (
                engine._keeper.truncations < 10
                or looks < 100
                or written < 2 * max(LONGEST_PAGES, longest)
            ):
                await engine.call(sending("q", bytes(80_000)))
                written += 20
                longest = max(longest, engine._store.log_pages)
                for message in (await engine.call(taking("q"))).messages:
                    await engine.call(completing("q", message))
            is_over = True

        with trio.fail_after(120):
            async with trio.open_nursery() as nursery:
                for number in range(8):
                    nursery.start_soon(look, number)
                nursery.start_soon(write)
        assert engine._keeper.failures == 0
