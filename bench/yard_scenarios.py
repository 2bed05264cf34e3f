"""Scenarios of the yardsticks: what SQLite alone does, and what an empty route does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.scenario import Sample, Scenario, Watch
from bench.yardstick import Yardstick


def _raw(
    synchronous: str, what: str, number: int, *, filled: bool = False
) -> Callable[[Path, float], Sample]:
    def run(folder: Path, scale: float) -> Sample:
        many = max(64, int(number * scale))
        raw = Yardstick(folder, synchronous)
        try:
            if filled:
                raw.sends(many)
            loop: Callable[[int], float] = getattr(raw, what)
            with Watch() as watch:
                loop(many)
            return watch.sample(many, folder)
        finally:
            raw.close()

    return run


SCENARIOS: Final = (
    Scenario("yardstick sends", "the insert alone, 64 a transaction",
             _raw("NORMAL", "sends", 40_000)),
    Scenario("yardstick sends FULL", "the same, each commit flushed",
             _raw("FULL", "sends", 20_000)),
    Scenario("yardstick cycles", "claim, fenced delete and receipt alone, 64 a transaction",
             _raw("NORMAL", "cycles", 20_000, filled=True)),
    Scenario("receipts 64", "what a settlement adds to be repeatable, alone, 64 a transaction",
             _raw("NORMAL", "receipts", 20_000)),
)  # fmt: skip
