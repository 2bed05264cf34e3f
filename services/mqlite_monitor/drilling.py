"""What Peek and Explain say about the queue that is looked into.

Called by `watching` while the page of a queue is open, once a tick; calls any handle. Rules: a
right that is missing is remembered for the queue, so that a monitor token is refused once and not
every second; bodies are dropped at once; a look is bounded in calls, and the next one goes on where
it ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import UNSET

from mqlite_actor import Handle, Message, MqliteError, PermissionDenied, Unsupported
from mqlite_actor.contract import ext
from mqlite_actor.contract.errors import Unimplemented
from mqlite_actor.contract.wire import PeekRequest
from mqlite_actor.contract.words import State
from mqlite_monitor.snapshot import Blocked, Detail, Letter

T = TypeVar("T")

LETTERS = 8
"""Dead letters of a page, bodies included, which may be large: a handful is what a person reads."""

PEEKS_MAX = 8
"""Calls of one look for dead letters. Peek goes upwards only, so the end of many is found by
doubling and halving: three or four ticks for a million."""

STEP = 64
"""The first jump; it doubles until it is beyond the end."""

BLOCKED_MAX = 5
"""Lines that are shown; Explain names the longest waiting first."""


class Drill:
    """The looks into one queue."""

    __slots__ = ("_refusals", "_start", "queue")

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self._start = 0
        self._refusals: dict[str, str] = {}

    async def look(self, handle: Handle) -> Detail:
        """One look. What cannot be had is a text that says why, never an error."""
        letters = await self._ask("letters", lambda: self._find_letters(handle))
        found = await self._ask("explain", lambda: handle.explain(self.queue))
        if isinstance(found, str):
            return Detail(queue=self.queue, letters=letters, blocked=found, explanation="")
        return Detail(
            queue=self.queue,
            letters=letters,
            blocked=_lines(found),
            explanation=_explanation(found),
        )

    async def _ask(self, what: str, ask: Callable[[], Awaitable[T]]) -> T | str:
        if what in self._refusals:
            return self._refusals[what]
        try:
            return await ask()
        except PermissionDenied:
            self._refusals[what] = "needs a credential with the right listen"
        except (Unsupported, Unimplemented):
            self._refusals[what] = "not told here"
        except MqliteError as error:
            return error.message
        return self._refusals[what]

    async def _find_letters(self, handle: Handle) -> list[Letter]:
        """Those with the highest numbers, as far as this look comes."""
        search = _Search(self._start)
        for _ in range(PEEKS_MAX):
            # Not `peek`, which asks again whether an empty answer means that there is no queue.
            request = PeekRequest(
                queue=self.queue,
                from_seq=search.cursor,
                state=State.DEAD_LETTERED,
                max=LETTERS,
            )
            page = (await handle.call(request)).messages
            if search.is_over(page):
                break
        first = search.tail[0].seq_number if search.tail else 0
        # Those that are shown may have gone, and of a short page the ones before it are wanted.
        self._start = max(0, first if len(search.tail) == LETTERS else first - LETTERS)
        return [_letter(message) for message in search.tail]


class _Search:
    """The way to the end of the dead letters: pages up to `low` were full, and behind `high` there
    is nothing."""

    __slots__ = ("_high", "_low", "_step", "cursor", "tail")

    def __init__(self, start: int) -> None:
        self.cursor = start
        self.tail: list[Message] = []
        self._low = start
        self._high: int | None = None
        self._step = 0

    def is_over(self, page: list[Message]) -> bool:
        """Take the page from `cursor` on and move it, unless the end was found."""
        if page:
            adjoins = self.cursor == self._low
            self.tail = [*(self.tail if adjoins else []), *page][-LETTERS:]
            self._low = page[-1].seq_number + 1
        elif self.cursor == self._low:
            return True
        else:
            self._high = self.cursor
        if 0 < len(page) < LETTERS or self._low == self._high:
            return True
        if self._high is not None:
            self.cursor = (self._low + self._high) // 2
        else:
            # The page directly behind first: few have more than one.
            self.cursor, self._step = self._low + self._step, max(STEP, self._step * 2)
        return False


def _letter(message: Message) -> Letter:
    return Letter(
        seq_number=message.seq_number,
        enqueued_at_ms=message.enqueued_at_ms,
        delivery_count=message.delivery_count,
        reason=message.dead_letter_reason,
        description=message.dead_letter_description,
    )


def _lines(found: ext.ExplainResponse) -> list[Blocked]:
    return [
        Blocked(
            group_id=lane.group_id,
            seq_number=lane.head.seq_number,
            explanation=lane.head.explanation,
            waiting=lane.waiting,
        )
        for lane in found.blocked[:BLOCKED_MAX]
    ]


def _explanation(found: ext.ExplainResponse) -> str:
    if found.blocker is UNSET:
        return found.explanation
    return f"{found.explanation}; {found.blocker.explanation}"
