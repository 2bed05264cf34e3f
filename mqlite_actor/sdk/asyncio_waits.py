"""Waits of an asyncio task for something that always ends, and must not be left before it has.

Called by `background`, whose calls run in another thread. Rule: a cancellation meanwhile hurries
the end and is delivered after it, never instead of it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import outcome


async def wait_out(
    done: asyncio.Event, cut: Callable[[], object] = lambda: None
) -> BaseException | None:
    """Wait for an end that always comes; `cut` is called for each cancellation meanwhile."""
    cancelled: BaseException | None = None
    while not done.is_set():
        try:
            await done.wait()
        except asyncio.CancelledError as error:
            cancelled = error
            cut()
    return cancelled


def cancel_again(task: asyncio.Task[Any], before: int) -> None:
    """Deliver what was held up, unless it was withdrawn, as by a timeout whose block has ended."""
    if not task.done() and task.cancelling() > before:
        task.uncancel()
        task.cancel()


async def to_its_end(
    function: Callable[[], None],
    *,
    cut: Callable[[], object] = lambda: None,
    undo: Callable[[], None] | None = None,
) -> None:
    """Run a blocking function in a thread, to its end even if the task is cancelled meanwhile:
    `cut` may hurry it then, and `undo` undoes what it did.

    The thread is its own: those of the loop are the program's, whose long work may have them all.
    """
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    ended: list[outcome.Outcome[None]] = []

    def run() -> None:
        ended.append(outcome.capture(function))
        with suppress(RuntimeError):  # the loop is gone, and the task with it
            loop.call_soon_threadsafe(done.set)

    thread = threading.Thread(target=run, name="mqlite waits")
    thread.start()
    cancelled = await wait_out(done, cut)
    thread.join()  # it has said its last word
    (result,) = ended
    if cancelled is None:
        result.unwrap()
        return
    if undo is not None and isinstance(result, outcome.Value):
        await to_its_end(undo)
    raise cancelled
