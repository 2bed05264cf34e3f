"""Stores that are killed lie on the disk: while a process waits for a sync, a kill finds more."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder of this test on the disk; it stays if the test fails, and pytest shows where."""
    failed = request.session.testsfailed
    path = Path(tempfile.mkdtemp(prefix="mqlite-crash-"))
    yield path
    if request.session.testsfailed == failed:
        shutil.rmtree(path)
