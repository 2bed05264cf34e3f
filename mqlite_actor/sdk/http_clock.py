"""What time it is at the broker, as far as its answers tell.

Asked by the receiver and by the command line, which have to renew a lease before the broker's clock
ends it, whatever the clock of this machine says (B32). An answer's `Date` is the broker's time in
whole seconds, taken between our request and our reading of the answer; so each answer bounds the
difference of the two clocks, and together they soon bound it closely. `now_ms` is the latest that
it can be: whoever acts by it is early, never late; `reached_ms` is the earliest. Without any `Date`
the machine's own clock has to do, or nobody knows.
Threads may share one: what is known is one value, and of two answers at once one may be missed.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime

from mqlite_actor.clock import Clock, SystemClock

DATE_STEP_MS = 1000


class BrokerClock:
    """The broker's wall clock, estimated from above on this machine's monotonic one."""

    __slots__ = ("_bounds", "_clock")

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._bounds: tuple[float, float] | None = None

    def now_ms(self) -> int:
        """Milliseconds since the epoch; at or after the broker's own now."""
        told = self.told_ms()
        return self._clock.now_ms() if told is None else told

    def told_ms(self) -> int | None:
        """The same; None before an answer told it."""
        bounds = self._bounds
        return None if bounds is None else int(self._monotonic_ms() + bounds[1]) + 1

    def reached_ms(self) -> int | None:
        """Milliseconds since the epoch; at or before the broker's own now. None before an answer
        told it."""
        bounds = self._bounds
        return None if bounds is None else int(self._monotonic_ms() + bounds[0])

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
        known = self._bounds
        if known is not None:
            narrower = max(soonest, known[0]), min(latest, known[1])
            if narrower[0] <= narrower[1]:
                soonest, latest = narrower
            # else one of the two clocks was set: what was known before is void
        self._bounds = soonest, latest

    def _monotonic_ms(self) -> float:
        return self._clock.monotonic() * 1000
