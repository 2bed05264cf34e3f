"""Durations: reading, writing and rounding them.

Used by functions.py (duration, seconds and kin), methods.py and text_of.py. A duration is int64
nanoseconds and wraps; there are no months or years.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from mqlite_actor.filters.faults import FilterFailed
from mqlite_actor.filters.values import INT_MAX, INT_MIN, Duration, Value, cut, wrapped

SECOND: Final = 1_000_000_000
HOUR: Final = 3600 * SECOND

UNITS: Final = {
    b"ns": 1,
    b"us": 1_000,
    "µs".encode(): 1_000,
    b"ms": 1_000_000,
    b"s": SECOND,
    b"m": 60 * SECOND,
    b"h": HOUR,
    b"d": 24 * HOUR,
    b"w": 7 * 24 * HOUR,
}
COUNTED: Final = {
    "seconds": SECOND,
    "minutes": 60 * SECOND,
    "hours": HOUR,
    "days": 24 * HOUR,
    "weeks": 7 * 24 * HOUR,
}
"""Function → nanoseconds of one."""

_PART: Final = re.compile(rb"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)(ns|us|\xc2\xb5s|ms|s|m|h|d|w)")


def parse(text: bytes) -> Duration:
    """`1w2d`, `-1.5h`, `0`. Raises FilterFailed for anything else."""
    sign = -1 if text[:1] == b"-" else 1
    rest = text[1:] if text[:1] in (b"-", b"+") else text
    if rest == b"0":
        return Duration(0)
    total, at = 0, 0
    while at < len(rest):
        match = _PART.match(rest, at)
        if match is None:
            raise FilterFailed("value", "bad duration")
        total = wrapped(total + cut(float(match[1]) * UNITS[match[2]]))
        at = match.end()
    if not rest:
        raise FilterFailed("value", "bad duration: it is empty")
    return Duration(wrapped(sign * total))


def counted(unit: int) -> Callable[[Value], Duration]:
    """hours(x) and kin: any number is cut, every other value counts as 0."""

    def make(value: Value) -> Duration:
        kind = type(value)
        number = value if kind is int else cut(value) if kind is float else 0
        return Duration(wrapped(number * unit))

    return make


def text(span: int) -> str:
    """`1h30m0s`, `1.5s`, `250ms`, `7µs`, `0s`."""
    sign = "-" if span < 0 else ""
    size = abs(int(span))
    if size < SECOND:
        for unit, name in ((1_000_000, "ms"), (1_000, "µs"), (1, "ns")):
            if size >= unit:
                return f"{sign}{_decimal(size, unit)}{name}"
        return "0s"
    minutes, rest = divmod(size, 60 * SECOND)
    hours, minutes = divmod(minutes, 60)
    shown = f"{_decimal(rest, SECOND)}s"
    if minutes or hours:
        shown = f"{minutes}m{shown}"
    if hours:
        shown = f"{hours}h{shown}"
    return sign + shown


def _decimal(size: int, unit: int) -> str:
    whole, rest = divmod(size, unit)
    if not rest:
        return str(whole)
    return f"{whole}.{rest:0{len(str(unit)) - 1}}".rstrip("0")


def of_unit(span: int, unit: int) -> float:
    """How many units, fraction included, cut as the original does."""
    whole, rest = divmod(abs(int(span)), unit)
    size = float(whole) + float(rest) / unit
    return -size if span < 0 else size


def truncated(span: int, step: int) -> Duration:
    """Toward zero to a multiple of `step`."""
    if step <= 0:
        return Duration(span)
    rest = abs(int(span)) % step
    return Duration(span + rest if span < 0 else span - rest)


def rounded(span: int, step: int) -> Duration:
    """To the nearest multiple of `step`, half away from zero, saturating."""
    if step <= 0:
        return Duration(span)
    size = abs(int(span))
    rest = size % step
    size = size - rest if rest + rest < step else size - rest + step
    return Duration(max(-size, INT_MIN) if span < 0 else min(size, INT_MAX))


def absolute(span: int) -> Duration:
    """Without sign; the smallest becomes the largest."""
    return Duration(min(abs(int(span)), INT_MAX))
