"""Debian's Prometheus as a real process, and its promtool: what the suites of monitoring ask.

Each process has a folder of the test, listens on the loopback address and is ended by its id.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from tests.house.tree import ROOT
from tests.services.broker_process import START_SECONDS, Lines

MONITORING: Final = ROOT / "deploy" / "monitoring"
TOKEN_FILE: Final = "mqlite-monitor-token"
"""Where prometheus.yml looks for the token, beside itself."""

BOUND_SECONDS: Final = 120.0
MOMENT_SECONDS: Final = 0.05
"""Between two questions to something that makes no sound."""


def needed(program: str) -> str:
    """Its path; without it the test is skipped, and under CI it fails."""
    path = shutil.which(program) or shutil.which(program, path="/usr/sbin")
    if path is None:
        say = pytest.fail if os.environ.get("CI") else pytest.skip
        say(f"{program} is not installed")
    return path


def promtool(folder: Path, *words: str) -> str:
    """What promtool prints; it must be content."""
    done = subprocess.run(
        [needed("promtool"), *words],
        cwd=folder, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def config_copied(folder: Path, token: str) -> Path:
    """The files of the starter in a folder of the test, with a token; prometheus.yml of them."""
    shutil.copytree(MONITORING / "prometheus", folder, dirs_exist_ok=True)
    secret = folder / TOKEN_FILE
    secret.touch(mode=0o600)
    secret.write_text(f"{token}\n", "utf-8")
    return folder / "prometheus.yml"


@dataclass(frozen=True)
class Prometheus:
    """One that runs."""

    url: str

    def ask(self, path: str, **arguments: str) -> Any:  # noqa: ANN401 - whatever JSON holds
        """The data of an answer of the API."""
        with urlopen(f"{self.url}/api/v1/{path}?{urlencode(arguments)}", timeout=30) as answer:
            return json.load(answer)["data"]

    def series(self, expression: str) -> list[dict[str, Any]]:
        """What an expression gives now; AssertionError for one that is none."""
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found

    def firing(self, instance: str) -> set[str]:
        """The names of the alerts that fire now about one target."""
        firing = [each for each in self.ask("alerts")["alerts"] if each["state"] == "firing"]
        labels = [each["labels"] for each in firing]
        return {each["alertname"] for each in labels if each["instance"] == instance}


def until(is_so: Callable[[], object], what: Callable[[], str]) -> None:
    """Return once `is_so`; AssertionError with `what` if that takes too long."""
    end = time.monotonic() + BOUND_SECONDS
    while not is_so():
        assert time.monotonic() < end, what()
        threading.Event().wait(MOMENT_SECONDS)


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def running_prometheus(config: Path) -> Iterator[Prometheus]:
    """Prometheus on a configuration; killed at the end."""
    program = needed("prometheus")
    for _ in range(3):  # it does not take port 0, and the one found may be taken meanwhile
        port = free_port()
        process = subprocess.Popen(
            [
                program, f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}",
                f"--storage.tsdb.path={config.parent / 'data'}",
            ],
            cwd=config.parent, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stderr is not None
        lines = Lines(process.stderr)
        try:
            said = lines.first(
                re.compile(r"Server is ready to receive|address already in use|level=error.*")
            )
            if "in use" in said[0]:
                continue
            assert "ready" in said[0], "\n".join(lines.so_far())
            yield Prometheus(f"http://127.0.0.1:{port}")
            return
        finally:
            process.kill()
            process.wait(START_SECONDS)
            lines.to_the_end()
    raise AssertionError("no port was free")
