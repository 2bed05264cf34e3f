"""Static types: what the checker knows of a value before there is a message.

Used by check*.py and signatures.py; kept on the nodes for rewrites that ask. `any` is a value known
only at run time and comes in two sorts, which differ in conditionals and `??` alone: open (a member
of a map of any, an item of a mixed list) and unknown (spec/filters.md 6).
"""

from __future__ import annotations

from typing import Final

import msgspec


class Type(msgspec.Struct, frozen=True):
    """One type. `item` of a list or map, `key` of a map, `params` and `item` of a function."""

    kind: str
    item: Type | None = None
    key: Type | None = None
    is_open: bool = False
    is_native: bool = False
    params: tuple[Type, ...] = ()

    def __str__(self) -> str:
        if self.kind == "list" and self.item is not None:
            return f"list of {self.item}"
        if self.kind == "map" and self.item is not None:
            return f"map of {self.item}"
        return self.kind


BOOL: Final = Type("bool")
INT: Final = Type("int")
INT64: Final = Type("int64")
BYTE: Final = Type("byte")
FLOAT: Final = Type("float")
STRING: Final = Type("string")
BYTES: Final = Type("bytes", item=BYTE)
TIME: Final = Type("time")
DURATION: Final = Type("duration")
WEEKDAY: Final = Type("weekday")
MONTH: Final = Type("month")
LOCATION: Final = Type("location")
NIL: Final = Type("nil")
UNKNOWN: Final = Type("any")
OPEN: Final = Type("any", is_open=True)

LIST: Final = Type("list", item=OPEN)
STRINGS: Final = Type("list", item=STRING, is_native=True)
STRING_MAP: Final = Type("map", key=STRING, item=STRING)
OBJECT: Final = Type("map", key=STRING, item=OPEN)
ANY_MAP: Final = Type("map", key=OPEN, item=OPEN)
GROUPS: Final = Type("map", key=OPEN, item=LIST)

INTEGERS: Final = frozenset({"int", "int64", "byte"})
NUMBERS: Final = INTEGERS | {"float"}
LISTS: Final = frozenset({"list", "bytes"})

_COARSE: Final = {
    "weekday": "int",
    "month": "int",
    "duration": "int64",
    "bytes": "list",
    "nil": "unknown",
}
"""Kinds that a list literal does not tell apart."""


def list_of(item: Type) -> Type:
    """The type of a list that is no native one."""
    return Type("list", item=item)


def coarse(kind: Type) -> str:
    """What a list literal compares to find out whether its items are alike."""
    if kind.kind == "any":
        return "open" if kind.is_open else "unknown"
    return _COARSE.get(kind.kind, kind.kind)


def make(kind: Type) -> Type:
    """A type without what only the checker knows: a list of ints is made like any other list."""
    if kind.kind == "list":
        return STRINGS if kind.is_native else LIST
    if kind.kind == "map" and kind.item is not None and kind.key is not None:
        return Type("map", key=make(kind.key), item=make(kind.item))
    return kind


def assignable(value: Type, target: Type) -> bool:
    """Whether a value of one type can stand where another is expected; nil is handled before."""
    if value.kind == "nil" or UNKNOWN in (value, target):
        return False
    return target.is_open or make(value) == make(target)


def comparable(left: Type, right: Type) -> bool:
    """Whether `==` accepts the two (spec/filters.md 7)."""
    kinds = {left.kind, right.kind}
    if kinds & {"any", "nil"} or kinds <= NUMBERS or kinds <= LISTS:
        return True
    return make(left) == make(right)


def joined(then: Type, other: Type) -> Type:
    """The type of a conditional with these arms."""
    if then.kind == "nil":
        return other
    if other.kind == "nil":
        return then
    if not assignable(then, other):
        return UNKNOWN
    both_lists = then.kind == "list" and other.kind == "list"
    if both_lists and then.item != other.item:
        return LIST
    return then


def coalesced(left: Type, right: Type) -> Type:
    """The type of `left ?? right`."""
    if left.kind == "nil":
        return right
    if right.kind == "nil" or assignable(right, left):
        return left
    return UNKNOWN
