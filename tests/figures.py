"""What a long run tried, in figures: a line of JSON per suite, for docs/conformance.md.

A suite of `make proof` calls `record` when all it tried has held. Nothing is written unless
MQLITE_PROOF names a file; `docs/promises_page.py` adds the lines of one suite up. Each line says on
which product it was, so that figures of different ones are never added.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import json
import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PRODUCT: Final = ("mqlite_actor", "services")
"""Where everything is that users install."""


def record(suite: str, *, seed: int | None = None, **tried: int) -> None:
    """Say what this run of a suite tried: numbers that add up over processes and parameters."""
    path = os.environ.get("MQLITE_PROOF")
    if not path:
        return
    row = {"suite": suite, "date": today(), "seed": seed, "tried": tried, "product": here()}
    with Path(path).open("a", encoding="utf-8") as file:  # one short write: whole among others
        file.write(f"{json.dumps(row)}\n")


def today() -> str:
    """The day that figures of now are of."""
    return dt.datetime.now(dt.UTC).date().isoformat()


def digest(root: Path) -> str:
    """Sixteen digits that are others as soon as a file of the product has another name or text."""
    found = hashlib.blake2b(digest_size=8)
    for folder in PRODUCT:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                content = path.read_bytes()
                name = path.relative_to(root).as_posix()
                found.update(f"{name}\0{len(content)}\0".encode())
                found.update(content)
    return found.hexdigest()


@functools.cache
def here() -> str:
    """The digest of the product that this process imports."""
    return digest(ROOT)
