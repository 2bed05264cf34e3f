"""Number functions: reading, rounding, bits, extremes and means.

Called through functions.py. Every function takes any values and raises FilterFailed for what it
does not take, whatever the checker knew of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Final

from mqlite_actor.filters.faults import FilterFailed
from mqlite_actor.filters.operators import is_less
from mqlite_actor.filters.run import Run
from mqlite_actor.filters.values import (
    INT_MAX,
    INT_MIN,
    INTEGERS,
    LISTS,
    NUMBERS,
    Duration,
    Month,
    Value,
    Weekday,
    cut,
    word,
    wrapped,
)

_INT: Final = re.compile(rb"[+-]?[0-9]{1,400}")
_DIGITS: Final = rb"[0-9]+(?:_[0-9]+)*"
_FLOAT: Final = re.compile(
    rb"[+-]?(?:D(?:\.(?:D)?)?|\.D)(?:[eE][+-]?D)?|[+-]?[iI][nN][fF](?:[iI][nN][iI][tT][yY])?"
    rb"|[nN][aA][nN]".replace(b"D", _DIGITS)
)
_HEX_DIGITS: Final = rb"[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*"
_HEX: Final = re.compile(
    rb"[+-]?0[xX]_?(?:H(?:\.(?:H)?)?|\.H)[pP][+-]?D".replace(b"H", _HEX_DIGITS).replace(
        b"D", _DIGITS
    )
)
_LENGTH_MAX: Final = 4096
"""A number in more characters than a filter may have is none."""


def _refused(name: str, value: Value) -> FilterFailed:
    return FilterFailed("type", f"{name} does not take {word(value)}")


def to_int(value: Value) -> int:
    """int(x)."""
    kind = type(value)
    if kind in INTEGERS or kind in (Duration, Weekday, Month):
        return int(value)
    if kind is float:
        return cut(value)
    if kind is not bytes:
        raise _refused("int", value)
    number = int(value) if _INT.fullmatch(value) else INT_MAX + 1
    if not INT_MIN <= number <= INT_MAX:
        raise FilterFailed("value", "int: the text is not an int of 64 bits")
    return number


def to_float(value: Value) -> float:
    """float(x)."""
    kind = type(value)
    if kind in NUMBERS:
        return float(value)
    if kind is not bytes:
        raise _refused("float", value)
    if len(value) > _LENGTH_MAX:
        raise FilterFailed("value", "float: the text is too long")
    plain = value.replace(b"_", b"").lower()
    if _HEX.fullmatch(value):
        try:
            return float.fromhex(plain.decode())
        except OverflowError:
            raise FilterFailed("value", "float: the number is too large") from None
    if not _FLOAT.fullmatch(value):
        raise FilterFailed("value", "float: the text is not a number")
    number = float(plain)
    if math.isinf(number) and b"inf" not in plain:
        raise FilterFailed("value", "float: the number is too large")
    return number


def absolute(value: Value) -> Value:
    """abs(x); wraps for the smallest int."""
    kind = type(value)
    if kind in INTEGERS:
        return wrapped(abs(int(value)))
    if kind is float:
        return abs(value)
    raise _refused("abs", value)


def _half_away(number: float) -> float:
    whole = float(math.trunc(number))
    return whole + math.copysign(1.0, number) if abs(number - whole) >= 0.5 else whole


def rounding(name: str, work: Callable[[float], float]) -> Callable[[Value], float]:
    """ceil, floor or round: always a float, and a zero keeps its sign."""

    def rounded(value: Value) -> float:
        if type(value) not in NUMBERS:
            raise _refused(name, value)
        number = float(value)
        if not math.isfinite(number):
            return number
        result = float(work(number))
        return result or math.copysign(0.0, number)

    return rounded


ROUNDINGS: Final = {
    "ceil": rounding("ceil", math.ceil),
    "floor": rounding("floor", math.floor),
    "round": rounding("round", _half_away),
}


# -- bits ------------------------------------------------------------------------------------------


def _shifted_left(number: int, count: int) -> int:
    return wrapped(number << count) if count < 64 else 0


def _shifted_right(number: int, count: int) -> int:
    return number >> min(count, 63)


def _shifted_unsigned(number: int, count: int) -> int:
    return wrapped((number % 2**64) >> count) if count < 64 else 0


_BITS: Final[dict[str, Callable[[int, int], int]]] = {
    "bitand": lambda a, b: a & b,
    "bitor": lambda a, b: a | b,
    "bitxor": lambda a, b: a ^ b,
    "bitnand": lambda a, b: a & ~b,
    "bitshl": _shifted_left,
    "bitshr": _shifted_right,
    "bitushr": _shifted_unsigned,
}


def bits(name: str) -> Callable[[Value, Value], int]:
    """A bit function of two ints. A negative shift count is an error."""
    work = _BITS[name]
    is_shift = name.startswith(("bitsh", "bitush"))

    def combined(left: Value, right: Value) -> int:
        for value in (left, right):
            if type(value) not in INTEGERS:
                raise _refused(name, value)
        if is_shift and right < 0:
            raise FilterFailed("value", f"{name}: the shift count is negative")
        return work(int(left), int(right))

    return combined


def inverted(value: Value) -> int:
    """bitnot(x)."""
    if type(value) not in INTEGERS:
        raise _refused("bitnot", value)
    return ~int(value)


# -- extremes and means ----------------------------------------------------------------------------


def _numbers(run: Run, name: str, values: tuple[Value, ...]) -> Iterator[Value]:
    """All numbers in the arguments and their lists, in order. Anything else is an error.

    An empty list inside a list has no extreme, and is nothing to a mean.
    """
    pending = [iter(values)]
    while pending:
        for value in pending[-1]:
            if type(value) in LISTS:
                if not value and len(pending) > 1 and name in ("max", "min"):
                    raise FilterFailed("type", f"{name} does not take an empty list inside a list")
                run.spend(len(value))
                pending.append(iter(value))
                break
            if type(value) not in NUMBERS:
                raise _refused(name, value)
            yield value
        else:
            pending.pop()


def extreme(name: str, run: Run, *values: Value) -> Value:
    """max or min: nil when there is nothing; a single value that is no list comes back."""
    if len(values) == 1 and type(values[0]) not in LISTS:
        return values[0]
    if all(type(value) is Duration for value in values):
        candidates = iter(values)
    else:
        candidates = _numbers(run, name, values)
    best: Value = None
    for value in candidates:
        is_better = best is None or (
            is_less(best, value) if name == "max" else is_less(value, best)
        )
        best = value if is_better else best
    return best


def mean(run: Run, *values: Value) -> float:
    """Arithmetic mean, 0 of nothing."""
    total, count = 0.0, 0
    for value in _numbers(run, "mean", values):
        total += float(value)
        count += 1
    return total / count if count else 0.0


def median(run: Run, *values: Value) -> float:
    """The middle, or the mean of the two middle ones; 0 of nothing."""
    found = [float(value) for value in _numbers(run, "median", values)]
    run.spend(3 * len(found))
    ordered = sorted(found)
    if not ordered:
        return 0.0
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2
