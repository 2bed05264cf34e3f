"""Reading a date by a layout, as date() does.

Two-digit fields want two digits and one-digit fields take one or two; names are read in any case; a
fraction may follow the seconds unasked; the weekday is read and not checked. What is out of range,
missing or left over is an error. Called by functions.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from mqlite_actor.filters import instants, layouts
from mqlite_actor.filters.faults import FilterFailed
from mqlite_actor.filters.instants import UTC, Instant, Location

DEFAULTS: Final = (
    "2006-01-02",
    "15:04:05",
    "2006-01-02 15:04:05",
    "2006-01-02T15:04:05Z07:00",
    "02 Jan 06 15:04 MST",
    "Monday, 02-Jan-06 15:04:05 MST",
    "Mon, 02 Jan 2006 15:04:05 MST",
)
"""Tried in this order when no layout is given."""

_FRACTION: Final = re.compile(r"[.,][0-9]+")
_ZONE: Final = re.compile(r"[A-Z]{3,6}|ChST|MeST")
_GMT: Final = re.compile(r"GMT(?:[+-][0-9]{1,2})?")
_HOURS_MAX: Final = 24
"""An offset's hours, as the original bounds them."""


class _Mismatch(Exception):
    """The text is not of this layout."""


class _Reading:
    """What has been read so far. -1 stands for a part that the layout has not."""

    __slots__ = (
        "day", "hour", "minute", "month", "nanosecond", "noon", "offset", "rest", "second", "year",
        "year_day", "zone",
    )  # fmt: skip

    def __init__(self, text: str) -> None:
        self.rest = text
        self.year = self.hour = self.minute = self.second = self.nanosecond = 0
        self.month = self.day = self.year_day = -1
        self.noon = ""
        self.offset: int | None = None
        self.zone = ""

    def literal(self, text: str) -> None:
        """Skip literal text; a run of spaces stands for any run of spaces, or none at the end."""
        while text:
            if text[0] == " ":
                if self.rest and self.rest[0] != " ":
                    raise _Mismatch
                text, self.rest = text.lstrip(" "), self.rest.lstrip(" ")
            elif self.rest[:1] == text[0]:
                text, self.rest = text[1:], self.rest[1:]
            else:
                raise _Mismatch

    def digits(self, least: int, most: int) -> int:
        """A number of so many digits."""
        match = re.match(rf"[0-9]{{{least},{most}}}", self.rest)
        if match is None:
            raise _Mismatch
        self.rest = self.rest[match.end() :]
        return int(match[0])

    def among(self, names: tuple[str, ...], size: int | None = None) -> int:
        """A name in any case, cut to `size` letters; its position."""
        for position, name in enumerate(names):
            wanted = name[:size]
            if self.rest[: len(wanted)].lower() == wanted.lower():
                self.rest = self.rest[len(wanted) :]
                return position
        raise _Mismatch

    def spaces(self, most: int) -> None:
        """Skip padding of a right-aligned number."""
        while most and self.rest[:1] == " ":
            self.rest = self.rest[1:]
            most -= 1

    def fraction(self, size: int = 0) -> None:
        """A fraction of a second: of exactly so many digits, or as many as there are."""
        match = _FRACTION.match(self.rest)
        if match is None:
            if size:
                raise _Mismatch
            return
        text = match[0]
        if size:
            if len(text) <= size:
                raise _Mismatch
            text = text[: size + 1]
        self.rest = self.rest[len(text) :]
        self.nanosecond = int(text[1:10].ljust(9, "0"))


def _year(reading: _Reading, field: str) -> None:
    if field == "2006":
        reading.year = reading.digits(4, 4)
    else:
        short = reading.digits(2, 2)
        reading.year = short + (1900 if short >= 69 else 2000)


def _month(reading: _Reading, field: str) -> None:
    if field in ("Jan", "January"):
        reading.month = reading.among(layouts.MONTHS, 3 if field == "Jan" else None) + 1
    else:
        reading.month = reading.digits(2 if field == "01" else 1, 2)
        _within(reading.month, 1, 12)


def _day(reading: _Reading, field: str) -> None:
    if field == "_2":
        reading.spaces(1)
    reading.day = reading.digits(2 if field == "02" else 1, 2)


def _year_day(reading: _Reading, field: str) -> None:
    if field == "__2":
        reading.spaces(2)
    reading.year_day = reading.digits(3 if field == "002" else 1, 3)


def _weekday(reading: _Reading, field: str) -> None:
    reading.among(layouts.DAYS, 3 if field == "Mon" else None)


def _hour(reading: _Reading, field: str) -> None:
    reading.hour = reading.digits(2 if field == "03" else 1, 2)
    _within(reading.hour, 0, 23 if field == "15" else 12)


def _minute(reading: _Reading, field: str) -> None:
    reading.minute = reading.digits(2 if field == "04" else 1, 2)
    _within(reading.minute, 0, 59)


def _second(reading: _Reading, field: str) -> None:
    reading.second = reading.digits(2 if field == "05" else 1, 2)
    _within(reading.second, 0, 59)


def _noon(reading: _Reading, field: str) -> None:
    reading.noon, reading.rest = reading.rest[:2], reading.rest[2:]
    if reading.noon not in (("PM", "AM") if field == "PM" else ("pm", "am")):
        raise _Mismatch


