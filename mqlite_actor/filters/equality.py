"""`==`, and the deep identity that maps are compared by.

Called by the code of `==`, `!=`, `in` and uniq. Numbers compare by value, lists item by item with
the same rules; maps, and all that is inside them, are the same only if made of the same types.
Works on a stack of its own, for a body may nest ten thousand levels, and pays a step for each
pair.
"""

from __future__ import annotations

from typing import Final

from mqlite_actor.filters.instants import Instant, Location
from mqlite_actor.filters.run import Run
from mqlite_actor.filters.values import (
    LISTS,
    MAPS,
    NILS,
    NUMBERS,
    AnyMap,
    Method,
    Value,
)

_PAIR_STEPS: Final = 2

Pending = list[tuple[Value, Value, bool]]


def equal(run: Run, left: Value, right: Value) -> bool:
    """`left == right`. Raises FilterFailed only when the budget ends."""
    pending: Pending = []
    if not _level(run, left, right, pending):
        return False
    while pending:
        one, other, is_deep = pending.pop()
        if not (_identical if is_deep else _level)(run, one, other, pending):
            return False
    return True


def _level(run: Run, left: Value, right: Value, pending: Pending) -> bool:
    """One step of `==`: what is still to compare goes to `pending`."""
    one, other = type(left), type(right)
    if one in NUMBERS and other in NUMBERS:
        if one is float or other is float:
            return float(left) == float(right)
        return int(left) == int(right)
    if left is None or right is None:
        return one in NILS and other in NILS
    if one in LISTS and other in LISTS and not one is other is tuple:
        if tuple in (one, other) or len(left) != len(right):
            return False
        run.spend(_PAIR_STEPS * len(left))
        pending.extend((a, b, False) for a, b in zip(left, right, strict=True))
        return True
    return _identical(run, left, right, pending)


def _identical(run: Run, left: Value, right: Value, pending: Pending) -> bool:
    """One step of deep identity."""
    kind = type(left)
    if kind is not type(right):
        return False
    if kind is Instant:
        return bool(left.ns == right.ns)
    if kind is Location:
        return bool(left.name == right.name)
    if kind is Method:
        return False
    if kind in LISTS:
        if len(left) != len(right):
            return False
        run.spend(_PAIR_STEPS * len(left))
        pending.extend((a, b, True) for a, b in zip(left, right, strict=True))
        return True
    if kind in MAPS:
        return _identical_maps(run, left, right, pending)
    if kind is bytes:
        run.scan(len(left))
    return bool(left == right)


def _identical_maps(run: Run, left: Value, right: Value, pending: Pending) -> bool:
    run.spend(_PAIR_STEPS * len(left))
    if type(left) is AnyMap:
        left = {key: entry[1] for key, entry in left.entries.items()}
        right = {key: entry[1] for key, entry in right.entries.items()}
    if left.keys() != right.keys():
        return False
    pending.extend((value, right[key], True) for key, value in left.items())
    return True
