"""Operators on run-time values: arithmetic and order.

Called by the code that code_operators.py makes, and by sums, sorts and extremes. Dispatch is by
exact types through tables; a pair that no table has is a type error. Ints wrap at 64 bits, floats
are IEEE's, and nothing here raises anything but FilterFailed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from mqlite_actor.filters.faults import FilterFailed
from mqlite_actor.filters.instants import Instant
from mqlite_actor.filters.run import Run
from mqlite_actor.filters.values import (
    INT_MAX,
    INT_MIN,
    INTEGERS,
    NUMBERS,
    Byte,
    Duration,
    Value,
    index_of,
    word,
    wrapped,
)

Pairs = dict[tuple[type, type], Callable[[Value, Value], Value]]


def _numbers(
    of_ints: Callable[[int, int], Value], of_floats: Callable[[float, float], Value]
) -> Pairs:
    """The entries for all pairs of numbers: ints among themselves, else as floats."""

    def mixed(left: Value, right: Value) -> Value:
        return of_floats(float(left), float(right))

    pairs: Pairs = {}
    for left in (int, Byte, float):
        for right in (int, Byte, float):
            pairs[left, right] = of_ints if float not in (left, right) else mixed
    pairs[float, float] = of_floats
    return pairs


def _saturated(nanoseconds: int) -> Duration:
    return Duration(min(max(nanoseconds, INT_MIN), INT_MAX))


def _spans(change: Callable[[int, int], int]) -> Callable[[Value, Value], Value]:
    return lambda left, right: Duration(wrapped(change(int(left), int(right))))


_ADD: Final[Pairs] = {
    **_numbers(lambda a, b: wrapped(int(a) + int(b)), lambda a, b: a + b),
    (bytes, bytes): lambda a, b: a + b,
    (Instant, Duration): lambda a, b: a.plus(int(b)),
    (Duration, Instant): lambda a, b: b.plus(int(a)),
    (Duration, Duration): _spans(lambda a, b: a + b),
}
_SUBTRACT: Final[Pairs] = {
    **_numbers(lambda a, b: wrapped(int(a) - int(b)), lambda a, b: a - b),
    (Instant, Instant): lambda a, b: _saturated(a.ns - b.ns),
    (Instant, Duration): lambda a, b: a.plus(-int(b)),
    (Duration, Duration): _spans(lambda a, b: a - b),
}
_times = _spans(lambda a, b: a * b)
_MULTIPLY: Final[Pairs] = {
    **_numbers(lambda a, b: wrapped(int(a) * int(b)), lambda a, b: a * b),
    (Duration, Duration): _times,
    (Duration, int): _times,
    (int, Duration): _times,
    (Duration, Byte): _times,
    (Byte, Duration): _times,
    (Duration, float): lambda a, b: float(int(a)) * b,
    (float, Duration): lambda a, b: a * float(int(b)),
}


def divided(left: float, right: float) -> float:
    """IEEE division: a zero divisor gives an infinity or no number."""
    if right != 0.0:
        return left / right
    if left == 0.0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def powered(base: float, exponent: float) -> float:
    """IEEE power: what is too large is an infinity, what has no real value no number."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        pass
    except ValueError:
        if base != 0.0:
            return math.nan
    is_odd = exponent == math.floor(exponent) and exponent % 2.0 == 1.0
    return math.copysign(math.inf, base) if is_odd else math.inf


def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise FilterFailed("arithmetic", "integer modulus by zero")
    size = abs(left) % abs(right)
    return -size if left < 0 else size


_DIVIDE: Final[Pairs] = _numbers(lambda a, b: divided(float(a), float(b)), divided)
_POWER: Final[Pairs] = _numbers(lambda a, b: powered(float(a), float(b)), powered)
_MODULUS: Final[Pairs] = {
    (left, right): lambda a, b: _remainder(int(a), int(b))
    for left in INTEGERS
    for right in INTEGERS
}
ARITHMETIC: Final[dict[str, Pairs]] = {
    "+": _ADD,
    "-": _SUBTRACT,
    "*": _MULTIPLY,
    "/": _DIVIDE,
    "**": _POWER,
    "%": _MODULUS,
}
"""Operator → pair of types → what to do. Read by the code generator and by folding."""


def mismatch(op: str, left: Value, right: Value) -> FilterFailed:
    """The error for a pair of values that an operator does not take."""
    return FilterFailed("type", f"operator `{op}` does not take {word(left)} and {word(right)}")


def add(run: Run, left: Value, right: Value) -> Value:
    """`left + right`, long strings paid for."""
    work = _ADD.get((type(left), type(right)))
    if work is None:
        raise mismatch("+", left, right)
    if type(left) is bytes:
        run.write(len(left) + len(right))
    return work(left, right)


def negated(value: Value) -> Value:
    """`-value`."""
    kind = type(value)
    if kind is int or kind is Byte:
        return wrapped(-int(value))
    if kind is float:
        return -value
    raise FilterFailed("type", f"operator `-` does not take {word(value)}")


def weigh(run: Run, left: Value, right: Value) -> None:
    """Pay for comparing two values, if they are long strings."""
    if type(left) is bytes and type(right) is bytes:
        run.scan(min(len(left), len(right)))


def spanned(run: Run, left: Value, right: Value) -> range:
    """`left..right`, both ends included."""
    first, last = index_of(left, "an end of a range"), index_of(right, "an end of a range")
    size = wrapped(last - first + 1)
    if size <= 0:
        return range(0)
    run.make(size)
    return range(first, last + 1)


# -- order -----------------------------------------------------------------------------------------

_ORDERED: Final = frozenset({bytes, Duration, float, int})


def _operands(op: str, left: Value, right: Value) -> tuple[Value, Value]:
    """Two values that Python orders as the language does. Raises FilterFailed if they have none."""
    one, other = type(left), type(right)
    if one is other and one in _ORDERED:
        return left, right
    if one in NUMBERS and other in NUMBERS:
        if one is float or other is float:
            return float(left), float(right)
        return int(left), int(right)
    if one is Instant and other is Instant:
        return left.ns, right.ns
    raise mismatch(op, left, right)


def is_less(left: Value, right: Value) -> bool:
    """`left < right`."""
    one, other = _operands("<", left, right)
    return bool(one < other)


def is_at_most(left: Value, right: Value) -> bool:
    """`left <= right`; like the others false beside a NaN."""
    one, other = _operands("<=", left, right)
    return bool(one <= other)


def is_more(left: Value, right: Value) -> bool:
    """`left > right`."""
    one, other = _operands(">", left, right)
    return bool(one > other)


def is_at_least(left: Value, right: Value) -> bool:
    """`left >= right`."""
    one, other = _operands(">=", left, right)
    return bool(one >= other)


ORDER: Final[dict[str, Callable[[Value, Value], bool]]] = {
    "<": is_less,
    "<=": is_at_most,
    ">": is_more,
    ">=": is_at_least,
}
