"""A transaction that takes too long, or whose engine closes: bounded, and never half of it."""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import cast

import pytest
import trio
import trio.testing

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import Closed, InvalidArgument, TxTimeout
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.embedded import Embedded, open_embedded
from mqlite_actor.sdk.transaction import SyncTx
from tests.conformance.handles import opened
from tests.engine.gate import Call, bodies, bounded, sending, settled, until
from tests.engine.outbox_scene import (
    ended,
    is_done,
    nothing_is_there,
    orders,
    shop,
    write,
    write_sync,
)

FOR_EVER = """
WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"""


@pytest.fixture
async def q(engine: Engine) -> Embedded:
    return await shop(engine)


# -- too slow --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0, -1, limits.TX_SECONDS_MAX + 0.001, math.inf, math.nan])
async def test_seconds_beyond_the_limit_are_refused(q: Embedded, seconds: float) -> None:
    with pytest.raises(InvalidArgument, match="at most 30"):
        await q.run_tx(write_sync, seconds=seconds)
    assert not await is_done(q)


@pytest.mark.parametrize("seconds", [Decimal("1.5"), "1", None])
async def test_seconds_that_are_no_duration_are_refused_and_end_nothing(
    q: Embedded, seconds: object
) -> None:
    with pytest.raises(InvalidArgument, match="a number or a timedelta"):
        await q.run_tx(write_sync, seconds=cast("float", seconds))
    assert not await is_done(q)
    await q.run_tx(write_sync, seconds=timedelta(seconds=1.5))
    assert await is_done(q)


async def test_a_block_that_idles_is_rolled_back_and_the_others_go_on(
    q: Embedded, mock_clock: trio.testing.MockClock
) -> None:
    call = Call(q.engine, sending("q", b"other"))

    async def work() -> None:
        async with q.tx(seconds=limits.TX_SECONDS_MAX) as tx:
            await write(tx)
            trio.lowlevel.spawn_system_task(call.run)
            mock_clock.jump(limits.TX_SECONDS_MAX - 0.1)
            await settled()
            await tx.send_one("q", b"in time")
            assert not call.ended.is_set()
            mock_clock.jump(0.2)
            await until(call.ended.is_set)
            for step in (lambda: tx.execute("SELECT 1"), lambda: tx.send_one("q", b"late")):
                with pytest.raises(TxTimeout):
                    await step()
            assert await bodies(q.engine, "q") == [b"other"], (
                "and no call waits for itself any more"
            )

    with pytest.raises(TxTimeout):
        await work()
    assert await bodies(q.engine, "q") == [b"other"]
    assert await orders(q) == []


@pytest.mark.parametrize(("passed", "is_over"), [(4.9, False), (5.1, True)])
async def test_the_default_is_five_seconds(
    q: Embedded, mock_clock: trio.testing.MockClock, passed: float, *, is_over: bool
) -> None:
    call = Call(q.engine, wire.StatsRequest(queue="q"))

    async def work() -> None:
        async with q.tx() as tx:
            await write(tx)
            trio.lowlevel.spawn_system_task(call.run)
            mock_clock.jump(passed)
            await settled()
            if is_over:
                await until(call.ended.is_set)

    if is_over:
        with pytest.raises(TxTimeout):
            await work()
    else:
        await work()
    await ended(call)
    assert await is_done(q) is not is_over


@asynccontextmanager
async def real_time(store: Path) -> AsyncIterator[Embedded]:
    """A shop on the machine's clock, by which a running statement is stopped."""
    async with open_embedded(f"file:{store}", background=False) as q:
        yield await shop(q.engine)


async def test_a_statement_that_never_ends_is_stopped(store: Path) -> None:
    async def block(q: Embedded) -> None:
        async with q.tx(seconds=0.2) as tx:
            await write(tx)
            with pytest.raises(TxTimeout):
                await tx.execute(FOR_EVER)

    async def function(q: Embedded) -> None:
        def work(tx: SyncTx) -> None:
            write_sync(tx)
            tx.execute(FOR_EVER)

        await q.run_tx(work, seconds=0.2)

    async with real_time(store) as q:
        for work in (block, function):
            with pytest.raises(TxTimeout), bounded():
                await work(q)
        await nothing_is_there(q)


