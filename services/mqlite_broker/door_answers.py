"""The byte budget of answers that their clients have not taken yet, over all connections.

`Rpc` asks for room when it has encoded a large answer; the door that writes it tells how far it got
and ends the room with it. Small answers, nearly all, draw nothing.
Rules: no answer waits for room, since it would hold its bytes meanwhile. Where there is none, those
that have had their time and were read slower than ANSWER_BYTES_PER_SECOND are cut, the slowest
first; an answer for which those like it leave none is refused (503, and a claim goes back
uncounted), unless it is owed: what it holds has happened. Those have a bound of their own, above
which the slowest of all are cut, and keep nobody else out. So slow readers are slow and not gone,
and those who do not read keep nobody out.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from mqlite_actor.clock import Clock, SystemClock
from mqlite_broker.door_limits import (
    ANSWER_BYTES_PER_SECOND,
    ANSWER_SECONDS,
    ANSWERS_BYTES,
    ANSWERS_OWED_BYTES,
)


class Room:
    """The place of one answer. `end` it once the answer is written or given up."""

    __slots__ = ("_answers", "_began", "cut", "is_owed", "size", "taken")

    def __init__(self, answers: Answers, size: int, began: float, *, is_owed: bool) -> None:
        self._answers = answers
        self._began = began
        self.is_owed = is_owed
        self.size = size
        self.taken = 0
        self.cut: Callable[[], object] | None = None
        """Closes the connection; None until somebody writes."""

    def rate(self, now: float) -> float:
        """Bytes a second that the client has taken."""
        return self.taken / max(now - self._began, ANSWER_SECONDS)

    def may_be_cut(self, now: float) -> bool:
        """Whether it has had its time."""
        return self.cut is not None and now - self._began >= ANSWER_SECONDS

    def end(self) -> None:
        """Give the room back. May be repeated."""
        self._answers.ended(self)


class Answers:
    """Everybody's large answers."""

    __slots__ = ("_clock", "_rooms", "bytes_max", "bytes_used", "owed_max")

    def __init__(
        self,
        bytes_max: int = ANSWERS_BYTES,
        owed_max: int = ANSWERS_OWED_BYTES,
        clock: Clock | None = None,
    ) -> None:
        self.bytes_max = bytes_max
        self.owed_max = owed_max
        self.bytes_used = 0
        self._clock = clock or SystemClock()
        self._rooms: set[Room] = set()

    def room(self, size: int, *, is_owed: bool) -> Room | None:
        """Room for an answer, perhaps after cutting others; None if there is none and it is not
        owed. One that is larger than all of it gets room when it is alone."""
        now = self._clock.monotonic()
        self._make_room(size, self.bytes_max, now, slower_than=ANSWER_BYTES_PER_SECOND)
        if not is_owed and self._refusable and self._refusable + size > self.bytes_max:
            return None
        self._make_room(size, self.owed_max, now, slower_than=math.inf)
        found = Room(self, size, now, is_owed=is_owed)
        self._rooms.add(found)
        self.bytes_used += size
        return found

    @property
    def _refusable(self) -> int:
        """Bytes of the answers that could have been refused."""
        return sum(each.size for each in self._rooms if not each.is_owed)

    def ended(self, room: Room) -> None:
        """For `Room.end`."""
        if room in self._rooms:
            self._rooms.remove(room)
            self.bytes_used -= room.size

    def _make_room(self, size: int, bytes_max: int, now: float, *, slower_than: float) -> None:
        """Cut the slowest of those that have had their time, no more than have to go."""
        if self.bytes_used + size <= bytes_max:
            return
        old = [each for each in self._rooms if each.may_be_cut(now)]
        for each in sorted(old, key=lambda each: each.rate(now)):
            if self.bytes_used + size <= bytes_max or each.rate(now) >= slower_than:
                return
            self.ended(each)
            if each.cut is not None:
                each.cut()
