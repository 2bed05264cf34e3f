"""The operators of mutation spoil exactly one thing, and say what."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.__main__ import ROOT, known_survivors
from tests.mutants.operators import mutated, sites
from tests.mutants.parts import PARTS

TEXT = '''
"""A module."""
LIMIT = 3

def f(a: int, b: list[int]) -> bool:
    """A docstring."""
    assert a != 7, "our own mistake"
    _log.info("a is %d", 1)
    b.append(a + 1)
    a += 2
    self.x = a
    return not b and a < LIMIT or a in b
'''

EXPECTED = {
    "f: drop `b.append(a + 1)`": "pass",
    "f: Sub in `a + 1`": "b.append(a - 1)",
    "f: 2 in `1`": "b.append(a + 2)",
    "f: drop `a += 2`": "pass",
    "f: 3 in `2`": "a += 3",
    "f: drop `self.x = a`": "pass",
    "f: And in `not b and a < LIMIT or a in b`": "return (not b and a < LIMIT) and a in b",
    "f: Or in `not b and a < LIMIT`": "return (not b or a < LIMIT) or a in b",
    "f: `not b` without not": "return not not b and a < LIMIT or a in b",
    "f: Lt → LtE in `a < LIMIT`": "return not b and a <= LIMIT or a in b",
    "f: In → NotIn in `a in b`": "return not b and a < LIMIT or a not in b",
}


def test_every_place_is_found_and_nothing_that_no_test_could_see() -> None:
    assert sorted(site.name for site in sites(ast.parse(TEXT))) == sorted(EXPECTED)


@pytest.mark.parametrize("number", range(len(EXPECTED)))
def test_a_mutant_differs_in_one_place(number: int) -> None:
    name = sites(ast.parse(TEXT))[number].name
    sound, spoiled = ast.unparse(ast.parse(TEXT)).splitlines(), mutated(TEXT, number).splitlines()
    changed = [new.strip() for old, new in zip(sound, spoiled, strict=True) if old != new]
    assert changed == [EXPECTED[name]]


def test_every_part_and_its_tests_exist_and_survivors_have_reasons() -> None:
    for part, tests in PARTS.items():
        assert (ROOT / "mqlite_actor" / part).is_file(), part
        assert all((ROOT / test).exists() for test in tests), part
    for name, reason in known_survivors().items():
        assert name.split(" ")[0] in PARTS
        assert reason, name
