"""Instants as people write and read them: RFC 3339, or a duration from now or back from it.

Called by `schedule`, `seeking`, the key commands and `observe`; calls nothing that waits. Rules: an
instant needs a zone, because without one it is another moment on another machine; it is rounded up
to a whole millisecond, so that nothing happens before the time that was asked for; what is written
is always UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.limits import INSTANT_MS_MAX
from mqlite_actor.sdk.durations import nanoseconds_to_ms
from mqlite_actor.sdk.notation import parse_duration

_RFC_3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
_FAR_MS = 86_400_000
"""Two clocks that anybody looks after are less than a day apart."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MEND_PAST = "write an instant like 2030-01-31T08:00:00Z, or how long ago it was, like 30m"
_MEND = "write an instant like 2030-01-31T08:00:00Z, or a duration from now like 30m"


def read_moment(text: str, *, field: str, now: Callable[[], int], here_ms: int = 0) -> int:
    """Milliseconds since 1970 of a time in the future. InvalidArgument names `field` and the mend.

    `now` may have to ask somebody: it is called once at most, and not for what is clear without, as
    a time that is far from `here_ms`, this machine's own.
    """
    found = _RFC_3339.fullmatch(text)
    if found is None:
        ms = _not_too_late(_from_now(text, field=field), field=field) + now()
    else:
        ms = _not_too_late(_instant(*found.groups(default=""), field=field), field=field)
        is_clear = abs(ms - here_ms) > _FAR_MS
        if ms <= (here_ms if is_clear else now()):
            raise InvalidArgument(f"{field}: {shown_moment(ms)} is not in the future")
    return _not_too_late(ms, field=field)


def read_past(text: str, *, field: str, now: Callable[[], int]) -> int:
    """The same for a time that may have passed; a duration is counted back from now, which nothing
    else asks for. At least 1."""
    found = _RFC_3339.fullmatch(text)
    if found is not None:
        return max(1, _instant(*found.groups(default=""), field=field))
    try:
        nanoseconds = parse_duration(text)
    except ValueError as error:
        raise InvalidArgument(f"{field}: {_MEND_PAST}") from error
    ago_ms = nanoseconds_to_ms(nanoseconds, field=field)
    return max(1, now() - ago_ms)


def shown_moment(ms: int) -> str:
    """An instant in UTC, to the millisecond, without trailing zeros."""
    # A broker of the future may know later years than the calendar of this library.
    if not 0 <= ms <= INSTANT_MS_MAX:
        return f"{ms}ms"
    seconds, rest = divmod(ms, 1000)
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{rest:03}".rstrip("0") if rest else ""
    return f"{text}{fraction}Z"


def shown_duration(ms: int) -> str:
    """A duration as flags take it, exactly: `90s`, `7d`; 0 is `0`."""
    unit, size = next((unit, size) for unit, size in _UNITS_MS if ms % size == 0)
    return f"{ms // size}{unit}" if ms else "0"


def shown_age(ms: int) -> str:
    """A duration for people, in its two largest units."""
    units = [(unit, size) for unit, size in _UNITS_MS if ms >= size][:2]
    if not units:
        return "0"
    parts = []
    for unit, size in units:
        count, ms = divmod(ms, size)
        parts.append(f"{count}{unit}" if count else "")
    return "".join(parts)


def _not_too_late(ms: int, *, field: str) -> int:
    if ms > INSTANT_MS_MAX:
        raise InvalidArgument(f"{field}: after the year 9999")
    return ms


def _from_now(text: str, *, field: str) -> int:
    try:
        nanoseconds = parse_duration(text)
    except ValueError as error:
        raise InvalidArgument(f"{field}: {_MEND}") from error
    return nanoseconds_to_ms(nanoseconds, field=field)


def _instant(day: str, time: str, fraction: str, zone: str, *, field: str) -> int:
    try:
        whole = datetime.fromisoformat(f"{day}T{time}{zone.upper()}")
        seconds = (whole - _EPOCH) // timedelta(seconds=1)
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(f"{field}: no such day or time; {_MEND}") from error
    return seconds * 1000 - (-int(fraction.ljust(9, "0")) // 1_000_000)
