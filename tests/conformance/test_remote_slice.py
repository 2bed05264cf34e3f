"""The slice of this suite that runs on remote stores each time leaves no verb out.

Reads the sources: what a chosen test names, and what the functions that it names do in turn, in the
helpers of this suite and in the handles, has to lead to the request of every call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from mqlite_actor.contract import ext, wire
from mqlite_actor.contract.calls import BY_REQUEST, CALLS
from mqlite_actor.contract.observe import ObserveRequest
from tests.conformance.remote_slice import CHOSEN, UNFIT

ROOT: Final = Path(__file__).resolve().parents[2]
READ: Final = ("tests/conformance/*.py", "mqlite_actor/sdk/*.py")

ELSEWHERE: Final = {
    ext.BackupRequest: "refused on a remote store: tests/remote/test_opening.py",
    wire.TestFilterRequest: "asks no store",
    ObserveRequest: "of a whole broker: tests/remote/test_surfaces.py",
}
"""Calls that the slice need not have, and why."""


def definitions() -> Iterator[tuple[str, ast.AST]]:
    """Every function, and every table of a module."""
    for pattern in READ:
        for path in sorted(ROOT.glob(pattern)):
            tree = ast.parse(path.read_text("utf-8"))
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield node.name, node
            for node in tree.body:
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    yield node.targets[0].id, node.value


@cache
def named() -> dict[str, frozenset[str]]:
    """What is defined → the names in it; of several of one name, all of theirs."""
    found: dict[str, frozenset[str]] = {}
    for name, node in definitions():
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        names |= {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
        found[name] = found.get(name, frozenset()) | names
    return found


def reached(start: frozenset[str]) -> set[str]:
    """All names to which these lead."""
    known: set[str] = set()
    left = set(start)
    while left:
        name = left.pop()
        known.add(name)
        left |= named().get(name, frozenset()) - known
    return known


def test_every_name_is_that_of_a_test() -> None:
    assert {*CHOSEN, *UNFIT} <= set(named())


@pytest.mark.parametrize("call", CALLS, ids=[call.name for call in CALLS])
def test_every_verb_is_in_the_slice(call: object) -> None:
    (request,) = [each for each, row in BY_REQUEST.items() if row is call]
    if request not in ELSEWHERE:
        assert request.__name__ in reached(CHOSEN), "no chosen test asks for it"
