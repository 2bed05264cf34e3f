"""A claim whose reply was lost is repeated word for word; only what is still ours is worked on."""

from __future__ import annotations

from typing import TypeVar

import anyio

import mqlite_actor as mq
from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.sdk.handle import Handle
from tests.sdk.loops import BOUND_SECONDS, both_loops, run

R = TypeVar("R")


class Slow(Handle):
    """The reply to the first claim is lost, and until that is noticed the leases end: another
    consumer takes one of the messages."""

    def __init__(self, q: mq.Embedded, clock: ManualClock) -> None:
        self._q = q
        self._clock = clock
        self.taken: list[str] = []

    async def call(self, request: wire.Request[R]) -> R:
        reply = await self._q.call(request)
        if isinstance(request, wire.ReceiveRequest) and not self.taken:
            self._clock.advance(31_000)
            await self._q.run_maintenance()
            (other,) = await self._q.receive("q")
            self.taken.append(other.text)
            raise mq.OutcomeUnknown("no answer")
        return reply


@both_loops
def test_a_replayed_claim_hands_out_only_what_is_still_under_its_lease(backend: str) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with mq.open_embedded(":memory:", clock=clock, background=False) as q:
            await q.create_queue("q", lock_duration=30)
            await q.send("q", ["a", "b"])
            slow = Slow(q, clock)
            seen: list[str] = []
            receiver = slow.receiver("q", concurrency=2)

            async def handle(message: mq.HeldMessage) -> None:
                seen.append(message.text)
                receiver.stop()

            await receiver.run(handle)
            assert (slow.taken, seen) == (["a"], ["b"])

            await q.send_one("q", "c")
            slow.taken.clear()
            consumed = [each.text async for each in slow.consume("q", wait=0, until_empty=True)]
            assert (slow.taken, consumed) == (["a"], ["c"])

    run(backend, main)


@both_loops
def test_a_replayed_claim_whose_leases_hold_is_worked_on(backend: str) -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q")
            await q.send("q", ["a", "b"])
            receiver = Losing(q).receiver("q", concurrency=2)
            seen: list[tuple[str, int]] = []

            async def handle(message: mq.HeldMessage) -> None:
                seen.append((message.text, message.delivery_count))
                if len(seen) == 2:
                    receiver.stop()

            with anyio.fail_after(BOUND_SECONDS):
                await receiver.run(handle)
            assert sorted(seen) == [("a", 1), ("b", 1)]
            assert (await q.stats("q")).total == 0

    run(backend, main)


class Losing(Handle):
    """The reply to the first claim is lost."""

    def __init__(self, q: mq.Embedded) -> None:
        self._q = q
        self._is_lost = False

    async def call(self, request: wire.Request[R]) -> R:
        reply = await self._q.call(request)
        if isinstance(request, wire.ReceiveRequest) and not self._is_lost:
            self._is_lost = True
            raise mq.OutcomeUnknown("no answer")
        return reply
