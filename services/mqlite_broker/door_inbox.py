"""What has been read and not yet been served: per connection an inbox, over all of them a budget.

`Connection` fills its `Inbox` as fast as bytes come, so that the end of the connection is seen
while a request runs, and its feeder takes them out at the parser's pace. `Ingress` counts the
bytes of large bodies over all connections of the process; `DoorProtocol` draws on it before it
reads one. Nothing here knows HTTP. Each `Bell` has one listener.
"""

from __future__ import annotations

from typing import NamedTuple

import trio


class Bell:
    """Wakes one task, again and again. A ring that nobody awaits is kept for the next `wait`."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = trio.Event()

    def ring(self) -> None:
        """Wake the listener now or at its next wait; rings in between count once."""
        self._event.set()

    async def wait(self) -> None:
        """Return after a ring. Cancelled, a ring that came meanwhile is kept."""
        await self._event.wait()
        self._event = trio.Event()


class Inbox:
    """Bytes of one connection between its reader and its feeder, in order.

    The reader looks at `size` and waits on `taken`, the feeder waits on `filled`. The bound is
    the reader's business, because what happens at the bound depends on what the feeder is doing.
    """

    __slots__ = ("_chunks", "filled", "size", "taken")

    def __init__(self, prelude: bytes = b"") -> None:
        self._chunks: list[bytes] = [prelude] if prelude else []
        self.size = len(prelude)
        self.filled = Bell()
        self.taken = Bell()

    def put(self, data: bytes) -> None:
        """Append what was read."""
        self._chunks.append(data)
        self.size += len(data)
        self.filled.ring()

    def take(self) -> bytes:
        """Everything that is there, or nothing."""
        data = b"".join(self._chunks)
        self._chunks.clear()
        self.size = 0
        self.taken.ring()
        return data


class IngressStatistics(NamedTuple):
    """How full the budget is, and how many large requests wait for room."""

    bytes_used: int
    bytes_max: int
    waiting: int


class Ingress:
    """The byte budget for request bodies; shared by every door of the process.

    A body is admitted whole before it is read, first come, first served, so two half-read uploads
    can never wait for each other.
    """

    __slots__ = ("_given", "_turn", "bytes_max", "bytes_used")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_used = 0
        self._turn = trio.Lock()
        self._given = Bell()

    async def take(self, size: int) -> int:
        """Wait for room, take it and return how much was taken (never more than the whole
        budget).

        Cancelled while waiting, nothing is taken and the next in line looks.
        """
        size = min(size, self.bytes_max)
        async with self._turn:
            while self.bytes_used + size > self.bytes_max:
                await self._given.wait()
            self.bytes_used += size
        return size

    def take_at_once(self, size: int) -> int:
        """Take room if it is there and nobody waits for it; else nothing. How much was taken."""
        size = min(size, self.bytes_max)
        if self._turn.locked() or self.bytes_used + size > self.bytes_max:
            return 0
        self.bytes_used += size
        return size

    def give(self, size: int) -> None:
        """Return what `take` took."""
        self.bytes_used -= size
        assert self.bytes_used >= 0
        self._given.ring()

    def statistics(self) -> IngressStatistics:
        """A snapshot; the task that looks at the budget counts as waiting too."""
        turn = self._turn.statistics()
        return IngressStatistics(
            self.bytes_used, self.bytes_max, turn.tasks_waiting + int(turn.locked)
        )
