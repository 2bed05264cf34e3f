"""Leases are renewed under any traffic, and what is settled is not lost."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import anyio
import anyio.from_thread
import pytest
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
        await q.create_queue("short", lock_duration=3)
        await q.send_one("short", "a")
        heard = Heard()
        receiver = Late(q).receiver("short", auto_renew=True, hooks=heard)

        async def handle(_: mq.HeldMessage) -> None:
            receiver.stop()

        await receiver.run(handle)
        assert (heard.verdicts, heard.lost) == ([(1, None)], [])

    on_queue(backend, body)


class Denying(Handle):
    """Counts the renewals that were denied."""

    def __init__(self, q: Handle) -> None:
        self._q = q
        self.denied = 0

    async def call(self, request: wire.Request[R]) -> R:
        reply: Any = await self._q.call(request)
        if isinstance(request, wire.RenewBatchRequest) and not reply.results[0].ok:
            self.denied += 1
        return cast("R", reply)


async def in_block(q: mq.Embedded, message: mq.HeldMessage) -> None:
    async with q.tx() as tx:
        await tx.complete(message)


async def in_function(q: mq.Embedded, message: mq.HeldMessage) -> None:
    await q.run_tx(lambda tx: tx.reject(message))


async def in_batch(q: mq.Embedded, message: mq.HeldMessage) -> None:
    assert await q.complete_batch([message]) == [True]


ELSEWHERE = [in_block, in_function, in_batch]


@both_loops
@pytest.mark.parametrize("settle", ELSEWHERE)
def test_what_is_settled_in_a_transaction_or_a_batch_is_not_lost(
    backend: str, settle: Callable[[mq.Embedded, mq.HeldMessage], Awaitable[None]]
) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.create_queue("short", lock_duration=3)
        await q.send_one("short", "a")
        heard, denying = Heard(), Denying(q)
        receiver = denying.receiver(
            "short", auto_renew=True, cancel_on_lost_lease=True, hooks=heard
        )
        is_whole: list[bool] = []

        async def handle(message: mq.HeldMessage) -> None:
            await settle(q, message)
            while not denying.denied:
                await q.status()
            is_whole.append(not message.is_lost)
            receiver.stop()

        await receiver.run(handle)
        assert (is_whole, heard.lost, heard.errors) == ([True], [], [])
        assert heard.verdicts == [], "nobody settles it again"

    on_queue(backend, body)


def failing(tx: mq.SyncTx, message: mq.Received) -> None:
    tx.complete(message)
    raise ZeroDivisionError


@both_loops
def test_what_a_transaction_did_not_commit_is_not_settled(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send("q", ["block", "function", "refused"])
        receiver = q.receiver("q", on_failure=mq.reject())

        async def handle(message: mq.HeldMessage) -> None:
            if message.text == "block":
                async with q.tx() as tx:
                    await tx.complete(message)
                    assert message.is_settled
                    raise KeyError
            if message.text == "function":
                await q.run_tx(lambda tx: failing(tx, message))
            receiver.stop()
            await q.message("q", message.seq_number, message.lock_token).defer()
            assert await q.complete_batch([message]) == [False]
            async with q.tx() as tx:
                with pytest.raises(mq.LockLost):
                    await tx.complete(message)
            assert not message.is_settled

        await receiver.run(handle)
        reasons = [each.dead_letter_reason for each in await q.peek("q", state="dead_lettered")]
        assert reasons == ["KeyError", "ZeroDivisionError"]

    on_queue(backend, body)


def test_a_plain_handler_settles_in_transactions_and_batches_of_its_program() -> None:
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q", lock_duration=30)
        q.send("q", ["block", "function", "batch", "left"])
        heard = Heard()
        receiver = q.receiver("q", hooks=heard)

        def handle(message: mq.SyncHeldMessage) -> None:
            if message.text == "block":
                with q.tx() as tx:
                    tx.complete(message)
            elif message.text == "function":
                q.run_tx(lambda tx: tx.complete(message))
            elif message.text == "batch":
                q.complete_batch([message])
            else:
                receiver.stop()
                with contextlib.suppress(KeyError), q.tx() as tx:
                    tx.reject(message)
                    raise KeyError

        receiver.run(handle)
        assert (heard.verdicts, heard.errors) == ([(4, None)], [])
        assert q.stats("q").total == 0


@pytest.mark.parametrize("how", ["verb", "batch"])
@both_loops
def test_a_handlers_own_renewal_moves_the_end_of_its_lease(backend: str, how: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send("q", ["a", "stop"])
        receiver = q.receiver("q")

        async def handle(message: mq.HeldMessage) -> None:
            message.ends_at -= 20
            await (message.renew() if how == "verb" else q.renew_batch([message]))
            assert 15 < message.ends_at - anyio.current_time() < 31
            await q.message("q", message.seq_number, message.lock_token).defer()
            with contextlib.suppress(mq.LockLost):
                message.ends_at = 0
                await (message.renew() if how == "verb" else q.renew_batch([message]))
            assert message.ends_at == 0
            receiver.stop()

        await receiver.run(handle)

        def plain(message: mq.SyncHeldMessage) -> None:
            held = message._held
            held.ends_at -= 20
            if how == "verb":
                message.renew()
            else:
                anyio.from_thread.run(q.renew_batch, [message])
            assert 15 < held.ends_at - anyio.from_thread.run_sync(anyio.current_time) < 31
            anyio.from_thread.run_sync(other.stop)

        other = q.receiver("q", on_failure=mq.reject())
        await other.run(plain)
        assert (await q.stats("q")).dead_lettered == 0

    on_queue(backend, body)


@both_loops
def test_any_thread_of_a_plain_handler_may_renew_and_settle_its_message(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send("q", ["a", "b"])
        receiver = q.receiver("q")
        kept: list[mq.SyncHeldMessage] = []
        refused: list[str] = []

        def on_the_loop() -> None:
            with pytest.raises(mq.InvalidArgument, match="blocks") as error:
                kept[0].renew()
            refused.append(error.value.message)

        def handle(message: mq.SyncHeldMessage) -> None:
            kept.append(message)
            with ThreadPoolExecutor(1) as pool:
                pool.submit(message.renew).result()
                if message.text == "a":
                    pool.submit(message.complete).result()
            if message.text == "b":
                anyio.from_thread.run_sync(on_the_loop)
                anyio.from_thread.run_sync(receiver.stop)

        await receiver.run(handle)
        assert len(refused) == 1
        assert (await q.stats("q")).total == 0
        late.append(kept[0])

    late: list[mq.SyncHeldMessage] = []
    on_queue(backend, body)
    with pytest.raises(mq.Closed):
        late[0].complete()
