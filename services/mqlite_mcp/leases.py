"""The messages that this session's agent has in hand, so that they are not lost with it.

Filled by `session` with what receives answer, emptied by what settles. When the session ends, what
is left is abandoned: another consumer gets it at once instead of after the lease, and the delivery
counts, since somebody saw the message. Rule: it never holds more than MAX leases; the oldest are
forgotten first, and end by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

import anyio

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.sdk.handle import Handle

MAX = 1024
"""Four full receives: far more than an agent can bear in mind."""

AT_ONCE = 16
"""Requests in flight at the end: as many as a broker takes without queueing any."""


class Leases:
    """What the agent has received and not settled."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[tuple[str, int, str], None] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, queue: str, messages: Iterable[wire.Message]) -> None:
        """These are in the agent's hands now; what was removed by its receive has no token."""
        for each in messages:
            if each.lock_token:
                self._held[queue, each.seq_number, each.lock_token] = None
        while len(self._held) > MAX:
            del self._held[next(iter(self._held))]

    def drop(self, queue: str, seq_number: int, lock_token: str) -> None:
        """This one is settled, or not the agent's any more."""
        self._held.pop((queue, seq_number, lock_token), None)

    async def abandon(self, handle: Handle, *, seconds: float) -> int:
        """Give all of them back, in at most so many seconds; how many are left to their leases."""
        waiting = list(self._held)

        async def work() -> None:
            while waiting:
                lease = waiting.pop()
                queue, seq_number, lock_token = lease
                request = wire.AbandonRequest(
                    queue=queue, seq_number=seq_number, lock_token=lock_token
                )
                try:
                    await handle.call(request)
                except MqliteError:
                    continue  # the lease ends by itself
                self.drop(*lease)

        with anyio.move_on_after(seconds, shield=True):
            async with anyio.create_task_group() as working:
                for _ in range(min(AT_ONCE, len(waiting))):
                    working.start_soon(work)
        return len(self._held)
