"""Staying awake for a client that asks again at once: the lane's busy poll.

Asked by `LaneConnection` between two requests. A client that is alone, and sends its next request
as soon as it has the answer, is there again after the time that it takes to put this process to
sleep and wake it: a fifth of a small send. So its socket is looked at for a moment instead, with
every other task served first. It is adaptive, as a kernel's own polling is: it begins when the same
connection came back quickly several times in a row, and each look in vain, or one in which
somebody else had the processor, is followed by a pause that doubles: a tenth of a millisecond in
vain, and at least two without a look. Without requests there is none.
Rule: only in a process that does nothing but serve, with a second processor for the client.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

from mqlite_broker.door_limits import (
    POLL_AFTER,
    POLL_GAP_SECONDS,
    POLL_HITS,
    POLL_PAUSE_SECONDS,
    POLL_PAUSE_SECONDS_MAX,
    POLL_SECONDS,
    POLL_SOON_SECONDS,
    RECEIVE_BYTES,
)

if TYPE_CHECKING:
    from mqlite_broker.lane_connection import LaneConnection


def fitting_seconds() -> float:
    """How long to look at a socket here; 0 where the client would need this very processor."""
    if not hasattr(os, "sched_getaffinity"):
        return 0.0
    return POLL_SECONDS if len(os.sched_getaffinity(0)) > 1 else 0.0


class BusyPoll:
    """Who was served last, and whether it is worth staying awake for. `seconds` 0: nobody is."""

    __slots__ = (
        "_hits", "_not_before", "_pause", "_returns", "hits", "holder", "misses", "now", "seconds",
    )  # fmt: skip

    def __init__(self, seconds: float, now: Callable[[], float] = perf_counter) -> None:
        self.seconds = seconds
        self.now = now
        self.holder: LaneConnection | None = None
        self.hits = 0
        self.misses = 0
        self._returns = 0  # in a row, of the holder, each of them soon
        self._hits = 0  # since the last miss
        self._pause = POLL_PAUSE_SECONDS
        self._not_before = 0.0

    def hold(self, connection: LaneConnection | None) -> None:
        """Another connection than before is served; or the last one has ended."""
        self.holder = connection
        self._returns = 0

    def returned(self, seconds: float) -> None:
        """The holder sent something after so long, without being looked at."""
        self._returns = self._returns + 1 if seconds < POLL_SOON_SECONDS else 0

    @property
    def is_due(self) -> bool:
        """Whether the holder is to be looked at now."""
        return self._returns >= POLL_AFTER and self.now() >= self._not_before

    def look(self, sock: socket.socket) -> bytes | None:
        """What arrives on a socket within the time; nothing at its end, None if it stays silent.

        Holds up the loop for at most that time.
        """
        look, receive = self.now, sock.recv
        last = look()
        end = last + self.seconds
        while True:
            try:
                data = receive(RECEIVE_BYTES)
            except BlockingIOError:
                now = look()
                if now < end and now - last < POLL_GAP_SECONDS:
                    last = now
                    continue
                self._missed(now)
                return None
            except OSError:
                return b""
            self.hits += 1
            self._hits += 1
            return data

    def _missed(self, now: float) -> None:
        self.misses += 1
        is_rare = self._hits >= POLL_HITS
        self._pause = (
            POLL_PAUSE_SECONDS if is_rare else min(2 * self._pause, POLL_PAUSE_SECONDS_MAX)
        )
        self._hits = 0
        self._not_before = now + self._pause
