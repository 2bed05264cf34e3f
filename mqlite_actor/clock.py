"""Time as a value that is handed in.

The engine owns one clock and reads it when a command starts; semantics get `now_ms` as an argument
and storage never asks. Wall time decides what is stored (leases, schedules, expiry); monotonic time
decides how long anybody waits, so that a step of the wall clock never freezes a loop. `ManualClock`
is for anybody's tests: it moves only when told to.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the engine asks of a clock."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, UTC."""

    def monotonic(self) -> float:
        """Seconds that never run backwards; only differences mean anything."""


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A wall clock that stands still until `advance` or `set` moves it.

    Monotonic time follows forward moves only, as a real machine's would.
    """

    __slots__ = ("_monotonic", "_now_ms")

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic = 0.0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, ms: int) -> None:
        """Move the wall clock by `ms` milliseconds; a negative number steps it back."""
        self.set(self._now_ms + ms)

    def set(self, now_ms: int) -> None:
        """Put the wall clock at `now_ms`."""
        self._monotonic += max(0, now_ms - self._now_ms) / 1000
        self._now_ms = now_ms
