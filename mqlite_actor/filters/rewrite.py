"""Rewrites of loops (R3 to R9 of spec/filters.md 10), each once over the tree, in this order.

Called by compile.py after fold.py. Each can be seen: in what is not evaluated, where a loop stops,
or which memory it does not use. What a mapping of R4 holds is out of sight of all later ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mqlite_actor.filters import kinds
from mqlite_actor.filters.fold import typed
from mqlite_actor.filters.signatures import LOOPS
from mqlite_actor.filters.tree import (
    Added,
    Binary,
    Builtin,
    ListOf,
    Literal,
    Member,
    Node,
    Pointer,
    Predicate,
    children,
    rewritten,
    same,
    walk,
)
from mqlite_actor.filters.values import wrapped


def rewrite(root: Node) -> Node:
    """The tree as it is evaluated."""
    if any(map(_may_change, walk(root))):
        for visit in _PASSES:
            root = rewritten(root, visit)
    return root


def _may_change(node: Node) -> bool:
    """Every rewrite has to do with a loop or a range; most filters have neither."""
    if isinstance(node, Builtin):
        return node.name in LOOPS
    return isinstance(node, Binary) and node.op == ".."


def _int(node: Node) -> int | None:
    """The value of an int literal."""
    is_int = isinstance(node, Literal) and type(node.value) is int
    return node.value if is_int and isinstance(node, Literal) else None


def _bounds(node: Node) -> tuple[int, int] | None:
    """The ends of a range of two int literals."""
    if not isinstance(node, Binary) or node.op != "..":
        return None
    low, high = _int(node.left), _int(node.right)
    return None if low is None or high is None else (low, high)


def _loop(node: Node, name: str, arguments: int) -> Builtin | None:
    """The node, if it is this builtin with so many arguments."""
    if isinstance(node, Builtin) and node.name == name and len(node.args) == arguments:
        return node
    return None


def _in_range(node: Node) -> Node:
    """R3: `x in a..b` for an x typed int is two comparisons."""
    if not isinstance(node, Binary) or node.op != "in" or _bounds(node.right) is None:
        return node
    if node.left.type is None or node.left.type.kind != "int":
        return node
    assert isinstance(node.right, Binary), "bounds were found"
    above = typed(Binary(node.at, ">=", node.left, node.right.left), kinds.BOOL)
    below = typed(Binary(node.at, "<=", node.left, node.right.right), kinds.BOOL)
    return typed(Binary(node.at, "and", above, below), kinds.BOOL)


def _names_index(root: Node) -> bool:
    """Whether `#index` of this very loop occurs."""
    pending = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, Pointer) and node.name == "index":
            return True
        inner = isinstance(node, Builtin) and node.name in LOOPS
        pending.extend(
            each for each in children(node) if not (inner and isinstance(each, Predicate))
        )
    return False


def _filter_map(node: Node) -> Node:
    """R4: `map(filter(x, p), f)` is one loop that maps what passes."""
    mapped = _loop(node, "map", 2)
    if mapped is None:
        return node
    filtered, body = _loop(mapped.args[0], "filter", 2), mapped.args[1]
    if filtered is None or filtered.mapping is not None or not isinstance(body, Predicate):
        return node
    if _names_index(body):
        return node
    made = Builtin(node.at, "filter", filtered.args)
    made.mapping = body.body
    return typed(made, node.type)


def _filter_len(node: Node) -> Node:
    """R4: `len(filter(x, p))` counts; a mapping is dropped."""
    measured = _loop(node, "len", 1)
    filtered = _loop(measured.args[0], "filter", 2) if measured else None
    if filtered is None:
        return node
    return typed(Builtin(node.at, "count", filtered.args), node.type)


def _found(node: Node, filtered: Builtin, name: str, *, strict: bool) -> Node:
    made = Builtin(node.at, name, filtered.args)
    made.mapping = filtered.mapping
    made.strict = strict
    return typed(made, node.type)


def _filter_end(function: str, index: int, name: str) -> Callable[[Node], Node]:
    """R4: the first or last of a filter stops at the hit."""

    def visit(node: Node) -> Node:
        if isinstance(node, Member) and not node.maybe and _int(node.key) == index:
            filtered = _loop(node.owner, "filter", 2)
            if filtered is not None:
                return _found(node, filtered, name, strict=True)
        taken = _loop(node, function, 1)
        filtered = _loop(taken.args[0], "filter", 2) if taken else None
        return node if filtered is None else _found(node, filtered, name, strict=False)

    return visit


_COMBINED: Final = {("any", "or"): "or", ("all", "and"): "and", ("none", "and"): "or"}


def _combined(node: Node) -> Node:
    """R5: two loops of one kind over the same list are one loop."""
    while isinstance(node, Binary):
        left, right = node.left, node.right
        if not isinstance(left, Builtin) or not isinstance(right, Builtin):
            return node
        op = _COMBINED.get((left.name, node.op))
        if op is None or left.name != right.name or not same(left.args[0], right.args[0]):
            return node
        one, other = left.args[1], right.args[1]
        assert isinstance(one, Predicate) and isinstance(other, Predicate), "loops have predicates"
        body = _combined(typed(Binary(node.at, op, one.body, other.body), kinds.BOOL))
        predicate = typed(Predicate(one.at, body), kinds.BOOL)
        return typed(Builtin(left.at, left.name, [left.args[0], predicate]), node.type)
    return node


def _summed(low: int, high: int) -> tuple[int, int]:
    """How many ints a range has, and their sum."""
    count = max(0, high - low + 1)
    return count, (low + high) * count // 2


def _sum_range(node: Node) -> Node:
    """R6: sums over literal ranges are a formula."""
    total: int | None = None
    if isinstance(node, Builtin) and node.args:
        bounds = _bounds(node.args[0])
        if bounds is not None and node.name == "sum":
            total = _formula(node, *_summed(*bounds))
        elif bounds is not None and node.name == "reduce" and bounds[0] <= bounds[1]:
            start = _int(node.args[2]) if len(node.args) > 2 else 0
            if start is not None and _adds_up(node.args[1]):
                total = _summed(*bounds)[1] + start
    return node if total is None else typed(Literal(node.at, wrapped(total)), node.type)


def _is_pointer(node: Node, name: str) -> bool:
    return isinstance(node, Pointer) and node.name == name


def _adds_up(predicate: Node) -> bool:
    """`# + #acc`."""
    body = predicate.body if isinstance(predicate, Predicate) else predicate
    return (
        isinstance(body, Binary)
        and body.op == "+"
        and _is_pointer(body.left, "")
        and _is_pointer(body.right, "acc")
    )


def _formula(node: Builtin, count: int, total: int) -> int | None:
    if len(node.args) == 1:
        return total
    predicate = node.args[1]
    body = predicate.body if isinstance(predicate, Predicate) else predicate
    if not isinstance(body, Binary):
        return None
    if _is_pointer(body.left, "") and (k := _int(body.right)) is not None:
        return {"*": total * k, "+": total + count * k, "-": total - count * k}.get(body.op)
    if _is_pointer(body.right, "") and body.op == "-" and (k := _int(body.left)) is not None:
        return count * k - total
    return None


def _sum_list(node: Node) -> Node:
    """R7: the sum of a list literal of two items or more is written out."""
    summed = _loop(node, "sum", 1)
    if summed is None or not isinstance(summed.args[0], ListOf) or len(summed.args[0].items) < 2:
        return node
    return typed(Added(node.at, summed.args[0].items), node.type)


def _sum_map(node: Node) -> Node:
    """R8: `sum(map(x, f))` sums f."""
    summed = _loop(node, "sum", 1)
    mapped = _loop(summed.args[0], "map", 2) if summed else None
    return node if mapped is None else typed(Builtin(node.at, "sum", mapped.args), node.type)


def _count_any(node: Node) -> Node:
    """R9: more than no hit is any hit."""
    if isinstance(node, Binary) and (node.op, _int(node.right)) in ((">", 0), (">=", 1)):
        counted = _loop(node.left, "count", 2)
        if counted is not None:
            return typed(Builtin(counted.at, "any", counted.args), kinds.BOOL)
    return node


def _count_enough(node: Node) -> Node:
    """R9: a count that is compared with a literal stops once the answer is known."""
    if isinstance(node, Binary) and node.op in (">", ">=", "<", "<="):
        counted, bound = _loop(node.left, "count", 2), _int(node.right)
        if counted is not None and bound is not None:
            counted.enough = bound + (1 if node.op in (">", "<=") else 0)
    return node


_PASSES: Final[tuple[Callable[[Node], Node], ...]] = (
    _in_range,
    _filter_map,
    _filter_len,
    _filter_end("last", -1, "findLast"),
    _filter_end("first", 0, "find"),
    _combined,
    _sum_range,
    _sum_list,
    _sum_map,
    _count_any,
    _count_enough,
)
