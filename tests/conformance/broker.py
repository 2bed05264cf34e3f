"""A real broker process on a free loopback port, for the tests that reach the engine over HTTP.

Started once per test worker by the `broker` fixture of tests/conftest.py; stopped by SIGTERM, and
only its own process is ever touched.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from tests.warm.process import PATHS, Popen

ROOT: Final = Path(__file__).resolve().parents[2]
TOKEN: Final = "conformance-administrator"
READY: Final = re.compile(r"\bready\b.*http://127\.0\.0\.1:(\d+)")
BOUND_SECONDS: Final = 15.0
"""Generous for stopping; reaching it is a failure."""

START_SECONDS: Final = 60.0
"""A start takes half a second, and a worker imports it all once more; on a machine whose cores are
all busy elsewhere both were seen to take twenty."""


@dataclass(frozen=True)
class Broker:
    """Where a running broker listens, and an administrator's token for it."""

    url: str
    token: str


class Output:
    """What a process prints, read to its end by a thread so that it never blocks."""

    def __init__(self, stream: IO[str]) -> None:
        self.lines: list[str] = []
        self.port = 0
        self._said_port = threading.Event()
        self._stream = stream
        self._reader = threading.Thread(target=self._read, name="broker output", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with self._stream as stream:
            for line in stream:
                self.lines.append(line)
                found = READY.search(line)
                if found and not self.port:
                    self.port = int(found[1])
                    self._said_port.set()
        self._said_port.set()

    def wait_for_port(self) -> int:
        """The port of the ready line; an AssertionError shows what was printed instead."""
        self._said_port.wait(START_SECONDS)
        assert self.port, "the broker did not get ready:\n" + "".join(self.lines)
        return self.port

    def join(self) -> None:
        self._reader.join(BOUND_SECONDS)


@contextmanager
def running_broker(store: str, **settings: str) -> Iterator[Broker]:
    """A broker on `store` (`file:PATH` or `:memory:`); `settings` are MQLITE_… variables."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("MQLITE_")}
    environ = {
        **ours,
        "PYTHONPATH": PATHS,
        "MQLITE_DB": store,
        "MQLITE_TOKENS": TOKEN,
        **settings,
    }
    command = [sys.executable, "-m", "mqlite_broker", "--addr", "127.0.0.1:0"]
    process = Popen(
        command,
        env=environ,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    output = Output(process.stdout)
    try:
        yield Broker(f"http://127.0.0.1:{output.wait_for_port()}", TOKEN)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(BOUND_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            output.join()
    assert status == 0, f"the broker ended with {status}:\n" + "".join(output.lines[-20:])
