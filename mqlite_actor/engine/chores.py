"""Work that takes many commands: redrive, purge, the end of a subscription, compact, and giving
free pages back.

Called by the engine for the requests of the same names. Each sends ordinary commands in chunks, so
that others are served in between, and stops after its present chunk when the engine ends: what it
has done stays done and is what it answers (ruling R25). Cancelled, the same: the chunk that was
taken is done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio
from msgspec import structs

from mqlite_actor.clock import Clock
from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument, MqliteError, StorageFull
from mqlite_actor.contract.ext import (
    DeleteSubscriptionRequest,
    DeleteSubscriptionResponse,
    PurgeActiveRequest,
    PurgeActiveResponse,
    RedriveOutcome,
    RedriveResult,
    RedriveSelectedRequest,
    RedriveSelectedResponse,
)
from mqlite_actor.contract.wire import (
    PurgeRequest,
    PurgeResponse,
    RedriveRequest,
    RedriveResponse,
)
from mqlite_actor.engine import commands
from mqlite_actor.engine.disk import fewer

Submit = Callable[[Any], Awaitable[Any]]

PACE_SECONDS = 1.0
"""A paced redrive moves its rate, then waits this long."""


class Chores:
    """Runs chores against `submit`; `ending` is set when the engine is about to end."""

    __slots__ = ("_clock", "_submit", "ending")

    def __init__(self, submit: Submit, clock: Clock) -> None:
        self._submit = submit
        self._clock = clock
        self.ending = trio.Event()

    async def redrive(self, request: RedriveRequest) -> RedriveResponse:
        """Revive the dead letters there are now, oldest first; how many were moved."""
        for field in ("max", "older_than_ms", "rate_per_sec"):
            _not_negative(getattr(request, field), field)
        last = await self._submit(commands.LastDeadLetter(request.queue, request.target))
        moved = after = 0
        in_pace = 0
        while after < last and not self.ending.is_set():
            limit = _chunk(request.max, moved)
            if request.rate_per_sec:
                limit = min(limit, request.rate_per_sec - in_pace)
            if not limit:
                break
            before = self._before(request.older_than_ms)
            command = commands.RedriveChunk(
                request.queue, request.target, after, last, before, limit
            )
            number, after = await self._run_chunk(command, moved)
            moved += number
            in_pace += number
            if request.rate_per_sec and in_pace >= request.rate_per_sec and after < last:
                in_pace = 0
                if _chunk(request.max, moved):
                    await self._pause()
        return RedriveResponse(moved=moved)

    async def purge(self, request: PurgeRequest) -> PurgeResponse:
        """Delete the dead letters there are now, oldest first; how many were deleted."""
        for field in ("max", "older_than_ms"):
            _not_negative(getattr(request, field), field)
        last = await self._submit(commands.LastDeadLetter(request.queue))
        purged = after = 0
        while after < last and not self.ending.is_set():
            limit = _chunk(request.max, purged)
            if not limit:
                break
            before = self._before(request.older_than_ms)
            command = commands.PurgeChunk(request.queue, after, last, before, limit)
            number, after = await self._run_chunk(command, purged)
            purged += number
        return PurgeResponse(purged=purged)

    async def redrive_selected(self, request: RedriveSelectedRequest) -> RedriveSelectedResponse:
        """Revive these dead letters, in the order given; an answer for each."""
        numbers = tuple(request.seq_numbers)
        if len(numbers) > limits.SELECTED_MAX:
            raise InvalidArgument(
                f"seq_numbers has {len(numbers)} items; redrive at most {limits.SELECTED_MAX}"
                " a call"
            )
        results: list[RedriveResult] = []
        moved = 0
        is_over = False
        while not is_over:  # none at all: check the names
            rest = numbers[len(results) :]
            if self.ending.is_set():
                results += [RedriveResult(seq, RedriveOutcome.NOT_TRIED) for seq in rest]
                break
            chunk = rest[: limits.CHORE_ROWS]
            command = commands.RedriveSelectedChunk(request.queue, request.target, chunk)
            answers = await self._run_chunk(command, moved)  # as many as its bytes allow
            results += answers
            moved += sum(each.outcome is RedriveOutcome.MOVED for each in answers)
            is_over = len(results) == len(numbers)
        return RedriveSelectedResponse(moved=moved, results=results)

    async def purge_active(self, request: PurgeActiveRequest) -> PurgeActiveResponse:
        """Delete the active messages there are now, oldest first; how many were deleted."""
        for field in ("max", "older_than_ms"):
            _not_negative(getattr(request, field), field)
        last, generation = await self._submit(commands.LastActive(request))
        purged = after = 0
        while after < last and not self.ending.is_set():
            limit = _chunk(request.max, purged)
            if not limit:
                break
            before = self._before(request.older_than_ms)
            command = commands.PurgeActiveChunk(
                request.queue, generation, after, last, before, limit
            )
            number, after = await self._run_chunk(command, purged)
            purged += number
        return PurgeActiveResponse(purged=purged)

    async def delete_subscription(
        self, request: DeleteSubscriptionRequest
    ) -> DeleteSubscriptionResponse:
        """End a subscription, then delete what it holds and its queue.

        Stopped in between it gets nothing any more; the same call again goes on.
        """
        generation, discarded = await self._submit(commands.EndSubscription(request))
        is_gone = not generation
        while not is_gone and not self.ending.is_set():
            command = commands.DiscardChunk(request.name, generation, limits.CHORE_ROWS)
            number, is_gone = await self._run_chunk(command, discarded)
            discarded += number
        return DeleteSubscriptionResponse(deleted=is_gone, discarded=discarded)

    async def reclaim(self) -> int:
        """Give free pages back to the disk if there are many; how many were."""
        await self._submit(commands.TruncateLog())
        first = left = await self._submit(commands.CountFreePages())
        while left and first >= limits.RECLAIM_PAGES_MIN and not self.ending.is_set():
            before, left = left, await self._reclaim_some()
            if left >= before:
                break  # the file was made without incremental vacuum
        if left != first:
            await self._submit(commands.TruncateLog())
        return int(first - left)

    async def compact(self, *, is_full: bool) -> None:
        """Shrink the file: by its free pages, or (full) by writing it anew."""
        if is_full:
            await self._submit(commands.Vacuum())
            return
        await self._submit(commands.TruncateLog())
        left = await self._submit(commands.CountFreePages())
        while left and not self.ending.is_set():
            before, left = left, await self._reclaim_some()
            if left >= before:
                break
        await self._submit(commands.TruncateLog())

    async def _reclaim_some(self) -> Any:  # noqa: ANN401  # how many free pages are left
        """One step; a smaller one where a disk has no room for the log of that."""
        pages = limits.RECLAIM_PAGES
        while True:
            try:
                return await self._submit(commands.Reclaim(pages))
            except StorageFull:
                if pages == 1:
                    raise
                pages = fewer(pages)
                await self._submit(commands.TruncateLog())

    async def _run_chunk(self, command: object, done: int) -> Any:  # noqa: ANN401  # any reply
        """One chunk, or a part of it where a disk has no room for the log of all; an error in a
        later one also says how many are done and stay so (E127)."""
        try:
            return await _with_what_fits(self._submit, command)
        except MqliteError as error:
            if not done:
                raise
            raise type(error)(f"{error.message}; {done} before it are done and stay so") from error

    def _before(self, older_than_ms: int) -> int:
        """The instant that a message must have been enqueued before; far off without a bound."""
        if not older_than_ms:
            return limits.INT64_MAX
        return self._clock.now_ms() - min(older_than_ms, limits.DURATION_MS_MAX)

    async def _pause(self) -> None:
        with trio.move_on_after(PACE_SECONDS):
            await self.ending.wait()


async def _with_what_fits(submit: Submit, command: Any) -> Any:  # noqa: ANN401  # any with a limit
    """Run a command; with a smaller limit, if it has one, where a disk has no room for the log of
    all. StorageFull if there is none for the log of a single row."""
    while True:
        try:
            return await submit(command)
        except StorageFull:
            limit = getattr(command, "limit", 1)
            if limit <= 1:
                raise
            command = structs.replace(command, limit=fewer(limit))


def _chunk(maximum: int, done: int) -> int:
    """How many the next chunk may touch; 0 when the caller's number is reached."""
    return limits.CHORE_ROWS if not maximum else min(limits.CHORE_ROWS, maximum - done)


def _not_negative(value: int, field: str) -> None:
    if value < 0:
        raise InvalidArgument(f"{field} is negative; use 0 for no bound")
