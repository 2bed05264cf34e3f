"""A database server that we did not write, as a process: started, killed, started again.

The base of `tursodb.py` and `sqld.py`. It listens on a loopback port that was free, is ready when
it answers, and is ended by its id.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.hrana.values import Json
from tests.warm.process import Popen

BOUND_SECONDS: Final = 15.0
"""Generous for starting and for stopping; reaching it is a failure."""

PAUSE_SECONDS: Final = 0.01
"""Between two tries to reach a server that says nothing when it is ready."""


class RealServer:
    """A running server. `restart` after `kill` is the same data on the same port."""

    def __init__(self, place: Path, program: Path) -> None:
        self.place = place
        self.program = program
        self._log = place.with_name(place.name + ".log")
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.start()

    @property
    def command(self) -> Sequence[str | Path]:
        """The program and its arguments."""
        raise NotImplementedError

    @property
    def environ(self) -> Mapping[str, str]:
        """Variables that it gets beside ours."""
        return {}

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
            self._process = Popen[bytes](
                self.command,
                env={**os.environ, **self.environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        for _ in range(round(BOUND_SECONDS / PAUSE_SECONDS)):
            try:
                return self._try()
            except OSError:
                self._pause()
        raise AssertionError(f"{self.program.name} does not answer:\n{self._said()}")

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
        """OSError while nobody answers."""
        pipeline(self.url, {"type": "execute", "stmt": {"sql": "SELECT 1"}})

    def _pause(self) -> None:
        assert self._process is not None
        try:
            self._process.wait(PAUSE_SECONDS)
        except subprocess.TimeoutExpired:
            return
        raise AssertionError(f"{self.program.name} ended at once:\n{self._said()}")

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
