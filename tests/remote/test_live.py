"""Somebody's own database: sqld or Turso Cloud run the suite when they are named."""

from __future__ import annotations

import pytest

from tests.conformance.handles import KINDS
from tests.conformance.remote_engines import LIVE


@pytest.mark.skipif(not LIVE, reason="not run: MQLITE_TEST_DB names no database of yours")
def test_the_suite_runs_on_the_database_that_is_named() -> None:
    assert "live" in [kind.name for kind in KINDS]
