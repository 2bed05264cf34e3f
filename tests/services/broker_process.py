"""The broker as a real process: started on a free loopback port, watched, ended by its id.

Used by the suites that look at the program: its exit code, its two outputs, its signals, its file.
Each process works in a folder of the test, where its store is `mq.db` unless the test says else,
and gets no MQLITE_ variable of the machine. Every wait has a bound.
"""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Final

from tests.conformance.broker import BOUND_SECONDS
from tests.services.cli_process import PYTHON, clean_environ
from tests.services.door_client import Client, connect
from tests.warm.process import Popen

TOKEN: Final = "process-token"
BEARER: Final = f"Authorization: Bearer {TOKEN}"
READY: Final = re.compile(r'ready\W+url\W+(https?://[^\s"]+:([1-9]\d*))')
"""The ready line, as text or as JSON."""

SERVE: Final = (*PYTHON, "serve")
"""The program as people run it; `python -m mqlite_broker` is the same without the command line."""

START_SECONDS: Final = 30.0
"""A start takes half a second; this is for a machine that is busy elsewhere."""


MOMENT_SECONDS: Final = 0.05
"""Between two looks at something that makes no sound."""


class Lines:
    """What a process prints, read to its end by a thread so that it never blocks."""

    def __init__(self, stream: IO[str]) -> None:
        self._lines: list[str] = []
        self._has_ended = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._add(line.rstrip("\n"))
        self._add(None)

    def _add(self, line: str | None) -> None:
        with self._news:
            if line is None:
                self._has_ended = True
            else:
                self._lines.append(line)
            self._news.notify_all()

    def so_far(self) -> list[str]:
        with self._news:
            return list(self._lines)

    def first(self, pattern: str | re.Pattern[str]) -> re.Match[str]:
        """The first match, now or later; AssertionError with all lines if none comes."""
        with self._news:
            self._news.wait_for(lambda: self._has_ended or self._find(pattern), START_SECONDS)
            found = self._find(pattern)
        assert found is not None, f"no line matches {pattern}:\n" + "\n".join(self.so_far())
        return found

    def wait_for_more(self) -> None:
        """Return when there is another line, or after a moment: to look again at something else."""
        with self._news:
            self._news.wait(MOMENT_SECONDS)

    def _find(self, pattern: str | re.Pattern[str]) -> re.Match[str] | None:
        matches = (re.search(pattern, line) for line in self._lines)
        return next((match for match in matches if match), None)

    def to_the_end(self) -> list[str]:
        """All lines of a process that has ended."""
        self._thread.join(BOUND_SECONDS)
        return self.so_far()


class BrokerProcess:
    """A process that serves, or did."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.out = Lines(process.stdout)
        self.err = Lines(process.stderr)

    @property
    def url(self) -> str:
        """Of the ready line, for which it waits."""
        return self.err.first(READY)[1]

    @property
    def port(self) -> int:
        return int(self.err.first(READY)[2])

    async def connect(self, *, receive_buffer: int | None = None) -> Client:
        return await connect(("127.0.0.1", self.port), receive_buffer=receive_buffer)

    def signal(self, *numbers: signal.Signals) -> None:
        """Send signals, one directly after the other."""
        for number in numbers:
            self.process.send_signal(number)

    def ended(self) -> int:
        """The exit code, for which it waits; negative after a signal."""
        code = self.process.wait(BOUND_SECONDS)
        assert self.out.to_the_end() == [], "serve prints nothing on stdout"
        return code

    def stop(self) -> list[str]:
        """End it in order, by SIGTERM; what it said on stderr."""
        self.signal(signal.SIGTERM)
        assert self.ended() == 0, "\n".join(self.err.so_far())
        return self.err.to_the_end()


def started(folder: Path, /, *words: str, **environ: str) -> AbstractContextManager[BrokerProcess]:
    """`mqlite serve WORDS` with further variables; killed at the end if it still runs then."""
    return started_by(SERVE, folder, *words, **environ)


@contextmanager
def started_by(
    program: Sequence[str], folder: Path, /, *words: str, **environ: str
) -> Iterator[BrokerProcess]:
    """The same of another program."""
    process = launch(program, folder, words, environ)
    broker = BrokerProcess(process)
    try:
        yield broker
    finally:
        process.kill()
        process.wait()
        broker.out.to_the_end()
        broker.err.to_the_end()


def launch(
    program: Sequence[str],
    folder: Path,
    words: Sequence[str] = (),
    environ: Mapping[str, str] = {},
) -> subprocess.Popen[str]:
    """The bare process; whoever calls this ends it."""
    return Popen(
        [*program, *words],
        cwd=folder,
        env=environment(environ),
        text=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Loopback, any port, one known token, one process on any machine, unless `environ` says
    else."""
    ours = {"MQLITE_ADDR": "127.0.0.1:0", "MQLITE_TOKENS": TOKEN, "MQLITE_WORKERS": "0"}
    return clean_environ({**ours, **environ})


def content(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder with its bytes, and every folder with None."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
