"""A receiver is made anywhere, as by a program's start-up in a thread, and runs on a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest
import trio

import mqlite_actor as mq
from tests.sdk.loops import both_loops
from tests.sdk.receiving_scene import on_queue

Make = Callable[[], Any]


async def in_a_thread(make: Make) -> Any:  # noqa: ANN401  # either face's receiver
    return await anyio.to_thread.run_sync(make)


async def in_a_callback(make: Make) -> Any:  # noqa: ANN401  # as above
    """On the loop, and in none of its tasks."""
    if trio.lowlevel.in_trio_task():
        made: list[Any] = []
        ran = anyio.Event()

        def call() -> None:
            made.append(make())
            ran.set()

        trio.lowlevel.current_trio_token().run_sync_soon(call)
        await ran.wait()
        return made[0]
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(lambda: future.set_result(make()))
    return await future


@pytest.mark.parametrize("where", [in_a_thread, in_a_callback])
@pytest.mark.parametrize("face", ["plain", "typed"])
@both_loops
def test_a_receiver_that_was_made_outside_of_any_task_runs(
    backend: str, face: str, where: Callable[[Make], Awaitable[Any]]
) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send_one("q", "1")
        typed = q.queue("q", int).receiver
        receiver = await where(typed if face == "typed" else partial(q.receiver, "q"))
        seen: list[int] = []

        async def handle(*given: Any) -> None:  # noqa: ANN401  # with or without a value
            seen.append(given[-1].seq_number)
            receiver.stop()

        await receiver.run(handle)
        assert seen == [1]
        assert (await q.stats("q")).total == 0

    on_queue(backend, body)
