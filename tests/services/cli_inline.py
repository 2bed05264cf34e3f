"""The command line in the process of the test: for what a command does, where its being a process
is not the point (cli_process.py). The same words, streams and exit codes; a run costs a tenth.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqlite_cli.dispatch import dispatch
from mqlite_cli.streams import Streams
from tests.services.cli_process import Finished


class Inline:
    """Runs `mqlite` in one folder with one environment, through the real descriptors."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
        environ: Mapping[str, str] | None = None,
    ) -> None:
        monkeypatch.chdir(folder)
        self.folder = folder
        self.environ = dict(environ or {})
        self._capfd = capfd

    def run(self, *words: str, stdin: bytes | None = None, check: int | None = None) -> Finished:
        """Run `mqlite WORDS`. `check` is an exit code."""
        self._capfd.readouterr()
        with _standard_input(stdin):
            streams = Streams()
            code = dispatch(list(words), environ=self.environ, streams=streams)
            streams.flush()
        out, err = self._capfd.readouterr()
        finished = Finished(code, out.encode(), err)
        if check is not None:
            assert code == check, finished
        return finished

    def ok(self, *words: str) -> str:
        """Run what must succeed; what it printed."""
        return self.run(*words, check=0).text


@contextmanager
def _standard_input(content: bytes | None) -> Iterator[None]:
    """This process's descriptor 0 as a file of these bytes; None leaves it alone."""
    if content is None:
        yield
        return
    kept = os.dup(0)
    try:
        with tempfile.TemporaryFile() as file:
            file.write(content)
            file.seek(0)
            os.dup2(file.fileno(), 0)
            yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)
