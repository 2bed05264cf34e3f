"""Which lines of a module a commit of git does not have.

`python -m tests.mutants --since REV` tries the mutants of these alone: after a mend that takes
minutes instead of hours.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

HUNK: Final = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


def new_lines(file: Path, since: str) -> frozenset[int]:
    """The numbers of the lines that are new or others since then, committed or not.

    Raises `ValueError` with git's words when it knows no such commit."""
    words = ["git", "diff", "--unified=0", "--no-color", "--no-ext-diff", since, "--", file.name]
    done = subprocess.run(words, cwd=file.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"--since {since}: {done.stderr.strip()}")
    hunks = HUNK.findall(done.stdout)
    return frozenset(
        line for first, many in hunks for line in range(int(first), int(first) + int(many or 1))
    )
