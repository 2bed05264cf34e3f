"""The real tursodb: Turso's engine behind its own server, a process for each file.

Comes from npm (tests/npm) for Linux on x86-64. It speaks a part of the protocol: `execute` and
`batch` of /v2/pipeline, one connection that all share, one request at a time, no token.
Rules: it closes the connection after each answer, and while somebody holds an idle one open it
answers nobody else, so nothing here keeps one. It locks its file against everybody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.hrana.real_server import RealServer
from tests.npm.packages import missing, node_modules

PROGRAM: Final = "@tursodatabase/cli-linux-x64-gnu/tursodb"


class Tursodb(RealServer):
    """A running tursodb; `place` is its file."""

    @property
    def command(self) -> Sequence[str | Path]:
        return [self.program, self.place, "--sync-server", f"127.0.0.1:{self.port}", "-q"]


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
