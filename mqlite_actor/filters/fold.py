"""Rewrites of what is constant (R1 and R2 of spec/filters.md 10).

Called by compile.py after the checker; changes the tree in place. They can be seen: what a literal
decides is never evaluated, and a string set takes only strings. Raises Refused for an integer
modulus by a literal zero, even in dead code.
"""

from __future__ import annotations

from typing import Final

from mqlite_actor.filters import kinds
from mqlite_actor.filters.faults import Refused
from mqlite_actor.filters.operators import ARITHMETIC, negated
from mqlite_actor.filters.tree import (
    Binary,
    Builtin,
    Choices,
    Constant,
    ListOf,
    Literal,
    Node,
    Predicate,
    Unary,
    rewritten,
)
from mqlite_actor.filters.values import Value

PASSES_MAX: Final = 1000
_NUMBERS: Final = (int, float)
_LISTABLE: Final = (int, float, bytes, bool)


def fold(root: Node) -> Node:
    """The tree with its constants folded."""
    root = rewritten(root, _as_choices)
    for _ in range(PASSES_MAX):
        folding = _Folding()
        root = rewritten(root, folding.visit)
        if not folding.has_changed:
            break
    return root


def typed(node: Node, of: kinds.Type | None) -> Node:
    """The node with a type; for nodes that rewrites make."""
    node.type = of
    return node


def _literals(node: Node, of: type) -> bool:
    """Whether all items of a list literal are literals of one type."""
    return isinstance(node, ListOf) and all(
        isinstance(item, Literal) and type(item.value) is of for item in node.items
    )


def _as_choices(node: Node) -> Node:
    """R2: `x in ["a", "b"]` looks up a set; so does `x in [1, 2]` for an x typed int."""
    if not isinstance(node, Binary) or node.op != "in" or not isinstance(node.right, ListOf):
        return node
    if not node.right.items:
        return node
    is_int = node.left.type is not None and node.left.type.kind == "int"
    for of in (int, bytes):
        if _literals(node.right, of) and (of is bytes or is_int):
            members = frozenset(
                item.value for item in node.right.items if isinstance(item, Literal)
            )
            node.right = typed(Choices(node.right.at, members, of), node.right.type)
            break
    return node


class _Folding:
    """One pass of R1."""

    __slots__ = ("has_changed",)

    def __init__(self) -> None:
        self.has_changed = False

    def visit(self, node: Node) -> Node:
        """The node, or what takes its place."""
        changed = _folded(node)
        if changed is None:
            return node
        self.has_changed = True
        return changed


def _literal(node: Node, value: Value) -> Node:
    of = {int: kinds.INT, float: kinds.FLOAT, bytes: kinds.STRING, bool: kinds.BOOL}
    return typed(Literal(node.at, value), of[type(value)])


def _folded(node: Node) -> Node | None:
    """What takes the place of a node, None if it stays."""
    if isinstance(node, Unary) and isinstance(node.operand, Literal):
        return _unary(node, node.operand.value)
    if isinstance(node, Binary):
        if node.op in ("and", "or"):
            return _decided(node)
        if isinstance(node.left, Literal) and isinstance(node.right, Literal):
            return _binary(node, node.left.value, node.right.value)
    if isinstance(node, ListOf) and node.items:
        values = [item.value for item in node.items if isinstance(item, Literal)]
        if len(values) == len(node.items) and all(type(each) in _LISTABLE for each in values):
            return typed(Constant(node.at, values), node.type)
    if isinstance(node, Builtin) and node.name == "filter":
        return _one_filter(node)
    return None


def _unary(node: Unary, value: Value) -> Node | None:
    if node.op == "not":
        return _literal(node, not value) if type(value) is bool else None
    if type(value) not in _NUMBERS:
        return None
    return _literal(node, negated(value) if node.op == "-" else value)


def _binary(node: Binary, left: Value, right: Value) -> Node | None:
    pair = (type(left), type(right))
    if node.op == "==":
        is_plain = pair[0] is pair[1] and pair[0] in (int, bytes, bool)
        return _literal(node, left == right) if is_plain else None
    if node.op == "%" and pair == (int, int) and right == 0:
        raise Refused(node.at, "integer modulus by zero")
    if set(pair) <= set(_NUMBERS) or (node.op == "+" and pair == (bytes, bytes)):
        work = ARITHMETIC.get(node.op, {}).get(pair)
        return _literal(node, work(left, right)) if work else None
    return None


def _decided(node: Binary) -> Node | None:
    """A bool literal on either side: it decides, or the other side is the result, uncast."""
    decides = node.op == "or"
    sides = [
        each.value if isinstance(each, Literal) and type(each.value) is bool else None
        for each in (node.left, node.right)
    ]
    if sides[0] is not None and sides[0] is not decides:
        return node.right
    if sides[1] is not None and sides[1] is not decides:
        return node.left
    return _literal(node, decides) if decides in sides else None


def _one_filter(node: Builtin) -> Node | None:
    """`filter(filter(x, p), q)` is one filter with `p and q`."""
    inner, outer = node.args[0], node.args[1]
    if not isinstance(inner, Builtin) or inner.name != "filter":
        return None
    first = inner.args[1]
    if not isinstance(first, Predicate) or not isinstance(outer, Predicate):
        return None
    both = typed(Binary(outer.at, "and", first.body, outer.body), kinds.BOOL)
    joined = typed(Predicate(outer.at, both), kinds.BOOL)
    return typed(Builtin(node.at, "filter", [inner.args[0], joined]), node.type)
