"""What the doors ask of an engine, and the engine of another process in that shape.

`rpc.py` is handed either an `Engine` of its own process or, in a front-end process, a `FarEngine`
at the end of the link to the writer. Rule: a lost link is told in the contract's words, by the
table of what may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar, cast

import trio

from mqlite_actor.contract import wire
from mqlite_actor.contract.calls import CALLS
from mqlite_actor.contract.errors import Unavailable
from mqlite_actor.contract.keys import Right
from mqlite_actor.contract.observe import ObserveRequest
from mqlite_actor.engine.beside import Beside
from mqlite_actor.link import frames
from mqlite_actor.link.client import Link, LinkLost
from mqlite_actor.sdk import exchange

R = TypeVar("R")

PROBE_SECONDS: Final = 1.0
"""Between two looks at the writer; a load balancer asks no more often."""

SILENCE_SECONDS: Final = 2.0
"""A writer that answers nothing for so long should get no work."""

OPENING: Final = "it is opening"
GONE: Final = "the writer is gone"
SILENT: Final = "the writer does not answer"


class AnyEngine(Protocol):
    """An engine as the doors see it."""

    @property
    def served(self) -> frozenset[type[Any]]: ...

    @property
    def unready(self) -> str: ...

    async def call(self, request: wire.Request[R], *, is_clean: bool = False) -> R: ...

    async def authenticate(self, token: str) -> tuple[str, frozenset[Right]]: ...

    async def hand_back(
        self,
        request: wire.ReceiveRequest,
        reply: wire.MessagesResponse,
        *,
        is_counted: bool = False,
    ) -> None: ...


class FarEngine:
    """The writer, seen from a front-end process. `names`: the calls that it serves; `report` tells
    it what was counted so far, which Observe is to show. `beside`: who answers what only looks;
    None where the writer has no file."""

    __slots__ = ("_beside", "_link", "_report", "_unready", "served")

    def __init__(
        self,
        link: Link,
        names: list[str],
        report: Callable[[], None],
        beside: Beside | None = None,
    ) -> None:
        self._link = link
        self._beside = beside
        self._report = report
        self._unready = OPENING
        self.served = frozenset(call.request for call in CALLS if call.name in names)

    @property
    def unready(self) -> str:
        """Why the writer should get no work now, as far as it was heard of; "" when it should."""
        return GONE if self._link.lost.is_set() else self._unready

    async def listen(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Ask the writer again and again how it is; started with its first word."""
        while True:
            with trio.move_on_after(SILENCE_SECONDS) as patience:
                try:
                    self._unready = await self._link.probe()
                except LinkLost:
                    self._unready = GONE
            if patience.cancelled_caught:
                self._unready = SILENT
            task_status.started()
            task_status = trio.TASK_STATUS_IGNORED
            await trio.sleep(PROBE_SECONDS)

    async def call(
        self,
        request: wire.Request[R],
        *,
        is_clean: bool = True,  # noqa: ARG002  # everything is encoded for the link
    ) -> R:
        """As `Engine.call`; Unavailable or OutcomeUnknown when the writer is gone."""
        if isinstance(request, ObserveRequest):
            self._report()
        if self._beside is not None:
            seen = await self._beside.look(request)
            if seen is not None:
                return cast("R", seen)
        try:
            return await self._link.call(request)
        except LinkLost as lost:
            if lost.was_sent:
                raise exchange.lost_reply(request, GONE) from lost
            raise Unavailable(f"{GONE}; repeat when it is back") from lost

    async def authenticate(self, token: str) -> tuple[str, frozenset[Right]]:
        """As `Engine.authenticate`; Unavailable when the writer is gone."""
        if self._beside is not None:
            seen = await self._beside.authenticate(token)
            if seen is not None:
                return seen
        try:
            return await self._link.check(token)
        except LinkLost as lost:
            raise Unavailable(f"{GONE}; repeat when it is back") from lost

    async def hand_back(
        self,
        request: wire.ReceiveRequest,
        reply: wire.MessagesResponse,
        *,
        is_counted: bool = False,
    ) -> None:
        """As `Engine.hand_back`; does nothing when the writer is gone (its next opening ends the
        leases)."""
        leases = frames.leases_of(request, reply)
        if not leases:
            return
        try:
            await self._link.give_back(request.queue, leases, is_counted=is_counted)
        except LinkLost:
            return
