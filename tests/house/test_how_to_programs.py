"""The programs of the pages run as they stand there, and print what stands there.

A page's `python` blocks, in order, are one program; its `text` block is the whole output.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT

PAGES = (
    "examples/walk-through", "how-to/dead-letters", "how-to/filters", "how-to/migrating",
    "how-to/outbox", "how-to/scaling-out", "how-to/serve", "how-to/topics", "how-to/workers",
)  # fmt: skip


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / f"docs/{page}.md").read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_program_of_the_page_prints_what_the_page_says(page: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("\n\n".join(blocks(page, "python")), "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", program.name],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'services'}"},
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert [done.stdout] == blocks(page, "text")


def test_the_programs_of_the_pages_are_typed(tmp_path: Path) -> None:
    """All in one run of the checker, which mostly reads our own packages."""
    programs = [tmp_path / f"{page.replace('/', '_').replace('-', '_')}.py" for page in PAGES]
    for page, program in zip(PAGES, programs, strict=True):
        program.write_text("\n\n".join(blocks(page, "python")), "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", *map(str, programs)],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout
