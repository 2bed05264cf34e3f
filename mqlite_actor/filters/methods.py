"""Methods of times, durations, weekdays, months and locations.

Called by code_calls.py with an owner and arguments of any type: a wrong one is a type error here,
as it is in the original, whatever the checker knew. Names and types agree with signatures.METHODS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mqlite_actor.filters import instants, layouts, spans
from mqlite_actor.filters.faults import FilterFailed
from mqlite_actor.filters.instants import UTC, YEAR_ONE_SECONDS, Instant, Location, at_wall_time
from mqlite_actor.filters.operators import ARITHMETIC
from mqlite_actor.filters.run import Run
from mqlite_actor.filters.utf8 import octets, points
from mqlite_actor.filters.values import Duration, Method, Month, Value, Weekday, word, wrapped

Work = Callable[..., Value]
_YEAR_ONE: Final = YEAR_ONE_SECONDS * instants.SECOND
_CALL_STEPS: Final = 15
"""What a method costs: the calendar and a zone take a few microseconds."""

_CHARACTER_STEPS: Final = 6
"""And a character of a layout."""

_LAYOUT_BYTES: Final = 4096
"""A longer layout is no layout of anything."""


def _iso_year(instant: Instant) -> int:
    """The year that the instant's week belongs to: the one that its Thursday is in."""
    civil = instant.civil()
    days = instants.days_from_civil(civil.year, civil.month, civil.day)
    return instants.civil_from_days(days + 3 - (civil.weekday - 1) % 7)[0]


def _moved(instant: Instant, years: int, months: int, days: int) -> Instant:
    """AddDate: what does not exist carries over, so Jan 31 and a month is Mar 3."""
    civil = instant.civil()
    day = instants.days_from_civil(civil.year + years, civil.month + months, civil.day + days)
    second = civil.hour * 3600 + civil.minute * 60 + civil.second
    return at_wall_time(instant.location, day, second, civil.nanosecond)


def _past(instant: Instant, step: int) -> int:
    """Nanoseconds since the last multiple of `step`, counted from year 1."""
    return (instant.ns - _YEAR_ONE) % step


def _cut(instant: Instant, step: int) -> Instant:
    return instant.plus(-_past(instant, step)) if step > 0 else instant


def _rounded(instant: Instant, step: int) -> Instant:
    if step <= 0:
        return instant
    past = _past(instant, step)
    return instant.plus(-past if past + past < step else step - past)


def _format(instant: Instant, layout: bytes) -> bytes:
    if len(layout) > _LAYOUT_BYTES:
        raise FilterFailed("value", "the layout is too long")
    return octets(layouts.written(instant, points(layout)))


def _compared(one: Instant, other: Instant) -> int:
    return (one.ns > other.ns) - (one.ns < other.ns)


def _zone_name(instant: Instant) -> bytes:
    return instant.location.abbreviation(instant.seconds).encode()


_sub = ARITHMETIC["-"][Instant, Instant]

