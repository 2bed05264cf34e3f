"""A mutant is put into what is loaded, only in its own process, and tests that run it are found."""

from __future__ import annotations

import ast
import importlib.util
import time
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from tests.mutants.census import Census, Watch, Watched
from tests.mutants.forks import FAILED, Job, run_all
from tests.mutants.operators import mutated, sites
from tests.mutants.planting import living, plant

TEXT = """
import contextlib

def plain(a):
    return a + 1

@contextlib.contextmanager
def wrapped(a):
    yield a + 2

class Some(dict):
    def __init__(self):
        super().__init__(a=None)

    @property
    def size(self):
        return 2 + len(self)

    def nested(self, a):
        def inner():
            return a < 4
        return inner()
"""


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    file = tmp_path / "spoiled.py"
    file.write_text(TEXT)
    spec = importlib.util.spec_from_file_location("spoiled", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def results(module: ModuleType) -> list[object]:
    with module.wrapped(0) as two:
        return [module.plain(0), two, module.Some().size, module.Some().nested(4)]


def test_the_functions_that_live_get_the_code_of_the_mutant(module: ModuleType) -> None:
    assert module.__file__ is not None
    names = [site.name for site in sites(ast.parse(TEXT))]
    seen = {}
    (functions,) = living(Path(module.__file__).parent).values()
    for number, name in enumerate(names):
        assert plant(functions, mutated(TEXT, number)) == 5
        seen[name] = results(module)
    assert seen == {
        "plain: Sub in `a + 1`": [-1, 2, 3, False],
        "plain: 2 in `1`": [2, 2, 3, False],
        "wrapped: Sub in `a + 2`": [1, -2, 3, False],
        "wrapped: 3 in `2`": [1, 3, 3, False],
        "__init__: drop `super().__init__(a=None)`": [1, 2, 2, False],
        "size: Sub in `2 + len(self)`": [1, 2, 1, False],
        "size: 3 in `2`": [1, 2, 4, False],
        "inner: Lt → LtE in `a < 4`": [1, 2, 3, True],
        "inner: 5 in `4`": [1, 2, 3, True],
    }


def test_the_lines_that_a_test_runs_are_watched_and_lead_to_it(module: ModuleType) -> None:
    assert module.__file__ is not None
    with Watch(Path(module.__file__).parent) as watch:
        module.plain(0)
        one = Watched("one", 1.0, watch.taken())
        assert module.Some().nested(0)
        two = Watched("two", 1.0, watch.taken())
    census = Census([one, two])
    found = {
        site.name: [test.name for test in census.of("spoiled.py", site.lines)]
        for site in sites(ast.parse(TEXT))
    }
    assert found["plain: 2 in `1`"] == ["one"]
    assert found["inner: 5 in `4`"] == ["two"]
    assert found["size: 3 in `2`"] == []


def _says(word: str, code: int, said: Path) -> int:
    said.write_text(word)
    return code


def _never_ends(_: Path) -> int:
    while True:
        time.monotonic()


def test_forks_end_each_in_its_way_and_leave_nothing() -> None:
    jobs = [
        Job(partial(_says, "a", 0), 15.0),
        Job(partial(_says, "b", FAILED), 15.0),
        Job(_never_ends, 0.1),
    ]
    ends = [(code, said) for _, code, said in run_all(iter(jobs), 2)]
    assert sorted(ends, key=repr) == [(0, "a"), (FAILED, "b"), (None, "")]
    assert not any(job.folder.exists() for job in jobs)
