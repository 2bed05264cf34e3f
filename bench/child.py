"""One run of one scenario in a process of its own: `python -m bench.child NAME SCALE`.

Started by `harness.py`. The last line on stdout is the sample as JSON.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import msgspec

from bench.tables import by_name


def main() -> None:
    """Run it in an empty folder and print what was seen."""
    scenario = by_name(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="mqlite-bench-") as name:
        sample = scenario.run(Path(name), float(sys.argv[2]))
    print(msgspec.json.encode(sample).decode())


if __name__ == "__main__":
    main()
