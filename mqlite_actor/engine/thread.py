"""The storage thread: where groups run that would hold up the loop.

Owned by the actor, which hands it one group at a time and awaits the result. Trio's own threads
serve everything that is rare; for a group they cost more than the statements of a small one (60 us
there and back, of which this thread takes 35: docs/decisions/0009-group-cost.md), because they are
named, limited and given a context anew for each call. Rules: started by the first group, ended by
`close`; what runs here knows nothing of trio and asks no context variable.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar, cast

import trio
from outcome import capture

from mqlite_actor.engine.interrupts import uninterrupted

T = TypeVar("T")


@uninterrupted
class StorageThread:
    """One thread, and the way there and back."""

    __slots__ = ("_orders", "_thread")

    def __init__(self) -> None:
        self._orders: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: Thread | None = None

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """The function's result, or its exception raised. Cancelled or not, it runs to its end."""
        if self._thread is None:
            thread = Thread(target=self._obey, name="mqlite-storage", daemon=True)
            thread.start()  # RuntimeError where the system has none to spare
            self._thread = thread
        back = trio.lowlevel.current_trio_token().run_sync_soon
        task = trio.lowlevel.current_task()

        def order() -> None:
            back(trio.lowlevel.reschedule, task, capture(function, *arguments))

        self._orders.put(order)
        result: Any = await trio.lowlevel.wait_task_rescheduled(_stay)
        return cast("T", result)

    def close(self) -> None:
        """End the thread, which has nothing to do any more."""
        if self._thread is not None:
            self._orders.put(None)
            self._thread.join()
            self._thread = None

    def _obey(self) -> None:
        while (order := self._orders.get()) is not None:
            order()


async def run_apart(function: Callable[[], T]) -> T:
    """For what is rare and long: run it in a thread of trio's, to its end.

    The engine's own limit for each: trio's common one is the program's, whose long work may take
    all of it, and neither a checkpoint nor the end of the engine may wait for that. RuntimeError
    where the system has no thread to spare; then nothing ran."""
    return await trio.to_thread.run_sync(function, limiter=trio.CapacityLimiter(1))


def _stay(_: object) -> trio.lowlevel.Abort:
    """A group that has begun is not given up."""
    return trio.lowlevel.Abort.FAILED
