"""The moment between a claim and whoever gets it.

`guarded` is used by `Handle`, `claiming` and typed queues where something is awaited, or was
cancelled, after a claim came: an engine returns one under an attempt id also to a caller who has
left meanwhile. `undo_of` is used by handles whose engine or link lives in another thread, where a
caller may leave behind any claim. Rule: what is not handed out goes back as it was, uncounted, and
its attempt is forgotten, so that a repetition claims anew. Only what had been deferred is deferred
again with its delivery counted: the contract has no other way back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Protocol, TypeVar, cast

import anyio

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.contract.wire import Message

R = TypeVar("R")

Undo = Callable[[R], Awaitable[None]]

GIVE_BACK_SECONDS = 2.0
"""For giving back; a broker that is slower leaves the leases to end."""


class Giver(Protocol):
    """What a handle is to this module."""

    async def call(self, request: wire.Request[R]) -> R: ...

    async def give_back(
        self, queue: str, messages: Sequence[Message], *, attempt_id: str = ""
    ) -> None: ...


@asynccontextmanager
async def guarded(
    handle: Giver, queue: str, messages: Sequence[Message], attempt_id: str
) -> AsyncIterator[None]:
    """A block at whose end the messages are handed out; if it fails, or is cancelled by then, they
    are given back, for GIVE_BACK_SECONDS at most, and that is raised."""
    try:
        yield
        await anyio.lowlevel.checkpoint_if_cancelled()
    except BaseException:
        with anyio.move_on_after(GIVE_BACK_SECONDS, shield=True), suppress(MqliteError):
            await handle.give_back(queue, messages, attempt_id=attempt_id)
        raise


def undo_of(handle: Giver, request: wire.Request[R]) -> Undo[R] | None:
    """What gives a claim back whose caller left; None for everything that takes effect."""
    if isinstance(request, wire.ReceiveRequest):
        return cast("Undo[R]", partial(_give_back, handle, request))
    if isinstance(request, wire.ReceiveDeferredRequest):
        return cast("Undo[R]", partial(_set_aside, handle, request))
    return None


async def _give_back(
    handle: Giver, request: wire.ReceiveRequest, reply: wire.MessagesResponse
) -> None:
    claimed = [message for message in reply.messages if message.lock_token]
    if claimed:  # under an attempt id, too: whoever left will not repeat it
        attempt = request.receive_attempt_id
        await handle.give_back(request.queue, claimed, attempt_id=attempt)


async def _set_aside(
    handle: Giver, request: wire.ReceiveDeferredRequest, reply: wire.MessagesResponse
) -> None:
    """A deferred message whose lease ends is anybody's; so each is deferred again."""
    for message in reply.messages:
        again = wire.DeferRequest(
            queue=request.queue, seq_number=message.seq_number, lock_token=message.lock_token
        )
        with suppress(MqliteError):  # the others go back nevertheless
            await handle.call(again)
