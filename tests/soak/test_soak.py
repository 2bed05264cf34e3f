"""A broker with two workers under every kind of load, for a while: nothing grows, nothing is lost.

`make soak` runs it for MQLITE_SOAK_SECONDS=1200 with 64 clients, 2,000 connections that say nothing
or never end what they say, slow senders and readers, and a mailbox that is filled again and again;
CI has some seconds of it with fewer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio

import mqlite_actor as mq
from mqlite_actor.contract.wire import CreateQueueRequest
from mqlite_actor.sdk.handle import Handle
from tests.conformance.audit import audit_file
from tests.figures import record
from tests.link.peer import short_path
from tests.services.broker_process import TOKEN, BrokerProcess, started
from tests.services.test_broker_crowds import crowd
from tests.services.test_workers import is_running, pids
from tests.soak.hostile import Hostile
from tests.soak.ledger import Ledger
from tests.soak.load import QUEUES, Load, name_of
from tests.soak.vitals import Vitals, growth

SECONDS = float(os.environ.get("MQLITE_SOAK_SECONDS", "6"))
SEED = int(os.environ.get("MQLITE_SOAK_SEED", "1"))
IS_LONG = SECONDS >= 60
CLIENTS = 64 if IS_LONG else 12
CROWD = 2_000 if IS_LONG else 500
CHUNK = 256
SOCKETS_MAX = CROWD + 400
"""Clients have a few each, and those that left are noticed later."""

SLOW = 8 if IS_LONG else 1
FLOOD_SECONDS = 60.0
WORKERS = 2
BACK_SECONDS = 60.0
"""A worker starts in a second; this is for a machine that is busy elsewhere."""


async def sample(
    load: Load, workers: Callable[[], list[int]], broker: BrokerProcess, store: Path
) -> list[Vitals]:
    """Look at the broker until the time is over."""
    seen: list[Vitals] = []
    ends_at = trio.current_time() + SECONDS
    while trio.current_time() < ends_at:
        await trio.sleep(min(5.0, SECONDS / 10))
        processes = [broker.process.pid, *workers()]
        seen.append(Vitals.of(processes, store, load.stored))
        if IS_LONG and len(seen) % 6 == 0:
            print(seen[-1], flush=True)
    return seen


async def left_in(q: Handle) -> list[str]:
    """Every body that is still stored, taken where it can be taken; then nothing is alive."""
    left: list[str] = []
    for queue in QUEUES:
        after = 0
        while page := await q.peek(queue, from_seq=after + 1, max_messages=1_000):
            left += [name_of(message.body) for message in page]
            after = page[-1].seq_number
        while taken := await q.receive(queue, max_messages=CHUNK, wait=0.1):
            assert await q.complete_batch(taken) == [True] * len(taken)
    return left


async def soak(broker: BrokerProcess, store: Path, link: str, ledger: Ledger) -> list[Vitals]:
    """The load, for as long as it is asked for, and its judgement."""

    def workers() -> list[int]:
        return [pid for pid in pids(broker) if is_running(pid)]

    async with mq.connect(broker.url, token=TOKEN) as q:
        for name, config in QUEUES.items():
            await q.call(CreateQueueRequest(name=name, config=config))
        load = Load(q, ledger, SEED)
        async with trio.open_nursery() as nursery:
            for number in range(CLIENTS):
                nursery.start_soon(load.repeat, (load.produce, load.consume)[number % 2])
            for deed, pause in ((load.redrive, 0.7), (load.purge, 1.3), (load.count, 0.3)):
                nursery.start_soon(load.repeat, deed, pause)
            hostile = Hostile(broker, ledger, SEED)
            for deed in (hostile.drip, hostile.dawdle) * SLOW:
                nursery.start_soon(load.repeat, deed)
            if IS_LONG:
                nursery.start_soon(hostile.flood, link, store, FLOOD_SECONDS)
            nursery.start_soon(load.read, store)
            nursery.start_soon(load.kill, workers, 20.0 if IS_LONG else SECONDS / 2.5)
            seen = await sample(load, workers, broker, store)
            nursery.cancel_scope.cancel()
        with trio.fail_after(BACK_SECONDS):  # whoever was killed is replaced
            while len(workers()) < WORKERS:  # noqa: ASYNC110 - a process sends no event
                await trio.sleep(0.1)
        await q.stats("plain")
    return seen


@pytest.mark.promise("W119", "E88")
async def test_a_broker_under_every_load_neither_grows_nor_loses_anything(tmp_path: Path) -> None:
    ledger, store = Ledger(), tmp_path / "mq.db"
    with ExitStack() as stack:
        settings = {"MQLITE_WORKERS": str(WORKERS), "MQLITE_MAX_CONNECTIONS": str(2 * CROWD)}
        link = stack.enter_context(short_path())
        broker = stack.enter_context(started(tmp_path, "--link-socket", link, **settings))
        with crowd(int(broker.port), CROWD, "again"):
            seen = await soak(broker, store, link, ledger)
        broker.stop()
        # The leases of those who were cancelled end with the broker.
        again = stack.enter_context(started(tmp_path, MQLITE_WORKERS="0"))
        async with mq.connect(again.url, token=TOKEN) as q:
            faults = ledger.judge(await left_in(q))
        again.stop()
    assert audit_file(store) == []
    faults += growth(seen, SOCKETS_MAX)
    told = f"{dict(ledger.deeds)}, errors {dict(ledger.errors)}\n{seen[0]}\n{seen[-1]}"
    print(told)
    assert not faults, "\n".join([*faults[:20], told])
    assert ledger.deeds["kill"], told
    assert ledger.completed, told
    expected = ("drip", "dawdle", "full mailbox") if IS_LONG else ("drip", "dawdle")
    assert all(ledger.deeds[deed] for deed in expected), told
    record("soak", seed=SEED, seconds=int(SECONDS), messages=len(ledger.sent),
           kills=ledger.deeds["kill"], floods=ledger.deeds["full mailbox"])  # fmt: skip
