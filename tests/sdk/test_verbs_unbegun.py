"""A plain handler's verb whose task of asyncio is cancelled before it has begun, at each try."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import anyio
import anyio.from_thread
import pytest

import mqlite_actor as mq
from mqlite_actor.sdk import held as held_module
from tests.sdk.receiving_scene import Heard, on_queue

CUTS_MAX = 50
"""Far above what a verb tries: without an end it comes through there."""


class Cutting:
    """A factory of tasks that cancels the first ones, so many, while it is on."""

    def __init__(self, most: int) -> None:
        self.is_on = threading.Event()
        self.number = 0
        self._most = most

    def __call__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Any,  # noqa: ANN401  # any coroutine
        **options: Any,  # noqa: ANN401  # such as its name
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, **options)
        if self.is_on.is_set() and self.number < self._most:
            task.cancel()
            self.number += 1
        return task


def test_a_verb_whose_task_is_cancelled_before_it_begins_is_asked_for_again() -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send_one("q", "a")
        cutting = Cutting(3)
        receiver = q.receiver("q")

        def handle(message: mq.SyncHeldMessage) -> None:
            cutting.is_on.set()
            message.complete()
            cutting.is_on.clear()
            anyio.from_thread.run_sync(receiver.stop)

        asyncio.get_running_loop().set_task_factory(cutting)
        await receiver.run(handle)
        assert cutting.number == 3
        assert (await q.stats("q")).total == 0

    on_queue("asyncio", body)


@pytest.mark.parametrize("verb", ["complete", "renew"])
def test_a_verb_whose_task_is_always_cancelled_before_it_begins_ends(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_module, "VERB_SECONDS", 0.05)

    async def body(q: mq.Embedded) -> None:
        await q.send_one("q", "a")
        cutting, heard = Cutting(CUTS_MAX), Heard()
        receiver = q.receiver("q", hooks=heard, on_failure=mq.reject())

        def handle(message: mq.SyncHeldMessage) -> None:
            cutting.is_on.set()
            try:
                getattr(message, verb)()
            finally:
                cutting.is_on.clear()
                anyio.from_thread.run_sync(receiver.stop)

        asyncio.get_running_loop().set_task_factory(cutting)
        await receiver.run(handle)
        ((_, error),) = heard.ended
        assert isinstance(error, mq.Unavailable)
        assert cutting.number <= 3, "it floods nobody"
        assert (await q.stats("q")).dead_lettered == 1, "nothing was done"

    on_queue("asyncio", body)
