"""How often something is tried again, and for how long: growing pauses with a random part, bounded.

Called for requests to a remote database, in the storage thread. Real time counts, whatever clock
decides about leases: a test that stands still must not wait for ever.
"""

from __future__ import annotations

import random
import threading

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract import limits

_real = SystemClock()


class Patience:
    """One thing's tries, until `seconds` are over, or `cut` is set."""

    __slots__ = ("_cut", "_ends_at", "_pause")

    def __init__(
        self, seconds: float = limits.REMOTE_PATIENCE_SECONDS, cut: threading.Event | None = None
    ) -> None:
        self._cut = cut or threading.Event()
        self._ends_at = _real.monotonic() + seconds
        self._pause = limits.REMOTE_PAUSE_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether the time is."""
        return _real.monotonic() > self._ends_at

    def rest(self, asked_for: float = 0.0) -> bool:
        """Wait before the next try: as long as the other side asked for, else a little longer each
        time. False, at once, if that would be too long."""
        seconds = asked_for or self._pause * random.uniform(0.5, 1.0)  # noqa: S311  # no secret
        self._pause = min(2 * self._pause, limits.REMOTE_PAUSE_SECONDS_MAX)
        if _real.monotonic() + seconds > self._ends_at:
            return False
        return not self._cut.wait(seconds)
