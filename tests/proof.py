"""`python -m tests.proof [LAYER…] [--again]`: what CI runs a slice of, long. `make proof` runs it.

A layer is a row of LAYERS: some tests, and the sizes that make them long. One that has passed
whole, with the same sizes and on the same product, is not run again (`--again` does), so a long
proof can be made in pieces. The figures of a layer are kept when all of it has passed, in the place
of those that it had before; one that finds something adds none, and the others run nevertheless.

Rule: what a layer is given stands in its sizes, nowhere else, so the page about conformance can say
it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.figures import ROOT, digest, today

Row = dict[str, Any]

FILE: Final = Path(sys.prefix) / "proof.jsonl"
"""Beside what was installed to make it."""


@dataclass(frozen=True)
class Layer:
    """What `pytest` is given, in words and in the environment."""

    name: str
    tests: tuple[str, ...]
    sizes: Mapping[str, str] = field(default_factory=dict)


LAYERS: Final = (
    Layer("power", ("tests/power",), {"MQLITE_POWER_CUTS": "40000", "MQLITE_POWER_EACH": "6"}),
    Layer(
        "crashes",
        ("tests/crash",),
        {
            "MQLITE_CRASH_KILLS": "420",
            "MQLITE_CRASH_POINTS": "all",
            "MQLITE_HISTORY_SECONDS": "120",
        },
    ),
    Layer(
        "simulation",
        ("tests/simulation",),
        {"MQLITE_SIMULATION_SEEDS": "4000", "MQLITE_SIMULATION_SWEEPS": "40"},
    ),
    Layer("faults", ("tests/engine/test_group_faults.py",), {"MQLITE_FAULTS": "3000"}),
    Layer(
        "fuzz",
        (
            "tests/storage/test_damaged.py",
            "tests/services/test_cli_fuzz.py",
            "tests/sdk/test_address_fuzz.py",
            "tests/contract/test_fuzz.py",
            "tests/link/test_frames.py",
        ),
        {
            "MQLITE_DAMAGES": "20000",
            "MQLITE_CLI_FUZZ": "40000",
            "MQLITE_FUZZ_EXAMPLES": "6000",
        },
    ),
    Layer("filters", ("tests/filters",), {"MQLITE_FUZZ_SECONDS": "120"}),
    Layer("lane", ("tests/services/test_lane_fuzz.py",), {"MQLITE_LANE_FUZZ": "20000"}),
    Layer("model", ("tests/model",), {"MQLITE_MODEL_EXAMPLES": "600"}),
    Layer("remote", ("tests/conformance", "-k", "remote or sqld"), {"MQLITE_REMOTE": "all"}),
    Layer(
        "openapi", ("tests/services/test_openapi_answers.py",), {"MQLITE_OPENAPI_EXAMPLES": "100"}
    ),
    # Ruling R30's half a million, through each kind of handle: longer than all others together.
    Layer("integrity", ("tests/conformance/test_integrity.py",), {"MQLITE_INTEGRITY_N": "500000"}),
)


def pytest_words(workers: int) -> list[str]:
    """The start of a layer's command; its tests follow."""
    # A test that takes longer than five minutes hangs elsewhere, and is at work here.
    hang = ("-o", "faulthandler_timeout=10000")
    spread = ("-n", str(workers), "--dist", "worksteal") if workers else ()
    return [sys.executable, "-m", "pytest", "-q", *hang, *spread]


def passed(rows: Sequence[Row], layer: Layer, product: str) -> Row | None:
    """The row that says that the layer has passed so already."""
    for row in rows:
        if "sizes" in row and row["layer"] == layer.name:
            is_same = (row["product"], row["sizes"]) == (product, dict(layer.sizes))
            return row if is_same else None
    return None


def run(layer: Layer, command: Sequence[str], file: Path, root: Path = ROOT) -> bool:
    """Run a layer; whether it passed. Then its figures, and a row that says so, are in the file."""
    part = file.with_name(f"{file.name}.{layer.name}")
    part.unlink(missing_ok=True)
    product, began = digest(root), time.monotonic()
    environ = {**os.environ, **layer.sizes, "MQLITE_PROOF": str(part)}
    done = subprocess.run([*command, *layer.tests], cwd=root, env=environ, check=False)
    if done.returncode:
        return False
    if digest(root) != product:
        print(f"{layer.name}: the product changed meanwhile, so this was no proof", flush=True)
        return False
    seconds = round(time.monotonic() - began)
    told: Row = {"layer": layer.name, "product": product, "date": today(), "seconds": seconds,
                 "sizes": dict(layer.sizes)}  # fmt: skip
    figures = [{**row, "layer": layer.name} for row in read(part)]
    others = [row for row in read(file) if row.get("layer") != layer.name]
    whole = file.with_name(f"{file.name}.new")
    whole.write_text("".join(f"{json.dumps(row)}\n" for row in (*others, told, *figures)), "utf-8")
    whole.replace(file)
    part.unlink(missing_ok=True)
    return True


def read(file: Path) -> list[Row]:
    """The rows of a file, none if there is none."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def prove(
    layers: Sequence[Layer], command: Sequence[str], file: Path, *, again: bool, root: Path = ROOT
) -> list[str]:
    """Run the layers that have not passed; the names of those that failed."""
    failed: list[str] = []
    for layer in layers:
        sizes = " ".join(f"{name}={value}" for name, value in layer.sizes.items())
        known = None if again else passed(read(file), layer, digest(root))
        if known:
            print(f"== {layer.name}: passed on this product, in {known['seconds']} s", flush=True)
            continue
        print(f"== {layer.name} {sizes}", flush=True)
        if not run(layer, command, file, root):
            print(f"== {layer.name}: FAILED", flush=True)
            failed.append(layer.name)
    return failed


def main(words: Sequence[str]) -> int:
    """The exit status: 0 when all that was asked for has passed on this product."""
    names = [layer.name for layer in LAYERS]
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    parser.add_argument("layers", nargs="*", metavar="LAYER", help=f"of {', '.join(names)}")
    parser.add_argument("--again", action="store_true", help="run also what has passed")
    parser.add_argument("--workers", type=int, default=2, help="processes of a layer")
    parser.add_argument("--file", type=Path, default=FILE, help="where figures go")
    asked = parser.parse_args(words)
    if unknown := set(asked.layers) - set(names):
        parser.error(f"no such layer: {', '.join(sorted(unknown))}")
    layers = [layer for layer in LAYERS if layer.name in asked.layers or not asked.layers]
    failed = prove(layers, pytest_words(asked.workers), asked.file.resolve(), again=asked.again)
    print(f"failed: {', '.join(failed)}" if failed else "all has passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
