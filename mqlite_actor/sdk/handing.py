"""The moment between a claim and whoever gets it.

Used by `Handle` and `claiming` where something is awaited, or was cancelled, after a claim under an
attempt id came: an engine returns such a claim also to a caller who has left meanwhile. Rule: what
is not handed out goes back uncounted, and its attempt is forgotten, so that a repetition claims
anew.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Protocol

import anyio

from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.contract.wire import Message

GIVE_BACK_SECONDS = 2.0
"""For giving back; a broker that is slower leaves the leases to end."""


class Giver(Protocol):
    """What a handle is to this module."""

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
