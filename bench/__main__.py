"""`python -m bench`: measure the system, its yardsticks and its peers in one run.

    python -m bench [--only TEXT]… [--runs 5] [--scale 1.0] [--json FILE] [--docs] [--list]
    python -m bench --verify N [--endpoint URL]

`--only` keeps scenarios whose name contains a text; `--scale 0.1` is a quick look; `--docs` writes
docs/benchmarks.md and its chart; `--verify` sends N numbers through a broker and counts them
(`verify.py`), and ends with 1 if one was lost, doubled or damaged. Everything runs on loopback and
in temporary folders.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec
from rich.console import Console

from bench import report
from bench.harness import measure
from bench.tables import TABLES, missing
from bench.verify import verify
from mqlite_actor.contract.errors import MqliteError

WIDTH = 150
"""Of the tables where no terminal tells its own."""

DOCS = Path(__file__).resolve().parents[1] / "docs"


def main() -> None:
    """Parse, measure, show."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="TEXT")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--verify", type=int, metavar="N")
    parser.add_argument("--endpoint", default="", metavar="URL")
    given = parser.parse_args()
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    if given.verify is not None:
        sys.exit(_verified(given.verify, given.endpoint, console))
    chosen = [
        each
        for table in TABLES.values()
        for each in table
        if not given.only or any(text in each.name for text in given.only)
    ]
    if given.list:
        for each in chosen:
            needs = f"  (needs {missing(each)})" if missing(each) else ""
            console.print(f"{each.name:26} {each.about}{needs}", markup=False)
        return
    samples, left_out = measure(chosen, runs=given.runs, scale=given.scale, console=console)
    found = report.Report(report.machine(), given.scale, samples, left_out)
    report.show(found, console)
    if given.json is not None:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    if given.docs:
        (DOCS / "benchmarks.md").write_text(report.markdown(found), encoding="utf-8")
        (DOCS / "benchmarks.svg").write_text(report.chart(found), encoding="utf-8")


def _verified(number: int, endpoint: str, console: Console) -> int:
    if number < 1:
        console.print("error: --verify: at least 1")
        return 2
    try:
        found = verify(number, endpoint, console)
    except MqliteError as error:
        console.print(f"error: {error}", markup=False)
        return 1
    console.print(
        f"{found.number:,} messages in {found.seconds:.1f} s"
        f" ({found.number / found.seconds:,.0f}/s), {found.deliveries:,} deliveries:"
        f" {found.missing} missing, {found.doubled} settled twice, {found.damaged} damaged"
    )
    return 0 if found.is_clean else 1


if __name__ == "__main__":
    main()
