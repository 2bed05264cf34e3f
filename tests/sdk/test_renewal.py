"""Leases of messages in work are kept, in batches and in time; a lost one is said to be lost."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import pytest

import mqlite_actor as mq
from mqlite_actor.contract import wire
from mqlite_actor.sdk.http_clock import BrokerClock
from mqlite_actor.sdk.renewal import pause_seconds
from tests.sdk.loops import both_loops, run
from tests.sdk.receiving_scene import Failing, Heard


@pytest.mark.parametrize(
    ("remaining", "pause"),
    [(30, 10), (6, 2), (1, 1 / 3), (0.12, 0.05), (0.08, 0.04), (0.01, 0.01), (0, 0.02), (-5, 0.02)],
)
def test_the_first_renewal_comes_at_a_third_and_never_after_half(
    remaining: float, pause: float
) -> None:
    assert pause_seconds(remaining) == pytest.approx(pause)


@both_loops
def test_leases_far_below_a_second_are_held_by_one_call_for_all(backend: str) -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q", lock_duration=0.4)
            await q.send("q", [str(number) for number in range(8)])
            renewing = Failing(q, wire.RenewBatchRequest, [])
            heard = Heard()
            receiver = renewing.receiver("q", concurrency=8, auto_renew=True, hooks=heard)
            at_work = 0

            async def handle(_: mq.HeldMessage) -> None:
                nonlocal at_work
                at_work += 1
                while len([each for each in renewing.asked if len(each.messages) == 8]) < 6:
                    await anyio.lowlevel.checkpoint()
                    await q.status()
                receiver.stop()

            await receiver.run(handle)
            assert heard.lost == []
            assert at_work == 8, "somebody got a message twice"
            assert (await q.stats("q")).total == 0

    run(backend, main)


@both_loops
def test_a_denied_renewal_says_lost_and_cancels_the_handler_if_asked_to(backend: str) -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q", lock_duration=0.3)
            await q.send_one("q", "a")
            heard = Heard()
            receiver = q.receiver("q", auto_renew=True, cancel_on_lost_lease=True, hooks=heard)
            told: list[bool] = []

            async def handle(message: mq.HeldMessage) -> None:
                await q.message("q", message.seq_number, message.lock_token).defer()
                try:
                    await anyio.sleep_forever()
                finally:
                    told.append(message.is_lost)
                    receiver.stop()

            await receiver.run(handle)
            assert told == [True]
            assert heard.lost == [1]

    run(backend, main)


@both_loops
def test_an_older_broker_is_asked_one_by_one(backend: str) -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q", lock_duration=0.5)
            await q.send_one("q", "a")
            old = Old(q)
            receiver = old.receiver("q", auto_renew=True)

            async def handle(_: mq.HeldMessage) -> None:
                while len(old.asked) < 3:
                    await q.status()
                receiver.stop()

            await receiver.run(handle)
            assert old.batches == 1
            assert (await q.stats("q")).total == 0

    run(backend, main)


class Old(Failing):
    """A broker from before RenewBatch."""

    def __init__(self, q: mq.Handle) -> None:
        super().__init__(q, wire.RenewRequest, [])
        self.batches = 0

    async def call(self, request: wire.Request[Any]) -> Any:  # noqa: ANN401  # any pair
        if isinstance(request, wire.RenewBatchRequest):
            self.batches += 1
            raise mq.Unsupported("no such path")
        return await super().call(request)


@both_loops
def test_a_renewal_that_fails_is_tried_again_while_the_lease_lives(backend: str) -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q", lock_duration=2)
            await q.send_one("q", "a")
            shaky = Failing(q, wire.RenewBatchRequest, [mq.Unavailable("away")])
            heard = Heard()
            receiver = shaky.receiver("q", auto_renew=True, hooks=heard)

            async def handle(_: mq.HeldMessage) -> None:
                while len(shaky.asked) < 2:
                    await q.status()
                receiver.stop()

            await receiver.run(handle)
            assert [type(error) for error in heard.errors] == [mq.Unavailable]
            assert heard.lost == []

    run(backend, main)


class Loud(Heard):
    """Says so to a handler in a thread, too."""

    def __init__(self) -> None:
        super().__init__()
        self.is_lost = threading.Event()

    def lease_lost(self, message: mq.Received) -> None:
        super().lease_lost(message)
        self.is_lost.set()


@both_loops
def test_a_renewal_that_is_refused_for_good_is_not_asked_for_in_a_circle(backend: str) -> None:
    """The run goes on for its plain handler, and its lease ends as it would."""

    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q", lock_duration=0.3)
            await q.send_one("q", "a")
            refused = Failing(q, wire.RenewBatchRequest, [mq.PermissionDenied("revoked")] * 99)
            heard = Loud()
            receiver = refused.receiver("q", auto_renew=True, hooks=heard)

            def handle(_: mq.SyncHeldMessage) -> None:
                assert heard.is_lost.wait(30)

            with pytest.raises(mq.PermissionDenied):
                await receiver.run(handle)
            assert len(heard.errors) <= 4, "twenty a second before"
            assert len(heard.lost) == 1

    run(backend, main)


class Skewed:
    """This machine's clock, wrong by so much, and an even monotonic one."""

    def __init__(self, skew_ms: int) -> None:
        self.skew_ms = skew_ms
        self.seconds = 50.0

    def now_ms(self) -> int:
        return 1_800_000_000_000 + self.skew_ms

    def monotonic(self) -> float:
        return self.seconds


@pytest.mark.parametrize("skew_ms", [90_000, -90_000, 0])
def test_the_brokers_clock_counts_and_not_this_machines(skew_ms: int) -> None:
    clock = Skewed(skew_ms)
    broker = BrokerClock(clock)
    assert broker.now_ms() == clock.now_ms(), "there is nothing better yet"
    assert broker.reached_ms() is None
    started = broker.start()
    clock.seconds += 0.010
    broker.heard("Fri, 15 Jan 2027 08:00:00 GMT", started)
    first = broker.now_ms()
    assert 1_800_000_000_000 < first <= 1_800_000_001_011
    assert broker.reached_ms() == 1_800_000_000_000, "this second began before the answer came"
    clock.seconds += 0.990
    started = broker.start()
    broker.heard("Fri, 15 Jan 2027 08:00:01 GMT", started)
    assert broker.now_ms() <= 1_800_000_002_001
    assert broker.reached_ms() == 1_800_000_001_000
    broker.heard("no date", started)
    started = broker.start()
    broker.heard("Sat, 16 Jan 2027 08:00:00 GMT", started)
    assert broker.now_ms() > 1_800_080_000_000, "the broker's clock was set"