async def test_a_function_that_dawdles_in_python_commits_nothing(
    q: Embedded, clock: ManualClock
) -> None:
    for seen in (False, True):

        def work(tx: SyncTx, *, seen: bool = seen) -> None:
            write_sync(tx)
            clock.advance(5_001)
            if seen:
                with pytest.raises(TxTimeout):
                    tx.execute("SELECT 1")

        with pytest.raises(TxTimeout):
            await q.run_tx(work)
    await nothing_is_there(q)


async def test_a_function_holds_the_others_until_it_returns_and_no_longer(
    q: Embedded, mock_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Nothing stops Python in a thread: the limit shows when it comes back."""
    entered, go_on = trio.Event(), threading.Event()

    def work(tx: SyncTx) -> None:
        write_sync(tx)
        trio.from_thread.run_sync(entered.set)
        assert go_on.wait(15)

    refusals: list[TxTimeout] = []

    async def run() -> None:
        with pytest.raises(TxTimeout) as caught:
            await q.run_tx(work)
        refusals.append(caught.value)

    call = Call(q.engine, sending("q", b"other"))
    nursery.start_soon(run)
    await entered.wait()
    nursery.start_soon(call.run)
    mock_clock.jump(6)
    await settled()
    assert not call.ended.is_set()
    go_on.set()
    await until(lambda: refusals and call.ended.is_set())
    assert await bodies(q.engine, "q") == [b"other"]


async def test_a_transaction_that_is_over_says_so(q: Embedded) -> None:
    async with q.tx() as tx:
        await write(tx)
    with pytest.raises(TxTimeout, match="over") as caught:
        await tx.execute("SELECT 1")
    assert "rolled back" not in caught.value.message, "it was committed"
    assert await is_done(q)


# -- closing ---------------------------------------------------------------------------------------


@pytest.mark.promise("E145")
async def test_close_lets_an_open_transaction_end(store: Path, clock: ManualClock) -> None:
    closed = trio.Event()
    async with opened(store, clock) as engine:
        q = await shop(engine)
        async with q.tx() as tx:
            engine.close()
            trio.lowlevel.spawn_system_task(refused_as_closed, q, closed)
            with bounded():
                await closed.wait()
            await write(tx)
    async with opened(store, clock) as engine:
        assert await is_done(Embedded(engine))


async def refused_as_closed(q: Embedded, closed: trio.Event) -> None:
    with pytest.raises(Closed):
        await q.stats("q")
    with pytest.raises(Closed):
        await q.run_tx(write_sync)
    closed.set()


@pytest.mark.promise("E145")
async def test_close_waits_for_an_idle_transaction_at_most_its_seconds(
    store: Path, clock: ManualClock, mock_clock: trio.testing.MockClock
) -> None:
    entered, left = trio.Event(), trio.Event()

    async def block(q: Embedded) -> None:
        async with q.tx(seconds=10) as tx:
            await write(tx)
            entered.set()
            await left.wait()
            await tx.execute("SELECT 1")

    async def idle(q: Embedded) -> None:
        with pytest.raises(TxTimeout):
            await block(q)

    async with trio.open_nursery() as nursery:
        async with opened(store, clock) as engine:
            nursery.start_soon(idle, await shop(engine))
            await entered.wait()
            nursery.start_soon(jump_when_blocked, mock_clock, 10.1)
        left.set()
    async with opened(store, clock) as engine:
        assert not await is_done(Embedded(engine))


async def jump_when_blocked(mock_clock: trio.testing.MockClock, seconds: float) -> None:
    await settled()
    mock_clock.jump(seconds)


@pytest.mark.promise("E145")
async def test_leaving_the_engine_from_inside_does_not_hang(store: Path) -> None:
    async def work(stack: AsyncExitStack) -> None:
        q = await stack.enter_async_context(real_time(store))
        async with q.tx(seconds=0.2) as tx:
            await write(tx)
            await stack.aclose()

    with bounded(), pytest.raises(TxTimeout):
        await work(AsyncExitStack())
    async with open_embedded(f"file:{store}", background=False) as q:
        assert not await is_done(q)
