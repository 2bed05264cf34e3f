"""A soak's judge of growth finds what creeps, and lets go what comes and goes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.soak.vitals import FILLED, LOG_BYTES_MAX, MB, Vitals, growth

FLAT = Vitals(
    processes=3, resident=250 * MB, own=100 * MB, descriptors=25, sockets=1_500,
    log_bytes=4 * MB, file_bytes=2 * MB, messages=2_000,
)  # fmt: skip
SOCKETS_MAX = 2_400
LOOKS = 3 * FILLED


def looks(own: Iterable[int]) -> list[Vitals]:
    """A run whose writer has had so many megabytes of its own."""
    return [replace(FLAT, own=each * MB) for each in own]


def test_a_writer_that_creeps_is_found_and_floods_are_not() -> None:
    assert growth(looks([100] * LOOKS), SOCKETS_MAX) == []
    assert growth(looks([100, 100, 180, 101] * (LOOKS // 4)), SOCKETS_MAX) == []
    assert growth(looks(range(100, 100 + LOOKS)), SOCKETS_MAX) != []


@pytest.mark.parametrize(
    "grown",
    [
        replace(FLAT, resident=400 * MB),
        replace(FLAT, descriptors=60),
        replace(FLAT, file_bytes=20 * MB),
        replace(FLAT, log_bytes=LOG_BYTES_MAX + 1),
        replace(FLAT, sockets=SOCKETS_MAX + 1),
    ],
)
def test_what_grew_in_the_last_third_is_found(grown: Vitals) -> None:
    (found,) = {each.split()[0] for each in growth([FLAT] * 20 + [grown] * 10, SOCKETS_MAX)}
    assert found


def test_a_killed_worker_is_no_shrinking() -> None:
    killed = replace(FLAT, processes=2, resident=100 * MB)
    assert growth([FLAT, killed] * 15 + [FLAT] * 15, SOCKETS_MAX) == []
