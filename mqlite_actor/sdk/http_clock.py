"""What time it is at the broker, as far as its answers tell.

Asked by the receiver, which has to renew a lease before the broker's clock ends it, whatever the
clock of this machine says (B32). An answer's `Date` is the broker's time in whole seconds, taken
between our request and our reading of the answer; so each answer bounds the difference of the two
clocks, and together they soon bound it closely. `now_ms` is the latest that it can be: whoever acts
by it is early, never late. Without any `Date` the machine's own clock has to do.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime

from mqlite_actor.clock import Clock, SystemClock

DATE_STEP_MS = 1000


class BrokerClock:
    """The broker's wall clock, estimated from above on this machine's monotonic one."""

    __slots__ = ("_clock", "_latest", "_soonest")

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._soonest: float | None = None
        self._latest = 0.0

    def now_ms(self) -> int:
        """Milliseconds since the epoch; at or after the broker's own now."""
        if self._soonest is None:
            return self._clock.now_ms()
        return int(self._monotonic_ms() + self._latest) + 1

    def start(self) -> float:
        """To be handed to `heard`: when the request went out."""
        return self._monotonic_ms()

    def heard(self, date: str, started: float) -> None:
        """Take the `Date` of an answer into account; one that is none is passed over."""
        try:
            second = parsedate_to_datetime(date).timestamp() * 1000
        except (ValueError, TypeError, OverflowError):
            return
        soonest = second - self._monotonic_ms()
        latest = second + DATE_STEP_MS - started
        if self._soonest is not None:
            narrower = max(soonest, self._soonest), min(latest, self._latest)
            if narrower[0] <= narrower[1]:
                soonest, latest = narrower
            # else one of the two clocks was set: what was known before is void
        self._soonest, self._latest = soonest, latest

    def _monotonic_ms(self) -> float:
        return self._clock.monotonic() * 1000
