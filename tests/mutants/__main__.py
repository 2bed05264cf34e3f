"""`python -m tests.mutants [PART…]`: does some test notice each small wrong in the program?

A part is a folder below mqlite_actor or a module of one; semantics, engine and link by default.
Every place that `operators.py` can spoil is spoiled in a process of its own, forked from this one
after pytest has collected the tests, in which those tests run that come by the place (`census.py`)
until one fails. A mutant that no test notices fails the run, unless survivors.txt says why it may
live; one whose tests do not end, twice, counts as noticed. Verdicts are kept in `--kept`: what a
test has noticed is not tried again while its module stays as it is, so that a run which was broken
off goes on. `--most` takes a sample of each module, `--since` what has changed since a commit.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.figures import record
from tests.mutants import census
from tests.mutants.census import PROGRAM, ROOT
from tests.mutants.changes import new_lines
from tests.mutants.forks import Runner
from tests.mutants.operators import sites
from tests.mutants.trials import Mutant, Trials, Verdict

PARTS: Final = ("semantics", "engine", "link")

TESTS: Final = ("semantics", "engine", "link", "conformance", "model", "simulation", "remote")
"""Folders of tests that run the program in their own process, most of them."""

KINDS: Final = ("embedded", "link", "remote")
"""Handles that do so."""

FAR: Final = ("broker", "sqld", "tursodb")
"""What a fixture is called that starts another program."""

NOTICED: Final = ("noticed", "hangs")
"""A test that never ends is noticed by whoever waits for it."""

SURVIVORS: Final = Path(__file__).with_name("survivors.txt")

SMALL: Final = {
    "MQLITE_SIMULATION_SEEDS": "6",
    "MQLITE_SIMULATION_SWEEPS": "0",
    "MQLITE_SIMULATION_SEED": "7",
    "MQLITE_MODEL_EXAMPLES": "15",
    "MQLITE_FAULTS": "20",
    "MQLITE_FAULTS_SEED": "7",
}
"""Random suites are short here, and the same for every mutant."""

PYTEST: Final = ("-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "-o",
                 "faulthandler_timeout=0", "--assert=plain")  # fmt: skip


def known_survivors() -> dict[str, str]:
    """Name → reason."""
    lines = SURVIVORS.read_text(encoding="utf-8").splitlines()
    rows = [line.partition(" | ") for line in lines if line and not line.startswith("#")]
    return {name: reason for name, _, reason in rows}


def modules(parts: list[str]) -> list[str]:
    """The modules of these parts, by path below mqlite_actor."""
    paths = [PROGRAM / part for part in parts]
    files = [f for path in paths for f in (sorted(path.glob("*.py")) if path.is_dir() else [path])]
    return [file.relative_to(PROGRAM).as_posix() for file in files]


def chosen(part: str, most: int, seed: int, since: str | None = None) -> list[Mutant]:
    """The places of a module, or a sample of them, in the order of the text; with a commit, those
    in statements that have changed since then."""
    file = PROGRAM / part
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = [Mutant(part, number, site) for number, site in enumerate(sites(tree))]
    if since:
        new = new_lines(file, since)
        found = [mutant for mutant in found if not new.isdisjoint(mutant.site.lines)]
    if not most or most >= len(found):
        return found
    sample = random.Random(f"{seed} {part}").sample(found, most)
    return sorted(sample, key=lambda mutant: mutant.number)


class Verdicts:
    """What was found in this run and in those before, a line of JSON each."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._noticed: set[tuple[str, str]] = set()
        if file.exists():
            rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
            self._noticed = {(r["module"], r["name"]) for r in rows if r["word"] in NOTICED}

    def has(self, mutant: Mutant) -> bool:
        """Whether a test noticed it, in its module as it stands."""
        return (_digest(mutant.part), mutant.name) in self._noticed

    def add(self, verdict: Verdict) -> None:
        name, test = verdict.mutant.name, verdict.test
        row = {"name": name, "word": verdict.word, "test": test}
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row | {"module": _digest(verdict.mutant.part)}) + "\n")


def _digest(part: str) -> str:
    return hashlib.sha256((PROGRAM / part).read_bytes()).hexdigest()[:16]


def _collected(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """The tests that stay in their own process."""
    for item in items:
        assert isinstance(item, pytest.Function)
        kind = item.callspec.params.get("handle_kind") if hasattr(item, "callspec") else None
        is_far = any(word in name for word in FAR for name in item.fixturenames)
        if getattr(kind, "name", KINDS[0]) in KINDS and not is_far:
            yield item


class Tool(Runner):
    """The plugin that works where pytest would run the tests that it has collected."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self._options = options
        self.has_failed = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        options = self._options
        kept: Path = options.kept
        kept.mkdir(parents=True, exist_ok=True)
        items = [*_collected(session.items)]
        seen = census.taken(items, self, kept / "census.json", options.processes)
        trials = Trials(items, self, seen, options.seconds)
        verdicts = Verdicts(kept / "verdicts.jsonl")
        total, open_ = Counter[str](), 0
        for part in modules(options.parts or list(PARTS)):
            words, new = self._try(part, trials, verdicts)
            total += words
            open_ += new
        print(f"{total.total()} mutants: {_listed(total)}; {open_} live without a reason")
        self.has_failed = open_ > 0
        if total:
            tried = {"mutants": total.total(), "noticed": sum(total[word] for word in NOTICED)}
            record("mutants", seed=options.seed, explained=total["explained"], **tried)
        return True

    def _try(self, part: str, trials: Trials, verdicts: Verdicts) -> tuple[Counter[str], int]:
        """The verdicts on a module, counted, and how many live without a reason."""
        options = self._options
        mutants = chosen(part, options.most, options.seed, options.since)
        todo = [mutant for mutant in mutants if not verdicts.has(mutant)]
        words = Counter(noticed=len(mutants) - len(todo))
        known, new = known_survivors(), 0
        for verdict in trials.run(todo, options.processes):
            verdicts.add(verdict)
            mutant = verdict.mutant
            is_known = verdict.word != "hangs" and mutant.name in known
            words["explained" if is_known else verdict.word] += 1
            if verdict.word != "noticed" and not is_known:
                new += verdict.word != "hangs"
                print(f"   {verdict.word}: {mutant.name} (line {mutant.site.lines[0]})", flush=True)
        print(f"== {part}: {_listed(words)}", flush=True)
        return words, new


def _listed(words: Counter[str]) -> str:
    return ", ".join(f"{number} {word}" for word, number in words.items() if number) or "nothing"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("parts", nargs="*", help="parts; all by default")
    parser.add_argument("--most", type=int, default=0, help="a sample of so many of each module")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--since", help="a commit: only what has changed since then")
    parser.add_argument("--seconds", type=float, default=20.0, help="of tests for one mutant")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="at once")
    kept = Path(tempfile.gettempdir()) / "mqlite-mutants"
    parser.add_argument("--kept", type=Path, default=kept, help="folder of verdicts and census")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="files or folders below tests/")
    options = parser.parse_args()
    tool = Tool(options)
    os.environ.update(SMALL)
    tests = [str(ROOT / "tests" / name) for name in options.tests]
    code = pytest.main([*PYTEST, f"--rootdir={ROOT}", *tests], plugins=[tool])
    sys.exit(code or tool.has_failed)


if __name__ == "__main__":
    main()
