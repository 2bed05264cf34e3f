"""Instants, locations and the calendar.

Used by operators, methods and layouts. An instant is nanoseconds since the Unix epoch and the place
whose clock shows it; years run far beyond what `datetime` holds, so days are counted here and only
the offsets of a zone are asked of `zoneinfo`, in a year of the same 400-year cycle. Seconds wrap at
64 bits like the original's.
"""

from __future__ import annotations

import datetime as dt
import zoneinfo
from functools import lru_cache
from typing import Final, NamedTuple

from mqlite_actor.filters.faults import FilterFailed
from mqlite_actor.filters.values import WORDS, wrapped

SECOND: Final = 1_000_000_000
DAY_SECONDS: Final = 86_400
_CYCLE_DAYS: Final = 146_097
"""Days of 400 years, after which the calendar repeats, weekdays included."""

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_YEAR_ONE_DAYS: Final = -719_162
"""Days from the Unix epoch to January 1 of year 1."""

YEAR_ONE_SECONDS: Final = _YEAR_ONE_DAYS * DAY_SECONDS

MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_BEFORE_MONTH: Final = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


def is_leap(year: int) -> bool:
    """Whether a year of the Gregorian calendar has 366 days."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in(month: int, year: int) -> int:
    """Days of a month."""
    return 29 if month == 2 and is_leap(year) else MONTH_DAYS[month - 1]


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since the Unix epoch; month and day may lie outside their range and carry over."""
    year += (month - 1) // 12
    month = (month - 1) % 12 + 1
    past = year - 1
    days = past * 365 + past // 4 - past // 100 + past // 400 + _BEFORE_MONTH[month - 1]
    if month > 2 and is_leap(year):
        days += 1
    return days + day - 1 + _YEAR_ONE_DAYS


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day since the Unix epoch."""
    cycles, rest = divmod(days - _YEAR_ONE_DAYS, _CYCLE_DAYS)
    shown = dt.date.fromordinal(rest + 1)
    return shown.year + 400 * cycles, shown.month, shown.day


class Location:
    """A place with its clock: UTC, a fixed offset, or a zone of the database."""

    __slots__ = ("_fixed", "_zone", "name")

    def __init__(self, name: str, *, zone: dt.tzinfo | None = None, fixed_seconds: int = 0) -> None:
        self.name = name
        self._zone = zone
        self._fixed = fixed_seconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def _shown(self, seconds: int) -> dt.datetime:
        """The instant on a clock of this place, in a year that `datetime` knows."""
        days, rest = divmod(seconds, DAY_SECONDS)
        cycles = (days - _YEAR_ONE_DAYS - 366) // _CYCLE_DAYS
        if not 0 <= cycles < 24:
            days -= (cycles - (23 if cycles > 0 else 0)) * _CYCLE_DAYS
        moment = _EPOCH + dt.timedelta(days=days, seconds=rest)
        return moment.astimezone(self._zone)

    def offset(self, seconds: int) -> int:
        """Seconds east of UTC at an instant."""
        if self._zone is None:
            return self._fixed
        offset = self._shown(seconds).utcoffset()
        return int(offset.total_seconds()) if offset is not None else 0

    def abbreviation(self, seconds: int) -> str:
        """What the clock calls itself then: CET, EST, +05 …"""
        if self._zone is None:
            return self.name or offset_text(self._fixed, "-07")
        return self._shown(seconds).tzname() or ""

    def is_daylight_saving(self, seconds: int) -> bool:
        """Whether the clock is moved for summer then."""
        return self._zone is not None and bool(self._shown(seconds).dst())


UTC: Final = Location("UTC")


def offset_text(seconds: int, form: str) -> str:
    """An offset like -0700, -07:00, or -07."""
    sign = "-" if seconds < 0 else "+"
    hours, rest = divmod(abs(seconds), 3600)
    minutes, last = divmod(rest, 60)
    colon = ":" if ":" in form else ""
    text = f"{sign}{hours:02}"
    if len(form) > 3:
        text += f"{colon}{minutes:02}"
    if len(form) > 6:
        text += f"{colon}{last:02}"
    return text


@lru_cache(maxsize=128)
def timezone(name: str) -> Location:
    """The location of an IANA name. Raises FilterFailed for one that the database has not."""
    if name in ("", "UTC"):
        return UTC
    try:
        return Location(name, zone=zoneinfo.ZoneInfo(name))
    except (KeyError, ValueError, OSError):
        raise FilterFailed("value", "unknown time zone") from None


class Civil(NamedTuple):
    """What the clock and the calendar on the wall say."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    nanosecond: int
    weekday: int
    year_day: int


class Instant:
    """A point in time, and the location whose clock shows it."""

    __slots__ = ("location", "ns")

    def __init__(self, ns: int, location: Location = UTC) -> None:
        seconds, rest = divmod(ns, SECOND)
        self.ns = (wrapped(seconds - YEAR_ONE_SECONDS) + YEAR_ONE_SECONDS) * SECOND + rest
        self.location = location

    def __eq__(self, other: object) -> bool:
        """The same instant on the same clock: what makes it the same map key."""
        return (
            isinstance(other, Instant) and other.ns == self.ns and other.location == self.location
        )

    def __hash__(self) -> int:
        return hash(self.ns)

    @property
    def seconds(self) -> int:
        """Whole seconds since the Unix epoch."""
        return self.ns // SECOND

    def civil(self) -> Civil:
        """Date and time of day at its location."""
        seconds, nanosecond = divmod(self.ns, SECOND)
        days, rest = divmod(seconds + self.location.offset(seconds), DAY_SECONDS)
        year, month, day = civil_from_days(days)
        hour, rest = divmod(rest, 3600)
        minute, second = divmod(rest, 60)
        year_day = days - days_from_civil(year, 1, 1) + 1
        return Civil(year, month, day, hour, minute, second, nanosecond, (days + 4) % 7, year_day)

    def plus(self, ns: int) -> Instant:
        """The instant so many nanoseconds later, shown at the same location."""
        return Instant(self.ns + ns, self.location)

    def at(self, location: Location) -> Instant:
        """The same instant shown elsewhere."""
        return Instant(self.ns, location)


def at_wall_time(location: Location, days: int, seconds: int, nanosecond: int) -> Instant:
    """The instant at which a clock of the location shows this day and second of the day.

    A time that the clock skips or shows twice is read with one of the two offsets.
    """
    shown = days * DAY_SECONDS + seconds
    offset = location.offset(shown)
    if location.offset(shown - offset) != offset:
        offset = location.offset(shown - offset)
    return Instant((shown - offset) * SECOND + nanosecond, location)


WORDS[Instant] = "time.Time"
WORDS[Location] = "time.Location"
