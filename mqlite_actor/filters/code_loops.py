"""Loops: what runs for `any`, `filter`, `reduce` and the others.

Called by generate.py, which lays the predicate's pointers into cells; a `Loop` knows the cells, the
code, and what an item costs. The list is the value so far. Every item pays its predicate's size in
steps, so no nesting of loops outlives the budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mqlite_actor.filters.code import Code, Work
from mqlite_actor.filters.code_operators import condition
from mqlite_actor.filters.faults import FilterFailed
from mqlite_actor.filters.list_functions import direction, ordering
from mqlite_actor.filters.operators import add
from mqlite_actor.filters.run import Run
from mqlite_actor.filters.values import LISTS, NIL_LIST, AnyMap, Byte, StringMap, Value, word

ITEMLESS: Final = object()
"""What stands for the item of a map: a predicate may ignore it but not look at it."""


class Loop:
    """One loop of a filter. Codes are None where the call has none of the kind."""

    __slots__ = (
        "acc", "cell", "cost", "enough", "index", "mapping", "name", "predicate", "strict",
    )  # fmt: skip

    def __init__(self, name: str, *, cell: int, index: int, acc: int) -> None:
        self.name = name
        self.cell = cell
        self.index = index
        self.acc = acc
        self.cost = 1
        self.predicate: Code | None = None
        self.mapping: Code | None = None
        self.strict = False
        self.enough = 0


def iterated(value: Value, *, backward: bool = False) -> Iterator[Value]:
    """The items that a loop sees. Raises FilterFailed for what is no list."""
    kind = type(value)
    if kind in LISTS:
        return reversed(value) if backward else iter(value)
    if kind is bytes:
        return map(Byte, reversed(value) if backward else value)
    if kind in (dict, StringMap, AnyMap):
        return iter([ITEMLESS] * len(value))
    raise FilterFailed("type", f"a loop takes a list, not {word(value)}")


def taken(item: Value) -> Value:
    """An item that becomes part of a result."""
    if item is ITEMLESS:
        raise FilterFailed("type", "a map has no items for a loop")
    return item


def _pay(run: Run, cost: int) -> None:
    """Pay for one item. Written out in the loops would be faster, and nobody would read them."""
    run.steps -= cost
    if run.steps < 0:
        run.spend(0)


def _unclear(loop: Loop, verdict: Value) -> FilterFailed:
    return condition(verdict, f"the predicate of {loop.name}")


def _until(*, stop: bool, result: bool) -> Work:
    """any, all and none: the first item that decides, or the opposite.

    Each loop calls its predicate itself: a helper between them would be a frame more for each
    level of nested loops.
    """

    def work(loop: Loop, run: Run, value: Value) -> bool:
        cells, predicate = run.cells, _body(loop)
        for position, item in enumerate(iterated(value)):
            _pay(run, loop.cost)
            cells[loop.index], cells[loop.cell] = position, item
            verdict = predicate(run)
            if verdict is stop:
                return result
            if type(verdict) is not bool:
                raise _unclear(loop, verdict)
        return not result

    return work


def _one(loop: Loop, run: Run, value: Value) -> bool:
    return _count(loop, run, value) == 1


def _filter(loop: Loop, run: Run, value: Value) -> Value:
    cells, predicate, mapping = run.cells, _body(loop), loop.mapping
    kept: list[Value] = []
    for position, item in enumerate(iterated(value)):
        _pay(run, loop.cost)
        cells[loop.index], cells[loop.cell] = position, item
        verdict = predicate(run)
        if verdict is True:
            kept.append(taken(item) if mapping is None else mapping(run))
        elif verdict is not False:
            raise _unclear(loop, verdict)
    run.make(len(kept))
    return kept


def _map(loop: Loop, run: Run, value: Value) -> Value:
    cells, predicate = run.cells, _body(loop)
    made: list[Value] = []
    for position, item in enumerate(iterated(value)):
        _pay(run, loop.cost)
        cells[loop.index], cells[loop.cell] = position, item
        made.append(predicate(run))
    run.make(len(made))
    return made


def _count(loop: Loop, run: Run, value: Value) -> int:
    cells, predicate = run.cells, loop.predicate
    count = 0
    for position, item in enumerate(iterated(value)):
        _pay(run, loop.cost)
        cells[loop.index], cells[loop.cell] = position, item
        verdict = taken(item) if predicate is None else predicate(run)
        if verdict is True:
            count += 1
            if count == loop.enough:
                break
        elif verdict is not False:
            raise _unclear(loop, verdict)
    return count


def _sum(loop: Loop, run: Run, value: Value) -> Value:
    cells, predicate = run.cells, loop.predicate
    total: Value = 0
    for position, item in enumerate(iterated(value)):
        _pay(run, loop.cost)
        cells[loop.index], cells[loop.cell] = position, item
        total = add(run, taken(item) if predicate is None else predicate(run), total)
    return total


def _hit(loop: Loop, run: Run, value: Value, *, backward: bool) -> int:
    """How many items stand before the first hit, -1 for none. The hit is left in its cell."""
    cells, predicate = run.cells, _body(loop)
    for position, item in enumerate(iterated(value, backward=backward)):
        _pay(run, loop.cost)
        cells[loop.index], cells[loop.cell] = position, item
        verdict = predicate(run)
        if verdict is True:
            return position
        if verdict is not False:
            raise _unclear(loop, verdict)
    return -1


def _find(*, backward: bool) -> Work:
    def work(loop: Loop, run: Run, value: Value) -> Value:
        if _hit(loop, run, value, backward=backward) >= 0:
            found = run.cells[loop.cell]
            return taken(found) if loop.mapping is None else loop.mapping(run)
        if loop.strict:
            raise FilterFailed("missing", "index out of range: the filter kept nothing")
        return None

    return work


def _find_index(*, backward: bool) -> Work:
    def work(loop: Loop, run: Run, value: Value) -> Value:
        position = _hit(loop, run, value, backward=backward)
        if position < 0:
            return None
        return len(value) - 1 - position if backward else position

    return work


def _group_by(loop: Loop, run: Run, value: Value) -> AnyMap:
    cells, predicate = run.cells, _body(loop)
    groups = AnyMap(NIL_LIST)
    for position, item in enumerate(iterated(value)):
        _pay(run, loop.cost)
        cells[loop.index], cells[loop.cell] = position, item
        key = predicate(run)
        group = groups.get(key)
        if group is NIL_LIST:
            group = []
            groups.put(key, group)
        group.append(taken(item))
    return groups


def _sort_by(loop: Loop, run: Run, value: Value, order: Value = b"asc") -> Value:
    cells, predicate = run.cells, _body(loop)
    items: list[Value] = []
    keys: list[Value] = []
    for position, item in enumerate(iterated(value)):
        _pay(run, loop.cost)
        cells[loop.index], cells[loop.cell] = position, item
        items.append(taken(item))
        keys.append(predicate(run))
    is_down = direction(order)
    run.make(len(items))
    return [items[at] for at in ordering(run, keys, is_down=is_down)]


def _reduce(loop: Loop, run: Run, value: Value, total: Value = ITEMLESS) -> Value:
    cells, predicate = run.cells, _body(loop)
    for position, item in enumerate(iterated(value)):
        _pay(run, loop.cost)
        cells[loop.index], cells[loop.cell] = position, item
        if total is ITEMLESS:
            total = taken(item)
            continue
        cells[loop.acc] = total
        total = predicate(run)
    if total is ITEMLESS:
        raise FilterFailed("missing", "reduce of nothing needs an initial value")
    return total


def _body(loop: Loop) -> Code:
    assert loop.predicate is not None, f"{loop.name} always has a predicate"
    return loop.predicate


WORK: Final[dict[str, Work]] = {
    "any": _until(stop=True, result=True),
    "all": _until(stop=False, result=False),
    "none": _until(stop=True, result=False),
    "one": _one,
    "filter": _filter,
    "map": _map,
    "count": _count,
    "sum": _sum,
    "find": _find(backward=False),
    "findLast": _find(backward=True),
    "findIndex": _find_index(backward=False),
    "findLastIndex": _find_index(backward=True),
    "groupBy": _group_by,
    "sortBy": _sort_by,
    "reduce": _reduce,
}
"""Loop → what it does, given the loop, the run, the list, and a third argument if there is one."""
