"""Where disks are rebuilt, thousands of times: a file system in memory, where there is one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.places import memory


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder of this test."""
    place = memory()
    if place is None:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="mqlite-power-", dir=place) as name:
        yield Path(name)
