"""Inline consumption: run a handler over what a queue holds now, in the test itself, and return.

No receiver, no threads, no waiting: one message after the other, completed when the handler
returns. An exception of the handler is the test's: its message is abandoned first, and it comes out
as it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mqlite_actor.sdk.blocking import SyncHandle, SyncReceivedMessage
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.message import ReceivedMessage

MESSAGES_MAX = 10_000
"""A handler that sends to its own queue would never end."""


def drain(q: SyncHandle, queue: str, handler: Callable[[SyncReceivedMessage], object]) -> int:
    """Handle everything that can be received now; how many messages that were."""
    for count in range(MESSAGES_MAX):
        found = q.receive(queue)
        if not found:
            return count
        (message,) = found
        try:
            handler(message)
        except BaseException:
            message.abandon()
            raise
        message.complete()
    raise AssertionError(f"{queue} is not empty after {MESSAGES_MAX} messages")


async def drain_async(
    q: Handle, queue: str, handler: Callable[[ReceivedMessage], Awaitable[object]]
) -> int:
    """The same for an async handle and a coroutine function."""
    for count in range(MESSAGES_MAX):
        found = await q.receive(queue)
        if not found:
            return count
        (message,) = found
        try:
            await handler(message)
        except Exception:
            await message.abandon()
            raise
        await message.complete()
    raise AssertionError(f"{queue} is not empty after {MESSAGES_MAX} messages")
