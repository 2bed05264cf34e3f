"""Leases are renewed under any traffic, and what is settled is not lost."""

from __future__ import annotations

import math
from typing import Any, TypeVar, cast

import anyio
import trio
import trio.testing

import mqlite_actor as mq
from mqlite_actor.contract import wire
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.held import HeldMessage
from mqlite_actor.sdk.renewal import Renewal
from tests.sdk.loops import both_loops
from tests.sdk.receiving_scene import Heard, on_queue

R = TypeVar("R")

LEASE_SECONDS = 30


class Granting(Handle):
    """A broker by trio's clock that knows nothing but leases: it renews all but those denied."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.denied: set[str] = set()

    def now_ms(self) -> int:
        return round(trio.current_time() * 1000)

    async def call(self, request: wire.Request[R]) -> R:
        assert isinstance(request, wire.RenewBatchRequest)
        await trio.lowlevel.checkpoint()
        tokens = [each.lock_token for each in request.messages]
        self.asked.append(tokens)
        until = self.now_ms() + LEASE_SECONDS * 1000
        results = [
            wire.RenewItemResult(each.seq_number, each.lock_token not in self.denied, until)
            for each in request.messages
        ]
        return cast("R", wire.RenewBatchResponse(results=results))

    def claim(self, seq_number: int, token: str) -> HeldMessage:
        until = self.now_ms() + LEASE_SECONDS * 1000
        raw = wire.Message(seq_number=seq_number, lock_token=token, locked_until_ms=until)
        return HeldMessage(self, "q", raw)


def raised(error: mq.MqliteError) -> None:
    raise error


async def passed(clock: trio.testing.MockClock, seconds: float) -> None:
    """Let so much time pass, and everybody do what it brings."""
    for _ in range(math.ceil(seconds)):
        clock.jump(min(seconds, 1))
        await trio.testing.wait_all_tasks_blocked()


async def test_messages_that_come_and_go_put_no_renewal_off(
    mock_clock: trio.testing.MockClock,
) -> None:
    broker, lost = Granting(), list[HeldMessage]()
    renewal = Renewal(broker, "q", on_lost=lost.append, report=raised)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(renewal.run)
        renewal.add(broker.claim(1, "slow"))
        for number in range(2, 502):
            fast = broker.claim(number, "fast")
            renewal.add(fast)
            await passed(mock_clock, 0.2)
            renewal.remove(fast)
        nursery.cancel_scope.cancel()
    of_slow = [tokens for tokens in broker.asked if "slow" in tokens]
    assert 9 <= len(of_slow) <= len(broker.asked) <= 11, "one pass for each third of a lease"
    assert lost == []


async def test_a_second_delivery_keeps_its_lease_when_the_first_is_done_with(
    mock_clock: trio.testing.MockClock,
) -> None:
    broker, lost = Granting(), list[HeldMessage]()
    broker.denied = {"first"}
    renewal = Renewal(broker, "q", on_lost=lost.append, report=raised)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(renewal.run)
        first, second = broker.claim(1, "first"), broker.claim(1, "second")
        renewal.add(first)
        renewal.add(second)
        await passed(mock_clock, 11)
        assert (lost, first.is_lost, second.is_lost) == ([first], True, False)
        renewal.remove(first)
        await passed(mock_clock, 35)
        assert broker.asked[1:] == [["second"]] * 3

        broker.denied = {"second"}
        second.is_settled = True
        await passed(mock_clock, 100)
        assert lost == [first]
        assert len(broker.asked) < 20, "of what is settled nobody asks in a circle"
        nursery.cancel_scope.cancel()


class Late(Handle):
    """Gives the answer of a settlement only after a renewal has been denied because of it."""

    def __init__(self, q: Handle) -> None:
        self._q = q
        self._denied = anyio.Event()

    async def call(self, request: wire.Request[R]) -> R:
        reply: Any = await self._q.call(request)
        if isinstance(request, wire.CompleteRequest):
            await self._denied.wait()
        if isinstance(request, wire.RenewBatchRequest) and not reply.results[0].ok:
            self._denied.set()
        return cast("R", reply)


@both_loops
def test_what_was_denied_because_it_is_settled_is_not_lost(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.create_queue("short", lock_duration=0.1)
        await q.send_one("short", "a")
        heard = Heard()
        receiver = Late(q).receiver("short", auto_renew=True, hooks=heard)

        async def handle(_: mq.HeldMessage) -> None:
            receiver.stop()

        await receiver.run(handle)
        assert (heard.verdicts, heard.lost) == ([(1, None)], [])

    on_queue(backend, body)
