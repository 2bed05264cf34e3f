"""What a claim costs: with a short and a long backlog, and behind messages that are held back.

    python -m bench.claims [--runs 5] [--deep 1000000]

Runs the product's own receive and abandon inside transactions of 64, on files filled beforehand, in
turn. Prints microseconds a claim and the two ratios of design N7.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from bench.measure import Figure, ratio
from mqlite_actor.contract.wire import CreateQueueRequest, Message, ReceiveRequest, SendRequest
from mqlite_actor.semantics import entities, receive, send
from mqlite_actor.storage.sqlite import SqliteStore, open_store

NOW = 1_800_000_000_000
CLAIMS = 256


def main() -> None:
    """Fill, measure in turn, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--deep", type=int, default=1_000_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mqlite-claims-") as name:
        folder = Path(name)
        files = {
            "1,000 active": _filled(folder / "short.db", ready=1_000),
            f"{given.deep:,} active": _filled(folder / "deep.db", ready=given.deep),
            "none held back": _filled(folder / "free.db", ready=1_000, in_groups=True),
            "50,000 held back in front": _filled(
                folder / "held.db", ready=1_000, held_back=50_000, in_groups=True
            ),
        }
        samples: dict[str, list[float]] = {what: [] for what in files}
        for _ in range(given.runs):
            for what, store in files.items():
                samples[what].append(_claims_per_second(store))
        figures = [Figure(what, tuple(values)) for what, values in samples.items()]
        for figure in figures:
            print(f"  {figure}  = {1e6 / figure.median:.1f} µs a claim")
        print("  time", ratio(figures[0], figures[1]), "(N7: at most 1.3)")
        print("  time", ratio(figures[2], figures[3]), "(N7: at most 1.5)")
        for store in files.values():
            store.close()


def _filled(path: Path, *, ready: int, held_back: int = 0, in_groups: bool = False) -> SqliteStore:
    """A queue with `ready` claimable messages, behind `held_back` of a group that is locked."""
    store = open_store(f"file:{path}")
    tx = store.begin()
    entities.create_queue(tx, CreateQueueRequest(name="q"), NOW)
    groups = ["locked"] * (held_back + bool(held_back))
    groups += [f"g{n}" if in_groups else "" for n in range(ready)]
    for start in range(0, len(groups), 10_000):
        part = [Message(body=b"x" * 256, group_id=g) for g in groups[start : start + 10_000]]
        send.send(tx, SendRequest(queue="q", messages=part), NOW, message_bytes_max=2**20)
    if held_back:
        receive.receive(tx, ReceiveRequest(queue="q"), NOW)
    tx.flush()
    store.commit()
    store.truncate_log()
    return store


def _claims_per_second(store: SqliteStore) -> float:
    """Claim one at a time, then undo: the next run finds the same file."""
    request = ReceiveRequest(queue="q")
    tx = store.begin()
    started = time.perf_counter()
    for _ in range(CLAIMS):
        assert receive.receive(tx, request, NOW).messages
    seconds = time.perf_counter() - started
    store.rollback()
    return CLAIMS / seconds


if __name__ == "__main__":
    main()
