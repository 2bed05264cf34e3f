"""Small wrongs that a program can be given, one at a time: the operators of mutation.

`sites` finds every place of a module's text where one fits; `mutated` gives the module's tree with
one of them done, each line where it was. Only what stands in a function is spoiled, so that a wrong
can be put into a program that is loaded. What no test could see is left alone: docstrings,
annotations, asserts, what is logged, and the words that Python only lets us say for readers.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
SUMS: Final[dict[type[ast.operator], type[ast.operator]]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}

UNSEEN: Final = (ast.Assert, ast.arguments, ast.Import, ast.ImportFrom, ast.JoinedStr)
ASSERTING: Final = ("_log.", "check_step", "lifecycle.check_step")
"""Calls that change nothing in a program without mistakes."""

SIGNATURE: Final = ("annotation", "returns", "decorator_list")


@dataclass(frozen=True)
class Site:
    """One place: in which function, the lines of its statement, what is done, and how."""

    function: str
    lines: range
    what: str
    do: Callable[[], None]
    twin: int = 1

    @property
    def name(self) -> str:
        """Without the line, which moves; one of a module each."""
        twin = f" #{self.twin}" if self.twin > 1 else ""
        return f"{self.function}: {self.what}{twin}"


def sites(tree: ast.Module) -> list[Site]:
    """Every place, in the order of the text."""
    seen: Counter[str] = Counter()
    found = []
    for site in _below(tree, "", range(0)):
        seen[site.name] += 1
        found.append(replace(site, twin=seen[site.name]))
    return found


def mutated(text: str, number: int) -> ast.Module:
    """The module with the wrong of this place."""
    tree = ast.parse(text)
    sites(tree)[number].do()
    return ast.fix_missing_locations(tree)


def _below(parent: ast.AST, function: str, lines: range) -> Iterator[Site]:
    if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
        function = parent.name
    for field, value in ast.iter_fields(parent):
        if field in SIGNATURE or (isinstance(parent, ast.ClassDef) and field != "body"):
            continue
        children = value if isinstance(value, list) else [value]
        for place, child in enumerate(children):
            if not isinstance(child, ast.AST) or isinstance(child, UNSEEN) or _is_idle(child):
                continue
            if isinstance(child, ast.stmt):
                lines = _lines(child)
                if function:
                    yield from _dropped(children, place, child, function)
            if function:
                yield from _changed(child, function, lines)
            yield from _below(child, function, lines)


def _lines(statement: ast.stmt) -> range:
    """Those of a statement itself, without the body that it may have."""
    body: list[ast.stmt] = getattr(statement, "body", [])
    end = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
    return range(statement.lineno, max(end, statement.lineno) + 1)


def _is_idle(node: ast.AST) -> bool:
    """What is only logged or asserted, and `strict=True`: lengths that are equal anyway."""
    if isinstance(node, ast.keyword):
        return node.arg == "strict"
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).startswith(ASSERTING)
    )


def _dropped(body: list[ast.stmt], place: int, child: ast.stmt, function: str) -> Iterator[Site]:
    """A statement that only has an effect, left out."""
    is_effect = isinstance(child, ast.AugAssign | ast.Delete) or (
        isinstance(child, ast.Expr) and not isinstance(child.value, ast.Constant | ast.Yield)
    )
    if isinstance(child, ast.Assign):
        is_effect = all(isinstance(each, ast.Attribute | ast.Subscript) for each in child.targets)
    if is_effect:

        def do() -> None:
            body[place] = ast.copy_location(_nothing(child), child)

        yield Site(function, _lines(child), f"drop `{ast.unparse(child)[:70]}`", do)


def _nothing(dropped: ast.stmt) -> ast.stmt:
    """What stands in its place. A method that does not name `super` any more has no cell for its
    class, and its code would fit no function that lives."""
    if any(isinstance(each, ast.Name) and each.id == "super" for each in ast.walk(dropped)):
        return ast.Expr(ast.Name("super", ast.Load()))
    return ast.Pass()


def _changed(node: ast.AST, function: str, lines: range) -> Iterator[Site]:
    """Another meaning for one expression."""

    def put(owner: ast.AST, field: str, value: object, what: str) -> Site:
        return Site(function, lines, what, lambda: setattr(owner, field, value))

    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            other = COMPARISONS.get(type(operator))
            if other is not None:
                ops = [*node.ops[:place], other(), *node.ops[place + 1 :]]
                what = f"{type(operator).__name__} → {other.__name__}"
                yield put(node, "ops", ops, f"{what} in `{_short(node)}`")
    elif isinstance(node, ast.BoolOp):
        other_op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield put(node, "op", other_op, f"{type(other_op).__name__} in `{_short(node)}`")
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        twice = ast.copy_location(ast.UnaryOp(op=ast.Not(), operand=node.operand), node)
        yield put(node, "operand", twice, f"`{_short(node)}` without not")
    elif isinstance(node, ast.BinOp) and type(node.op) in SUMS:
        swapped = SUMS[type(node.op)]
        yield put(node, "op", swapped(), f"{swapped.__name__} in `{_short(node)}`")
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield put(node, "value", not node.value, f"{not node.value} in `{_short(node)}`")
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield put(node, "value", node.value + 1, f"{node.value + 1} in `{_short(node)}`")


def _short(node: ast.AST) -> str:
    return ast.unparse(node)[:60]
