"""A broker under load is killed again and again; what it had answered is true afterwards.

Eight producers and eight consumers talk HTTP to a real process, which gets SIGKILL in the middle of
it; a new one opens the same file. The ledger holds every answer that came and every one that did
not: an acknowledged send is never lost, an acknowledged complete never comes back, and a lost
answer is one or the other, never half.
"""

from __future__ import annotations

import base64
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import apsw
import pytest
import trio

from tests.conformance.audit import audit_file
from tests.crash.parts import parts
from tests.figures import record
from tests.services.broker_process import BEARER, BrokerProcess, started
from tests.services.broker_scene import path, raw
from tests.services.door_client import Client

KILLS: Final = int(os.environ.get("MQLITE_CRASH_KILLS", "5"))
PAIRS: Final = 8
SENDS: Final = 80
"""Acknowledged sends in a round before the kill, and a few more in each round; with half as many
completes. A fraction of a second of work."""

ROUND_SECONDS: Final = 120.0
"""A round takes about one; this is for a machine that is busy elsewhere."""

QUEUE: Final = {
    "name": "q",
    "config": {"lock_duration_ms": 600_000, "max_delivery_count": 100},
}
"""No lease ends by itself here, and no message dies of kills."""

LOST = (EOFError, trio.BrokenResourceError, OSError)
"""How a client learns that the broker is gone."""

Lease = tuple[int, str]


