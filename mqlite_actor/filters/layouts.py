"""Date layouts: the reference instant Mon Jan 2 15:04:05 2006 -0700 in the wanted form.

`pieces` cuts a layout into literal text and fields; `written` formats an instant by it. Reading
stands in date_reading.py. Used by Format, String and date.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from mqlite_actor.filters.instants import Civil, Instant, offset_text

DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

_FIELD: Final = re.compile(
    r"January|Jan(?![a-z])|Monday|Mon(?![a-z])|MST|2006|__2|_2(?!006)|002|0[1-6]|15|PM|pm"
    r"|[-Z]07(?:0000|:00:00|00|:00)?|[.,](?:0+|9+)(?![0-9])|[12345]"
)


class Piece(NamedTuple):
    """Literal text, and the field behind it; the last piece of a layout has no field."""

    text: str
    field: str


@lru_cache(maxsize=256)
def pieces(layout: str) -> tuple[Piece, ...]:
    """A layout cut into pieces. Always ends with a piece without a field."""
    found: list[Piece] = []
    at = 0
    for match in _FIELD.finditer(layout):
        found.append(Piece(layout[at : match.start()], match[0]))
        at = match.end()
    return (*found, Piece(layout[at:], ""))


def _year(civil: Civil) -> str:
    return f"-{-civil.year:04}" if civil.year < 0 else f"{civil.year:04}"


FIELDS: Final[dict[str, Callable[[Civil], str]]] = {
    "2006": _year,
    "06": lambda civil: f"{civil.year % 100:02}",
    "01": lambda civil: f"{civil.month:02}",
    "1": lambda civil: str(civil.month),
    "Jan": lambda civil: MONTHS[civil.month - 1][:3],
    "January": lambda civil: MONTHS[civil.month - 1],
    "02": lambda civil: f"{civil.day:02}",
    "2": lambda civil: str(civil.day),
    "_2": lambda civil: f"{civil.day:2}",
    "002": lambda civil: f"{civil.year_day:03}",
    "__2": lambda civil: f"{civil.year_day:3}",
    "Mon": lambda civil: DAYS[civil.weekday][:3],
    "Monday": lambda civil: DAYS[civil.weekday],
    "15": lambda civil: f"{civil.hour:02}",
    "03": lambda civil: f"{(civil.hour - 1) % 12 + 1:02}",
    "3": lambda civil: str((civil.hour - 1) % 12 + 1),
    "04": lambda civil: f"{civil.minute:02}",
    "4": lambda civil: str(civil.minute),
    "05": lambda civil: f"{civil.second:02}",
    "5": lambda civil: str(civil.second),
    "PM": lambda civil: "PM" if civil.hour >= 12 else "AM",
    "pm": lambda civil: "pm" if civil.hour >= 12 else "am",
}


def written(instant: Instant, layout: str) -> str:
    """The instant in the form of a layout."""
    civil = instant.civil()
    parts: list[str] = []
    for text, field in pieces(layout):
        parts.append(text)
        if field in FIELDS:
            parts.append(FIELDS[field](civil))
        elif field == "MST":
            parts.append(instant.location.abbreviation(instant.seconds))
        elif field[:1] in ("-", "Z"):
            parts.append(_offset(instant, field))
        elif field:
            parts.append(_fraction(civil.nanosecond, field))
    return "".join(parts)


def _offset(instant: Instant, field: str) -> str:
    seconds = instant.location.offset(instant.seconds)
    if field[0] == "Z" and seconds == 0:
        return "Z"
    return offset_text(seconds, field)


def _fraction(nanosecond: int, field: str) -> str:
    digits = f"{nanosecond:09}"[: len(field) - 1].ljust(len(field) - 1, "0")
    if field[1] == "0":
        return field[0] + digits
    digits = digits.rstrip("0")
    return field[0] + digits if digits else ""


def shown(instant: Instant) -> str:
    """What String() and string() give."""
    return written(instant, "2006-01-02 15:04:05.999999999 -0700 MST")
