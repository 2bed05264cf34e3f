"""Functions of lists and maps that are no loops.

Called through functions.py with any values; what is no list or map is a type error, whatever the
checker knew. New lists pay for their elements, and every function for what it looks at.
"""

from __future__ import annotations

from functools import cmp_to_key
from typing import Final

from mqlite_actor.filters.environment import Record
from mqlite_actor.filters.equality import equal
from mqlite_actor.filters.faults import FilterFailed
from mqlite_actor.filters.operators import is_less
from mqlite_actor.filters.run import Run
from mqlite_actor.filters.utf8 import length
from mqlite_actor.filters.values import (
    INTEGERS,
    LISTS,
    MAPS,
    NIL_LIST,
    AnyMap,
    Byte,
    Octets,
    Strings,
    Value,
    index_of,
    word,
)

_SORTABLE: Final = frozenset({bytes, int})
_SORT_STEPS: Final = 4
"""What sorting costs for each item; times log n where our own order compares."""


def _listed(name: str, value: Value) -> Value:
    if type(value) not in LISTS:
        raise FilterFailed("type", f"{name} takes a list, not {word(value)}")
    return value


def _mapped(name: str, value: Value) -> Value:
    if type(value) not in MAPS:
        raise FilterFailed("type", f"{name} takes a map, not {word(value)}")
    return value


def len_of(run: Run, value: Value) -> int:
    """len(x): code points of a string."""
    if type(value) is bytes:
        run.scan(len(value))
        return length(value)
    if type(value) in LISTS or type(value) in MAPS:
        return len(value)
    raise FilterFailed("type", f"len does not take {word(value)}")


def first(value: Value) -> Value:
    """nil where there is none, or nothing to index."""
    return _end(value, 0)


def last(value: Value) -> Value:
    """nil where there is none, or nothing to index."""
    return _end(value, -1)


def _end(value: Value, position: int) -> Value:
    if type(value) in LISTS:
        return value[position] if value else None
    if type(value) is bytes and value:
        return Byte(value[position])
    return None


def get(value: Value, key: Value) -> Value:
    """An item or member, nil where index or key is missing."""
    kind = type(value)
    if kind in LISTS or kind is bytes:
        position = index_of(key, "an index")
        if not -len(value) <= position < len(value):
            return None
        return Byte(value[position]) if kind is bytes else value[position]
    if kind is AnyMap:
        return value.get(key)
    if kind in MAPS:
        if key is None:
            key = b""
        if type(key) is not bytes:
            raise FilterFailed("type", f"get: a key is a string, not {word(key)}")
        return dict.get(value, key)
    return value.variable(key) if kind is Record else None


def take(run: Run, value: Value, count: Value) -> Value:
    """The first items. A float is no count here."""
    items = _listed("take", value)
    if type(count) not in INTEGERS:
        raise FilterFailed("type", f"take: a count is an int, not {word(count)}")
    if count < 0:
        raise FilterFailed("value", "take: the count is negative")
    run.spend(min(int(count), len(items)) >> 3)
    return part(items, 0, int(count))


def part(items: Value, low: int, high: int) -> Value:
    """A slice of the same make."""
    kept = items[low:high]
    kind = type(items)
    if kind is Octets:
        return Octets(kept)
    return Strings(kept) if isinstance(items, Strings) else kept if kind is range else list(kept)


def keys(run: Run, value: Value) -> list[Value]:
    """The keys of a map."""
    run.spend(len(_mapped("keys", value)))
    if type(value) is AnyMap:
        return [key for key, _ in value.entries.values()]
    return list(value)


def values(run: Run, value: Value) -> list[Value]:
    """The values of a map."""
    run.spend(len(_mapped("values", value)))
    if type(value) is AnyMap:
        return [held for _, held in value.entries.values()]
    return list(value.values())


def to_pairs(run: Run, value: Value) -> list[Value]:
    """Keys and values as pairs, which never equal a list."""
    return list(zip(keys(run, value), values(run, value), strict=True))


def from_pairs(run: Run, value: Value) -> AnyMap:
    """A map of two-item lists; the last of equal keys wins."""
    items = _listed("fromPairs", value)
    run.spend(2 * len(items))
    made = AnyMap()
    for item in items:
        if type(item) not in LISTS or len(item) != 2:
            raise FilterFailed("type", "fromPairs takes a list of lists of two items")
        made.put(item[0], item[1])
    return made


def reverse(run: Run, value: Value) -> list[Value]:
    """The items from the end."""
    items = _listed("reverse", value)
    run.make(len(items))
    return list(reversed(items))


def concat(run: Run, *lists: Value) -> list[Value]:
    """All items of all lists; nil when there are none."""
    run.make(sum(len(_listed("concat", each)) for each in lists))
    return [item for each in lists for item in each] or NIL_LIST


def flatten(run: Run, value: Value) -> list[Value]:
    """All items at any depth that are no lists."""
    pending = [iter(_listed("flatten", value))]
    found: list[Value] = []
    while pending:
        for item in pending[-1]:
            run.spend(1)
            if type(item) in LISTS:
                pending.append(iter(item))
                break
            run.make(1)
            found.append(item)
        else:
            pending.pop()
    return found


def uniq(run: Run, value: Value) -> list[Value]:
    """Items that equal no earlier one."""
    items = _listed("uniq", value)
    run.spend(len(items))
    if all(type(item) is bytes for item in items):
        return list(dict.fromkeys(items))
    found: list[Value] = []
    for item in items:
        for earlier in found:
            run.spend(2)
            if equal(run, earlier, item):
                break
        else:
            found.append(item)
    return found


def direction(order: Value) -> bool:
    """Whether a sort goes down. Raises FilterFailed for anything but "asc" and "desc"."""
    if order not in (b"asc", b"desc"):
        raise FilterFailed("value", 'an order is "asc" or "desc"')
    return bool(order == b"desc")


def _compared(left: Value, right: Value) -> int:
    if is_less(left, right):
        return -1
    return 1 if is_less(right, left) else 0


def ordering(run: Run, sort_keys: list[Value], *, is_down: bool) -> list[int]:
    """Positions in the order of their keys, equal ones as they were."""
    run.spend(_SORT_STEPS * len(sort_keys))
    kinds = {type(key) for key in sort_keys}
    positions = range(len(sort_keys))
    if bytes in kinds:
        run.scan(sum(len(key) for key in sort_keys if type(key) is bytes))
    if len(kinds) == 1 and kinds <= _SORTABLE:
        return sorted(positions, key=sort_keys.__getitem__, reverse=is_down)
    run.spend(_SORT_STEPS * len(sort_keys) * len(sort_keys).bit_length())
    by_rule = cmp_to_key(_compared)
    return sorted(positions, key=lambda at: by_rule(sort_keys[at]), reverse=is_down)


def sort(run: Run, value: Value, order: Value = b"asc") -> list[Value]:
    """Sorted items. What is no list sorts to a nil list."""
    is_down = direction(order)
    if type(value) not in LISTS or type(value) is Octets:
        return NIL_LIST
    run.make(len(value))
    items = list(value)
    return [items[at] for at in ordering(run, items, is_down=is_down)]
