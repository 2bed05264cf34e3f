"""Interleaved runs, medians and spread.

Used by every bench. Two cores shared with others make absolute figures drift by half within
minutes, so the things to compare run in turn (A B A B …) and the median of the ratios counts; the
spread tells how much to believe.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """Samples of one measured thing, in operations per second."""

    name: str
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle sample."""
        return statistics.median(self.samples)

    def __str__(self) -> str:
        low, high = min(self.samples), max(self.samples)
        return f"{self.name:44} {self.median:10,.0f}/s   [{low:,.0f} … {high:,.0f}]"


def interleaved(runs: int, things: Mapping[str, Callable[[], float]]) -> dict[str, Figure]:
    """Run every thing `runs` times in turn; each call returns operations per second."""
    samples: dict[str, list[float]] = {name: [] for name in things}
    for _ in range(runs):
        for name, thing in things.items():
            samples[name].append(thing())
    return {name: Figure(name, tuple(values)) for name, values in samples.items()}


def ratio(over: Figure, under: Figure) -> str:
    """Median of the ratios of runs made side by side, with the smallest and the largest."""
    ratios = [a / b for a, b in zip(over.samples, under.samples, strict=True)]
    return (
        f"{over.name} ÷ {under.name} = {statistics.median(ratios):.2f}"
        f"   [{min(ratios):.2f} … {max(ratios):.2f}]"
    )
