"""What pages say about speed and size is what the last run of the benchmarks measured, rounded."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.house.tree import ROOT

LEEWAY: Final = 1.4
"""Medians of two runs on a shared machine differ by that much; one that is off by more is old."""

KB: Final = 1000

SAID: Final = {
    "sizing": (
        (r"HTTP, 64 connections \| ([\d,]+)", "HTTP send 64", "per second", 1),
        (r"HTTP, 64 connections \| .* \| ([\d,]+)", "HTTP batch 64", "per second", 1),
        (r"`MQLITE_SYNC=FULL` \| ([\d,]+)", "HTTP send 64 FULL", "per second", 1),
        (r"complete it, 64 connections \| ([\d,]+)", "HTTP cycle 64", "per second", 1),
        (r"embedded sends, 64 at once \| ([\d,]+)", "produce 64", "per second", 1),
        (r"embedded sends, 64 at once \| .* \| ([\d,]+)", "batch 64", "per second", 1),
        (r"about ([\d.]+) KB for a send when 64", "HTTP send 64", "written B/op", KB),
        (r"([\d.]+) KB when it comes alone", "HTTP send 1", "written B/op", KB),
    ),
    "tuning": (
        (r"([\d,]+) messages a second against", "HTTP batch 64", "per second", 1),
        (r"messages a second against ([\d,]+)", "HTTP send 64", "per second", 1),
        (r"\(([\d,]+) a second over HTTP\)", "HTTP send 1", "per second", 1),
        (r"it \(([\d,]+)\)", "HTTP send 64", "per second", 1),
    ),
    "durability": (
        (r"([\d,]+) sends a second over HTTP", "HTTP send 64 FULL", "per second", 1),
        (r"over HTTP instead of ([\d,]+)", "HTTP send 64", "per second", 1),
    ),
}
"""Page → where a figure stands in it, the scenario and the column that it comes from, its unit."""


def measured() -> dict[tuple[str, str], float]:
    """(scenario, column) → figure, of the page on benchmarks."""
    found: dict[tuple[str, str], float] = {}
    columns: list[str] = []
    for line in (ROOT / "docs/benchmarks.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == "scenario":
            columns = cells
        for column, cell in zip(columns, cells, strict=False):
            if re.fullmatch(r"[\d,.]*\d", cell):
                found[cells[0], column] = float(cell.replace(",", ""))
    return found


@pytest.mark.parametrize("page", SAID)
def test_the_figures_of_a_page_are_those_of_the_last_run(page: str) -> None:
    text = (ROOT / f"docs/how-to/{page}.md").read_text("utf-8")
    known = measured()
    for place, scenario, column, unit in SAID[page]:
        (figure,) = re.findall(place, text)
        said, was = float(figure.replace(",", "")) * unit, known[scenario, column]
        assert was / LEEWAY <= said <= was * LEEWAY, (page, place, figure, was)
