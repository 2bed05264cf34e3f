"""What Observe says of its process is what the system says, and null where it says nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from mqlite_actor.engine import process

LINUX = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="there is no /proc here")


@LINUX
def test_the_numbers_are_the_systems() -> None:
    found = process.this_process()
    assert found.cpu_seconds is not None
    assert 0 < found.cpu_seconds <= time.process_time()
    assert found.resident_bytes is not None
    assert found.virtual_bytes is not None
    assert 1 << 20 < found.resident_bytes < found.virtual_bytes
    assert found.start_time_seconds is not None
    age = time.time() - found.start_time_seconds
    assert -5 < age < 86_400, "of this very process, to the tick of the system's clock"
    assert found.max_descriptors


@LINUX
def test_an_open_file_is_one_descriptor_more() -> None:
    before = process.this_process().open_descriptors
    assert before
    with Path(os.devnull).open("rb"):
        assert process.this_process().open_descriptors == before + 1


def test_a_system_without_proc_leaves_null(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "_SELF", tmp_path)
    process._start_time.cache_clear()
    found = process.this_process()
    assert found.resident_bytes is None
    assert found.virtual_bytes is None
    assert found.start_time_seconds is None
    assert found.open_descriptors is None
    assert found.cpu_seconds
