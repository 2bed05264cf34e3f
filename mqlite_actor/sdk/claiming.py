"""Fetches messages for a receiver's idle workers, and for nobody else.

Iterated by `receiver`; calls the handle. Rules (spec/engine.md 7.3): slots are reserved before
anything is asked for, so every message has a worker at once; a claim that failed is repeated once
under the same attempt id, which cannot take other messages, and only what is still under its lease
is handed out then; then it pauses, longer each time.
Whether the run was cancelled is looked at when an error is seen, not later: `Closed` seen while
running is the run's error, `Closed` after a cancellation is the cancellation.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Sequence

import anyio

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import CallerError, Closed, LockLost, MqliteError, Unsupported
from mqlite_actor.sdk.handing import guarded
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.receiving import Settings
from mqlite_actor.sdk.replays import still_held

PAUSE_FIRST_SECONDS = 0.5
PAUSE_MAX_SECONDS = 8.0
"""After trouble, doubled each time: a broker that restarts is found soon, one that is away for
longer is not hammered."""


def is_permanent(error: MqliteError) -> bool:
    """Whether trying again is in vain. A lost lease concerns one message, never the receiver."""
    return isinstance(error, CallerError | Unsupported | Closed) and not isinstance(error, LockLost)


class Claims:
    """The batches of one receiver, until it is stopped."""

    __slots__ = ("_freed", "_handle", "_idle", "_poll", "_queue", "_report", "_settings", "stopped")

    def __init__(
        self,
        handle: Handle,
        queue: str,
        settings: Settings,
        report: Callable[[MqliteError], None],
    ) -> None:
        self._handle = handle
        self._queue = queue
        self._settings = settings
        self._report = report
        self._idle = settings.concurrency
        self._freed = anyio.Event()
        self._poll: anyio.CancelScope | None = None
        self.stopped = anyio.Event()

    @property
    def is_stopped(self) -> bool:
        """Whether no more is to be claimed."""
        return self.stopped.is_set()

    def stop(self) -> None:
        """End the iteration; a poll that waits is given up."""
        self.stopped.set()
        self._freed.set()
        if self._poll is not None:
            self._poll.cancel()

    def free(self, slots: int) -> None:
        """So many workers are idle again."""
        self._idle += slots
        self._freed.set()

    async def __aiter__(self) -> AsyncIterator[tuple[Sequence[wire.Message], str]]:
        """Batches for idle workers, each with its attempt id. The caller gives the slots back."""
        pause = PAUSE_FIRST_SECONDS
        while not self.is_stopped:
            reserved = await self._reserve()
            if not reserved:
                continue
            attempt = secrets.token_hex(16)
            messages = await self._claim(reserved, attempt)
            if messages is None:
                self.free(reserved)
                await self._pause(pause)
                pause = min(pause * 2, PAUSE_MAX_SECONDS)
                continue
            pause = PAUSE_FIRST_SECONDS
            self.free(reserved - len(messages))
            self._settings.hooks.claimed(len(messages))
            yield messages, attempt

    async def _reserve(self) -> int:
        """Wait for an idle worker, then take as many as there are, at most a claim's worth."""
        while not self._idle and not self.is_stopped:
            self._freed = anyio.Event()
            await self._freed.wait()
        reserved = 0 if self.is_stopped else min(self._idle, self._settings.prefetch)
        self._idle -= reserved
        return reserved

    async def _claim(self, reserved: int, attempt: str) -> Sequence[wire.Message] | None:
        """A batch, perhaps an empty one; None after trouble that may pass."""
        request = wire.ReceiveRequest(
            queue=self._queue,
            max_messages=reserved,
            wait_time_ms=self._settings.wait_ms,
            receive_attempt_id=attempt,
        )
        for is_last in (False, True):
            with anyio.CancelScope() as self._poll:
                if self.is_stopped:
                    return ()
                try:
                    messages = (await self._handle.call(request)).messages
                    if not is_last:
                        return messages
                    async with guarded(self._handle, self._queue, messages, attempt):
                        return await still_held(self._handle, self._queue, messages)
                except MqliteError as error:
                    if is_last or is_permanent(error):
                        self._report(error)
                        return None
            if self.is_stopped:
                return ()
        raise AssertionError("the second failure is the last")

    async def _pause(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self.stopped.wait()
