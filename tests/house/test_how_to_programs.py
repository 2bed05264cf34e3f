"""The programs of the pages are typed as strictly as ours; tests/packages/test_pages.py runs them.

A page's `python` blocks, in order, are one program.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.house.tree import ROOT

PAGES = (
    "examples/walk-through", "how-to/dead-letters", "how-to/filters", "how-to/migrating",
    "how-to/outbox", "how-to/readers", "how-to/remote-store", "how-to/scaling-out", "how-to/serve",
    "how-to/several-processes", "how-to/topics", "how-to/workers", "tutorial",
)  # fmt: skip


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / f"docs/{page}.md").read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


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
