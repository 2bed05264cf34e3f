"""First figures: sends and cycles, embedded and over HTTP, beside the yardsticks.

    python -m bench.foundation [--runs 5] [--quick]

Prints medians with spread, and the ratios of design N1 to N5. Everything runs in a temporary
folder.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import embedded, http
from bench.measure import Figure, interleaved, ratio
from bench.yardstick import Yardstick, pragmas

SEND_PATH = "/mqlite.v1.QueueService/Send"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    given = parser.parse_args()
    scale = 0.1 if given.quick else 1.0
    with tempfile.TemporaryDirectory(prefix="mqlite-bench-") as name:
        folder = Path(name)
        for synchronous in ("NORMAL", "FULL"):
            print(f"\n{synchronous}: pragmas {pragmas(folder, synchronous)}")
            report(interleaved(given.runs, embedded_things(folder, synchronous, scale)))
            for figure in interleaved(given.runs, verbs(folder, synchronous, scale)).values():
                print(f"  {figure}")
        print("\nHTTP, NORMAL")
        over_http(folder, given.runs, scale)


def embedded_things(folder: Path, synchronous: str, scale: float) -> dict[str, Callable[[], float]]:
    """What is measured in this process."""
    many = int(20_000 * scale)
    few = int((4_000 if synchronous == "NORMAL" else 1_000) * scale)
    return {
        "yardstick sends, 64 a transaction": partial(
            yardstick, folder, synchronous, "sends", many, 64
        ),
        "embedded sends, 64 producers": partial(
            embedded.sends, folder, synchronous, producers=64, number=many
        ),
        "yardstick sends, 1 a transaction": partial(
            yardstick, folder, synchronous, "sends", few, 1
        ),
        "embedded sends, 1 producer": partial(
            embedded.sends, folder, synchronous, producers=1, number=few
        ),
        "yardstick cycles, 64 a transaction": partial(
            yardstick, folder, synchronous, "cycles", many // 2, 64
        ),
        "embedded cycles, 64 consumers": partial(
            embedded.cycles, folder, synchronous, consumers=64, number=many // 2
        ),
    }


def verbs(folder: Path, synchronous: str, scale: float) -> dict[str, Callable[[], float]]:
    """The yardstick's parts of a cycle, 64 a transaction."""
    many = int(10_000 * scale)
    return {
        f"yardstick {what}": partial(yardstick, folder, synchronous, what, many, 64)
        for what in ("claims", "completes", "abandons")
    }


def yardstick(
    folder: Path, synchronous: str, what: str, number: int, per_transaction: int
) -> float:
    """One raw loop on a fresh file; its messages, or leases, are made first."""
    raw = Yardstick(folder, synchronous)
    try:
        if what != "sends":
            raw.sends(number)
        if what in ("completes", "abandons"):
            raw.claims(number)
        loop: Callable[[int, int], float] = getattr(raw, what)
        return loop(number, per_transaction)
    finally:
        raw.close()


def over_http(folder: Path, runs: int, scale: float) -> None:
    """The broker against an empty route of the same stack."""
    body = http.send_body()
    create = b'{"name":"q"}'
    with http.broker(folder, "NORMAL") as ours, http.vanilla() as stock:
        path = "/mqlite.v1.AdminService/CreateQueue"
        http.requests(ours.port, path, create, connections=1, number=1)
        things: dict[str, Callable[[], float]] = {}
        for connections, number in ((64, int(2_000 * scale)), (1, int(600 * scale))):
            load = partial(http.requests, body=body, connections=connections, number=number)
            things[f"empty route, {connections} connections"] = partial(load, stock.port, "/send")
            things[f"broker Send, {connections} connections"] = partial(load, ours.port, SEND_PATH)
        report(interleaved(runs, things))


def report(figures: dict[str, Figure]) -> None:
    """Figures, then each product figure over the yardstick printed before it."""
    for figure in figures.values():
        print(f"  {figure}")
    ordered = list(figures.values())
    for under, over in zip(ordered[::2], ordered[1::2], strict=True):
        print(f"  {ratio(over, under)}")


if __name__ == "__main__":
    main()
