"""A transaction that is cancelled anywhere, or called out of, ends as a whole.

`Stop` holds the storage thread inside a statement or a commit, so that a test knows where a
cancellation meets it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.embedded import Embedded
from mqlite_actor.sdk.transaction import SyncTx, Tx
from tests.engine.gate import Call, Gate, Stop, bodies, bounded, sending, settled
from tests.engine.local import local
from tests.engine.outbox_scene import (
    ORDER,
    ended,
    is_done,
    nothing_is_there,
    orders,
    shop,
    write,
    write_sync,
)


@pytest.fixture
async def q(engine: Engine) -> Embedded:
    return await shop(engine)


def waiting_function(q: Embedded) -> Stop:
    """A SQL function `stop_here()` that waits in the storage thread."""
    stop = Stop()

    def stop_here(*_: object) -> int:
        stop.wait()
        return 1

    local(q.engine).connection.create_scalar_function("stop_here", stop_here, 0)
    return stop


# -- cancelled -------------------------------------------------------------------------------------


async def test_cancelled_while_it_waits_for_the_writer_it_never_began(
    q: Embedded, nursery: trio.Nursery
) -> None:
    stop = await Gate(q.engine, nursery).stop()
    began: list[str] = []

    async def block() -> None:
        async with q.tx():
            began.append("block")

    for work in (block, lambda: q.run_tx(lambda _: began.append("function"))):
        with trio.CancelScope() as scope:
            nursery.start_soon(cancel_when_blocked, scope)
            await work()
        assert scope.cancelled_caught
    stop.release()
    await nothing_is_there(q)
    assert began == []


async def cancel_when_blocked(scope: trio.CancelScope) -> None:
    await settled()
    scope.cancel()


async def test_a_cancelled_caller_begins_nothing(q: Embedded) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await q.run_tx(write_sync)
    assert scope.cancelled_caught
    with trio.CancelScope() as scope:
        scope.cancel()
        async with q.tx() as tx:
            await write(tx)
    assert scope.cancelled_caught
    await nothing_is_there(q)


async def waits(tx: Tx, scope: trio.CancelScope) -> None:
    await write(tx)
    scope.cancel()
    await trio.sleep_forever()


async def executes(tx: Tx, scope: trio.CancelScope) -> None:
    await write(tx)
    scope.cancel()
    await tx.execute(ORDER, (2, "never"))
    pytest.fail("a step was begun")


async def sends(tx: Tx, scope: trio.CancelScope) -> None:
    await write(tx)
    scope.cancel()
    await tx.send_one("q", b"never")
    pytest.fail("a step was begun")


async def ends(tx: Tx, scope: trio.CancelScope) -> None:
    await write(tx)
    scope.cancel()


@pytest.mark.promise("E143", "E148")
@pytest.mark.parametrize("step", [waits, executes, sends, ends])
async def test_cancelled_before_a_step_or_at_the_end_it_rolls_back(
    q: Embedded, step: Callable[[Tx, trio.CancelScope], Awaitable[None]]
) -> None:
    with trio.CancelScope() as scope:
        async with q.tx() as tx:
            await step(tx, scope)
    assert scope.cancelled_caught
    await nothing_is_there(q)


@pytest.mark.promise("E143", "E148")
async def test_cancelled_in_a_statement_it_ends_the_statement_and_rolls_back(
    q: Embedded, nursery: trio.Nursery
) -> None:
    stop = waiting_function(q)
    scope = trio.CancelScope()
    left = trio.Event()

    async def work() -> None:
        with scope:
            async with q.tx() as tx:
                await write(tx)
                await tx.execute("SELECT stop_here()")
                await trio.lowlevel.checkpoint()
        left.set()

    nursery.start_soon(work)
    with bounded():
        await stop.entered.wait()
        scope.cancel()
        await settled()
        assert not left.is_set(), "the thread still works in it"
        stop.release()
        await left.wait()
    assert scope.cancelled_caught
    await nothing_is_there(q)


async def test_cancelled_in_its_commit_it_is_done_and_says_so(
    q: Embedded, nursery: trio.Nursery
) -> None:
    stop = Stop()

    def allow() -> bool:
        stop.wait()
        return False  # SQLite's way to let a commit go on

    scope = trio.CancelScope()
    left = trio.Event()

    async def work() -> None:
        with scope:
            async with q.tx() as tx:
                await write(tx)
                local(q.engine).connection.set_commit_hook(allow)
            left.set()

    nursery.start_soon(work)
    with bounded():
        await stop.entered.wait()
        scope.cancel()
        await settled()
        stop.release()
        await left.wait()
    local(q.engine).connection.set_commit_hook(None)
    assert await is_done(q)


@pytest.mark.promise("E143", "E148")
async def test_a_cancelled_caller_rolls_back_a_function_that_succeeded(q: Embedded) -> None:
    with trio.CancelScope() as scope:

        def work(tx: SyncTx) -> None:
            write_sync(tx)
            trio.from_thread.run_sync(scope.cancel)

        await q.run_tx(work)
    assert scope.cancelled_caught
    await nothing_is_there(q)


# -- calls out of it -------------------------------------------------------------------------------


async def nested(q: Embedded) -> None:
    async with q.tx() as tx:
        await write(tx)


CALLS: dict[str, Callable[[Embedded], Awaitable[object]]] = {
    "send": lambda q: q.send_one("q", b"x"),
    "receive": lambda q: q.receive("q", wait=5),
    "complete": lambda q: q.message("q", 1, "0" * 32).complete(),
    "stats": lambda q: q.stats("q"),
    "status": lambda q: q.status(),
    "redrive": lambda q: q.redrive("q"),
    "purge": lambda q: q.purge("q"),
    "create": lambda q: q.create_queue("other"),
    "compact": lambda q: q.compact(),
    "maintenance": lambda q: q.engine.run_maintenance_once(),
    "transaction": nested,
    "function": lambda q: q.run_tx(write_sync),
}


async def refused(q: Embedded, call: Callable[[Embedded], Awaitable[object]]) -> None:
    with pytest.raises(InvalidArgument, match="inside tx"):
        await call(q)


SHORT = 1.0
"""Seconds of the transactions out of which a call is made: what waits for itself ends then."""


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_from_inside_raises_at_once(q: Embedded, name: str) -> None:
    async with q.tx(seconds=SHORT) as tx:
        await write(tx)
        await refused(q, CALLS[name])
    assert await is_done(q)


async def test_a_call_from_a_child_task_raises_at_once(q: Embedded) -> None:
    async with q.tx(seconds=SHORT) as tx:
        await write(tx)
        async with trio.open_nursery() as children:
            children.start_soon(refused, q, CALLS["stats"])
            children.start_soon(refused, q, CALLS["transaction"])
    assert await is_done(q)


async def test_a_call_from_a_thread_of_a_child_raises_at_once(q: Embedded) -> None:
    async with q.tx(seconds=SHORT) as tx:
        await write(tx)
        await trio.to_thread.run_sync(trio.from_thread.run, refused, q, CALLS["stats"])
    assert await is_done(q)


@pytest.mark.parametrize("name", ["send", "transaction", "function"])
async def test_a_call_from_the_function_raises_at_once(q: Embedded, name: str) -> None:
    def work(tx: SyncTx) -> None:
        write_sync(tx)
        trio.from_thread.run(refused, q, CALLS[name])

    await q.run_tx(work, seconds=SHORT)
    assert await is_done(q)


async def test_a_child_that_outlives_the_block_is_free_to_call(
    q: Embedded, nursery: trio.Nursery
) -> None:
    begin, done = trio.Event(), trio.Event()

    async def child() -> None:
        await begin.wait()
        await q.send_one("q", b"from the child")
        done.set()

    async with q.tx():
        nursery.start_soon(child)
    begin.set()
    with bounded():
        await done.wait()
    assert await bodies(q.engine, "q") == [b"from the child"]


async def test_children_may_share_the_transaction(q: Embedded) -> None:
    async with q.tx() as tx, trio.open_nursery() as children:
        for number in range(10):
            children.start_soon(tx.execute, ORDER, (number, "tea"))
            children.start_soon(tx.send_one, "q", b"x")
    assert await orders(q) == list(range(10))
    assert await bodies(q.engine, "q") == [b"x"] * 10


async def test_calls_of_other_tasks_wait_and_then_go_on_in_order(
    q: Embedded,
) -> None:
    calls = [Call(q.engine, sending("q", b"%d" % number)) for number in range(5)]
    async with q.tx() as tx:
        await write(tx)
        for call in calls:
            # A task of the surrounding nursery would count as a child of this one.
            trio.lowlevel.spawn_system_task(call.run)
            await settled()
        assert not any(call.ended.is_set() for call in calls)
    for call in calls:
        await ended(call)
    assert await bodies(q.engine, "q") == [b"one", b"0", b"1", b"2", b"3", b"4"]


async def test_transactions_take_turns(q: Embedded) -> None:
    open_now: list[int] = []

    async def work(number: int) -> None:
        async with q.tx() as tx:
            open_now.append(number)
            await tx.execute(ORDER, (number, "tea"))
            await settled()
            assert open_now == [number]
            open_now.clear()

    with bounded():
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(work, number)
    assert await orders(q) == [0, 1, 2, 3, 4]
