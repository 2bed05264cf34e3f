"""Integrity sweep (ruling R30): numbers from 1 to N with random bodies, through abandons, forgotten
leases and restarts, on every handle. Each number is settled exactly once, and every body that comes
is the one that went.

MQLITE_INTEGRITY_N is the number, MQLITE_INTEGRITY_SEED repeats a run's choices; both are printed.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import trio

from mqlite_actor.clock import Clock, ManualClock, SystemClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import LockLost, OutcomeUnknown, Unavailable
from mqlite_actor.sdk.embedded import Embedded
from mqlite_actor.sdk.handle import Handle
from tests.conformance.audit import audit_file
from tests.conformance.broker import Broker, running_broker
from tests.conformance.handles import HandleKind, OverLink, Surroundings
from tests.figures import record
from tests.hrana.server import running_hrana

N = int(os.environ.get("MQLITE_INTEGRITY_N", "1000"))
SEED = int(os.environ.get("MQLITE_INTEGRITY_SEED") or random.SystemRandom().randrange(2**32))

RESTARTS = 3
CONSUMERS = 4
BATCH = 50
BODY_BYTES_MAX = 3000
LEASE_MS = 1_000
"""At the end the last forgotten ones are waited for so long; a shorter one is lost too often by who
takes eight messages on a busy machine, and then nothing gets done."""

ABANDONED, POSTPONED, FORGOTTEN = 0.10, 0.05, 0.02
"""Of the deliveries; the rest is completed."""

BROKERS: dict[str, dict[str, str]] = {
    "broker": {"MQLITE_WORKERS": "0"},
    "broker_without_lane": {"MQLITE_WORKERS": "0", "MQLITE_LANE": "off"},
    "broker_of_one_worker": {"MQLITE_WORKERS": "1"},
    "broker_of_two_workers": {"MQLITE_WORKERS": "2"},
}
"""By the name of the fixture that the kind asks for, the settings of a broker like it."""

FAR_BROKER = {"MQLITE_WORKERS": "2"}
"""The same of the one on a remote store."""

GONE = (Unavailable, OutcomeUnknown)
"""What a caller gets while the broker is being restarted."""

CONFIG = wire.QueueConfig(
    lock_duration_ms=LEASE_MS, max_delivery_count=10_000, dedup_window_ms=86_400_000
)


class Sweep:
    """What was sent, what was settled how often, and which completions nobody knows of."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.sent = 0
        self.settled = bytearray(N + 1)
        self.done = 0
        self.target = 0
        self.reached = trio.Event()
        self.doubtful: dict[int, wire.CompleteRequest] = {}  # by number
        self.abandoned = self.forgotten = self.lost = 0

    def aim(self, target: int) -> None:
        """Set `reached` when so many numbers are settled."""
        self.target, self.reached = target, trio.Event()
        self.count(0)

    def count(self, more: int) -> None:
        self.done += more
        if self.done >= self.target:
            self.reached.set()

    async def produce(self, handle: Handle) -> None:
        """Send what was not acknowledged yet; a batch may go out twice, under the same ids."""
        while self.sent < N:
            last = min(N, self.sent + BATCH)
            batch = [self.message(number) for number in range(self.sent + 1, last + 1)]
            try:
                reply = await handle.call(wire.SendRequest(queue="sweep", messages=batch))
            except GONE:
                return
            assert reply.seq_numbers is not None
            assert len(set(reply.seq_numbers) - {0}) == len(batch)
            self.sent = last

    def message(self, number: int) -> wire.Message:
        # The same body whenever the number is sent, so that its repetition is a duplicate.
        dice = random.Random(f"{SEED} {number}")
        body = dice.randbytes(dice.randrange(BODY_BYTES_MAX))
        properties = {"number": f"{number}", "sha256": hashlib.sha256(body).hexdigest()}
        return wire.Message(body=body, message_id=f"{number}", properties=properties)

    async def resolve(self, handle: Handle) -> None:
        """Repeat the completions that a restart left without an answer: a receipt answers them,
        or nothing had happened."""
        for number, request in list(self.doubtful.items()):
            await self.complete(handle, number, request)
        assert not self.doubtful

    async def consume(self, handle: Handle, clock: Clock) -> None:
        """Settle whatever comes, one way or another, until the handle is gone."""
        try:
            while True:
                wanted = wire.ReceiveRequest(queue="sweep", max_messages=8, wait_time_ms=200)
                messages = (await handle.call(wanted)).messages
                for message in messages:
                    await self.settle(handle, message)
                if not messages and isinstance(clock, ManualClock):
                    await tide(handle, clock)
        except GONE:
            return

    async def settle(self, handle: Handle, message: wire.Message) -> None:
        number = int(message.properties["number"])
        assert hashlib.sha256(message.body).hexdigest() == message.properties["sha256"]
        assert message.message_id == f"{number}"
        roll = self.dice.random()
        if roll < FORGOTTEN:
            self.forgotten += 1
            return
        seq, token = message.seq_number, message.lock_token
        if roll < FORGOTTEN + ABANDONED + POSTPONED:
            delay_ms = 20 if roll < FORGOTTEN + POSTPONED else 0
            self.abandoned += 1
            abandon = wire.AbandonRequest("sweep", seq, token, delay_ms=delay_ms)
            try:
                await handle.call(abandon)
            except LockLost:
                self.lost += 1
            return
        await self.complete(handle, number, wire.CompleteRequest("sweep", seq, token))

    async def complete(self, handle: Handle, number: int, request: wire.CompleteRequest) -> None:
        """Complete, and count it when somebody says that it is done; doubtful until then."""
        self.doubtful[number] = request
        try:
            await handle.call(request)
        except LockLost:
            self.lost += 1
        else:
            self.settled[number] += 1
            self.count(1)
        if self.doubtful.get(number) is request:
            del self.doubtful[number]


