"""How people write durations and sizes, in flags and variables: `1h30m`, `1.5h`, `250ms`, `14d`,
`0`.

Called by the command line and by the broker's settings; calls nothing. A duration is exact
nanoseconds; what it may be (not negative, not below a millisecond) is the rule of the value it
sets, not of this notation. `d` is 24 hours and `w` 7 days (design.md decision 11).
"""

from __future__ import annotations

_UNITS_NS: dict[str, int] = {
    "ns": 1,
    "us": 1_000,
    "\N{MICRO SIGN}s": 1_000,
    "\N{GREEK SMALL LETTER MU}s": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "h": 3_600 * 1_000_000_000,
    "d": 24 * 3_600 * 1_000_000_000,
    "w": 7 * 24 * 3_600 * 1_000_000_000,
}

SIZE_DIGITS_MAX = 18
"""A size of more digits is over any memory."""

_DIGITS = frozenset("0123456789")
_NUMBER_CHARS_MAX = 64
"""Digits of one number: centuries in nanoseconds need 19."""


def parse_size(text: str) -> int | None:
    """A positive number of bytes; None for anything else."""
    text = text.strip().removeprefix("+")
    if not text.isascii() or not text.isdigit() or len(text) > SIZE_DIGITS_MAX:
        return None
    return int(text) or None


def parse_duration(text: str) -> int:
    """Nanoseconds, rounded away from zero. ValueError says what is wrong."""
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if rest == "0":
        return 0
    if not rest:
        raise ValueError("not a duration; write one like 30s or 1h30m")
    total = 0
    while rest:
        nanoseconds, rest = _parse_term(rest)
        total += nanoseconds
    return sign * total


def _parse_term(text: str) -> tuple[int, str]:
    """One number with its unit, and what follows it."""
    whole, rest = _split_digits(text)
    fraction = ""
    if rest[:1] == ".":
        fraction, rest = _split_digits(rest[1:])
    if not whole and not fraction:
        raise ValueError("not a duration; write one like 30s or 1h30m")
    if len(whole) + len(fraction) > _NUMBER_CHARS_MAX:
        raise ValueError("a number with too many digits")
    unit, rest = _split_unit(rest)
    if not unit:
        raise ValueError(f"a number without a unit; write {whole or '0'}s for seconds")
    if unit not in _UNITS_NS:
        raise ValueError("an unknown unit; the units are ns us ms s m h d w")
    scaled = int((whole or "0") + fraction) * _UNITS_NS[unit]
    return -(-scaled // 10 ** len(fraction)), rest


def _split_digits(text: str) -> tuple[str, str]:
    end = next((at for at, char in enumerate(text) if char not in _DIGITS), len(text))
    return text[:end], text[end:]


def _split_unit(text: str) -> tuple[str, str]:
    stops = (at for at, char in enumerate(text) if char in _DIGITS or char == ".")
    end = next(stops, len(text))
    return text[:end], text[end:]
