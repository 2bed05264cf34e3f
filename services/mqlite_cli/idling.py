"""How long no message has come, whoever asked for one: what `consume --idle` ends by.

Shared by the threads of `consuming`. A broker serves those who wait in turn, so with many threads
each gets one message in many: that one got none for long says nothing of the queue. Rules: there is
silence only while somebody asks; whoever gets a message ends it for all, and so do as many failures
as there are askers, if nobody was answered between them: then nobody knows.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mqlite_actor.clock import Clock
from mqlite_actor.contract.limits import RECEIVE_WAIT_MS_MAX


class Silence:
    """Since when all who ask are told that there is nothing."""

    __slots__ = ("_askers", "_clock", "_failures", "_lock", "_seconds", "_since")

    def __init__(self, clock: Clock, *, idle_ms: int) -> None:
        """`idle_ms`: how long is long enough; 0 for never."""
        self._clock = clock
        self._seconds = idle_ms / 1000 if idle_ms else math.inf
        self._lock = threading.Lock()
        self._askers = 0
        self._failures = 0  # since somebody was answered
        self._since = 0.0

    @contextmanager
    def asked(self) -> Iterator[None]:
        """For the length of a block somebody asks, as often as it takes."""
        with self._lock:
            if not self._askers:
                self._since = self._clock.monotonic()
            self._askers += 1
        try:
            yield
        finally:
            with self._lock:
                self._askers -= 1

    def end(self) -> None:
        """A message came."""
        with self._lock:
            self._failures = 0
            self._since = self._clock.monotonic()

    def failed(self) -> None:
        """One of them was not answered."""
        with self._lock:
            self._failures += 1
            if self._failures >= self._askers:
                self._since = self._clock.monotonic()

    def lasts(self) -> None:
        """One of them was told that there is nothing."""
        with self._lock:
            self._failures = 0

    @property
    def left_seconds(self) -> float:
        """How much longer it has to last; 0 or less once it was long enough."""
        with self._lock:
            return self._seconds - (self._clock.monotonic() - self._since)

    @property
    def wait_ms(self) -> int:
        """How long to wait for a message now."""
        left_ms = min(1000 * self.left_seconds, RECEIVE_WAIT_MS_MAX)
        return max(math.ceil(left_ms), 1)
