"""A command of `consume` whose worker takes SIGTERM as "finish what you have"."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqlite_actor.contract.wire import Message
from mqlite_cli.running import Command, Stopped
from tests.services.test_cli_consuming import appears

UNTIL_SECONDS = 15.0
"""Well below what ends a test run that hangs."""

WORKER = """
import ctypes, fcntl, os, pathlib, signal, sys, threading
kind = sys.argv[1]
here = pathlib.Path()
if kind == "daemon":
    os.setsid()
elif kind == "uncollected" and not os.fork():
    kind = "mortal"
elif kind == "uncollected":  # never waits for its child, and has left the group
    os.setsid()
held = open("held" if kind != "uncollected" else "outside", "w")
try:
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    (here / "overlap").touch()
def told(*_):
    (here / "told").touch()
if kind != "mortal":
    signal.signal(signal.SIGTERM, told)
(here / f"pid.{kind}").write_text(str(os.getpid()))
(here / "began").touch()
def work():
    while not (here / "go").exists():
        threading.Event().wait(0.01)
    (here / "finished").touch()
    os._exit(0)
if kind == "threads":
    threading.Thread(target=work).start()
    ctypes.CDLL(None).pthread_exit(None)
work()
"""
"""Takes SIGTERM as "finish what you have", and has finished when the file `go` is there."""


class Scene:
    """A folder with the worker, and one command that runs it in a thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "worker.py").write_text(WORKER)
        self.outcome: list[object] = []

    def line(self, kind: str, rest: str = "; true") -> str:
        return f"cd '{self.folder}' && {sys.executable} -ISE worker.py {kind}{rest}"

    def begin(
        self, line: str, *, began: str = "began", limit_seconds: float = 0
    ) -> tuple[Command, threading.Thread]:
        """The command, and the thread that waits for it."""
        message = Message(seq_number=1, lock_token="t", body=b"x")
        command = Command(line, "q", message, limit_seconds=limit_seconds)

        def run() -> None:
            try:
                self.outcome.append(command.run())
            except Stopped as stopped:
                self.outcome.append(stopped)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        appears(self.folder / began)
        return command, thread

    def is_held(self) -> bool:
        """Whether a worker is alive."""
        with (self.folder / "held").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def pid(self, kind: str) -> int:
        return int((self.folder / f"pid.{kind}").read_text())


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    for kind in ("daemon", "uncollected"):  # they have left the group, and outlive it
        if (tmp_path / f"pid.{kind}").exists():
            os.kill(scene.pid(kind), signal.SIGKILL)
    (tmp_path / "go").touch()


def until(is_so: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(UNTIL_SECONDS * 100)):
        if is_so():
            return
        pause.wait(0.01)
    raise AssertionError("it did not become so")
