"""Keeps the leases of messages in work: one batch renewal in time, for as long as handlers run.

Run by the receiver as one task. Paced by what remains of each lease, measured on the monotonic
clock from the deadline that the engine returned and the engine's own time, so that a wrong clock of
this machine does not matter (B32); one call for all messages, so that many short leases hold (B33).
Rules: when a lease is due is settled once, when it joins or was asked for, and whoever joins later
can only bring the next pass forward, so that steady traffic never puts it off; a failed renewal is
tried again while the lease may still live, unless it was refused for good; a lease that the engine
denies, or that ran out meanwhile, is lost, and said to be, unless its message is settled or being
settled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import anyio

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import LockLost, MqliteError, Unsupported
from mqlite_actor.sdk import requests
from mqlite_actor.sdk.claiming import is_permanent
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.held import HeldMessage

PAUSE_MIN_SECONDS = 0.05
PASS_MIN_SECONDS = 0.01
"""Between two passes: usually the first; the second is for leases of which half is even less."""

SPENT_SECONDS = 0.02
"""Where nothing seems left: at once, but not in a circle."""

LOST_SECONDS = 1.0
"""So long after its estimated end a lease that could not be renewed is given up: the estimate is
early by up to the second that a broker's `Date` is coarse."""

CALL_SECONDS = 5.0
"""For one renewal; a broker that is slower has lost it, and the next one tries again."""


class Lease:
    """What is known of one message's lease, on the monotonic clock. Its end is the message's."""

    __slots__ = ("due_at", "held", "length")

    def __init__(self, held: HeldMessage) -> None:
        self.held = held
        now = anyio.current_time()
        self.length = held.ends_at - now
        self.plan(now)

    def plan(self, now: float) -> None:
        """Settle when it is renewed next. One of a settled message, which may have ended in order,
        is asked for at its usual pace, in case the settling fails."""
        left = self.length if self.held.is_settled else self.held.ends_at - now
        self.due_at = now + pause_seconds(left)


def pause_seconds(remaining: float) -> float:
    """How long to wait before renewing a lease with so much left: a third, but never more than
    half; at once where nothing is left."""
    if remaining < 0.001:
        return SPENT_SECONDS
    return max(min(max(remaining / 3, PAUSE_MIN_SECONDS), remaining / 2), PASS_MIN_SECONDS)


class Renewal:
    """The leases of one receiver's messages in work. By message and not by number: one that came
    again has a second lease, while the handler of the first delivery still runs."""

    __slots__ = (
        "_handle", "_is_batchless", "_leases", "_next_at", "_on_lost", "_queue", "_report",
        "_sooner",
    )  # fmt: skip

    def __init__(
        self,
        handle: Handle,
        queue: str,
        *,
        on_lost: Callable[[HeldMessage], None],
        report: Callable[[MqliteError], None],
    ) -> None:
        self._handle = handle
        self._queue = queue
        self._on_lost = on_lost
        self._report = report
        self._leases: dict[HeldMessage, Lease] = {}
        self._next_at = math.inf
        self._sooner = anyio.Event()
        self._is_batchless = False

    def add(self, held: HeldMessage) -> None:
        """Renew it from now on."""
        lease = self._leases[held] = Lease(held)
        if lease.due_at < self._next_at:
            self._sooner.set()

    def remove(self, held: HeldMessage) -> None:
        """Its handler and its settlement are done with."""
        self._leases.pop(held, None)

    async def run(self) -> None:
        """Renew until cancelled. Errors go to `report`, which may end the receiver."""
        while True:
            self._sooner = anyio.Event()
            self._next_at = min((each.due_at for each in self._leases.values()), default=math.inf)
            if self._next_at <= anyio.current_time():
                await self._renew(list(self._leases.values()))
                continue
            with anyio.CancelScope(deadline=self._next_at):
                await self._sooner.wait()

    async def _renew(self, leases: Sequence[Lease]) -> None:
        for start in range(0, len(leases), limits.RENEW_BATCH_MAX):
            some = leases[start : start + limits.RENEW_BATCH_MAX]
            try:
                with anyio.fail_after(CALL_SECONDS):
                    await self._ask(some)
            except MqliteError as error:
                self._failed(some, is_for_good=is_permanent(error))
                self._report(error)
            except TimeoutError:
                self._failed(some)

    async def _ask(self, leases: Sequence[Lease]) -> None:
        if self._is_batchless:
            await self._one_by_one(leases)
            return
        items = [
            wire.SettleItem(seq_number=each.held.seq_number, lock_token=each.held.lock_token)
            for each in leases
        ]
        try:
            reply = await self._handle.call(
                wire.RenewBatchRequest(queue=self._queue, messages=items)
            )
        except Unsupported:  # an older broker
            self._is_batchless = True
            await self._one_by_one(leases)
            return
        now_ms = self._handle.now_ms()
        for lease, result in zip(leases, reply.results, strict=True):
            self._heard(lease, (result.locked_until_ms - now_ms) / 1000 if result.ok else None)

    async def _one_by_one(self, leases: Sequence[Lease]) -> None:
        """The reply holds no deadline: it is a lease's length after the question."""
        for lease in leases:
            asked = anyio.current_time()
            try:
                await self._handle.call(wire.RenewRequest(**requests.lease(lease.held)))
            except LockLost:
                self._heard(lease, None)
            else:
                self._heard(lease, asked + lease.length - anyio.current_time())

    def _heard(self, lease: Lease, seconds: float | None) -> None:
        if not self._is_current(lease):
            return
        now = anyio.current_time()
        if seconds is not None:
            lease.held.ends_at = now + seconds
        elif not lease.held.is_settled:  # else that is why it was denied
            self._lose(lease)
        lease.plan(now)

    def _failed(self, leases: Sequence[Lease], *, is_for_good: bool = False) -> None:
        now = anyio.current_time()
        for lease in leases:
            if not self._is_current(lease):
                continue
            if lease.held.ends_at + LOST_SECONDS <= now and not lease.held.is_settled:
                self._lose(lease)
            lease.plan(now)
            if is_for_good:  # looked at again when it is over, and no sooner
                lease.due_at = max(lease.due_at, lease.held.ends_at + LOST_SECONDS)

    def _lose(self, lease: Lease) -> None:
        self.remove(lease.held)
        lease.held.lose()
        self._on_lost(lease.held)

    def _is_current(self, lease: Lease) -> bool:
        return self._leases.get(lease.held) is lease
