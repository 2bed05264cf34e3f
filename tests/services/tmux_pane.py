"""A terminal to try programs in: a tmux server of its own, keys in, screen out.

Used by the suites of the monitor. Each pane has a private socket, no configuration of the machine,
and is ended with everything in it. Every wait is for something on the screen, with a bound.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.services.cli_process import BOUND_SECONDS, clean_environ

MOMENT_SECONDS = 0.05
"""Between two looks at the screen, which makes no sound."""

PROMPT = "ready>"


class Pane:
    """One terminal with a plain shell in it."""

    def __init__(self, socket: Path, environ: Mapping[str, str]) -> None:
        self._socket = socket
        self._environ = environ

    def tmux(self, *words: str) -> str:
        """Run a tmux command on this server; what it prints."""
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), "-f", "/dev/null", *words],
            env=self._environ, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def screen(self) -> str:
        """What stands on the screen."""
        return self.tmux("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        """Keys by their tmux names."""
        self.tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        """Text, and Enter."""
        self.tmux("send-keys", "-l", text)
        self.press("Enter")

    def wait_for(self, *texts: str, absent: str = "") -> str:
        """The screen once all `texts` stand there and `absent` does not."""
        until = time.monotonic() + BOUND_SECONDS
        while True:
            screen = self.screen()
            if all(text in screen for text in texts) and (not absent or absent not in screen):
                return screen
            assert time.monotonic() < until, f"no {texts} without {absent!r} on\n{screen}"
            threading.Event().wait(MOMENT_SECONDS)

    def resize(self, width: int, height: int) -> None:
        """Another size, as by a mouse."""
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def foreground(self, marker: str) -> int:
        """The process whose command line has `marker` in it, below this terminal's shell."""
        shell = int(self.tmux("display-message", "-p", "#{pane_pid}"))
        listed = subprocess.run(
            ["ps", "-o", "pid=,args=", "--ppid", str(shell)],
            capture_output=True, text=True, timeout=BOUND_SECONDS, check=True,
        ).stdout  # fmt: skip
        (found,) = [line.split()[0] for line in listed.splitlines() if marker in line]
        return int(found)

    def modes(self) -> str:
        """What `stty` says of the terminal."""
        tty = self.tmux("display-message", "-p", "#{pane_tty}").strip()
        return subprocess.run(
            ["stty", "-a", "-F", tty],
            capture_output=True, text=True, timeout=BOUND_SECONDS, check=True,
        ).stdout  # fmt: skip


@contextmanager
def opened(folder: Path, *, width: int, height: int, **environ: str) -> Iterator[Pane]:
    """A pane with a shell in `folder`; its server has ended when this has."""
    if shutil.which("tmux") is None:
        say = pytest.fail if os.environ.get("CI") else pytest.skip
        say("tmux is not installed; .ci/run brings it")
    inside = clean_environ({"PS1": PROMPT, "LC_ALL": "C.UTF-8", **environ})
    pane = Pane(folder / "tmux", inside)
    size = ["-x", str(width), "-y", str(height)]
    # -i: a shell with job control, and with the prompt above.
    pane.tmux("new-session", "-d", *size, "-c", str(folder), "sh", "-i")
    try:
        pane.wait_for(PROMPT)
        yield pane
    finally:
        server = int(pane.tmux("display-message", "-p", "#{pid}"))
        os.kill(server, signal.SIGTERM)
