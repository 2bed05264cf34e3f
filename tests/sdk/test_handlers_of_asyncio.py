"""Handlers made of the tasks of asyncio: what they return, and decorators that need its loop."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

import mqlite_actor as mq
from tests.sdk.receiving_scene import Stopping, on_queue


class Broken(Exception):
    """What a task failed with."""


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        *(("done", ""), ("failed", "Broken")),
        *((state, "InvalidArgument") for state in ("cancelled", "not done")),
    ],
)
def test_a_task_that_a_coroutine_function_returns_counts_as_what_became_of_it(
    state: str, reason: str
) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send("q", ["1", "2"])
        tasks: list[asyncio.Future[None]] = []

        async def handle(*_: object) -> asyncio.Future[None]:
            task = asyncio.get_running_loop().create_future()
            tasks.append(task)
            if state == "done":
                task.set_result(None)
            elif state == "failed":
                task.set_exception(Broken())
            elif state == "cancelled":
                task.cancel()
            return task

        for receiver in (partial(q.receiver, "q"), q.queue("q", int).receiver):
            heard = Stopping()
            heard.receiver = receiver(hooks=heard, on_failure=mq.reject())
            await heard.receiver.run(handle)
        assert len(tasks) == 2, "each was handled once"
        reasons = [each.dead_letter_reason for each in await q.peek("q")]
        assert reasons == ([reason] * 2 if reason else [])

    on_queue("asyncio", body)
