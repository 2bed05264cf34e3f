"""Where a group runs: in the storage thread, or at once in the trio thread (ruling R44).

Called by the actor. The hop to the thread and back costs as much as ten sends, and a lone caller
waits for it each time. A process that serves nothing but the queue spares it for groups that take a
moment: few rows, few bytes, no flush of the disk (NORMAL), no waiting for a foreign lock. A group
that lasted longer than a moment all the same sends the next ones to the thread for a while, so that
a slow disk or large bodies hold up the loop once a second at most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Final

from mqlite_actor.contract import limits, wire
from mqlite_actor.engine.outcomes import GroupResult
from mqlite_actor.storage.store import Store

Count = Callable[[Any], int]


def _one(_: object) -> int:
    return 1


def _messages(request: wire.SendRequest | wire.CompleteBatchRequest) -> int:
    return len(request.messages)


LIGHT: Final[dict[type[Any], Count]] = {
    wire.SendRequest: _messages,
    wire.ScheduleRequest: _messages,
    wire.CancelRequest: _one,
    wire.ReceiveRequest: lambda request: request.max_messages,
    wire.ReceiveDeferredRequest: lambda request: len(request.seq_numbers),
    wire.CompleteRequest: _one,
    wire.CompleteBatchRequest: _messages,
    wire.AbandonRequest: _one,
    wire.RejectRequest: _one,
    wire.DeferRequest: _one,
    wire.RenewRequest: _one,
    wire.RenewBatchRequest: _messages,
    wire.StatsRequest: _one,
}
"""What may run in the trio thread, and how many rows it touches at most. Passes and whatever looks
at whole tables are not here."""


class Inline:
    """Tries groups in the trio thread; `started` counts those that ran there."""

    __slots__ = ("_is_allowed", "_not_before", "_run", "_store", "started")

    def __init__(
        self,
        store: Store,
        run: Callable[[Sequence[Any]], GroupResult | None],
        *,
        is_allowed: bool,
    ) -> None:
        self._store = store
        self._run = run  # None: a foreign lock is in the way, and nothing ran
        self._is_allowed = is_allowed
        self._not_before = 0.0
        self.started = 0

    def attempt(self, requests: Sequence[Any], weight: int) -> GroupResult | None:
        """The result of a group that could run here and now; None if it has to go to the thread."""
        if not self._is_allowed or weight > limits.INLINE_GROUP_BYTES or not self._store.healthy:
            return None
        rows = 0
        for request in requests:
            count = LIGHT.get(type(request))
            if count is None:
                return None
            rows += count(request)
        began = perf_counter()
        if rows > limits.INLINE_ROWS or began < self._not_before:
            return None
        result = self._run(requests)
        ended = perf_counter()
        if ended - began > limits.INLINE_SECONDS:
            self._not_before = ended + limits.INLINE_PAUSE_SECONDS
        self.started += result is not None
        return result
