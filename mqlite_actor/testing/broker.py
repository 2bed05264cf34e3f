"""A real broker on a free loopback port, in a process of its own.

One of the files that reach a front end, resolved when it is called: without the extra it says what
to install. Rule: it listens on 127.0.0.1 alone, on a port that the system chose, with a token of
its own, over a store in memory; it ends with its block.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import IO

from mqlite_actor.contract.errors import Unavailable, Unsupported

READY = re.compile(r"\bready\b.*http://127\.0\.0\.1:(\d+)")
BOUND_SECONDS = 30.0
"""For starting and for stopping, on a machine that is busy with tests."""


@dataclass(frozen=True)
class Broker:
    """Where a running broker listens, and an administrator's token for it."""

    url: str
    token: str

    @property
    def dsn(self) -> str:
        """Address and token in one string, for `connect`."""
        return f"mqlite://{self.token}@{self.url.removeprefix('http://')}"


@contextmanager
def running_broker(store: str = ":memory:") -> Iterator[Broker]:
    """A broker process for the length of a block.

    Raises Unsupported without the extra `broker`, Unavailable with the broker's last words if it
    does not get ready.
    """
    if find_spec("mqlite_broker") is None or find_spec("hypercorn") is None:
        raise Unsupported("install mqlite-actor[broker] to run a broker in tests")
    token = f"mqk_{secrets.token_hex(32)}"
    kept = {key: value for key, value in os.environ.items() if not key.startswith("MQLITE_")}
    paths = os.pathsep.join(path for path in sys.path if path)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "mqlite_broker", "--addr", "127.0.0.1:0"],
        env={**kept, "PYTHONPATH": paths, "MQLITE_DB": store, "MQLITE_TOKENS": token},
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    words = _Words(process.stdout)
    try:
        yield Broker(f"http://127.0.0.1:{words.port()}", token)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(BOUND_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        words.join()


class _Words:
    """What the process prints, read to its end so that it never blocks."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._lines: list[str] = []
        self._port = 0
        self._is_known = threading.Event()
        self._reader = threading.Thread(target=self._read, name="broker words", daemon=True)
        self._reader.start()

    def port(self) -> int:
        self._is_known.wait(BOUND_SECONDS)
        if not self._port:
            raise Unavailable("the broker did not get ready:\n" + "".join(self._lines[-20:]))
        return self._port

    def join(self) -> None:
        self._reader.join(BOUND_SECONDS)

    def _read(self) -> None:
        with self._stream as stream:
            for line in stream:
                self._lines.append(line)
                found = READY.search(line)
                if found and not self._port:
                    self._port = int(found[1])
                    self._is_known.set()
        self._is_known.set()
