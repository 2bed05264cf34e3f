"""What a long run tried, in figures: a line of JSON per suite, for docs/conformance.md.

A suite of `make proof` calls `record` when all it tried has held. Nothing is written unless
MQLITE_PROOF names a file; `docs/promises_page.py` adds the lines of one suite up.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path


def record(suite: str, *, seed: int | None = None, **tried: int) -> None:
    """Say what this run of a suite tried: numbers that add up over processes and parameters."""
    path = os.environ.get("MQLITE_PROOF")
    if not path:
        return
    day = dt.datetime.now(dt.UTC).date().isoformat()
    line = json.dumps({"suite": suite, "date": day, "seed": seed, "tried": tried})
    with Path(path).open("a", encoding="utf-8") as file:  # one short write: whole among others
        file.write(f"{line}\n")