async def tide(handle: Handle, clock: ManualClock) -> None:
    """Let leases end and schedules come, where time is ours."""
    assert isinstance(handle, Embedded | OverLink)
    clock.advance(LEASE_MS)
    await handle.engine.run_maintenance_once()


@contextmanager
def broker_of(kind: HandleKind, store: Path, sqld: Broker | None = None) -> Iterator[Broker | None]:
    """A broker of this test's own on the store, if the kind needs one; or the sqld that others
    use too."""
    if not kind.broker or sqld:
        yield sqld
        return
    if kind.is_remote:
        with running_hrana(store.parent) as far, running_broker(far.url, **FAR_BROKER) as broker:
            yield broker
        return
    with running_broker(f"file:{store}", **BROKERS[kind.broker]) as broker:
        yield broker


async def one_run(
    kind: HandleKind, store: Path, sweep: Sweep, clock: Clock, sqld: Broker | None
) -> None:
    """From opening until the target is reached, and then closed or stopped in mid-work."""
    with ExitStack() as stack:
        broker = stack.enter_context(broker_of(kind, store, sqld))
        async with kind.open(Surroundings(store, clock, broker)) as handle:
            if not sweep.sent:
                await handle.call(wire.CreateQueueRequest(name="sweep", config=CONFIG))
            await sweep.resolve(handle)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sweep.produce, handle)
                for _ in range(CONSUMERS):
                    nursery.start_soon(sweep.consume, handle, clock)
                await sweep.reached.wait()
                await trio.to_thread.run_sync(stack.close)
                nursery.cancel_scope.cancel()


async def test_each_number_is_settled_once_and_every_body_is_whole(
    request: pytest.FixtureRequest, handle_kind: HandleKind, store: Path
) -> None:
    sqld = request.getfixturevalue("sqld") if handle_kind.broker == "sqld" else None
    print(f"MQLITE_INTEGRITY_N={N} MQLITE_INTEGRITY_SEED={SEED}")
    clock = ManualClock() if handle_kind.drives_clock else SystemClock()
    sweep = Sweep(random.Random(SEED))
    with trio.fail_after(120 + N / 20):
        for run in range(1, RESTARTS + 1):
            sweep.aim(N * run // (RESTARTS + 1))
            await one_run(handle_kind, store, sweep, clock, sqld)
        while sweep.done < N:
            sweep.aim(N)
            await one_run(handle_kind, store, sweep, clock, sqld)
    assert bytes(sweep.settled[1:]) == b"\x01" * N
    assert handle_kind.is_remote or audit_file(store) == []  # that one's kind audits by itself
    with broker_of(handle_kind, store, sqld) as broker:
        async with handle_kind.open(Surroundings(store, clock, broker)) as handle:
            assert (await handle.call(wire.StatsRequest(queue="sweep"))).total == 0
    assert min(sweep.abandoned, sweep.forgotten) > N / 100
    record("integrity", seed=SEED, numbers=N)
    print(f"abandoned {sweep.abandoned}, forgotten {sweep.forgotten}, lost {sweep.lost}")