def _zone(reading: _Reading, _: str) -> None:
    if reading.rest.startswith("UTC"):
        reading.offset, reading.rest = 0, reading.rest[3:]
        return
    match = _GMT.match(reading.rest) or _ZONE.match(reading.rest)
    if match is None:
        raise _Mismatch
    reading.zone, reading.rest = match[0], reading.rest[match.end() :]


def _offset(reading: _Reading, field: str) -> None:
    if field[0] == "Z" and reading.rest[:1] == "Z":
        reading.offset, reading.rest = 0, reading.rest[1:]
        return
    two = "([0-9]{2})"
    form = field[1:].replace("07", two).replace("00", two)
    match = re.match("([+-])" + form, reading.rest)
    if match is None:
        raise _Mismatch
    hours, minutes, seconds = (int(match[n]) if n <= len(match.groups()) else 0 for n in (2, 3, 4))
    if hours > _HOURS_MAX or minutes > 60 or seconds > 60:
        raise _Mismatch
    size = hours * 3600 + minutes * 60 + seconds
    reading.offset = -size if match[1] == "-" else size
    reading.rest = reading.rest[match.end() :]


def _within(number: int, least: int, most: int) -> None:
    if not least <= number <= most:
        raise _Mismatch


_READERS: Final[dict[str, Callable[[_Reading, str], None]]] = {
    **dict.fromkeys(("2006", "06"), _year),
    **dict.fromkeys(("01", "1", "Jan", "January"), _month),
    **dict.fromkeys(("02", "2", "_2"), _day),
    **dict.fromkeys(("002", "__2"), _year_day),
    **dict.fromkeys(("Mon", "Monday"), _weekday),
    **dict.fromkeys(("15", "03", "3"), _hour),
    **dict.fromkeys(("04", "4"), _minute),
    **dict.fromkeys(("05", "5"), _second),
    **dict.fromkeys(("PM", "pm"), _noon),
    "MST": _zone,
}


def read(text: str, layout: str, location: Location = UTC) -> Instant:
    """The instant that a text names. Raises FilterFailed if it is not of this layout."""
    try:
        return _read(text, layout, location)
    except _Mismatch:
        raise FilterFailed("value", "the text is not a date of this layout") from None


def read_default(text: str, location: Location = UTC) -> Instant:
    """By the first default layout that fits. Raises FilterFailed when none does."""
    for layout in DEFAULTS:
        try:
            return _read(text, layout, location)
        except _Mismatch:
            continue
    raise FilterFailed("value", "the text is not a date")


def _read(text: str, layout: str, location: Location) -> Instant:
    reading = _Reading(text)
    parts = layouts.pieces(layout)
    for position, (literal, field) in enumerate(parts):
        reading.literal(literal)
        if field in _READERS:
            _READERS[field](reading, field)
        elif field[:1] in ("-", "Z"):
            _offset(reading, field)
        elif field:
            reading.fraction(len(field) - 1 if field[1] == "0" else 0)
        follows = parts[position + 1] if field else None
        if field in ("05", "5") and follows is not None and follows.field[:1] not in (".", ","):
            reading.fraction()
    if reading.rest:
        raise _Mismatch
    return _instant(reading, location)


def _instant(reading: _Reading, location: Location) -> Instant:
    hour = reading.hour
    if reading.noon in ("PM", "pm") and hour < 12:
        hour += 12
    elif reading.noon in ("AM", "am") and hour == 12:
        hour = 0
    days = _days(reading)
    seconds = hour * 3600 + reading.minute * 60 + reading.second
    wall = days * instants.DAY_SECONDS + seconds
    if reading.offset is not None:
        return _at_offset(wall, reading, location)
    if reading.zone:
        return _at_named(wall, reading, location)
    return instants.at_wall_time(location, days, seconds, reading.nanosecond)


def _days(reading: _Reading) -> int:
    year, month, day = reading.year, reading.month, reading.day
    if reading.year_day >= 0:
        _within(reading.year_day, 1, 366 if instants.is_leap(year) else 365)
        days = instants.days_from_civil(year, 1, 1) + reading.year_day - 1
        _, in_month, in_day = instants.civil_from_days(days)
        if month not in (-1, in_month) or day not in (-1, in_day):
            raise _Mismatch
        return days
    month = 1 if month < 0 else month
    day = 1 if day < 0 else day
    _within(day, 1, instants.days_in(month, year))
    return instants.days_from_civil(year, month, day)


def _at_offset(wall: int, reading: _Reading, location: Location) -> Instant:
    """The offset of the text stays with the value, unless it is the location's own."""
    offset = reading.offset or 0
    seconds = wall - offset
    is_same = location.offset(seconds) == offset
    held = location if is_same else Location("", fixed_seconds=offset)
    return Instant(seconds * instants.SECOND + reading.nanosecond, held if offset else UTC)


def _at_named(wall: int, reading: _Reading, location: Location) -> Instant:
    """An abbreviation counts where the location knows it; elsewhere it is a name without offset."""
    seconds = wall - location.offset(wall)
    if location.abbreviation(seconds) == reading.zone:
        return Instant(seconds * instants.SECOND + reading.nanosecond, location)
    offset = int(reading.zone[3:]) * 3600 if len(reading.zone) > 3 and "GMT" in reading.zone else 0
    held = Location(reading.zone, fixed_seconds=offset)
    return Instant((wall - offset) * instants.SECOND + reading.nanosecond, held)
