"""string() and toJSON(): any value as text.

Called through functions.py. Both work on a stack of their own, for values may nest ten thousand
levels, and pay for every piece, for one list may stand in another many times over.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Final

from mqlite_actor.filters import layouts, spans
from mqlite_actor.filters.faults import FilterFailed
from mqlite_actor.filters.instants import Instant, Location
from mqlite_actor.filters.run import Run
from mqlite_actor.filters.utf8 import octets, repaired
from mqlite_actor.filters.values import (
    LISTS,
    AnyMap,
    Byte,
    Duration,
    Month,
    NilList,
    NilStrings,
    Octets,
    StringMap,
    Value,
    Weekday,
    word,
)

_MANTISSA: Final = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:e([+-]?[0-9]+))?")


_ITEM_STEPS: Final = 6
"""What an item costs, beside what its text does."""


_INSTANT_STEPS: Final = 60
"""What writing a time costs."""


class _Ready(bytes):
    """Text that is to be written as it is, among values that are not yet."""

    __slots__ = ()


def _digits(number: float) -> tuple[str, str, int]:
    """Sign, shortest digits, and the decimal exponent of the first digit."""
    match = _MANTISSA.fullmatch(repr(number))
    assert match is not None, "repr of a finite float"
    sign, whole, part, exponent = match[1], match[2], match[3] or "", int(match[4] or 0)
    digits = (whole + part).lstrip("0")
    if not digits:
        return sign, "0", 0
    lead = len(whole + part) - len(digits)
    return sign, digits.rstrip("0"), exponent + len(whole) - 1 - lead


def _float_text(number: float, *, least: int, most: int, pad: int) -> str:
    """Shortest digits; exponent form below 10**least and above 10**most."""
    sign, digits, exponent = _digits(number)
    if not least <= exponent <= most and number != 0.0:
        part = f".{digits[1:]}" if len(digits) > 1 else ""
        shown = f"{abs(exponent):0{pad}}"
        return f"{sign}{digits[0]}{part}e{'-' if exponent < 0 else '+'}{shown}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    digits = digits.ljust(exponent + 1, "0")
    part = digits[exponent + 1 :]
    return f"{sign}{digits[: exponent + 1]}{'.' + part if part else ''}"


def float_string(number: float) -> str:
    """A float as string() writes it."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return _float_text(number, least=-4, most=5, pad=2)


# -- string() --------------------------------------------------------------------------------------

_PLAIN: Final[dict[type, Callable[[Value], str]]] = {
    type(None): lambda value: "<nil>",
    bool: lambda value: "true" if value else "false",
    int: str,
    Byte: lambda value: str(int(value)),
    float: float_string,
    Duration: spans.text,
    Weekday: lambda value: layouts.DAYS[value],
    Month: lambda value: layouts.MONTHS[value - 1],
    Instant: layouts.shown,
    Location: lambda value: str(value.name),
}


def string(run: Run, value: Value) -> bytes:
    """string(x): what is a string stays as it is."""
    if type(value) is bytes:
        return value
    parts: list[bytes] = []
    pending: list[Value] = [value]
    while pending:
        piece = pending.pop()
        if type(piece) in (bytes, _Ready):
            run.write(len(piece))
            parts.append(piece)
        elif type(piece) in _PLAIN:
            run.spend(_INSTANT_STEPS if type(piece) is Instant else 1)
            parts.append(octets(_PLAIN[type(piece)](piece)))
        elif type(piece) in LISTS:
            run.spend(_ITEM_STEPS * len(piece))
            pending.extend(reversed(list(_bracketed(b"[", piece, b"]"))))
        else:
            pending.extend(reversed(list(_map_pieces(run, piece))))
    return b"".join(parts)


def _bracketed(opening: bytes, items: Value, closing: bytes) -> Iterator[Value]:
    yield _Ready(opening)
    for position, item in enumerate(items):
        if position:
            yield _Ready(b" ")
        yield item
    yield _Ready(closing)


