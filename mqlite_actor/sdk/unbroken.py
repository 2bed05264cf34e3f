"""What no cancellation may cut: a plain handler in its thread, its verbs, a settlement.

Called by `receiver`, `typed` and `held`, under trio and asyncio. A shield does under trio. Under
asyncio it stops anyio's own cancellations, but not those of a task itself, which every task gets
that is left when `asyncio.run` ends or a program cancels all. Rules: what such a cancellation meets
comes to its end first, and its outcome counts; the cancellation is delivered behind it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
import outcome
import trio

from mqlite_actor.sdk.asyncio_waits import cancel_again, wait_out

T = TypeVar("T")

REPEAT_PAUSE_SECONDS = 0.2
"""Between two repetitions of what cancellations break off; the first one comes at once."""


async def in_thread(function: Callable[[], T], limiter: anyio.CapacityLimiter) -> T:
    """Run a plain function in a thread; what it returns, were it a coroutine, or raises.

    Cancelled before it has begun, it never does. Once it has it is waited for, and a cancellation
    that no shield holds up comes at the next await behind it.
    """
    ended: list[outcome.Outcome[T]] = []

    def run() -> None:
        ended.append(outcome.capture(function))

    if trio.lowlevel.in_trio_task():
        await anyio.to_thread.run_sync(run, limiter=limiter)
    else:
        await _in_thread_of_asyncio(run, limiter)
    (result,) = ended
    return result.unwrap()


async def _in_thread_of_asyncio(run: Callable[[], None], limiter: anyio.CapacityLimiter) -> None:
    loop, task, done = asyncio.get_running_loop(), asyncio.current_task(), asyncio.Event()
    before = 0 if task is None else task.cancelling()
    turn = threading.Lock()  # for who is first: the thread that begins, or the task that leaves

    def run_unless_left() -> None:
        if not turn.acquire(blocking=False):
            return
        run()
        with suppress(RuntimeError):  # the loop is gone, and the task with it
            loop.call_soon_threadsafe(done.set)

    try:
        await anyio.to_thread.run_sync(run_unless_left, limiter=limiter)
    except asyncio.CancelledError:
        if turn.acquire(blocking=False):
            raise
        with anyio.CancelScope(shield=True):
            await wait_out(done)
        if task is not None:
            cancel_again(task, before)


async def to_an_end(
    ask: Callable[[], Awaitable[None]], seconds: float, *, cancelled_seconds: float | None = None
) -> tuple[bool, asyncio.CancelledError | None]:
    """Ask, shielded, for so many seconds: whether it came to its end, and what is to be raised now.

    A cancellation that no shield holds up breaks a try off. Then `ask`, which must be harmless to
    repeat, is called again, at a pace that does not flood who is asked; and the seconds, or those
    for the cancelled, are counted anew from the first one on.
    """
    repeat_at = anyio.current_time()
    ends_at = repeat_at + seconds
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            with anyio.CancelScope(deadline=ends_at, shield=True):
                if cancelled is not None:
                    await anyio.lowlevel.checkpoint()  # whatever comes, others get their turn
                    await anyio.sleep_until(repeat_at)
                    repeat_at = anyio.current_time() + REPEAT_PAUSE_SECONDS
                await ask()
                return True, cancelled
        except asyncio.CancelledError as error:
            if cancelled is None:
                left = seconds if cancelled_seconds is None else cancelled_seconds
                ends_at = anyio.current_time() + left
            cancelled = error
        if anyio.current_time() >= ends_at:
            return False, cancelled
