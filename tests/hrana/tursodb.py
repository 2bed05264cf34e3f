"""The real tursodb: Turso's engine behind its own server, a process for each file.

Comes from npm (tests/npm) for Linux on x86-64. It speaks a part of the protocol: `execute` and
`batch` of /v2/pipeline, one connection that all share, one request at a time, no token.
Rules: it closes the connection after each answer, and while somebody holds an idle one open it
answers nobody else, so nothing here keeps one. It locks its file against everybody.
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.hrana.values import Json
from tests.npm.packages import missing, node_modules

PROGRAM: Final = "@tursodatabase/cli-linux-x64-gnu/tursodb"
BOUND_SECONDS: Final = 15.0
"""Generous for starting and for stopping; reaching it is a failure."""

PAUSE_SECONDS: Final = 0.01
"""Between two tries to reach a server that says nothing when it is ready."""


class Tursodb:
    """A running server. `restart` after `kill` is the same file on the same port."""

    def __init__(self, file: Path, program: Path) -> None:
        self.file = file
        self._program = program
        self._log = file.with_name(file.name + ".log")
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.start()

    @property
    def url(self) -> str:
        """What stands in MQLITE_DB."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, self.file, "--sync-server", f"127.0.0.1:{self.port}", "-q"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        for _ in range(round(BOUND_SECONDS / PAUSE_SECONDS)):
            try:
                return self._try()
            except OSError:
                self._pause()
        raise AssertionError(f"tursodb does not answer:\n{self._said()}")

    def kill(self) -> None:
        """End it with no chance to tidy up, as a power cut ends a process."""
        self._end(subprocess.Popen.kill)

    def stop(self) -> None:
        """End it in order; harmless when it has ended."""
        self._end(subprocess.Popen.terminate)

    def restart(self) -> None:
        """Come back after `kill` or `stop`."""
        assert self._process is None, "it still runs"
        self.start()

    def _try(self) -> None:
        pipeline(self.url, {"type": "execute", "stmt": {"sql": "SELECT 1"}})

    def _pause(self) -> None:
        assert self._process is not None
        try:
            self._process.wait(PAUSE_SECONDS)
        except subprocess.TimeoutExpired:
            return
        raise AssertionError(f"tursodb ended at once:\n{self._said()}")

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]

    def _end(self, how: Callable[[subprocess.Popen[bytes]], None]) -> None:
        if self._process is None:
            return
        how(self._process)
        try:
            self._process.wait(BOUND_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._process = None


def free_port() -> int:
    """A loopback port that nobody has at this moment."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def pipeline(url: str, *requests: Json) -> list[Json]:
    """The results of one pipeline, on a connection of its own."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=BOUND_SECONDS)
    try:
        body = json.dumps({"baton": None, "requests": requests})
        connection.request("POST", "/v2/pipeline", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
    finally:
        connection.close()
    assert response.status == 200, f"{response.status} {answer[:500]!r}"
    results: list[Json] = json.loads(answer)["results"]
    return results


@contextmanager
def running_tursodb(folder: Path) -> Iterator[Tursodb]:
    """A server of an empty database in `folder`; missing ends the test (tests/npm/packages.py)."""
    program = node_modules() / PROGRAM
    if not program.exists():
        missing("npm has no tursodb for this machine")
    server = Tursodb(folder / "turso.db", program)
    try:
        yield server
    finally:
        server.stop()
