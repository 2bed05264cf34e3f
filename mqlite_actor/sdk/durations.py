"""Durations of people to milliseconds of the wire, by one rule for every surface (design.md R26,
R27).

Called by the handles, with seconds or timedeltas, and by the command line, with the nanoseconds of
its own notation; calls nothing. Rules: a positive duration rounds up to a whole millisecond,
because a truncated one could become 0, which means "default" or "no bound"; one below a
millisecond, a negative one and a non-number are refused with the field's name; everything saturates
at 2^53 ms.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Literal

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.limits import DURATION_MS_MAX, RECEIVE_WAIT_MS_MAX

Duration = int | float | timedelta
"""Seconds, or a timedelta."""

UNBOUNDED_MS = -1
"""The wire's word for a dead-letter bound that is switched off (spec/wire.md 3.4)."""

_ENDLESS = {
    "ttl": "leave it out for messages without an end of their own",
    "default_ttl": "leave it out for messages without an end",
    "dlq_max_age": '"unbounded" is the word for no limit',
    "wait": f"{RECEIVE_WAIT_MS_MAX // 1000} s is the most, so ask again and again",
}
"""What means no end; other fields have a default when they are left out, and no word for it."""

_NS_PER_MS = 1_000_000
_NS_PER_SECOND = 1_000_000_000


def duration_to_ms(duration: Duration, *, field: str, is_zero_allowed: bool = False) -> int:
    """Whole milliseconds, rounded up, at most 2^53. InvalidArgument names `field` and the mend."""
    return nanoseconds_to_ms(
        _nanoseconds(duration, field=field), field=field, is_zero_allowed=is_zero_allowed
    )


def wait_to_ms(wait: Duration, *, field: str = "wait") -> int:
    """How long a receive waits: negative is 0, the rest rounds up; the broker caps it."""
    return wait_nanoseconds_to_ms(_nanoseconds(wait, field=field))


def bound_to_ms(bound: Duration | Literal["unbounded"], *, field: str) -> int:
    """An age bound of dead letters: "unbounded" or -1 switches it off, 0 inherits the broker's."""
    if bound in ("unbounded", -1):
        return UNBOUNDED_MS
    assert bound != "unbounded", "handled above"
    return duration_to_ms(bound, field=field, is_zero_allowed=True)


def nanoseconds_to_ms(nanoseconds: int, *, field: str, is_zero_allowed: bool = False) -> int:
    """The same rule for a duration that is known in nanoseconds."""
    if nanoseconds < 0:
        raise InvalidArgument(f"{field}: a negative duration; give a positive one")
    if nanoseconds == 0:
        if is_zero_allowed:
            return 0
        raise InvalidArgument(f"{field}: must be longer than zero")
    if nanoseconds < _NS_PER_MS:
        raise InvalidArgument(f"{field}: shorter than a millisecond; give at least 1 ms")
    return min(-(-nanoseconds // _NS_PER_MS), DURATION_MS_MAX)


def wait_nanoseconds_to_ms(nanoseconds: int) -> int:
    """The rule of waits for a duration that is known in nanoseconds."""
    return max(0, min(-(-nanoseconds // _NS_PER_MS), DURATION_MS_MAX))


def _nanoseconds(duration: Duration, *, field: str) -> int:
    """Exact for integers and timedeltas; a float counts to the nearest nanosecond, but never as
    0."""
    if isinstance(duration, timedelta):
        return (duration // timedelta(microseconds=1)) * 1000
    if isinstance(duration, bool) or not isinstance(duration, int | float):
        kind = type(duration).__name__
        raise InvalidArgument(f"{field}: give seconds as a number or a timedelta, not {kind}")
    if isinstance(duration, int):
        return duration * _NS_PER_SECOND
    if math.isnan(duration):
        raise InvalidArgument(f"{field}: not a number")
    if math.isinf(duration):
        mend = _ENDLESS.get(field, "give a number of seconds")
        raise InvalidArgument(f"{field}: must be finite; {mend}")
    # A fraction times 10^9 would overflow a float near its maximum; whole seconds are exact as int.
    whole = int(duration)
    nearest = whole * _NS_PER_SECOND + round((duration - whole) * _NS_PER_SECOND)
    if nearest == 0 and duration != 0:
        return 1 if duration > 0 else -1
    return nearest
