"""A claim whose reply was lost is repeated word for word; only what is still ours is worked on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import pytest

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


@both_loops
@pytest.mark.parametrize("error", [mq.Unsupported("no such path"), mq.Unavailable("away")])
def test_where_no_lease_can_be_renewed_the_brokers_time_says_what_is_held(
    backend: str, error: mq.MqliteError
) -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:", clock=ManualClock(), background=False) as q:
            await q.create_queue("q", lock_duration=30)
            await q.send("q", ["a", "b"])
            older = Older(q, error)
            receiver = older.receiver("q", concurrency=2, auto_renew=False)
            seen: list[str] = []

            async def handle(message: mq.HeldMessage) -> None:
                seen.append(message.text)
                if len(seen) == 2:
                    receiver.stop()

            with anyio.fail_after(BOUND_SECONDS):
                await receiver.run(handle)
            assert sorted(seen) == ["a", "b"]
            for text, late_ms, expected in (("c", 0, ["c"]), ("d", 30_001, [])):
                await q.send_one("q", text)
                older.is_lost, older.late_ms = False, late_ms
                found = [each.text async for each in older.consume("q", wait=0, until_empty=True)]
                assert found == expected, "what is over may be somebody else's by now"

    run(backend, main)


class Left(Handle):
    """Its caller leaves while this request is answered, and the answer comes in spite of it."""

    def __init__(self, q: mq.Embedded, kind: type[wire.Request[Any]]) -> None:
        self._q = q
        self._kind = kind
        self.leave: Callable[[], None] = q.engine.close
        self._is_lost = kind is wire.RenewBatchRequest
        self.has_left = False

    async def call(self, request: wire.Request[R]) -> R:
        with anyio.CancelScope(shield=True):
            reply = await self._q.call(request)
        if isinstance(request, wire.ReceiveRequest) and self._is_lost:
            self._is_lost = False
            raise mq.OutcomeUnknown("no answer")
        if isinstance(request, self._kind) and not self.has_left:
            self.has_left = True
            self.leave()
        return reply


async def _consumed(left: Left, seen: list[str]) -> None:
    async for message in left.consume("q"):
        seen.append(message.text)  # noqa: PERF401  # what comes before a cancellation counts


async def _received(left: Left, seen: list[str]) -> None:
    seen += [message.text for message in await left.receive("q", attempt_id="a")]


async def _handled(left: Left, seen: list[str]) -> None:
    async def handle(message: mq.HeldMessage) -> None:
        seen.append(message.text)

    await left.receiver("q").run(handle)


@both_loops
@pytest.mark.parametrize(
    ("take", "kind"),
    [
        (_consumed, wire.ReceiveRequest),
        (_consumed, wire.RenewBatchRequest),
        (_received, wire.ReceiveRequest),
        (_received, wire.RenewBatchRequest),
        (_handled, wire.ReceiveRequest),
        (_handled, wire.RenewBatchRequest),
    ],
)
def test_what_comes_for_somebody_who_has_left_goes_back_uncounted(
    backend: str,
    take: Callable[[Left, list[str]], Awaitable[None]],
    kind: type[wire.Request[Any]],
) -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q", lock_duration=300)
            await q.send_one("q", "a")
            seen: list[str] = []
            with anyio.CancelScope() as scope:
                left = Left(q, kind)
                left.leave = scope.cancel
                await take(left, seen)
            assert (left.has_left, seen) == (True, [])
            (message,) = await q.receive("q", attempt_id="a")
            assert message.delivery_count == 1

    run(backend, main)


@both_loops
def test_a_receiver_that_is_stopped_while_it_looks_what_it_holds_gives_it_back(
    backend: str,
) -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q", lock_duration=300)
            await q.send_one("q", "a")
            left = Left(q, wire.RenewBatchRequest)
            receiver = left.receiver("q")
            left.leave = receiver.stop
            await receiver.run(never)
            (message,) = await q.receive("q")
            assert (left.has_left, message.delivery_count) == (True, 1)

    run(backend, main)


async def never(message: mq.HeldMessage) -> None:
    raise AssertionError(message)


class Losing(Handle):
    """The reply to the first claim is lost."""

    def __init__(self, q: mq.Embedded) -> None:
        self._q = q
        self.is_lost = False

    async def call(self, request: wire.Request[R]) -> R:
        reply = await self._q.call(request)
        if isinstance(request, wire.ReceiveRequest) and not self.is_lost:
            self.is_lost = True
            raise mq.OutcomeUnknown("no answer")
        return reply


class Older(Losing):
    """And no lease can be renewed in a batch."""

    def __init__(self, q: mq.Embedded, error: mq.MqliteError) -> None:
        super().__init__(q)
        self._error = error
        self.late_ms = 0

    def now_ms(self) -> int:
        return self._q.now_ms() + self.late_ms

    async def call(self, request: wire.Request[R]) -> R:
        if isinstance(request, wire.RenewBatchRequest):
            raise self._error
        return await super().call(request)
