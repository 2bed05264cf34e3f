"""`python -m tests.mutants [PART…] [--most N] [--seed S]`: does some test notice each small wrong?

For every place of a part that `operators.py` can spoil, the tests of that part run on a copy of the
tree, in a process forked from this one, until the first failure. A mutant that no test notices is
printed and fails the run, unless survivors.txt says why it may live. `--most` takes a sample. Run
it on a machine that is otherwise idle: one whose tests do not end in time is printed, and passes.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import apsw  # noqa: F401 - imported once here, so that no mutant pays for it
import pytest
import trio.testing  # noqa: F401 - the same

from tests.figures import record
from tests.mutants.operators import Site, mutated, sites
from tests.mutants.parts import PARTS

ROOT: Final = Path(__file__).resolve().parents[2]
COPIED: Final = ("mqlite_actor", "services", "tests", "pyproject.toml")
SURVIVORS: Final = Path(__file__).with_name("survivors.txt")

HANDLES: Final = (
    "not http and not link and not worker and not hypercorn and not asyncio and not sync"
)
"""One way to reach an engine is enough to notice what is wrong inside; not asked of the tests in
tests/link, which are all named so."""

ROOM: Final = 4.0
"""How many times longer than the sound program a mutant may take before it counts as hanging."""

SMALL: Final = {
    "MQLITE_SIMULATION_SEEDS": "6",
    "MQLITE_SIMULATION_SWEEPS": "0",
    "MQLITE_SIMULATION_SEED": "7",
    "MQLITE_MODEL_EXAMPLES": "15",
    "MQLITE_FAULTS": "10",
}
"""Random suites are short here, and the same for every mutant."""


def known_survivors() -> dict[str, str]:
    """Name → reason."""
    lines = SURVIVORS.read_text(encoding="utf-8").splitlines()
    rows = [line.partition(" | ") for line in lines if line and not line.startswith("#")]
    return {name: reason for name, _, reason in rows}


def outcome(tree: Path, tests: tuple[str, ...], seconds: float) -> tuple[str, float]:
    """What the tests say of the tree, and how long it took: `lives`, `noticed`, or `hangs` when
    they did not end within the time, which a busy machine may have caused as well."""
    began = time.monotonic()
    child = os.fork()
    if not child:
        _be_pytest(tree, tests)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        took = time.monotonic() - began
        if ended:
            return "noticed" if os.waitstatus_to_exitcode(status) else "lives", took
        if took > seconds:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "hangs", took
        time.sleep(0.05)


def _be_pytest(tree: Path, tests: tuple[str, ...]) -> None:
    code = 99
    try:
        os.setsid()  # so that what it starts can be ended with it
        os.chdir(tree)
        os.environ.update(SMALL)
        for name in [
            name for name in sys.modules if name.split(".")[0] in ("tests", "mqlite_actor")
        ]:
            del sys.modules[name]
        sys.path[:] = [str(tree), *(each for each in sys.path if each not in ("", str(ROOT)))]
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        words = [
            "-x",
            "-q",
            "--assert=plain",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
        ]
        if not any(each.startswith("tests/link/") for each in tests):
            words += ["-k", HANDLES]
        code = int(
            pytest.main([*words, f"--rootdir={tree}", "-c", f"{tree}/pyproject.toml", *tests])
        )
    finally:
        os._exit(code)


def try_part(part: str, tree: Path, chosen: list[tuple[int, Site]]) -> list[Site]:
    """The mutants of a part that live."""
    tests, file = PARTS[part], tree / "mqlite_actor" / part
    text = file.read_text(encoding="utf-8")
    verdict, took = outcome(tree, tests, 600.0)
    if verdict != "lives":
        sys.exit(f"{part}: its tests fail without any mutant")
    print(f"== {part}: {len(chosen)} mutants, {took:.0f} s for the sound program", flush=True)
    living: list[Site] = []
    for number, site in chosen:
        file.write_text(mutated(text, number), encoding="utf-8")
        verdict, _ = outcome(tree, tests, ROOM * took + 10)
        if verdict == "lives":
            living.append(site)
        if verdict != "noticed":
            print(f"   {verdict}: {part} {site.name} (line {site.line})", flush=True)
    file.write_text(text, encoding="utf-8")
    return living


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("parts", nargs="*", help="parts; all by default")
    parser.add_argument("--most", type=int, default=0, help="a sample of so many of each part")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    options = parser.parse_args()
    known, unexplained, tried = known_survivors(), 0, 0
    with tempfile.TemporaryDirectory(prefix="mqlite-mutants-") as folder:
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
            copy(ROOT / name, Path(folder) / name)
        for part in options.parts or PARTS:
            text = (ROOT / "mqlite_actor" / part).read_text(encoding="utf-8")
            chosen = [*enumerate(sites(ast.parse(text)))]
            if options.most and options.most < len(chosen):
                chosen = sorted(
                    random.Random(options.seed).sample(chosen, options.most), key=_first
                )
            living = try_part(part, Path(folder), chosen)
            new = [site for site in living if f"{part} {site.name}" not in known]
            unexplained += len(new)
            tried += len(chosen)
            noticed = len(chosen) - len(living)
            print(f"   {noticed} noticed, {len(living)} live, {len(new)} of them new", flush=True)
    if not unexplained:
        record("mutants", seed=options.seed, mutants=tried)
    print(f"{tried} mutants tried, {unexplained} live without a reason")
    sys.exit(1 if unexplained else 0)


def _first(pair: tuple[int, Site]) -> int:
    return pair[0]


if __name__ == "__main__":
    main()
