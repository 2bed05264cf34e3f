"""Which operands an operator takes, and the type of what it gives.

Called by check.py; pure functions of two types. The table is spec/filters.md 7. A rule answers None
for a pair that it does not list, and the caller refuses it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mqlite_actor.filters import kinds
from mqlite_actor.filters.kinds import BOOL, DURATION, FLOAT, INT, STRING, TIME, UNKNOWN, Type

Rule = Callable[[Type, Type], Type | None]

_ORDERED: Final = frozenset({"string", "time", "duration"})


def _both(left: Type, right: Type, accepted: frozenset[str]) -> bool:
    """Two of the kinds, or one beside any, or any twice."""
    return {left.kind, right.kind} <= accepted | {"any"}


def _has_any(left: Type, right: Type) -> bool:
    return left.kind == "any" or right.kind == "any"


def _equality(left: Type, right: Type) -> Type | None:
    return BOOL if kinds.comparable(left, right) else None


def _order(left: Type, right: Type) -> Type | None:
    if _both(left, right, kinds.NUMBERS):
        return BOOL
    return BOOL if any(_both(left, right, frozenset({each})) for each in _ORDERED) else None


def _truth(left: Type, right: Type) -> Type | None:
    return BOOL if _both(left, right, frozenset({"bool"})) else None


def _number(left: Type, right: Type) -> Type:
    return FLOAT if "float" in (left.kind, right.kind) else INT


_SUMS: Final = {
    ("string", "string"): STRING,
    ("time", "duration"): TIME,
    ("duration", "time"): TIME,
    ("duration", "duration"): DURATION,
}
_DIFFERENCES: Final = {
    ("time", "time"): DURATION,
    ("time", "duration"): TIME,
    ("duration", "duration"): DURATION,
}
_PRODUCTS: Final = {
    ("duration", "duration"): DURATION,
    **{(number, "duration"): DURATION for number in kinds.NUMBERS},
    **{("duration", number): DURATION for number in kinds.NUMBERS},
}


def _arithmetic(listed: dict[tuple[str, str], Type]) -> Rule:
    """Numbers among themselves, the listed pairs, and any beside a kind that occurs there."""
    partners = kinds.NUMBERS | {"any"} | {kind for pair in listed for kind in pair}

    def rule(left: Type, right: Type) -> Type | None:
        if _has_any(left, right):
            return UNKNOWN if {left.kind, right.kind} <= partners else None
        if {left.kind, right.kind} <= kinds.NUMBERS:
            return _number(left, right)
        return listed.get((left.kind, right.kind))

    return rule


def _division(left: Type, right: Type) -> Type | None:
    return FLOAT if _both(left, right, kinds.NUMBERS) else None


def _modulus(left: Type, right: Type) -> Type | None:
    return INT if _both(left, right, kinds.INTEGERS) else None


def _range(left: Type, right: Type) -> Type | None:
    return kinds.list_of(INT) if _both(left, right, kinds.INTEGERS) else None


def _text(left: Type, right: Type) -> Type | None:
    return BOOL if _both(left, right, frozenset({"string"})) else None


def _matches(left: Type, right: Type) -> Type | None:
    if left.kind == "bytes" and right.kind == "string":
        return BOOL
    return _text(left, right)


def fits_key(key: Type, of: Type) -> bool:
    """Whether a map with keys of one type may be asked for a key of another."""
    return key.kind == "any" or of.kind in ("any", key.kind)


def _contained(left: Type, right: Type) -> Type | None:
    """`left in right`."""
    if right.kind == "any":
        return BOOL
    if right.kind == "map" and right.key is not None:
        return BOOL if fits_key(left, right.key) else None
    if right.kind in kinds.LISTS and right.item is not None:
        return BOOL if kinds.comparable(left, right.item) else None
    if right.kind == "time":
        return BOOL if left.kind in ("string", "any") else None
    return BOOL if right.kind == "string" and left.kind == "any" else None


RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(("==", "!="), _equality),
    **dict.fromkeys(("<", "<=", ">", ">="), _order),
    **dict.fromkeys(("and", "or"), _truth),
    "+": _arithmetic(_SUMS),
    "-": _arithmetic(_DIFFERENCES),
    "*": _arithmetic(_PRODUCTS),
    **dict.fromkeys(("/", "**"), _division),
    "%": _modulus,
    "..": _range,
    **dict.fromkeys(("contains", "startsWith", "endsWith"), _text),
    "matches": _matches,
    "in": _contained,
    "??": kinds.coalesced,
}


def unary(op: str, operand: Type) -> Type | None:
    """The type of `op operand`, None where the operand does not fit."""
    if op == "not":
        return BOOL if operand.kind in ("bool", "any") else None
    if operand.kind == "any":
        return UNKNOWN
    return operand if operand.kind in kinds.NUMBERS else None
