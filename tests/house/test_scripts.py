"""The commands around the program: `make run`, `make test`, `.ci/run`.

What they install is tried by every clean clone; here stands what can be known without installing.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.house.tree import ROOT

SCRIPTS = {".ci/lowest": "bash", ".ci/run": "bash", ".ci/venv": "sh"}


def dry_run(target: str) -> str:
    """What make would do for `target`, without doing it.

    A clean environment, because these tests run below `make test` and its variables.
    """
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", target],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_parses_and_can_be_executed(script: str) -> None:
    shell = shutil.which(SCRIPTS[script])
    if shell is None:
        pytest.skip(f"{SCRIPTS[script]} is not installed")
    subprocess.run([shell, "-n", script], cwd=ROOT, check=True, timeout=60)
    assert os.access(ROOT / script, os.X_OK)
    assert (ROOT / script).read_text("utf-8").startswith("#!")


def test_continuous_integration_does_what_make_test_does() -> None:
    lines = (ROOT / ".ci/run").read_text("utf-8").splitlines()
    assert lines[-1] == "exec make test </dev/null"


def test_make_run_starts_the_broker_on_the_loopback_address() -> None:
    assert "exec .venv/bin/mqlite serve --addr 127.0.0.1:6754" in dry_run("run")


@pytest.mark.parametrize(
    "layer", ["ruff check", "ruff format --check", "mypy", "lint-imports", "pytest -n 2"]
)
def test_make_test_runs_every_layer(layer: str) -> None:
    assert f".venv/bin/{layer}" in dry_run("test")