def _map_pieces(run: Run, piece: Value) -> Iterator[Value]:
    yield _Ready(b"map[")
    for position, (key, value) in enumerate(_entries(run, piece)):
        if position:
            yield _Ready(b" ")
        yield key
        yield _Ready(b":")
        yield value
    yield _Ready(b"]")


def _entries(run: Run, piece: Value) -> list[tuple[Value, Value]]:
    """Keys and values, sorted by key; keys of different types in groups."""
    if type(piece) in (dict, StringMap):
        run.spend(len(piece))
        return sorted(piece.items(), key=lambda entry: entry[0])
    if type(piece) is AnyMap:
        run.spend(len(piece))
        return sorted(piece.entries.values(), key=lambda entry: _rank(entry[0]))
    raise FilterFailed("type", f"string does not take {word(piece)}")


def _rank(key: Value) -> tuple[str, float, bytes]:
    is_number = isinstance(key, int | float)
    number = float(key) if is_number else float(getattr(key, "ns", 0.0))
    return word(key), number, key if type(key) is bytes else b""


# -- toJSON() --------------------------------------------------------------------------------------

_UNSAFE: Final = re.compile("[<>&\u2028\u2029\x7f]")


def _json_string(text: bytes) -> bytes:
    quoted = json.dumps(repaired(text).decode(), ensure_ascii=False)
    return _UNSAFE.sub(_escaped, quoted).encode()


def _escaped(match: re.Match[str]) -> str:
    return match[0] if match[0] == "\x7f" else f"\\u{ord(match[0]):04x}"


def _json_float(number: float) -> bytes:
    if not math.isfinite(number):
        raise FilterFailed("value", "toJSON: JSON has no infinity and no NaN")
    return _float_text(number, least=-6, most=20, pad=1).encode()


_JSON: Final[dict[type, Callable[[Value], bytes]]] = {
    type(None): lambda value: b"null",
    NilList: lambda value: b"null",
    NilStrings: lambda value: b"null",
    bool: lambda value: b"true" if value else b"false",
    **{kind: lambda value: b"%d" % value for kind in (int, Byte, Duration, Weekday, Month)},
    float: _json_float,
    bytes: _json_string,
    Octets: lambda value: _json_string(base64.b64encode(bytes(value))),
    Instant: lambda value: _json_string(
        layouts.written(value, "2006-01-02T15:04:05.999999999Z07:00").encode()
    ),
    Location: lambda value: b"{}",
}


def to_json(run: Run, value: Value) -> bytes:
    """toJSON(x): two spaces of indent, keys sorted."""
    parts: list[bytes] = []
    pending: list[tuple[Value, int]] = [(value, 0)]
    while pending:
        piece, level = pending.pop()
        if type(piece) is _Ready:
            run.write(len(piece))
            parts.append(piece)
        elif type(piece) in _JSON:
            run.write(len(piece) if type(piece) in (bytes, Octets) else 1)
            run.spend(_INSTANT_STEPS if type(piece) is Instant else 0)
            parts.append(_JSON[type(piece)](piece))
        elif not _is_box(piece):
            raise FilterFailed("value", f"toJSON does not take {word(piece)}")
        elif not piece:
            parts.append(b"[]" if type(piece) in LISTS else b"{}")
        else:
            run.spend(_ITEM_STEPS * len(piece))
            pending.extend(reversed(list(_json_pieces(piece, level + 1))))
    return b"".join(parts)


def _is_box(piece: Value) -> bool:
    return type(piece) in LISTS or type(piece) in (dict, StringMap)


def _json_pieces(piece: Value, level: int) -> Iterator[tuple[Value, int]]:
    """Brackets, keys and items of a list or map."""
    is_list = type(piece) in LISTS
    indent = b"\n" + b"  " * level
    items = piece if is_list else sorted(piece)
    for position, item in enumerate(items):
        start = (b"," if position else b"[" if is_list else b"{") + indent
        if is_list:
            yield _Ready(start), level
            yield item, level
        else:
            yield _Ready(start + _json_string(item) + b": "), level
            yield piece[item], level
    yield _Ready(indent[:-2] + (b"]" if is_list else b"}")), level
