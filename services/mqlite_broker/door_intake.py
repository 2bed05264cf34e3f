"""A request on its way in: counted, bounded, and drawn on the budgets of all connections.

`DoorProtocol` makes an `Intake` for each body and asks it about each piece; `Connection` has a
`HeadRoom` for its header blocks.
Rules: a header block is what the parser keeps of one, so a body that came with its head is none;
what is over the limit is counted and not kept (Quart raises RequestEntityTooLarge by the
declared length, or by the piece that crosses the limit); a large body has room before it is read.
"""

from __future__ import annotations

import math

import trio

from mqlite_broker.door_app import log
from mqlite_broker.door_inbox import Ingress
from mqlite_broker.door_limits import BODY_FREE_BYTES, HEAD_FREE_BYTES


class Intake:
    """The counts of one body. `declared` is None for a chunked one, `limit` None for no limit."""

    __slots__ = ("_admission", "_admitted", "_declared", "_ingress", "_limit", "_seen")

    def __init__(self, declared: int | None, limit: int | None, ingress: Ingress) -> None:
        self._declared = declared
        self._limit = math.inf if limit is None else limit
        self._ingress = ingress
        self._seen = 0
        self._admitted = 0
        self._admission = trio.CancelScope()

    @property
    def rest(self) -> float:
        """Bytes still to come; infinite when unknown."""
        return math.inf if self._declared is None else self._declared - self._seen

    def keeps(self, data: bytes) -> bool:
        """Count a piece; true if the application is to get it."""
        before, self._seen = self._seen, self._seen + len(data)
        return before <= self._limit and (self._declared or 0) <= self._limit

    async def admit(self, until: float) -> bool:
        """Wait for the room that this body needs; false if it did not come, or `end` came."""
        largest = max(self._declared or 0, self._seen)
        if self._admitted or largest <= BODY_FREE_BYTES:
            return True
        whole = self._declared or (largest if self._limit == math.inf else int(self._limit))
        self._admission.deadline = until
        with self._admission:
            self._admitted = await self._ingress.take(whole)
        if self._admission.cancel_called:
            self.end()  # room and the end came in the same moment
        return self._admitted > 0

    def end(self) -> None:
        """Stop waiting and give the room back; the body is answered or its client has left."""
        self._admission.cancel()
        self._ingress.give(self._admitted)
        self._admitted = 0


class HeadBudget(Ingress):
    """Room for large header blocks over all connections; the log hears once that it is used up."""

    __slots__ = ("_is_used_up",)

    def __init__(self, bytes_max: int) -> None:
        super().__init__(bytes_max)
        self._is_used_up = False

    def take_at_once(self, size: int) -> int:
        """As the parent's."""
        taken = super().take_at_once(size)
        if not taken and not self._is_used_up:
            self._is_used_up = True
            log.warning("too many large header blocks at once; connections with more are closed")
        return taken

    def give(self, size: int) -> None:
        """As the parent's."""
        super().give(size)
        if not self.bytes_used:
            self._is_used_up = False


class HeadRoom:
    """The bytes of one header block that is being read.

    A large block draws its whole limit on the budget of all connections, and gets it at once or
    never: nobody waits for a block that no honest client sends.
    """

    __slots__ = ("_budget", "_limit", "_taken")

    def __init__(self, limit: int, budget: HeadBudget) -> None:
        self._limit = limit
        self._budget = budget
        self._taken = 0

    @property
    def is_taken(self) -> bool:
        """Whether there is room for all that the block may grow to."""
        return self._taken > 0

    def hold(self, size: int) -> bool:
        """The block has this length by now; false if there is no room for it."""
        if not self._taken and size > HEAD_FREE_BYTES:
            self._taken = self._budget.take_at_once(self._limit)
            return self._taken > 0
        return True

    def end(self) -> None:
        """The block is complete, or its client has left: give the room back."""
        self._budget.give(self._taken)
        self._taken = 0
