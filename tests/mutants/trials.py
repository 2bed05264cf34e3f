"""Tries mutants: does a test that runs the spoiled line fail?

Called by __main__.py with the tests collected. The tests that noticed something in the same module
before come first, then the quickest.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.mutants.census import PROGRAM, Census, Watched
from tests.mutants.forks import BROKEN, FAILED, Job, Runner, run_all
from tests.mutants.operators import Site, mutated
from tests.mutants.planting import plant

SLACK: Final = 5.0
"""A mutant that takes so many times the sound program's time, and so many seconds more, hangs."""


@dataclass(frozen=True)
class Mutant:
    """A place of a module, `part` below mqlite_actor."""

    part: str
    number: int
    site: Site

    @property
    def name(self) -> str:
        return f"{self.part} {self.site.name}"


@dataclass(frozen=True)
class Verdict:
    """`word`: noticed, hangs, lives, or unseen, which no test runs; `test`: that noticed it."""

    mutant: Mutant
    word: str
    test: str = ""


class Trials:
    """All that a trial needs. `seconds`: so much of tests each mutant gets at most."""

    def __init__(
        self, items: list[pytest.Item], runner: Runner, census: Census, seconds: float
    ) -> None:
        self._items = {item.nodeid: item for item in items}
        self._runner = runner
        self._census = census
        self._seconds = seconds
        self._noticed: Counter[tuple[str, str]] = Counter()

    def run(self, mutants: list[Mutant], processes: int) -> Iterator[Verdict]:
        """Try them all, so many at once; verdicts as they come."""
        seen: list[Mutant] = []
        for mutant in mutants:
            if self._census.of(mutant.part, mutant.site.lines):
                seen.append(mutant)
            else:
                yield Verdict(mutant, "unseen")
        hanging: list[Mutant] = []
        for verdict in self._once(seen, processes):
            if verdict.word == "hangs":
                hanging.append(verdict.mutant)
            else:
                yield verdict
        yield from self._once(hanging, processes)  # the machine may have been busy

    def _once(self, mutants: list[Mutant], processes: int) -> Iterator[Verdict]:
        waiting: dict[int, Mutant] = {}

        def jobs() -> Iterator[Job]:
            for mutant in mutants:
                job = self._job(mutant)
                waiting[id(job)] = mutant
                yield job

        for job, code, said in run_all(jobs(), processes):
            mutant = waiting.pop(id(job))
            if code == BROKEN:
                raise RuntimeError(f"{mutant.name}: {said}")
            word = "hangs" if code is None else "noticed" if code == FAILED else "lives"
            if word == "noticed":
                self._noticed[mutant.part, said] += 1
            yield Verdict(mutant, word, said)

    def _job(self, mutant: Mutant) -> Job:
        tests = self._tests(mutant)
        items = [self._items[test.name] for test in tests]
        seconds = SLACK * sum(test.seconds for test in tests) + SLACK
        return Job(partial(self._try, mutant, items), seconds)

    def _tests(self, mutant: Mutant) -> list[Watched]:
        """Those that run the place, in the order in which they are to."""

        def first(test: Watched) -> tuple[int, float]:
            return -self._noticed[mutant.part, test.name], test.seconds

        chosen: list[Watched] = []
        left = self._seconds
        for test in sorted(self._census.of(mutant.part, mutant.site.lines), key=first):
            if not chosen or test.seconds <= left:
                chosen.append(test)
                left -= test.seconds
        return chosen

    def _try(self, mutant: Mutant, items: list[pytest.Item], said: Path) -> int:
        """In a fork."""
        file = PROGRAM / mutant.part
        tree: ast.Module = mutated(file.read_text(encoding="utf-8"), mutant.number)
        if not plant(file, tree):
            raise RuntimeError("no function of the module lives")
        for _ in self._runner.run(items):
            if self._runner.failed:
                said.write_text(self._runner.failed[0], encoding="utf-8")
                return FAILED
        return 0
