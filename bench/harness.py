"""Runs scenarios in turn, each in a process of its own, and shows how far it is.

Called by `__main__.py`. Two shared cores drift by half within minutes, so the runs interleave (A B
A B …), and the report compares runs made in the same round.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.scenario import Sample, Scenario
from bench.tables import missing

RUN_SECONDS = 600
"""A run that takes longer is stuck."""


def measure(
    scenarios: Sequence[Scenario], *, runs: int, scale: float, console: Console
) -> tuple[dict[str, list[Sample]], dict[str, str]]:
    """The samples of each scenario, and why some have none."""
    left_out = {each.name: f"needs {missing(each)}" for each in scenarios if missing(each)}
    todo = [each for each in scenarios if each.name not in left_out]
    samples: dict[str, list[Sample]] = {each.name: [] for each in todo}
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=runs * len(todo))
        for _ in range(runs):
            for each in todo:
                progress.update(task, description=f"{each.name:24}")
                if each.name not in left_out:
                    try:
                        samples[each.name].append(_run(each, scale))
                    except RuntimeError as error:
                        left_out[each.name] = str(error)
                progress.advance(task)
    return {name: found for name, found in samples.items() if found}, left_out


def _run(scenario: Scenario, scale: float) -> Sample:
    command = [sys.executable, "-m", "bench.child", scenario.name, str(scale)]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"did not end in {RUN_SECONDS} s") from error
    lines = ran.stdout.splitlines()
    if ran.returncode or not lines:
        reason = (ran.stderr.strip() or "no output").splitlines()[-1]
        raise RuntimeError(f"failed: {reason}")
    return msgspec.json.decode(lines[-1], type=Sample)
