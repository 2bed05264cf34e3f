"""The wheel with what is newest for it on every Python that is here: broker, handles, commands.

An interpreter gets other versions of what we depend on than its elders do (Python 3.13 was given a
Quart with which no broker started), so it is installed into afresh. The newest one of this machine
is tried, and with MQLITE_PYTHONS=all each of them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packages.installed import Built
from tests.packages.test_installed import EMBEDDED, REMOTE, TOKEN
from tests.services.broker_process import BrokerProcess

MINORS = range(11, 16)

INSTALL_SECONDS = 300.0
"""A dozen packages from wherever pip finds them."""


def interpreter(minor: int) -> str | None:
    """Python 3.`minor`, in the path or known to pyenv."""
    name = f"python3.{minor}"
    places = [found] if (found := shutil.which(name)) else []
    if pyenv := shutil.which("pyenv"):
        versions = _says(pyenv, "versions", "--bare").split()
        ours = [each for each in versions if re.fullmatch(rf"3\.{minor}\.\d+", each)]
        places += [f"{_says(pyenv, 'prefix', each)}/bin/{name}" for each in ours]
    works = f"import ensurepip, sys, venv; print(sys.version_info[:2] == (3, {minor}))"
    return next((each for each in places if _says(each, "-c", works) == "True"), None)


def others() -> list[str]:
    """Those that are here beside our own, the newest first."""
    minors = [minor for minor in reversed(MINORS) if minor != sys.version_info[1]]
    found = [python for minor in minors if (python := interpreter(minor))]
    return found if os.environ.get("MQLITE_PYTHONS") == "all" else found[:1]


def _says(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip()


def environ(**further: str) -> dict[str, str]:
    """Without our variables, and without a way to the source tree."""
    names = [name for name in os.environ if not name.startswith(("MQLITE_", "PYTHON"))]
    return {name: os.environ[name] for name in names} | further


def installed(packages: Built, place: Path, python: str) -> None:
    """An environment of that Python, with the wheel and all extras. Our pip fills it: one of its
    own would cost three seconds, for one use."""
    making = [python, "-m", "venv", "--without-pip", "environment"]
    subprocess.run(making, cwd=place, check=True, timeout=120)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", place / "environment/bin/python", "install",
         "--quiet", "--disable-pip-version-check", f"{packages.wheel}[all]"],
        cwd=place, env=environ(), capture_output=True, text=True, timeout=INSTALL_SECONDS,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def run(folder: Path, script: str, *words: str) -> str:
    done = subprocess.run(
        [folder / "environment/bin" / script, *words], cwd=folder, env=environ(),
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), (script, words)
    return done.stdout


def test_every_face_works_on_every_python(packages: Built, tmp_path: Path) -> None:
    pythons = others()
    if not pythons:
        pytest.skip("no other Python is here")
    for number, python in enumerate(pythons):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        installed(packages, folder, python)
        works(folder)


def works(folder: Path) -> None:
    told = run(folder, "python", "-c", EMBEDDED).split()
    assert told[:2] == ["here", "0"]
    assert told[-1].startswith(f"{folder}/environment/")
    run(folder, "mqlite", "create-queue", "q")
    run(folder, "mqlite", "send", "q", "tea")
    assert "tea" in run(folder, "mqlite", "receive", "q")
    process = subprocess.Popen(
        [folder / "environment/bin/mqlite", "serve", "--metrics"],
        cwd=folder, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ(MQLITE_ADDR="127.0.0.1:0", MQLITE_TOKENS=TOKEN, MQLITE_LANE="off",
                    MQLITE_WORKERS="1"),
    )  # fmt: skip
    broker = BrokerProcess(process)
    try:
        dsn = broker.url.replace("http://", f"mqlite://{TOKEN}@")
        assert run(folder, "python", "-c", REMOTE, dsn).split() == ["blocking", *["waiting"] * 2]
        broker.stop()
    finally:
        process.kill()
        process.wait()
    assert json.loads(run(folder, "mqlite", "status", "--output", "json"))
