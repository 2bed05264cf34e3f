"""A transaction's block commits wherever it is left, and while its handle is being closed."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel

import mqlite_actor as mq
from tests.sdk.loops import BOUND_SECONDS, both_loops
from tests.sdk.receiving_scene import on_queue


def test_a_block_that_is_left_in_another_context_commits() -> None:
    """As a web framework does with a dependency that yields, in threads."""
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        block = q.tx()
        tx = contextvars.copy_context().run(block.__enter__)
        tx.send_one("q", "a")
        contextvars.copy_context().run(block.__exit__, None, None, None)
        assert q.stats("q").total == 1
        q.send_one("q", "the writer is free, and nobody is inside")


@both_loops
def test_a_block_that_is_left_in_another_task_commits(backend: str) -> None:
    """As a test's fixture that yields may be."""

    async def body(q: mq.Embedded) -> None:
        block = q.tx()
        entered = anyio.Event()

        async def enter() -> None:
            await (await block.__aenter__()).send_one("q", "a")
            entered.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(enter)
            await entered.wait()
        await block.__aexit__(None, None, None)
        assert (await q.stats("q")).total == 1
        await q.send_one("q", "the writer is free, and nobody is inside")

    on_queue(backend, body)


def test_a_handle_that_is_being_closed_lets_a_threads_transaction_end(tmp_path: Path) -> None:
    store = f"file:{tmp_path}/a.db"
    inside, failures = threading.Event(), list[BaseException]()

    def work(q: mq.SyncEmbedded) -> None:
        try:
            with q.tx() as tx:
                tx.send_one("q", "a")
                inside.set()
                assert closing.wait(BOUND_SECONDS)
                tx.send_one("q", "b")
        except BaseException as error:  # noqa: BLE001  # it is looked at below
            failures.append(error)

    closing = threading.Event()
    with mq.open_embedded_sync(store) as q:
        q.create_queue("q")
        worker = threading.Thread(target=work, args=(q,))
        worker.start()
        assert inside.wait(BOUND_SECONDS)
        q._background.post(q._background._closing.set)  # what closing does first
        q._background.post(closing.set)
    worker.join(BOUND_SECONDS)
    assert failures == []
    with mq.open_embedded_sync(store) as q:
        assert q.stats("q").total == 2


def test_a_handle_that_is_being_closed_lets_a_tasks_transaction_end(tmp_path: Path) -> None:
    store = f"file:{tmp_path}/a.db"

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            q = await stack.enter_async_context(mq.open_embedded(store))
            assert isinstance(q, mq.Embedded)
            await q.create_queue("q")
            inside, closing = asyncio.Event(), asyncio.Event()

            async def work() -> None:
                async with q.tx() as tx:
                    await tx.send_one("q", "a")
                    inside.set()
                    await closing.wait()
                    await tx.send_one("q", "b")

            working = asyncio.create_task(work())
            await inside.wait()
            ending = asyncio.create_task(stack.aclose())
            background: Any = q._background  # type: ignore[attr-defined]  # asyncio's handle
            while not background._closing.is_set():
                await anyio.lowlevel.checkpoint()
            closing.set()
            await working
            await ending
        async with mq.open_embedded(store) as q:
            assert (await q.stats("q")).total == 2

    asyncio.run(asyncio.wait_for(main(), BOUND_SECONDS))
