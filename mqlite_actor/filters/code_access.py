"""Steps of members, indexes and slices.

Called by generate.py; the owner is the value so far. A missing key of a map reads as nil, or as the
empty string for `properties`; a missing index is an error.
"""

from __future__ import annotations

from typing import Final

from mqlite_actor.filters.code import Work
from mqlite_actor.filters.environment import Record
from mqlite_actor.filters.faults import FilterFailed
from mqlite_actor.filters.list_functions import part
from mqlite_actor.filters.methods import METHODS
from mqlite_actor.filters.run import Run
from mqlite_actor.filters.values import (
    LISTS,
    AnyMap,
    Byte,
    Method,
    StringMap,
    Value,
    index_of,
    word,
)


def fetch(owner: Value, key: Value) -> Value:
    """`owner.key` and `owner[key]`. Raises FilterFailed."""
    kind = type(owner)
    if kind is dict or kind is StringMap:
        return _of_map(owner, key)
    if kind in LISTS or kind is bytes:
        return _of_list(owner, key)
    if kind is AnyMap:
        return owner.get(key)
    if kind is Record:
        value = owner.variable(key)
        if value is None:
            raise FilterFailed("missing", "$env has no such variable")
        return value
    if kind in METHODS:
        name = key.decode("utf-8", "replace") if type(key) is bytes else ""
        if name in METHODS[kind]:
            return Method(owner, name)
        raise FilterFailed("missing", f"{word(owner)} has no such member")
    shown = f" {key[:40].decode('utf-8', 'replace')!r}" if type(key) is bytes else ""
    raise FilterFailed("missing", f"{word(owner)} has no member{shown}")


def _of_map(owner: Value, key: Value) -> Value:
    if key is None:
        key = b""
    if type(key) is not bytes:
        raise FilterFailed("type", f"a key of this map is a string, not {word(key)}")
    return owner.get(key, b"" if type(owner) is StringMap else None)


def _of_list(owner: Value, key: Value) -> Value:
    position = index_of(key, "an index")
    try:
        item = owner[position]
    except IndexError:
        raise FilterFailed("missing", "index out of range") from None
    return Byte(item) if type(owner) is bytes else item


def named(key: bytes) -> Work:
    """A member whose name is known."""

    def step(_: Run, owner: Value) -> Value:
        if type(owner) is dict:
            return owner.get(key)
        return fetch(owner, key)

    return step


def indexed(_: Run, owner: Value, key: Value) -> Value:
    """A member or index that is computed."""
    return fetch(owner, key)


ABSENT: Final = object()
"""Stands for the bound that a slice does not have."""


def sliced(run: Run, owner: Value, low: Value, high: Value) -> Value:
    """`owner[low:high]`: bounds clamp, negative ones count from the end."""
    kind = type(owner)
    if kind is not bytes and kind not in LISTS:
        raise FilterFailed("type", f"{word(owner)} cannot be sliced")
    first = 0 if low is ABSENT else _bound(low, len(owner))
    end = len(owner) if high is ABSENT else _bound(high, len(owner))
    if kind is bytes:
        run.write(max(0, end - first))
        return owner[first:end] if first < end else b""
    run.spend(max(0, end - first) >> 3)
    return part(owner, first, max(first, end))


def _bound(value: Value, size: int) -> int:
    bound = index_of(value, "a bound of a slice")
    return min(max(bound + size, 0) if bound < 0 else bound, size)
