"""Which tests run which lines of the program, and how long each takes.

Taken once for every file of tests, in a fork, and kept until that file, what tests share, or the
program has changed. trials.py asks it which tests could notice a wrong in a line.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final, Self

import pytest

from tests.mutants.forks import Job, Runner, run_all

if TYPE_CHECKING:
    from _typeshed import TraceFunction

ROOT: Final = Path(__file__).resolve().parents[2]
PROGRAM: Final = ROOT / "mqlite_actor"

FILE_SECONDS: Final = 600.0
"""For all tests of one file, each line of them watched."""

_Seen = dict[str, list[int]]


class Watched:
    """A test: what it needs of time, and which lines it runs, by module below mqlite_actor."""

    __slots__ = ("lines", "name", "seconds")

    def __init__(self, name: str, seconds: float, lines: _Seen) -> None:
        self.name = name
        self.seconds = seconds
        self.lines = {module: frozenset(numbers) for module, numbers in lines.items()}


class Census:
    """Every test that could be run, by name."""

    def __init__(self, tests: Iterable[Watched]) -> None:
        self.tests = {test.name: test for test in tests}

    def of(self, module: str, lines: range) -> list[Watched]:
        """The tests that run one of these lines."""
        return [
            test
            for test in self.tests.values()
            if not test.lines.get(module, frozenset()).isdisjoint(lines)
        ]


class Watch:
    """Notes the lines of the program that are run, in every thread that starts under it."""

    def __init__(self, program: Path) -> None:
        self._lines: dict[str, set[int]] = {}
        self._wanted: dict[CodeType, set[int] | None] = {}
        self._program = program

    def __enter__(self) -> Self:
        threading.settrace(self._enter)
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        threading.settrace(None)

    def taken(self) -> _Seen:
        """What was run since the last time."""
        seen = {name: sorted(lines) for name, lines in self._lines.items() if lines}
        for lines in self._lines.values():
            lines.clear()
        return seen

    def _enter(self, frame: FrameType, _event: str, _arg: object) -> TraceFunction | None:
        code = frame.f_code
        if code not in self._wanted:
            self._wanted[code] = self._home(code)
        lines = self._wanted[code]
        if lines is None:
            return None

        def local(frame: FrameType, _event: str, _arg: object) -> TraceFunction:
            lines.add(frame.f_lineno)
            return local

        return local

    def _home(self, code: CodeType) -> set[int] | None:
        file = Path(code.co_filename)
        if not file.is_relative_to(self._program):
            return None
        return self._lines.setdefault(file.relative_to(self._program).as_posix(), set())


def taken(items: list[pytest.Item], runner: Runner, kept: Path, processes: int) -> Census:
    """The census of these tests; `kept` is where earlier ones are, and this one will be."""
    old: dict[str, Any] = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    program = _digest(sorted(PROGRAM.rglob("*.py")))
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    new: dict[str, Any] = {}
    keys: dict[str, str] = {}
    jobs = []
    for file, its in files.items():
        key = f"{program} {_digest(_leant_on(file))} {len(its)}"
        name = file.relative_to(ROOT).as_posix()
        if old.get(name, {}).get("key") == key:
            new[name] = old[name]
        else:
            keys[name] = key
            jobs.append(Job(partial(_watch, its, runner, name), FILE_SECONDS))
    for _, code, said in run_all(iter(jobs), processes):
        if code != 0:
            raise RuntimeError(f"a census did not end: {said}")
        name, failed, rest = said.split("\n", 2)
        new[name] = {"key": keys[name], "tests": json.loads(rest)}
        print(f"   watched {name}; left out: {failed or 'none'}", flush=True)
        kept.write_text(json.dumps(old | new), "utf-8")
    return Census(_tests(new))


def _watch(items: list[pytest.Item], runner: Runner, name: str, said: Path) -> int:
    """In a fork: run all of a file, and say what each test ran. Those that cannot be watched, which
    are slow, cannot be asked either."""
    seen: dict[str, Any] = {}
    with Watch(PROGRAM) as watch:
        began = time.monotonic()
        for item in runner.run(items):
            seen[item.nodeid] = time.monotonic() - began, watch.taken()
            began = time.monotonic()
    sound = {test: each for test, each in seen.items() if test not in runner.failed}
    words = [name, " ".join(runner.failed), json.dumps(sound)]
    said.write_text("\n".join(words), encoding="utf-8")
    return 0


def _tests(files: dict[str, Any]) -> Iterator[Watched]:
    for file in files.values():
        for name, (seconds, lines) in file["tests"].items():
            yield Watched(name, seconds, lines)


def _leant_on(file: Path) -> list[Path]:
    """A file of tests, and all below tests/ that it imports, or that pytest does for it."""
    found: set[Path] = set()
    waiting = [file, *(folder / "conftest.py" for folder in file.parents)]
    while waiting:
        each = waiting.pop()
        if each in found or not each.is_relative_to(ROOT / "tests") or not each.exists():
            continue
        found.add(each)
        for node in ast.walk(ast.parse(each.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                waiting += [ROOT / f"{name.replace('.', '/')}.py" for name in names]
    return sorted(found)


def _digest(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
