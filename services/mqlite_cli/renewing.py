"""Keeping a batch of leases while output and settle take their time (spec/tools.md 1.5, item 5).

Used by `receiving` from the claim until the settle has returned. A thread renews all leases with
one call a pass, on connections of its own. Rules: best effort, so nothing that goes wrong here
fails the command; the messages that others look at are never changed; what is left of a lease is
told by the other side's clock and never by this machine's (faults.md B32); `stop` does not wait for
a broker that hangs, it cuts the call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from mqlite_actor.contract.errors import LockLost, MqliteError, Unsupported
from mqlite_actor.contract.limits import RENEW_BATCH_MAX
from mqlite_actor.contract.wire import (
    Message,
    RenewBatchRequest,
    RenewRequest,
    SettleItem,
)
from mqlite_cli.invocation import Caller

PACE_MS_MIN = 50
"""No pass follows another sooner, unless a lease would end first."""

PACE_MS_UNKNOWN = 1_000
"""When the deadline is not known: a third of the shortest usual lease, and no load."""

PACE_MS_SPENT = 20
"""When nothing seems left: at once, but not in a circle. The estimate is early by up to a second
until the answers have narrowed it."""

_STOP_SECONDS = 1.0
"""How long `stop` waits for a call that it has cut."""


def pace_ms(left_ms: float | None) -> float:
    """How long to wait before the next pass, from what is left of the tightest lease."""
    if left_ms is None:
        return PACE_MS_UNKNOWN
    if left_ms < 1:
        return PACE_MS_SPENT
    return min(max(left_ms / 3, PACE_MS_MIN), left_ms / 2)


class Renewer:
    """`with Renewer(...):` around what has to happen under the leases."""

    __slots__ = (
        "_caller", "_deadline_ms", "_has_batch", "_items", "_lease_ms", "_queue", "_stopping",
        "_thread", "_warn",
    )  # fmt: skip

    def __init__(
        self,
        caller: Caller,
        queue: str,
        messages: Sequence[Message],
        *,
        warn: Callable[[str], None],
    ) -> None:
        self._caller = caller.twin()
        self._queue = queue
        self._items = [SettleItem(each.seq_number, each.lock_token) for each in messages]
        self._warn = warn
        self._has_batch = True
        deadlines = [each.locked_until_ms for each in messages if each.locked_until_ms]
        self._deadline_ms: int | None = min(deadlines, default=None)
        left_ms = self._left_ms()
        self._lease_ms = left_ms if left_ms is not None and left_ms > 0 else None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="renewer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End it, a call in flight included. May be repeated."""
        self._stopping.set()
        self._caller.cut()
        self._thread.join(_STOP_SECONDS)

    @property
    def may_hold(self) -> bool:
        """Whether a lease may live still, by what the other side has told of it."""
        left_ms = self._left_ms()
        return bool(self._items) and left_ms is not None and left_ms > 0

    def _left_ms(self) -> float | None:
        now_ms = self._caller.now_ms()
        if self._deadline_ms is None or now_ms is None:
            return None
        return self._deadline_ms - now_ms

    def _run(self) -> None:
        while self._items and not self._stopping.wait(pace_ms(self._left_ms()) / 1000):
            try:
                self._pass()
            except MqliteError:
                if self._stopping.is_set():
                    return
                self._forget_spent()

    def _pass(self) -> None:
        """Renew all, and know the new deadline. Raises when nothing was learnt."""
        if self._has_batch:
            try:
                self._renew_batch()
            except Unsupported:
                self._has_batch = False
                self._warn("this broker has no RenewBatch; leases are renewed one by one")
        if not self._has_batch:
            self._renew_singly()

    def _renew_batch(self) -> None:
        held: list[SettleItem] = []
        deadlines: list[int] = []
        for at in range(0, len(self._items), RENEW_BATCH_MAX):
            part = self._items[at : at + RENEW_BATCH_MAX]
            response = self._caller.call(RenewBatchRequest(self._queue, part))
            for item, result in zip(part, response.results, strict=True):
                if result.ok:
                    held.append(item)
                    deadlines.append(result.locked_until_ms)
        # A lease that is over stays over; the settle will name it.
        self._items = held
        self._deadline_ms = min((each for each in deadlines if each), default=None)

    def _renew_singly(self) -> None:
        """An old broker does not say until when: at least as long as the batch arrived with."""
        before_ms = self._caller.now_ms()
        held: list[SettleItem] = []
        failure: MqliteError | None = None
        for item in self._items:
            try:
                self._caller.call(RenewRequest(self._queue, item.seq_number, item.lock_token))
            except LockLost:
                continue
            except MqliteError as error:
                failure = error
            held.append(item)
        self._items = held
        if failure is not None:
            raise failure
        if before_ms is None or self._lease_ms is None:
            self._deadline_ms = None
        else:
            self._deadline_ms = int(before_ms + self._lease_ms)

    def _forget_spent(self) -> None:
        """When nothing was learnt, a deadline in the past paces nothing."""
        left_ms = self._left_ms()
        if left_ms is not None and left_ms <= 0:
            self._deadline_ms = None
