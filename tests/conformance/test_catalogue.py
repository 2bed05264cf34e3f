"""Promises and tests agree, in both directions.

Reads the `promise` marks of all test modules from their syntax, whichever of them a run collects,
and compares them with tests/catalogue.py.
Rules: a mark names ids as literal texts and stands on a test, class, module or parameter; a settled
promise is named by a test; a promise that a test names is settled, or stands in PARTIAL with what
is still missing.
"""

from __future__ import annotations

import ast

import pytest

from tests.catalogue import AMENDED, COUNTS, DONE, PARTIAL, PROMISES, REPLACED, expand, spell, split
from tests.house.tree import Source, dotted, sources

MARK = "mark.promise"


def is_mark(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func).endswith(MARK)


def named_ids(source: Source) -> list[tuple[str, str]]:
    """(id, place) of every promise that this module's marks name.

    Raises ValueError for a mark whose arguments are not literal ids or ranges.
    """
    found: list[tuple[str, str]] = []
    for node in source.nodes:
        if isinstance(node, ast.Call) and is_mark(node):
            place = f"{source.path}:{node.lineno}"
            for argument in node.args:
                literal = argument.value if isinstance(argument, ast.Constant) else None
                ids = expand(literal) if isinstance(literal, str) else []
                if not ids:
                    message = f"{place}: a promise is named by a literal text"
                    raise ValueError(message)
                found += [(promise, place) for promise in ids]
    return found


def misplaced_marks(source: Source) -> list[str]:
    """Marks on functions and classes that pytest does not collect: they would show nothing."""
    found: list[str] = []
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            collected = node.name.startswith(("test", "Test"))
            if not collected and any(is_mark(decorator) for decorator in node.decorator_list):
                found.append(source.at(node.lineno, f"{node.name} is no test"))
    return found


def modules() -> list[Source]:
    return [source for source in sources(("tests/",)) if source.name.startswith("test_")]


def shown() -> dict[str, list[str]]:
    """Promise → the places that name it."""
    found: dict[str, list[str]] = {}
    for source in modules():
        for promise, place in named_ids(source):
            found.setdefault(promise, []).append(place)
    return found


@pytest.mark.parametrize("letter", sorted(COUNTS))
def test_the_numbers_are_complete(letter: str) -> None:
    expected = [spell(letter, number) for number in range(1, COUNTS[letter] + 1)]
    found = [promise for promise in PROMISES if split(promise)[0] == letter]
    assert sorted(found, key=split) == expected


def test_every_promise_is_a_sentence_and_every_open_one_has_a_reason() -> None:
    for promise in PROMISES.values():
        assert len(promise.text.split()) > 2, promise
        assert promise.state == "done" or promise.reason not in ("", "comes with "), promise


def test_every_id_in_the_tables_exists() -> None:
    named = {*expand(DONE), *PARTIAL, *REPLACED, *AMENDED}
    assert named <= set(PROMISES)


def test_done_is_sorted_and_names_nothing_twice() -> None:
    ids = expand(DONE)
    order = "WETV"
    assert ids == sorted(set(ids), key=lambda each: (order.index(each[0]), split(each)[1]))


def test_a_partly_shown_promise_is_open() -> None:
    assert {PROMISES[promise].state for promise in PARTIAL} <= {"open"}


def test_every_promise_that_a_test_names_exists() -> None:
    unknown = {promise: places for promise, places in shown().items() if promise not in PROMISES}
    assert not unknown


def test_every_settled_promise_has_a_test() -> None:
    settled = {each.id for each in PROMISES.values() if each.state != "open"}
    assert not sorted(settled - set(shown()), key=split)


def test_every_promise_that_a_test_names_is_settled() -> None:
    places = shown()
    found = {
        promise: places[promise]
        for promise in sorted(places)
        if promise in PROMISES and PROMISES[promise].state == "open" and promise not in PARTIAL
    }
    assert not found, "named by a test but open: put them into DONE, or into PARTIAL with a reason"


def test_every_partly_shown_promise_has_a_test() -> None:
    assert not sorted(set(PARTIAL) - set(shown()))


def test_marks_stand_on_tests() -> None:
    found = [each for source in modules() for each in misplaced_marks(source)]
    assert not found, "\n".join(found)


PLANTED = """
import pytest
pytestmark = pytest.mark.promise("W1")
@pytest.mark.promise("E1", "V001-V003")
async def test_a(): ...
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.promise("T7"))])
def test_b(x): ...
"""


def test_marks_are_found_on_modules_tests_and_parameters() -> None:
    found = [promise for promise, _ in named_ids(Source("tests/test_planted.py", PLANTED))]
    assert sorted(found) == ["E1", "T7", "V001", "V002", "V003", "W1"]


@pytest.mark.parametrize("argument", ['f"E{n}"', '"E0"', '"V1"', '"E1-W2"', '"E9-E1"', "*IDS", "7"])
def test_a_mark_that_names_no_promise_is_found(argument: str) -> None:
    text = f"@pytest.mark.promise({argument})\ndef test_a(): ..."
    with pytest.raises(ValueError, match=r"not a|literal"):
        named_ids(Source("tests/test_planted.py", text))


def test_a_mark_on_a_helper_is_found() -> None:
    text = '@pytest.mark.promise("E1")\ndef make_queue(): ...'
    assert misplaced_marks(Source("tests/test_planted.py", text))