class Ledger:
    """What the clients know. `doubtful`: asked for, and the answer did not come."""

    def __init__(self) -> None:
        self.sent: dict[int, str] = {}
        self.doubtful_sends: set[str] = set()
        self.completed: dict[int, str] = {}
        self.doubtful_completes: set[Lease] = set()
        self.held: set[Lease] = set()
        self.bodies: dict[int, str] = {}
        self.faults: list[str] = []
        self.enough = trio.Event()
        self._goal = (0, 0)
        self._number = 0

    def begin(self, sends: int) -> None:
        """A new round: `enough` is set after so many more sends and half as many completes."""
        self.enough = trio.Event()
        self._goal = (len(self.sent) + sends, len(self.completed) + sends // 2)

    def body(self) -> str:
        """A body that was never sent before."""
        self._number += 1
        return f"body {self._number}"

    def was_sent(self, seq: int, body: str) -> None:
        if seq in self.sent:
            self.faults.append(f"{seq} was given out twice")
        self.sent[seq] = body
        self._look()

    def was_completed(self, seq: int, token: str) -> None:
        self.completed[seq] = token
        self._look()

    def was_received(self, message: dict[str, Any]) -> Lease:
        seq, body = message["seq_number"], base64.b64decode(message["body"]).decode()
        if seq in self.completed:
            self.faults.append(f"{seq} came back after it was completed")
        if body != self.sent.get(seq, body) or self.bodies.setdefault(seq, body) != body:
            self.faults.append(f"{seq} has another body: {body}")
        return seq, message.get("lock_token", "")

    def _look(self) -> None:
        sends, completes = self._goal
        if len(self.sent) >= sends and len(self.completed) >= completes:
            self.enough.set()


async def call(client: Client, name: str, request: object) -> tuple[int, Any]:
    """Status and JSON of one call."""
    answer = await client.ask(raw(path(name), json.dumps(request).encode(), fields=(BEARER,)))
    return answer.status, json.loads(answer.body)


async def produce(client: Client, ledger: Ledger) -> None:
    while True:
        body = ledger.body()
        ledger.doubtful_sends.add(body)
        encoded = base64.b64encode(body.encode()).decode()
        request = {"queue": "q", "messages": [{"body": encoded}]}
        status, reply = await call(client, "Send", request)
        assert status == 200, reply
        ledger.doubtful_sends.remove(body)
        ledger.was_sent(reply["seq_numbers"][0], body)


async def consume(client: Client, ledger: Ledger) -> None:
    request = {"queue": "q", "max_messages": 4, "wait_time_ms": 5000}
    while True:
        status, reply = await call(client, "Receive", request)
        assert status == 200, reply
        leases = [ledger.was_received(message) for message in reply["messages"]]
        ledger.held.update(leases)
        for lease in leases:
            ledger.held.remove(lease)
            ledger.doubtful_completes.add(lease)
            status, reply = await complete(client, lease)
            ledger.doubtful_completes.remove(lease)
            if status == 200:
                ledger.was_completed(*lease)
            else:
                ledger.faults.append(f"{lease[0]} could not be completed: {reply}")


async def complete(client: Client, lease: Lease) -> tuple[int, Any]:
    seq, token = lease
    return await call(client, "Complete", {"queue": "q", "seq_number": seq, "lock_token": token})


@asynccontextmanager
async def load(broker: BrokerProcess, ledger: Ledger) -> AsyncIterator[None]:
    """Sixteen clients, until the broker is gone."""

    async def run(work: Callable[[Client, Ledger], Awaitable[None]]) -> None:
        try:
            async with await broker.connect() as client:
                await work(client, ledger)
        except LOST:
            return

    async with trio.open_nursery() as nursery:
        for work in (produce, consume) * PAIRS:
            nursery.start_soon(run, work)
        yield


async def settle_doubts(client: Client, ledger: Ledger) -> None:
    """Ask again, with the same tokens, what became of the last moment before the kill."""
    for lease in list(ledger.completed.items())[-20:]:
        status, reply = await complete(client, lease)
        if (status, reply) != (200, {"ok": True}):
            ledger.faults.append(f"the receipt of {lease[0]} is gone: {reply}")
    for lease in ledger.doubtful_completes:
        status, _ = await complete(client, lease)
        if status == 200:
            ledger.was_completed(*lease)
        elif status != 409:
            ledger.faults.append(f"a repeated complete of {lease[0]} is {status}")
    for lease in ledger.held:
        status, _ = await complete(client, lease)
        if status != 409:
            ledger.faults.append(f"the lease of {lease[0]} outlived its broker")
    ledger.doubtful_completes.clear()
    ledger.held.clear()


async def drain(client: Client, ledger: Ledger) -> dict[int, str]:
    """Remove all that is left: number → body."""
    left: dict[int, str] = {}
    request = {"queue": "q", "max_messages": 256, "receive_mode": 1}
    while messages := (await call(client, "Receive", request))[1]["messages"]:
        for message in messages:
            seq, _ = ledger.was_received(message)
            if seq in left:
                ledger.faults.append(f"{seq} was delivered twice")
            left[seq] = ledger.bodies[seq]
    return left


@pytest.mark.promise("W119", "E88")
@pytest.mark.parametrize("kills", parts(KILLS), ids=str)
async def test_what_a_killed_broker_had_answered_is_true_in_the_next(
    tmp_path: Path, kills: range
) -> None:
    ledger = Ledger()
    for kill in kills:
        with started(tmp_path) as broker:
            async with await broker.connect() as client:
                await call(client, "AdminService/CreateQueue", QUEUE)
                await settle_doubts(client, ledger)
            ledger.begin(SENDS + 7 * (kill % 20))
            with trio.fail_after(ROUND_SECONDS):
                async with load(broker, ledger):
                    await ledger.enough.wait()
                    broker.process.kill()
    with started(tmp_path) as broker:
        async with await broker.connect() as client:
            await settle_doubts(client, ledger)
            left = await drain(client, ledger)
            _, stats = await call(client, "Stats", {"queue": "q"})
        broker.stop()
    assert ledger.faults == []
    assert stats["total"] == 0
    assert len(ledger.completed) >= len(kills) * SENDS // 2
    assert left.keys().isdisjoint(ledger.completed)
    assert set(ledger.sent) <= left.keys() | ledger.completed.keys(), "an answered send was lost"
    unanswered = [body for seq, body in ledger.bodies.items() if seq not in ledger.sent]
    assert set(unanswered) <= ledger.doubtful_sends
    assert len(set(unanswered)) == len(unanswered)
    assert audit_file(tmp_path / "mq.db") == []
    assert integrity(tmp_path / "mq.db") == [("ok",)]
    record("killed processes", kills=len(kills), messages=len(ledger.sent))


def integrity(file: Path) -> list[tuple[Any, ...]]:
    """SQLite's own verdict on a closed file."""
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute("PRAGMA integrity_check").fetchall()
    finally:
        connection.close()


@pytest.mark.promise("W119")
@pytest.mark.parametrize(("ending", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 0)])
async def test_a_brokers_leases_end_when_the_next_one_opens(
    tmp_path: Path, ending: signal.Signals, code: int
) -> None:
    """Also at the delivery limit, where the message becomes a dead letter with its reason."""
    limited = {"name": "last", "config": {"lock_duration_ms": 600_000, "max_delivery_count": 1}}
    send = {"messages": [{"body": "eA=="}]}
    taken: dict[str, Any] = {}
    with started(tmp_path) as broker:
        async with await broker.connect() as client:
            for queue in (QUEUE, limited):
                await call(client, "AdminService/CreateQueue", queue)
                name = str(queue["name"])
                await call(client, "Send", {"queue": name, **send})
                (taken[name],) = (await call(client, "Receive", {"queue": name}))[1]["messages"]
        broker.signal(ending)
        assert broker.ended() == code
    with started(tmp_path) as broker:
        async with await broker.connect() as client:
            first = taken["q"]
            status, reply = await complete(client, (first["seq_number"], first["lock_token"]))
            assert (status, reply["code"]) == (409, "lock_lost")
            (again,) = (await call(client, "Receive", {"queue": "q"}))[1]["messages"]
            (dead,) = (await call(client, "Peek", {"queue": "last"}))[1]["messages"]
        broker.stop()
    assert (again["seq_number"], again["delivery_count"]) == (first["seq_number"], 2)
    assert (dead["state"], dead["dead_letter_reason"]) == (
        "dead_lettered",
        "MaxDeliveryCountExceeded",
    )
