"""The command line as a real process: how tests run it (tests/warm), and what they learn.

Every run has a clean environment (no MQLITE_* of the machine), a folder of its own as working
directory and a bound on its time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.warm.process import PATHS, Popen, run

ROOT = Path(__file__).resolve().parents[2]
BOUND_SECONDS = 60.0
"""A run takes a fraction of a second; this is for a machine that is busy elsewhere."""

PYTHON = [sys.executable, "-m", "mqlite_cli"]


@dataclass(frozen=True)
class Finished:
    """A run that has ended."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode("utf-8")

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever JSON holds
        return json.loads(self.out)

    @property
    def errors(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("error: ")]


class Shell:
    """Runs `mqlite` in one folder with one environment."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.folder = folder
        self.environ = environ

    def with_(self, **environ: str) -> Shell:
        """The same folder with further variables."""
        return Shell(self.folder, **{**self.environ, **environ})

    def run(
        self,
        *words: str | bytes,
        stdin: bytes = b"",
        redirect: str = "",
        check: int | None = None,
    ) -> Finished:
        """Run `mqlite WORDS`. `redirect` is a shell redirection such as `1>&-`; `check` an exit
        code."""
        command: list[str | bytes] = [*PYTHON, *words]
        if redirect:
            command = ["/bin/sh", "-c", f'exec "$0" "$@" {redirect}', *command]
        done = run(
            command,
            input=stdin,
            cwd=self.folder,
            env=clean_environ(self.environ),
            timeout=BOUND_SECONDS,
        )
        finished = Finished(done.returncode, done.stdout, done.stderr.decode("utf-8"))
        if check is not None:
            assert finished.code == check, finished
        return finished

    def ok(self, *words: str | bytes, stdin: bytes = b"") -> str:
        """Run what must succeed; what it printed."""
        return self.run(*words, stdin=stdin, check=0).text

    @contextmanager
    def start(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """`mqlite WORDS` as a running process whose output nobody reads yet; killed at the end."""
        process = Popen[bytes](
            [*PYTHON, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, cwd=self.folder, env=clean_environ(self.environ),
        )  # fmt: skip
        watchdog = threading.Timer(BOUND_SECONDS, process.kill)
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()
            process.kill()
            process.communicate()


def clean_environ(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a run: this one without our variables, with our packages and `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MQLITE_")}
    kept["XDG_CONFIG_HOME"] = os.devnull  # no contexts of whoever runs this
    kept["PYTHONPATH"] = PATHS
    return {**kept, **extra}


@dataclass
class Serving:
    """A broker started by `mqlite serve`: where it listens, and what it has printed on stderr."""

    process: subprocess.Popen[str]
    url: str
    lines: list[str]

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(BOUND_SECONDS)


@contextmanager
def serving(shell: Shell) -> Iterator[Serving]:
    """`mqlite serve` on a free loopback port, in the shell's folder and environment."""
    process = Popen(
        [*PYTHON, "serve", "--addr", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=shell.folder,
        env=clean_environ(shell.environ),
    )
    assert process.stderr is not None
    watchdog = threading.Timer(BOUND_SECONDS, process.kill)
    watchdog.start()
    lines: list[str] = []
    try:
        for line in process.stderr:
            lines.append(line)
            if " ready " in line:
                break
        else:
            raise AssertionError("no ready line:\n" + "".join(lines))
        yield Serving(process, lines[-1].split("url=")[1].strip(), lines)
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()
