"""Steps of operators.

Called by generate.py; the left operand is the value so far, the right one an argument, or a tail
where it may not be needed. Static types matter in one place only: two sides typed int, or both
string, are compared as such, so that a nil there is an error (spec/filters.md 8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mqlite_actor.filters.code import Code, Tail, Work
from mqlite_actor.filters.environment import Record
from mqlite_actor.filters.equality import equal
from mqlite_actor.filters.faults import FilterFailed
from mqlite_actor.filters.instants import Instant
from mqlite_actor.filters.operators import ARITHMETIC, ORDER, add, mismatch, negated, spanned, weigh
from mqlite_actor.filters.patterns import Regex, dynamic, search
from mqlite_actor.filters.run import Run
from mqlite_actor.filters.tree import Binary, Choices
from mqlite_actor.filters.values import LISTS, MAPS, NILS, AnyMap, Octets, Value, word


def condition(value: Value, what: str) -> FilterFailed:
    """The error for a value that had to be true or false."""
    return FilterFailed("type", f"{what} must be true or false, is {word(value)}")


# -- unary -----------------------------------------------------------------------------------------


def _not(_: Run, value: Value) -> Value:
    if value is True:
        return False
    if value is False:
        return True
    raise condition(value, "the operand of `not`")


UNARY: Final[dict[str, Work]] = {
    "not": _not,
    "-": lambda run, value: negated(value),
    "+": lambda run, value: value,
}


# -- truth and coalescing --------------------------------------------------------------------------


def _logical(op: str, right: Code) -> Work:
    """The left value decides or the right one is the result, unchecked."""
    decisive = op == "or"
    tail = Tail(right)

    def step(_: Run, left: Value) -> Value:
        if left is decisive:
            return left
        if type(left) is bool:
            return tail
        raise condition(left, f"the left side of `{op}`")

    return step


def _coalesce(_: str, right: Code) -> Work:
    tail = Tail(right)
    return lambda run, left: tail if type(left) in NILS else left


def chosen_arm(then: Code, other: Code) -> Work:
    """`test ? then : other`."""
    tails = {True: Tail(then), False: Tail(other)}

    def step(_: Run, test: Value) -> Value:
        if test is True or test is False:
            return tails[test]
        raise condition(test, "a condition")

    return step


LAZY: Final[dict[str, Callable[[str, Code], Work]]] = {
    "and": _logical,
    "or": _logical,
    "??": _coalesce,
}
"""Operators whose right side is evaluated only if it is needed."""


# -- equality --------------------------------------------------------------------------------------


def _typed_alike(node: Binary) -> type | None:
    """int or bytes where both sides are typed so."""
    if node.left.type is None or node.right.type is None:
        return None
    pair = (node.left.type.kind, node.right.type.kind)
    return {("int", "int"): int, ("string", "string"): bytes}.get(pair)


def _equality(node: Binary) -> Work:
    op, wanted = node.op, node.op == "=="
    kind = _typed_alike(node)
    if kind is None:
        return lambda run, left, right: equal(run, left, right) is wanted

    def step(run: Run, left: Value, right: Value) -> Value:
        if type(left) is not kind or type(right) is not kind:
            raise mismatch(op, left, right)
        weigh(run, left, right)
        return (left == right) is wanted

    return step


def with_literal(node: Binary, literal: Value) -> Work | None:
    """A shorter step for a comparison with a literal; None where there is no such thing."""
    op, wanted = node.op, node.op == "=="
    if op not in ("==", "!="):
        return None
    if literal is None:
        return lambda run, left: (type(left) in NILS) is wanted
    if type(literal) is bytes:
        is_strict = _typed_alike(node) is not None

        def text(_: Run, left: Value) -> Value:
            if is_strict and type(left) is not bytes:
                raise mismatch(op, left, literal)
            return (left == literal) is wanted

        return text
    return None


# -- arithmetic and order --------------------------------------------------------------------------


def _arithmetic(op: str) -> Work:
    table = ARITHMETIC[op]

    def step(_: Run, left: Value, right: Value) -> Value:
        work = table.get((type(left), type(right)))
        if work is None:
            raise mismatch(op, left, right)
        return work(left, right)

    return step


def _order(op: str) -> Work:
    compare = ORDER[op]

    def step(run: Run, left: Value, right: Value) -> Value:
        weigh(run, left, right)
        return compare(left, right)

    return step


# -- strings ---------------------------------------------------------------------------------------

_TEXT: Final[dict[str, Callable[[bytes, bytes], bool]]] = {
    "contains": lambda text, part: part in text,
    "startsWith": lambda text, part: text.startswith(part),
    "endsWith": lambda text, part: text.endswith(part),
}


def _text(op: str) -> Work:
    """A nil on either side is false."""
    test = _TEXT[op]

    def step(run: Run, left: Value, part: Value) -> Value:
        if type(left) is bytes and type(part) is bytes:
            run.scan(len(left))
            return test(left, part)
        if left is None or part is None:
            return False
        raise mismatch(op, left, part)

    return step


def _subject(left: Value) -> bytes:
    if type(left) is bytes:
        return left
    if type(left) is Octets:
        return bytes(left)
    raise FilterFailed("type", f"`matches` looks into a string, not into {word(left)}")


def matches(regex: Regex) -> Work:
    """`matches` with a pattern compiled beforehand."""

    def step(run: Run, left: Value) -> Value:
        return False if left is None else search(run, regex, _subject(left))

    return step


def _matches(run: Run, left: Value, pattern: Value) -> Value:
    if left is None or pattern is None:
        return False
    if type(pattern) is not bytes:
        raise mismatch("matches", left, pattern)
    return search(run, dynamic(run, pattern), _subject(left))


# -- in --------------------------------------------------------------------------------------------


def chosen(choices: Choices) -> Work:
    """`x in [literals]`: nil is the zero value, another kind an error (R2)."""
    members, kind = choices.members, choices.of
    zero = kind()

    def step(_: Run, left: Value) -> Value:
        if type(left) is kind:
            return left in members
        if left is None:
            return zero in members
        raise FilterFailed("type", f"`in` looks for a {word(zero)} here, not for {word(left)}")

    return step


def contained(run: Run, left: Value, right: Value) -> bool:
    """`left in right`."""
    kind = type(right)
    if right is None:
        return False
    if kind is AnyMap:
        return bool(right.has(left))
    if kind in MAPS:
        key = b"" if left is None else left
        if type(key) is not bytes:
            raise mismatch("in", left, right)
        return key in right
    if kind in LISTS:
        return _listed(run, left, right)
    if kind is Record or kind is Instant:
        if type(left) is bytes:
            return False
        raise mismatch("in", left, right)
    raise mismatch("in", left, right)


def _listed(run: Run, left: Value, right: Value) -> bool:
    if type(right) is range and type(left) in (int, float):
        return left in right
    for item in right:
        run.spend(1)
        if equal(run, left, item):
            return True
    return False


def binary(node: Binary) -> Work:
    """The step of a binary operator that needs both sides."""
    if node.op in ("==", "!="):
        return _equality(node)
    return _WORK[node.op]


_WORK: Final[dict[str, Work]] = {
    **{op: _arithmetic(op) for op in ARITHMETIC},
    **{op: _order(op) for op in ORDER},
    **{op: _text(op) for op in _TEXT},
    "+": add,
    "in": contained,
    "matches": _matches,
    "..": spanned,
}
