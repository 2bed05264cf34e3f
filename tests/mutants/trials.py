"""Tries mutants: does a test that runs the spoiled line fail?

Called by __main__.py with the tests collected. The tests that noticed something in the same module
before come first, then the quickest of each file, then the second of each, and so on: no two files
look at the same side of a thing, and those of the part's own folder look closest.
"""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.mutants.census import PROGRAM, Census, Watched
from tests.mutants.forks import BROKEN, FAILED, Job, Runner, run_all
from tests.mutants.operators import Site, mutated
from tests.mutants.planting import living, plant

SLACK: Final = 5.0
"""A test hangs that takes so many times what it took, watched, of the sound program, and so many
seconds more."""

NEAR: Final = 6
"""So many tests of a file in the part's own folder come where one of another file does."""


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
        self._noticed: set[tuple[str, str]] = set()
        self._living = living(PROGRAM)
        gc.freeze()  # what is there already is for no fork to look through

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
                self._noticed.add((mutant.part, said))
            yield Verdict(mutant, word, said)

    def _job(self, mutant: Mutant) -> Job:
        tests = self._tests(mutant)
        seconds = sum(map(_patience, tests))
        return Job(partial(self._try, mutant, tests), seconds)

    def _tests(self, mutant: Mutant) -> list[Watched]:
        """Those that run the place, in the order in which they are to."""

        home = f"tests/{mutant.part.partition('/')[0]}/"
        files: dict[str, list[Watched]] = {}
        for test in self._census.of(mutant.part, mutant.site.lines):
            files.setdefault(test.name.partition("::")[0], []).append(test)
        ranks = {
            test.name: rank // (NEAR if name.startswith(home) else 1)
            for name, tests in files.items()
            for rank, test in enumerate(sorted(tests, key=lambda test: test.seconds))
        }

        def first(test: Watched) -> tuple[bool, int, float]:
            was_first = (mutant.part, test.name) in self._noticed
            return not was_first, ranks[test.name], test.seconds

        chosen: list[Watched] = []
        left = self._seconds
        for test in sorted((test for tests in files.values() for test in tests), key=first):
            if not chosen or test.seconds <= left:
                chosen.append(test)
                left -= test.seconds
        return chosen

    def _try(self, mutant: Mutant, tests: list[Watched], said: Path) -> int:
        """In a fork, which the alarm ends when one test hangs."""
        file = PROGRAM / mutant.part
        plant(self._living[str(file)], mutated(file.read_text(encoding="utf-8"), mutant.number))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, _patience(tests[0]))
        for place, _ in enumerate(self._runner.run([self._items[test.name] for test in tests]), 1):
            if self._runner.failed:
                said.write_text(self._runner.failed[0], encoding="utf-8")
                return FAILED
            if place < len(tests):
                signal.setitimer(signal.ITIMER_REAL, _patience(tests[place]))
        signal.setitimer(signal.ITIMER_REAL, 0)
        return 0


def _patience(test: Watched) -> float:
    return SLACK * test.seconds + SLACK
