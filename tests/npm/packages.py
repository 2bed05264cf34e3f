"""What the tests take from npm: versions of package.json and package-lock.json, kept in .venv/npm.

`node_modules` fetches them once for each state of the lock file, and is called by the fixtures that
need one. Scripts of the packages are never run. What cannot be had skips the test with the reason,
and under CI fails it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final, NoReturn

import pytest

HERE: Final = Path(__file__).resolve().parent
CACHE: Final = HERE.parents[1] / ".venv" / "npm"
PINS: Final = ("package.json", "package-lock.json")
BOUND_SECONDS: Final = 240.0
"""About 30 MB over a slow line."""


@cache
def node_modules() -> Path:
    """The folder of the packages, all there in the versions of the lock file."""
    program = command("npm")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test workers may want them at once
        digest = hashlib.sha256(b"".join((HERE / pin).read_bytes() for pin in PINS)).hexdigest()
        stamp = CACHE / "fetched"
        if not (stamp.exists() and stamp.read_text() == digest):
            _fetch(program)
            stamp.write_text(digest)
    return CACHE / "node_modules"


def command(name: str) -> str:
    """Where a program is."""
    found = shutil.which(name)
    return found if found is not None else missing(f"{name} is not installed")


def missing(reason: str) -> NoReturn:
    """End the test: something that it needs cannot be had."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


def _fetch(npm: str) -> None:
    for pin in PINS:
        shutil.copyfile(HERE / pin, CACHE / pin)
    quietly = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
    done = subprocess.run(
        [npm, "ci", *quietly],
        check=False,
        cwd=CACHE,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
    )
    if done.returncode:
        missing(f"npm could not fetch the packages of tests/npm:\n{done.stderr}")
