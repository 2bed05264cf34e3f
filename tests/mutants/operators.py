"""Small wrongs that a program can be given, one at a time: the operators of mutation.

`sites` finds every place of a module's text where one fits; `mutated` gives the module's text with
one of them done. Comments get lost, positions do not matter: a mutant lives for one run of tests.
What no test could see is left alone: docstrings, annotations, asserts, and what is logged.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
SUMS: Final[dict[type[ast.operator], type[ast.operator]]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}

UNSEEN: Final = (ast.Assert, ast.arg, ast.AnnAssign, ast.Import, ast.ImportFrom, ast.JoinedStr)


@dataclass(frozen=True)
class Site:
    """One place: in which function, what is done, and how."""

    function: str
    line: int
    what: str
    do: Callable[[], None]

    @property
    def name(self) -> str:
        """Without the line, which moves."""
        return f"{self.function}: {self.what}"


def sites(tree: ast.Module) -> list[Site]:
    """Every place, in the order of the text."""
    return [*_below(tree, "module")]


def mutated(text: str, number: int) -> str:
    """The module with the wrong of this place."""
    tree = ast.parse(text)
    sites(tree)[number].do()
    return ast.unparse(ast.fix_missing_locations(tree))


def _below(parent: ast.AST, function: str) -> Iterator[Site]:
    if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
        function = parent.name
    for field, value in ast.iter_fields(parent):
        if field in ("annotation", "returns", "decorator_list", "bases", "keywords_of_class"):
            continue
        children = value if isinstance(value, list) else [value]
        for place, child in enumerate(children):
            if not isinstance(child, ast.AST) or isinstance(child, UNSEEN) or _is_log(child):
                continue
            if isinstance(value, list) and isinstance(child, ast.stmt):
                yield from _dropped(value, place, child, function)
            yield from _changed(child, function)
            yield from _below(child, function)


def _is_log(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).startswith("_log.")
    )


def _dropped(body: list[ast.stmt], place: int, child: ast.stmt, function: str) -> Iterator[Site]:
    """A statement that only has an effect, left out."""
    is_effect = isinstance(child, ast.AugAssign | ast.Delete) or (
        isinstance(child, ast.Expr) and not isinstance(child.value, ast.Constant)
    )
    if isinstance(child, ast.Assign):
        is_effect = all(isinstance(each, ast.Attribute | ast.Subscript) for each in child.targets)
    if is_effect and function != "module":

        def do() -> None:
            body[place] = ast.Pass()

        yield Site(function, child.lineno, f"drop `{ast.unparse(child)[:70]}`", do)


def _changed(node: ast.AST, function: str) -> Iterator[Site]:
    """Another meaning for one expression."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            other = COMPARISONS.get(type(operator))
            if other is not None:
                yield _swap(function, node, node.ops, place, other())
    elif isinstance(node, ast.BoolOp):
        other_op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield _set(function, node, node, "op", other_op)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        twice = ast.UnaryOp(op=ast.Not(), operand=node.operand)
        yield _set(
            function, node, node, "operand", twice, f"`{ast.unparse(node)[:60]}` without not"
        )
    elif isinstance(node, ast.BinOp) and type(node.op) in SUMS:
        yield _set(function, node, node, "op", SUMS[type(node.op)]())
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield _set(function, node, node, "value", not node.value)
    elif isinstance(node, ast.Constant) and type(node.value) is int and function != "module":
        yield _set(function, node, node, "value", node.value + 1)


def _swap(
    function: str, node: ast.Compare, ops: list[ast.cmpop], place: int, other: ast.cmpop
) -> Site:
    def do() -> None:
        ops[place] = other

    what = f"{type(ops[place]).__name__} → {type(other).__name__} in `{ast.unparse(node)[:60]}`"
    return Site(function, node.lineno, what, do)


def _set(
    function: str, node: ast.expr, owner: ast.AST, field: str, value: object, what: str = ""
) -> Site:
    said = getattr(value, "value", None) if isinstance(value, ast.AST) else value
    name = type(value).__name__ if isinstance(value, ast.AST) else repr(said)

    def do() -> None:
        setattr(owner, field, value)

    return Site(function, node.lineno, what or f"{name} in `{ast.unparse(node)[:60]}`", do)
