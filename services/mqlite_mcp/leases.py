"""The messages that this session's agent has in hand, so that they are not lost with it.

Filled by `session` with what receives answer, emptied by what settles. When the session ends, what
is left is abandoned: another consumer gets it at once instead of after the lease, and the delivery
counts, since somebody saw the message. What was deferred is deferred again: abandoned, it would go
to any consumer. Rule: it never holds more than MAX leases; the oldest are forgotten first, and end
by themselves.
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

Lease = tuple[str, int, str]
"""Queue, sequence number and token."""


class Leases:
    """What the agent has received and not settled."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[Lease, type[wire.SettleRequest]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(
        self, queue: str, messages: Iterable[wire.Message], *, were_deferred: bool
    ) -> list[Lease]:
        """These are in the agent's hands now; what was removed by its receive has no token."""
        verb = wire.DeferRequest if were_deferred else wire.AbandonRequest
        added = [(queue, each.seq_number, each.lock_token) for each in messages if each.lock_token]
        for lease in added:
            self._held[lease] = verb
        while len(self._held) > MAX:
            del self._held[next(iter(self._held))]
        return added

    def drop(self, queue: str, seq_number: int, lock_token: str) -> None:
        """This one is settled, or not the agent's any more."""
        self._held.pop((queue, seq_number, lock_token), None)

    async def give_back(
        self, handle: Handle, *, seconds: float, leases: Iterable[Lease] | None = None
    ) -> int:
        """Put back all, or these, in at most so many seconds; how many are left to their leases."""
        wanted = self._held if leases is None else leases
        waiting = [(each, self._held[each]) for each in wanted if each in self._held]

        async def work() -> None:
            while waiting:
                lease, verb = waiting.pop()
                queue, seq_number, lock_token = lease
                request = verb(queue=queue, seq_number=seq_number, lock_token=lock_token)
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
