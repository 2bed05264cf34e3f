"""Stores that are killed lie on the disk: while a process waits for a sync, a kill finds more. Most
parts of a long run are in memory (parts.py)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.parts import place_of


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder of this test; it stays if the test fails, and pytest shows where."""
    failed = request.session.testsfailed
    kills = request.getfixturevalue("kills") if "kills" in request.fixturenames else range(1)
    path = Path(tempfile.mkdtemp(prefix="mqlite-crash-", dir=place_of(kills)))
    yield path
    if request.session.testsfailed == failed:
        shutil.rmtree(path)
