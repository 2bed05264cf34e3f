"""Callers on asyncio who leave in the last moment: claims go back, a COMMIT is told as it ended."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import mqlite_actor as mq
from tests.conformance.broker import running_broker
from tests.engine.local import local
from tests.sdk.loops import BOUND_SECONDS


@asynccontextmanager
async def embedded() -> AsyncIterator[Any]:
    async with mq.open_embedded(":memory:") as q:
        yield q


@asynccontextmanager
async def linked() -> AsyncIterator[Any]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # the path of a socket is short
        path = f"{folder}/link"
        with running_broker(":memory:", MQLITE_LINK_SOCKET=path):
            async with mq.connect(f"unix:{path}") as q:
                yield q


@pytest.mark.parametrize("opening", [embedded, linked])
def test_a_claim_whose_caller_left_goes_back_with_or_without_an_attempt_id(
    opening: Callable[[], Any],
) -> None:
    """The loop stands still until the claim is made, so the answer and the cancellation meet."""

    async def main() -> None:
        async with opening() as q:
            await q.create_queue("q")
            await q.send_one("q", "a")
            look = partial(q._background.call, partial(q._background.inner.stats, "q"))
            for attempt in ("", "an id"):
                left = asyncio.create_task(q.receive("q", attempt_id=attempt))
                await anyio.lowlevel.checkpoint()
                while look().locked == 0:
                    pass
                left.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await left
                assert (await q.stats("q")).active == 1
                with anyio.CancelScope() as scope:  # which cancels again and again
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(partial(q.receive, "q", attempt_id=attempt))
                        await anyio.lowlevel.checkpoint()
                        while look().locked == 0:
                            pass
                        scope.cancel()
                assert (await q.stats("q")).active == 1
            (message,) = await q.receive("q", attempt_id="an id")
            assert message.delivery_count == 1
            await message.complete()

    asyncio.run(asyncio.wait_for(main(), BOUND_SECONDS))


@pytest.mark.parametrize("opening", [embedded, linked])
def test_deferred_messages_whose_caller_left_are_deferred_again(
    opening: Callable[[], Any],
) -> None:
    async def main() -> None:
        async with opening() as q:
            await q.create_queue("q")
            numbers = await q.send("q", ["a", "b"])
            for message in await q.receive("q", max_messages=2):
                await message.defer()
            look = partial(q._background.call, partial(q._background.inner.stats, "q"))
            left = asyncio.create_task(q.receive_deferred("q", numbers))
            await anyio.lowlevel.checkpoint()
            while look().locked == 0:
                pass
            left.cancel()
            with pytest.raises(asyncio.CancelledError):
                await left
            assert (await q.stats("q")).deferred == 2
            assert len(await q.receive_deferred("q", numbers)) == 2

    asyncio.run(asyncio.wait_for(main(), BOUND_SECONDS))


async def stored(q: mq.Embedded) -> int:
    return (await q.stats("q")).total


def me() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


def test_a_cancellation_at_the_end_of_a_transactions_block_rolls_back() -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q")

            async def work() -> None:
                async with q.tx() as tx:
                    await tx.send_one("q", "a")
                    soon(me().cancel)

            soon = asyncio.get_running_loop().call_soon
            with pytest.raises(asyncio.CancelledError):
                await asyncio.create_task(work())
            assert await stored(q) == 0

    asyncio.run(main())


def test_a_cancellation_during_the_commit_comes_behind_the_block() -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q")
            seen: list[str] = []

            async def work() -> None:
                async with q.tx() as tx:
                    await tx.send_one("q", "a")
                    # One turn of the loop later than the last look at cancellations.
                    soon(partial(soon, me().cancel))
                seen.append("committed")
                await asyncio.Event().wait()

            soon = asyncio.get_running_loop().call_soon
            with pytest.raises(asyncio.CancelledError):
                await asyncio.create_task(work())
            assert seen == ["committed"]
            assert await stored(q) == 1

    asyncio.run(asyncio.wait_for(main(), BOUND_SECONDS))


def test_a_limit_that_ends_during_the_commit_is_kept_and_cancels_nothing_later() -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q")
            async with asyncio.timeout(None) as limit, q.tx() as tx:
                await tx.send_one("q", "a")
                asyncio.get_running_loop().call_soon(limit.reschedule, 0)
            assert await stored(q) == 1
            for _ in range(3):
                await anyio.lowlevel.checkpoint()

    asyncio.run(main())


class Leaving:
    """Cancels its task out of the storage thread, and returns when everybody has heard of it."""

    def __init__(self, cancel: Callable[[], object]) -> None:
        self._cancel = cancel
        self._loop = asyncio.get_running_loop()
        self._has_left = False

    def leave(self) -> None:
        heard = threading.Event()
        for step in (self._cancel, lambda: self._loop.call_soon(heard.set)):
            self._loop.call_soon_threadsafe(step)
        assert heard.wait(BOUND_SECONDS)

    def commit(self) -> bool:
        """For its first commit; a chore of the engine's may have the next ones."""
        if not self._has_left:
            self._has_left = True
            self.leave()
        return False  # SQLite's way to let a commit go on


@pytest.mark.parametrize("how", ["in its function", "in a failing one", "in its commit"])
def test_a_function_that_is_cancelled_is_told_as_it_ended(how: str) -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q")
            told: list[str] = []

            def function(tx: mq.SyncTx) -> str:
                tx.send_one("q", "a")
                if how == "in its commit":
                    local(q.engine).connection.set_commit_hook(leaving.commit)
                    return "committed"
                leaving.leave()
                if how == "in a failing one":
                    raise KeyError
                return "rolled back"

            async def work() -> None:
                try:
                    told.append(await q.run_tx(function))
                except KeyError:
                    told.append("its own error")
                await asyncio.Event().wait()

            task = asyncio.create_task(work())
            leaving = Leaving(task.cancel)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await stored(q) == (how == "in its commit")
            assert told == TOLD[how]

    asyncio.run(asyncio.wait_for(main(), BOUND_SECONDS))


TOLD = {
    "in its function": [],
    "in a failing one": ["its own error"],
    "in its commit": ["committed"],
}


def test_a_limit_that_ends_during_a_functions_commit_cancels_nothing_later() -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q")

            def function(tx: mq.SyncTx) -> int:
                local(q.engine).connection.set_commit_hook(leaving.commit)
                return tx.send_one("q", "a")

            async with asyncio.timeout(None) as limit:
                leaving = Leaving(lambda: limit.reschedule(0))
                assert await q.run_tx(function) == 1
            assert await stored(q) == 1
            for _ in range(3):
                await anyio.lowlevel.checkpoint()

    asyncio.run(asyncio.wait_for(main(), BOUND_SECONDS))