_TIMES: Final[dict[str, tuple[tuple[type, ...], Work]]] = {
    "Year": ((), lambda owner: owner.civil().year),
    "Month": ((), lambda owner: Month(owner.civil().month)),
    "Day": ((), lambda owner: owner.civil().day),
    "Hour": ((), lambda owner: owner.civil().hour),
    "Minute": ((), lambda owner: owner.civil().minute),
    "Second": ((), lambda owner: owner.civil().second),
    "Nanosecond": ((), lambda owner: owner.civil().nanosecond),
    "YearDay": ((), lambda owner: owner.civil().year_day),
    "Weekday": ((), lambda owner: Weekday(owner.civil().weekday)),
    "ISOWeek": ((), _iso_year),
    "Unix": ((), lambda owner: owner.seconds),
    "UnixMilli": ((), lambda owner: wrapped(owner.ns // 1_000_000)),
    "UnixMicro": ((), lambda owner: wrapped(owner.ns // 1_000)),
    "UnixNano": ((), lambda owner: wrapped(owner.ns)),
    "IsZero": ((), lambda owner: owner.ns == _YEAR_ONE),
    "IsDST": ((), lambda owner: owner.location.is_daylight_saving(owner.seconds)),
    "Before": ((Instant,), lambda owner, other: owner.ns < other.ns),
    "After": ((Instant,), lambda owner, other: owner.ns > other.ns),
    "Equal": ((Instant,), lambda owner, other: owner.ns == other.ns),
    "Compare": ((Instant,), _compared),
    "Add": ((Duration,), lambda owner, span: owner.plus(int(span))),
    "Sub": ((Instant,), _sub),
    "AddDate": ((int, int, int), _moved),
    "Truncate": ((Duration,), lambda owner, step: _cut(owner, int(step))),
    "Round": ((Duration,), lambda owner, step: _rounded(owner, int(step))),
    "UTC": ((), lambda owner: owner.at(UTC)),
    "In": ((Location,), lambda owner, location: owner.at(location)),
    "Format": ((bytes,), _format),
    "String": ((), lambda owner: octets(layouts.shown(owner))),
    "Zone": ((), _zone_name),
    "Location": ((), lambda owner: owner.location),
}
_DURATIONS: Final[dict[str, tuple[tuple[type, ...], Work]]] = {
    "Hours": ((), lambda owner: spans.of_unit(owner, spans.HOUR)),
    "Minutes": ((), lambda owner: spans.of_unit(owner, 60 * spans.SECOND)),
    "Seconds": ((), lambda owner: spans.of_unit(owner, spans.SECOND)),
    "Milliseconds": ((), lambda owner: _quotient(owner, 1_000_000)),
    "Microseconds": ((), lambda owner: _quotient(owner, 1_000)),
    "Nanoseconds": ((), int),
    "Truncate": ((Duration,), lambda owner, step: spans.truncated(owner, int(step))),
    "Round": ((Duration,), lambda owner, step: spans.rounded(owner, int(step))),
    "Abs": ((), spans.absolute),
    "String": ((), lambda owner: spans.text(owner).encode()),
}


def _quotient(span: int, unit: int) -> int:
    size = abs(int(span)) // unit
    return -size if span < 0 else size


METHODS: Final[dict[type, dict[str, tuple[tuple[type, ...], Work]]]] = {
    Instant: _TIMES,
    Duration: _DURATIONS,
    Weekday: {"String": ((), lambda owner: layouts.DAYS[owner].encode())},
    Month: {"String": ((), lambda owner: layouts.MONTHS[owner - 1].encode())},
    Location: {"String": ((), lambda owner: owner.name.encode())},
}
"""Type → method → types of the arguments, and what it does."""


def call(run: Run, owner: Value, name: str, args: Sequence[Value]) -> Value:
    """Call a method. Raises FilterFailed for a wrong number or type of arguments."""
    found = METHODS[type(owner)].get(name)
    if found is None:
        raise FilterFailed("missing", f"{word(owner)} has no method {name[:40]}")
    wanted, work = found
    if len(args) != len(wanted):
        raise FilterFailed("type", f"{name} takes {len(wanted)} arguments, not {len(args)}")
    for arg, kind in zip(args, wanted, strict=True):
        if type(arg) is not kind:
            raise FilterFailed("type", f"{name} does not take {word(arg)}")
    run.spend(_CALL_STEPS)
    for arg in args:
        if type(arg) is bytes:
            run.spend(_CHARACTER_STEPS * len(arg))
    return work(owner, *args)


def call_value(run: Run, callee: Value, args: Sequence[Value]) -> Value:
    """Call a value of unknown type. Raises FilterFailed unless it is a method."""
    if type(callee) is not Method:
        raise FilterFailed("type", f"{word(callee)} cannot be called")
    return call(run, callee.owner, callee.name, args)
