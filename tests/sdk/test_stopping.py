"""One wish to stop that is heard twice stays one."""

from __future__ import annotations

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.sdk.stopping import StopSignals


@pytest.mark.parametrize(
    ("at_ms", "echoes"),
    [
        ([0, 0], [False, True]),
        ([0, 1, 499, 500], [False, True, True, False]),
        ([0, 300, 600], [False, True, False]),
        ([0, 9_000, 9_001], [False, False, False]),
    ],
)
def test_only_what_follows_the_first_signal_at_once_repeats_it(
    at_ms: list[int], echoes: list[bool]
) -> None:
    clock = ManualClock(0)
    signals = StopSignals(clock)
    found = []
    for each in at_ms:
        clock.set(each)
        found.append(signals.is_echo())
    assert found == echoes
