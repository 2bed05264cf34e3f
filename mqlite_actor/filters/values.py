"""What a filter computes with: the run-time values and how they are told apart.

int, float, bool, None and str-as-bytes are Python's own: a string of the language is `bytes`, for
it need not be valid UTF-8 and is cut and ordered by byte. Everything is told apart by exact type,
so that a duration is no int and true no number. Lists come in makes that only deep identity,
`join` and `toJSON` can see: `list`, the native `Strings`, a `range`, `Octets`, a pair (`tuple`),
and the two nil lists, which equal nil.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

from mqlite_actor.filters.faults import FilterFailed

Value: TypeAlias = Any
"""Any value of the language: what JSON can hold and more. This is the package's dynamic edge."""

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
_MODULUS: Final = 2**64


class Byte(int):
    """An item of a byte list, or of a string of unknown type. `uint` to type()."""

    __slots__ = ()


class Duration(int):
    """Nanoseconds, int64."""

    __slots__ = ()


class Weekday(int):
    """Sunday is 0."""

    __slots__ = ()


class Month(int):
    """January is 1."""

    __slots__ = ()


class Strings(list[bytes]):
    """A native list of strings."""

    __slots__ = ()


class Octets(list[Byte]):
    """A list of bytes."""

    __slots__ = ()


class NilList(list[Value]):
    """A list that was never made; empty, and equal to nil."""

    __slots__ = ()


class NilStrings(Strings):
    """The same, of strings."""

    __slots__ = ()


class StringMap(dict[bytes, bytes]):
    """A map of strings to strings: a missing key reads as the empty string."""

    __slots__ = ()


class AnyMap:
    """A map whose keys are kept apart by type. `missing` is what an absent key reads as."""

    __slots__ = ("entries", "missing")

    def __init__(self, missing: Value = None) -> None:
        self.entries: dict[Value, tuple[Value, Value]] = {}
        self.missing = missing

    def __len__(self) -> int:
        return len(self.entries)

    def put(self, key: Value, value: Value) -> None:
        """Set an entry. Raises FilterFailed for a key that cannot be one."""
        self.entries[identity(key)] = (key, value)

    def has(self, key: Value) -> bool:
        """Whether there is an entry."""
        return identity(key) in self.entries

    def get(self, key: Value) -> Value:
        """The value for a key, or what a missing one reads as."""
        found = self.entries.get(identity(key))
        return self.missing if found is None else found[1]


class Method:
    """A method taken from its owner and not yet called."""

    __slots__ = ("name", "owner")

    def __init__(self, owner: Value, name: str) -> None:
        self.owner = owner
        self.name = name


NIL_LIST: Final = NilList()
NIL_STRINGS: Final = NilStrings()

LISTS: Final = frozenset({list, Strings, range, Octets, tuple, NilList, NilStrings})
NILS: Final = frozenset({type(None), NilList, NilStrings})
MAPS: Final = frozenset({dict, StringMap, AnyMap})
INTEGERS: Final = frozenset({int, Byte})
NUMBERS: Final = frozenset({int, float, Byte})
_SCALARS: Final = frozenset({bytes, int, bool, Byte, Duration, Weekday, Month, type(None)})

WORDS: Final[dict[type, str]] = {
    type(None): "nil",
    bool: "bool",
    int: "int",
    Byte: "uint",
    float: "float",
    bytes: "string",
    **dict.fromkeys(LISTS, "array"),
    **dict.fromkeys(MAPS, "map"),
    Method: "func",
    Duration: "time.Duration",
    Weekday: "time.Weekday",
    Month: "time.Month",
}
"""What type() says; times and locations add themselves."""


def word(value: Value) -> str:
    """The kind of a value, as type() and error texts name it."""
    return WORDS.get(type(value), "env")


def wrapped(number: int) -> int:
    """An int as 64 bits hold it."""
    if INT_MIN <= number <= INT_MAX:
        return number
    return (number - INT_MIN) % _MODULUS + INT_MIN


def cut(number: float) -> int:
    """A float without its fraction; INT_MIN for what no int64 holds."""
    if -(2.0**63) <= number < 2.0**63:
        return int(number)
    return INT_MIN


def index_of(value: Value, what: str) -> int:
    """A number as an int, for bounds, indexes and counts. Raises FilterFailed for anything else."""
    kind = type(value)
    if kind is int or kind is Byte:
        return int(value)
    if kind is float:
        return cut(value)
    raise FilterFailed("type", f"{what} must be a number, is {word(value)}")


def identity(key: Value) -> Value:
    """What makes a map key the same key. Raises FilterFailed for lists and maps."""
    kind = type(key)
    if kind in _SCALARS:
        return kind, key
    if kind is float:
        return object() if math.isnan(key) else (kind, key)  # NaN is never found again
    if kind in LISTS or kind in MAPS or kind is Method or kind.__hash__ is None:
        raise FilterFailed("type", f"{word(key)} cannot be a map key")
    return key
