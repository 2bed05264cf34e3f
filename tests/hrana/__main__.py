"""The reference server in a process of its own: `python -m tests.hrana FOLDER [--latency-ms N]`.

Prints its address on one line and serves until its input ends. For measurements, where a server in
the same process would share the interpreter with what is measured.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.hrana import manners
from tests.hrana.server import running_hrana


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.hrana", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--manners", choices=manners.ALL, default=manners.SQLD.name)
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--token", default="")
    given = parser.parse_args()
    with running_hrana(
        given.folder,
        manners=manners.ALL[given.manners],
        latency_seconds=given.latency_ms / 1000,
        token=given.token,
    ) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
