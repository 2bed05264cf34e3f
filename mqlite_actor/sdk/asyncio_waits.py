"""Waits of an asyncio task for something that always ends, and must not be left before it has.

Called by `background`, whose calls run in another thread. Rule: a cancellation meanwhile hurries
the end and is delivered after it, never instead of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


async def wait_out(done: asyncio.Event, cut: Callable[[], object]) -> BaseException | None:
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
    cut: Callable[[], None] = lambda: None,
    undo: Callable[[], None] | None = None,
) -> None:
    """Run a blocking function in a thread, to its end even if the task is cancelled meanwhile:
    `cut` may hurry it then, and `undo` undoes what it did."""
    running: Coroutine[Any, Any, None] = asyncio.to_thread(function)
    task = asyncio.ensure_future(running)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
            cut()
    if cancelled is None:
        task.result()
        return
    if undo is not None and task.exception() is None:
        await to_its_end(undo)
    raise cancelled
