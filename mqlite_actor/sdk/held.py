"""A message in a handler's hands: it notices that it was settled, and learns that its lease is
lost.

Made by the receiver for each handler, renewed by `renewal`. A handler may settle it by its own
verb; then the receiver leaves it alone. Works under trio and asyncio; a handler that is a plain
function gets a `SyncHeldMessage`, which shares this one's state.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.from_thread

from mqlite_actor.contract import ext, wire
from mqlite_actor.sdk.blocking import SyncReceivedMessage, Twin
from mqlite_actor.sdk.durations import Duration
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.message import ReceivedMessage


class HeldMessage(ReceivedMessage):
    """A received message that knows what became of it."""

    __slots__ = ("_lost", "ends_at", "is_settled", "scope")

    def __init__(self, handle: Handle, queue: str, raw: wire.Message) -> None:
        super().__init__(handle, queue, raw)
        self.is_settled = False
        self.ends_at = anyio.current_time() + (raw.locked_until_ms - handle.now_ms()) / 1000
        self.scope = anyio.CancelScope()
        self._lost = anyio.Event()

    @property
    def is_lost(self) -> bool:
        """Whether the lease is known to be over: somebody else may have the message by now."""
        return self._lost.is_set()

    async def wait_lost(self) -> None:
        """Return once the lease is known to be over; for a handler that wants to give up then."""
        await self._lost.wait()

    @property
    def handle(self) -> Handle:
        """Where it came from."""
        return self._handle

    def lose(self) -> None:
        """Note that the lease is over. For the receiver."""
        self._lost.set()

    @contextmanager
    def settling(self) -> Iterator[None]:
        """Settled from the moment it is asked for: a renewal that is denied then means nothing."""
        self.is_settled = True
        try:
            yield
        except BaseException:
            self.is_settled = False
            raise

    async def complete(self) -> None:
        with self.settling():
            await super().complete()

    async def abandon(self, *, delay: Duration = 0) -> None:
        with self.settling():
            await super().abandon(delay=delay)

    async def reject(self, reason: str = "", description: str = "") -> None:
        with self.settling():
            await super().reject(reason, description)

    async def defer(self) -> None:
        with self.settling():
            await super().defer()

    async def release(self) -> None:
        with self.settling():
            await super().release()


SETTLEMENTS = (
    wire.CompleteRequest, wire.AbandonRequest, wire.RejectRequest, wire.DeferRequest,
    ext.ReleaseRequest,
)  # fmt: skip


class SyncHeldMessage(SyncReceivedMessage):
    """The same for a handler that is a plain function, in a thread of its own."""

    __slots__ = ("_held",)

    def __init__(self, held: HeldMessage) -> None:
        self._held = held
        super().__init__(ReceivedMessage(Twin(self._ask), held.queue, held.raw))

    @property
    def is_lost(self) -> bool:
        """Whether the lease is known to be over: somebody else may have the message by now."""
        return self._held.is_lost

    def _ask(self, request: Any) -> Any:  # noqa: ANN401  # a request and its response
        """The verbs reach the loop that waits for this thread."""
        if not isinstance(request, SETTLEMENTS):
            return anyio.from_thread.run(self._call, request)
        with self._held.settling():
            return anyio.from_thread.run(self._call, request)

    async def _call(self, request: Any) -> Any:  # noqa: ANN401  # a request and its response
        """To its end, as the plain function around it: what cuts the task cannot cut either."""
        with anyio.CancelScope(shield=True):
            return await self._held.handle.call(request)
