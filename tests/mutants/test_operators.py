"""The operators of mutation spoil exactly one thing, and say what."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from tests.mutants.__main__ import PARTS, TESTS, known_survivors, modules
from tests.mutants.census import ROOT
from tests.mutants.changes import new_lines
from tests.mutants.operators import mutated, sites

TEXT = '''
"""A module."""
LIMIT = 3 + 4

class Kept(Struct, frozen=True):
    size: int = 0

def f(a: int, b: list[int] = 8) -> bool:
    """A docstring."""
    c: int = 5
    zip(b, b, strict=True)
    assert a != 7, "our own mistake"
    _log.info("a is %d", 1)
    b.append(a + 1)
    a += 2
    self.x = a
    self.x = a
    return not b and a < LIMIT or a in b
'''

EXPECTED = {
    "f: 6 in `5`": "c: int = 6",
    "f: drop `zip(b, b, strict=True)`": "pass",
    "f: drop `b.append(a + 1)`": "pass",
    "f: Sub in `a + 1`": "b.append(a - 1)",
    "f: 2 in `1`": "b.append(a + 2)",
    "f: drop `a += 2`": "pass",
    "f: 3 in `2`": "a += 3",
    "f: drop `self.x = a`": "pass",
    "f: drop `self.x = a` #2": "pass",
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
    sound = ast.unparse(ast.parse(TEXT)).splitlines()
    spoiled = ast.unparse(mutated(TEXT, number)).splitlines()
    changed = [new.strip() for old, new in zip(sound, spoiled, strict=True) if old != new]
    assert changed == [EXPECTED[name]]


def test_a_statement_is_known_by_its_own_lines_and_not_by_those_of_its_body() -> None:
    text = "def f(a):\n    if (a\n        and g()):\n        h(1)\n    return 2\n"
    lines = {site.name: [*site.lines] for site in sites(ast.parse(text))}
    assert lines == {
        "f: Or in `a and g()`": [2, 3],
        "f: drop `h(1)`": [4],
        "f: 2 in `1`": [4],
        "f: 3 in `2`": [5],
    }


def test_every_part_and_its_tests_exist_and_survivors_are_places_with_reasons() -> None:
    assert all((ROOT / "tests" / name).is_dir() for name in TESTS)
    places = {
        f"{part} {site.name}"
        for part in modules([*PARTS])
        for site in sites(ast.parse((ROOT / "mqlite_actor" / part).read_text(encoding="utf-8")))
    }
    for name, reason in known_survivors().items():
        assert name in places, "what was explained is not there any more"
        assert reason, name


def test_the_new_lines_of_a_module_are_those_that_a_commit_has_not(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        done = subprocess.run(
            ["git", *who, *words], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    file = tmp_path / "module.py"
    git("init", "-q")
    file.write_text("one\ntwo\nthree\nfour\nfive\nsix\n", encoding="utf-8")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    first = git("rev-parse", "HEAD")
    file.write_text(
        "one\n2\n2a\nthree\nfive\nsix\n", encoding="utf-8"
    )  # one more, one other, one less
    git("commit", "-q", "-a", "-m", "second")
    file.write_text("one\n2\n2a\nthree\nfive\n6\n", encoding="utf-8")  # and one without a commit
    assert new_lines(file, first) == {2, 3, 6}
    assert new_lines(file, "HEAD") == {6}
    with pytest.raises(ValueError, match="--since nowhere: "):
        new_lines(file, "nowhere")
