"""What a run of the bench says: a table, JSON, a chart and the page of the docs.

Called by `__main__.py` with the samples. A figure is the median of its runs with the smallest and
the largest; ratios are taken between runs of the same round.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from math import log10
from pathlib import Path
from statistics import median
from typing import Final

import apsw
import msgspec
from rich.console import Console
from rich.table import Table

from bench.numbers import NUMBERS
from bench.scenario import Sample
from bench.tables import TABLES, by_name
from mqlite_actor.version import __version__


class Report(msgspec.Struct, frozen=True):
    """Everything that was measured at once."""

    machine: dict[str, str]
    scale: float
    samples: dict[str, list[Sample]]
    left_out: dict[str, str]


def machine() -> dict[str, str]:
    """What the figures were taken on; nothing that names it."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "processor": f"{model}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "mqlite-actor": __version__,
        "load": f"{os.getloadavg()[0]:.1f} at the end",
    }


INTRODUCTION: Final = (
    "Made by `make bench`; do not edit. Figures are medians of interleaved runs with the smallest"
    " and the largest, and only ratios within one run mean much: absolute figures drift with"
    " whatever else the machine does. The broker that is measured has authentication, its access"
    " log and its counters on."
)

SVG: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="{}" height="{}" font-family="sans-serif"'
    ' font-size="11">'
)
BAR: Final = """\
<text x="{at}" y="{down}" text-anchor="end" fill="#555">{name}</text>
<rect x="{left}" y="{up}" width="{length:.0f}" height="12" fill="#3b7"/>
<text x="{end:.0f}" y="{down}" fill="#555">{rate}</text>"""

HEADS: Final = ("scenario", "per second", "spread", "p50 ms", "p99 ms", "max ms", "CPU µs/op",
                "RSS MiB", "written B/op")  # fmt: skip


def cells(name: str, samples: Sequence[Sample]) -> tuple[str, ...]:
    """One row: medians, and the spread of the rate."""
    rates = [sample.rate for sample in samples]

    def middle(field: str) -> float:
        return float(median(getattr(sample, field) for sample in samples))

    operations = middle("operations")
    return (
        name,
        _number(median(rates)),
        f"{_number(min(rates))} … {_number(max(rates))}",
        _number(middle("p50_ms")),
        _number(middle("p99_ms")),
        _number(middle("max_ms")),
        _number(middle("cpu_seconds") / operations * 1e6),
        _number(middle("rss_mib")),
        _number(middle("written_bytes") / operations),
    )


def show(report: Report, console: Console) -> None:
    """On the terminal."""
    for title, names in _tables(report.samples).items():
        table = Table(*HEADS, title=title)
        for name in names:
            table.add_row(*cells(name, report.samples[name]))
        console.print(table)
    table = Table("number", "what", "at least or most", "measured", "reached", title="numbers")
    for number in NUMBERS:
        table.add_row(number.id, number.about, _bound(number.bound, number.at_least),
                      *number.shown(report.samples))  # fmt: skip
    console.print(table)
    for name, reason in report.left_out.items():
        console.print(f"left out: {name} ({reason})", markup=False)


def markdown(report: Report) -> str:
    """The page docs/benchmarks.md."""
    lines = [
        "# Benchmarks",
        "",
        INTRODUCTION,
        "",
        *(f"- {name}: {value}" for name, value in report.machine.items()),
        "",
        "![operations per second](benchmarks.svg)",
        "",
        "## Numbers to reach",
        "",
        "| number | what | bound | measured | reached |",
        "|---|---|---|---|---|",
    ]
    for number in NUMBERS:
        shown = " | ".join(number.shown(report.samples))
        bound = _bound(number.bound, number.at_least)
        lines.append(f"| {number.id} | {number.about} | {bound} | {shown} |")
    for title, names in _tables(report.samples).items():
        lines += ["", f"## {title[:1].upper()}{title[1:]}", ""]
        lines += [f"| {' | '.join(HEADS)} | what |", "|---" * (len(HEADS) + 1) + "|"]
        for name in names:
            row = " | ".join(cells(name, report.samples[name]))
            lines.append(f"| {row} | {by_name(name).about} |")
    if report.left_out:
        lines += ["", "## Not measured", ""]
        lines += [f"- {name}: {reason}" for name, reason in report.left_out.items()]
    return "\n".join(lines) + "\n"


def chart(report: Report) -> str:
    """Rates as bars on a logarithmic scale, as SVG."""
    rows = [
        (name, median(sample.rate for sample in samples))
        for name, samples in report.samples.items()
    ]
    width, height, left = 760, 18, 220
    top = max(rate for _, rate in rows)
    scale = (width - left - 90) / len(f"{top:.0f}")
    parts = [SVG.format(width, height * len(rows) + 8)]
    for place, (name, rate) in enumerate(rows):
        up, length = 6 + place * height, max(1.0, scale * log10(max(1.0, rate)))
        parts.append(
            BAR.format(
                at=left - 6, down=up + 10, name=escape(name), left=left, up=up, length=length,
                end=left + length + 5, rate=_number(rate),
            )
        )  # fmt: skip
    return "\n".join([*parts, "</svg>"]) + "\n"


def _tables(samples: Mapping[str, object]) -> dict[str, list[str]]:
    found = {
        title: [each.name for each in table if each.name in samples]
        for title, table in TABLES.items()
    }
    return {title: names for title, names in found.items() if names}


def _bound(bound: float, at_least: bool) -> str:  # noqa: FBT001  # which side is open
    return f"{'≥' if at_least else '≤'} {bound:g}"


def _number(value: float) -> str:
    if not value:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
