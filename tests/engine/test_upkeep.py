"""What front ends ask about a store's file without an engine on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.engine.upkeep import path_of


def test_a_store_has_one_absolute_path_unless_it_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert path_of("file:q.db") == path_of(str(tmp_path / "q.db")) == str(tmp_path / "q.db")
    with pytest.raises(InvalidArgument, match="names no file"):
        path_of(":memory:")
