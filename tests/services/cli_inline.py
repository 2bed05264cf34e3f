"""The command line in the process of the test: for what a command does, where its being a process
is not the point (cli_process.py). The same words, streams and exit codes; a run costs a tenth.
"""

from __future__ import annotations

from collections.abc import Mapping
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

    def run(self, *words: str, check: int | None = None) -> Finished:
        """Run `mqlite WORDS`. `check` is an exit code."""
        self._capfd.readouterr()
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
