"""Runs tests in processes that are forked from one where they are collected already.

A fork costs some milliseconds, and starts where pytest stands right before the first test. Called
by census.py, which watches the tests, and by trials.py, which spoils the program under them.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.places import memory

POLL_SECONDS: Final = 0.02
"""Between two looks at the forks: they end by themselves or at their time, and none says so."""

FAILED: Final = 1
BROKEN: Final = 99


class Runner:
    """The plugin through which a fork runs tests: it remembers which failed."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def run(self, items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
        """Run them in turn; each that has ended."""
        for place, item in enumerate(items):
            following = items[place + 1] if place + 1 < len(items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            yield item


@dataclass
class Job:
    """Something for one fork to do: `work` gets the file that its words go to, and tells how the
    process ends. `seconds`: how long that may take, on the clock and of a processor."""

    work: Callable[[Path], int]
    seconds: float
    process: int = 0
    began: float = 0.0
    folder: Path = field(default_factory=Path)

    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mqm-", dir=memory()))
        self.began = time.monotonic()
        self.process = os.fork()
        if not self.process:
            self._live()

    def _live(self) -> None:
        code = BROKEN
        try:
            os.setsid()  # so that what it starts can be ended with it
            resource.setrlimit(resource.RLIMIT_CPU, (int(self.seconds) + 1, int(self.seconds) + 2))
            os.environ["PYTEST_DEBUG_TEMPROOT"] = os.environ["TMPDIR"] = str(self.folder)
            tempfile.tempdir = None
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
            code = self.work(self.folder / "said")
        except BaseException:  # noqa: BLE001  # whatever it is, the tool that forked it must tell
            (self.folder / "said").write_text(traceback.format_exc(), encoding="utf-8")
        finally:
            os._exit(code)

    def ended(self) -> tuple[int | None, str] | None:
        """How it ended, and what it said: None while it runs, no code when it had to be killed."""
        pid, status = os.waitpid(self.process, os.WNOHANG)
        code: int | None = None
        if pid:
            code = os.waitstatus_to_exitcode(status)
        elif time.monotonic() - self.began <= self.seconds:
            return None
        words = self.folder / "said"
        said = words.read_text(encoding="utf-8") if words.exists() else ""
        if pid:
            self._tidy()
        else:
            self.end()
        return None if code is not None and code < 0 else code, said

    def end(self) -> None:
        """Now."""
        self._tidy()
        os.waitpid(self.process, 0)

    def _tidy(self) -> None:
        """What it left running and lying about."""
        with suppress(ProcessLookupError):
            os.killpg(self.process, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


def run_all(jobs: Iterator[Job], number: int) -> Iterator[tuple[Job, int | None, str]]:
    """Run jobs, so many at once; each with its outcome, in the order in which they end."""
    running: list[Job] = []
    is_over = False
    try:
        while running or not is_over:
            while not is_over and len(running) < number:
                job = next(jobs, None)
                if job is None:
                    is_over = True
                else:
                    job.start()
                    running.append(job)
            for job in list(running):
                outcome = job.ended()
                if outcome is not None:
                    running.remove(job)
                    yield job, *outcome
            time.sleep(POLL_SECONDS)
    finally:
        for job in running:
            job.end()
