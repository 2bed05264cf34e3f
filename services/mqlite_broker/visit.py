"""One broker's stay on an engine, which may outlast it.

Made by the application and called for every request. Its long polls can be ended without those of
anybody else: an embedding program goes on receiving while its broker stops (ruling R39).
"""

from __future__ import annotations

from typing import TypeVar, cast

import msgspec
import trio

from mqlite_actor.contract import wire
from mqlite_broker.engines import AnyEngine

R = TypeVar("R")


class Visit:
    """Calls of one broker. `is_over`: it stops, and nothing waits any more."""

    __slots__ = ("_engine", "_polls", "is_over")

    def __init__(self, engine: AnyEngine) -> None:
        self._engine = engine
        self._polls: set[trio.CancelScope] = set()
        self.is_over = False

    @property
    def unready(self) -> str:
        """Why no work should be sent here, or ""; it names no file and no queue."""
        return "it is closing" if self.is_over else self._engine.unready

    async def call(self, request: wire.Request[R]) -> R:
        """`Engine.call` for what a door decoded; a long poll is answered with an empty list when
        the visit ends."""
        if isinstance(request, wire.ReceiveRequest) and request.wait_time_ms > 0:
            return cast("R", await self._poll(request))
        return await self._engine.call(request, is_clean=True)

    def end(self) -> None:
        """Answer every long poll of this broker with an empty list, now and from now on."""
        self.is_over = True
        for poll in self._polls:
            poll.cancel()

    async def _poll(self, request: wire.ReceiveRequest) -> wire.MessagesResponse:
        if self.is_over:
            request = msgspec.structs.replace(request, wait_time_ms=0)
            return await self._engine.call(request, is_clean=True)
        with trio.CancelScope() as poll:
            self._polls.add(poll)
            try:
                return await self._engine.call(request, is_clean=True)
            finally:
                self._polls.discard(poll)
        return wire.MessagesResponse(messages=[])
