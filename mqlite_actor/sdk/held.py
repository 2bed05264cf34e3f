"""A message in a handler's hands: it notices that it was settled, and learns that its lease is
lost.

Made by the receiver for each handler, renewed by `renewal`. A handler may settle it by its own
verb, in a transaction or in a batch; then the receiver leaves it alone. Works under trio and
asyncio; a handler that is a plain function gets a `SyncHeldMessage`, which shares this one's state.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anyio
import anyio.from_thread
from anyio.lowlevel import current_token

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract import ext, wire
from mqlite_actor.contract.errors import Closed, InvalidArgument, OutcomeUnknown, Unavailable
from mqlite_actor.sdk.blocking import SyncReceivedMessage, Twin
from mqlite_actor.sdk.durations import Duration
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.message import ReceivedMessage, settling
from mqlite_actor.sdk.unbroken import REPEAT_PAUSE_SECONDS, to_an_end

_clock = SystemClock()


class HeldMessage(ReceivedMessage):
    """A received message that knows what became of it."""

    __slots__ = ("_length", "_lost", "_offset", "ends_at", "is_settled", "scope")

    def __init__(self, handle: Handle, queue: str, raw: wire.Message) -> None:
        super().__init__(handle, queue, raw)
        self.is_settled = False
        self._length = (raw.locked_until_ms - handle.now_ms()) / 1000
        now = anyio.current_time()
        self._offset = now - _clock.monotonic()
        self.ends_at = now + self._length
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

    def note_settled(self, *, is_settled: bool) -> None:
        self.is_settled = is_settled

    def note_renewed(self, seconds: float) -> None:
        """From any thread; so the loop's own clock cannot be asked."""
        self.ends_at = self._offset + _clock.monotonic() + seconds

    async def complete(self) -> None:
        with settling([self]) as done:
            await super().complete()
            done[0] = True

    async def abandon(self, *, delay: Duration = 0) -> None:
        with settling([self]) as done:
            await super().abandon(delay=delay)
            done[0] = True

    async def reject(self, reason: str = "", description: str = "") -> None:
        with settling([self]) as done:
            await super().reject(reason, description)
            done[0] = True

    async def defer(self) -> None:
        with settling([self]) as done:
            await super().defer()
            done[0] = True

    async def renew(self) -> None:
        with self.renewing():
            await super().renew()

    @contextmanager
    def renewing(self) -> Iterator[None]:
        """The reply holds no deadline: it is a lease's length after the question."""
        asked = _clock.monotonic()
        yield
        self.note_renewed(self._length - (_clock.monotonic() - asked))


SETTLEMENTS = (
    wire.CompleteRequest, wire.AbandonRequest, wire.RejectRequest, wire.DeferRequest,
    ext.ReleaseRequest,
)  # fmt: skip


VERB_SECONDS = 5.0
"""For a verb of a plain handler from the first cancellation of every task on, as for a settlement.
Before that it takes what it takes."""

CUT = (asyncio.CancelledError, concurrent.futures.CancelledError)
"""How a thread learns that the task of asyncio which was to ask for it was cancelled before it had
begun, as all tasks are at a program's end. The thread cannot be cancelled, so it asks again, within
VERB_SECONDS."""


class SyncHeldMessage(SyncReceivedMessage):
    """The same for a handler that is a plain function, in a thread of its own. Made on the loop;
    any thread may use it, a handler's heartbeat for one."""

    __slots__ = ("_held", "_loop")

    def __init__(self, held: HeldMessage) -> None:
        self._held = held
        self._loop = current_token()
        super().__init__(ReceivedMessage(Twin(self._ask), held.queue, held.raw))

    @property
    def is_lost(self) -> bool:
        """Whether the lease is known to be over: somebody else may have the message by now."""
        return self._held.is_lost

    def note_settled(self, *, is_settled: bool) -> None:
        self._held.note_settled(is_settled=is_settled)

    def note_renewed(self, seconds: float) -> None:
        self._held.note_renewed(seconds)

    def _ask(self, request: Any) -> Any:  # noqa: ANN401  # a request and its response
        """The verbs reach the loop that waits for the handler."""
        if isinstance(request, wire.RenewRequest):
            with self._held.renewing():
                return self._reach(request)
        if not isinstance(request, SETTLEMENTS):
            return self._reach(request)
        with settling([self._held]) as done:
            reply = self._reach(request)
            done[0] = True
        return reply

    def _is_here(self) -> bool:
        """Whether this is the loop itself, which nothing may block."""
        with suppress(anyio.NoEventLoopError):
            return bool(current_token() == self._loop)
        return False

    def _reach(self, request: Any) -> Any:  # noqa: ANN401  # a request and its response
        if self._is_here():
            raise InvalidArgument("a plain handler's message blocks; use it in a thread")
        ends_at: float | None = None
        while True:
            try:
                return anyio.from_thread.run(self._call, request, token=self._loop)
            except anyio.RunFinishedError:
                raise Closed("the receiver's loop is over") from None
            except CUT:  # before it began: once it has it is not cut
                if ends_at is None:
                    ends_at = _clock.monotonic() + VERB_SECONDS
                    continue
            if _clock.monotonic() >= ends_at:
                raise Unavailable(
                    f"every task was cancelled for {VERB_SECONDS:g} s, before it could begin, so"
                    " nothing was done; cancel them once, and let the receiver come to its end"
                )
            threading.Event().wait(REPEAT_PAUSE_SECONDS)

    async def _call(self, request: Any) -> Any:  # noqa: ANN401  # a request and its response
        """To its end, as the plain function around it: what cuts the task cannot cut either. But
        who cancels again and again may break each try off, so then there is an end."""
        replies: list[Any] = []

        async def ask() -> None:
            replies.append(await self._held.handle.call(request))

        await to_an_end(ask, math.inf, cancelled_seconds=VERB_SECONDS)
        if not replies:
            raise OutcomeUnknown(
                f"every task was cancelled, and there was no answer in {VERB_SECONDS:g} s; look"
                " before you repeat it"
            )
        return replies[-1]


def _either(name: str) -> Callable[..., Any]:
    def verb(self: EitherHeldMessage, *arguments: object, **options: object) -> object:
        side = self._held if self._is_here() else super(EitherHeldMessage, self)
        return getattr(side, name)(*arguments, **options)

    return verb


class EitherHeldMessage(SyncHeldMessage):
    """For a handler that looks plain and may return what is to be awaited: its verbs block in the
    thread in which it is called, and are to be awaited in what it returns."""

    __slots__ = ()

    complete = _either("complete")
    abandon = _either("abandon")
    reject = _either("reject")
    defer = _either("defer")
    release = _either("release")
    renew = _either("renew")

    @property
    def handle(self) -> Handle:
        """As `HeldMessage.handle`."""
        return self._held.handle

    async def wait_lost(self) -> None:
        """As `HeldMessage.wait_lost`."""
        await self._held.wait_lost()
