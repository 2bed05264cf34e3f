"""How long a commit takes while the log is moved into the file: by itself, or beside the writer.

    python -m bench.checkpoints [--runs 5] [--number 20000]

Single sends, each its own commit, on the product's store. `automatic` is SQLite's own checkpoint
inside the commit at 1,000 pages; `beside` is what the engine's keeper does. Prints p50, p99, p99.9
and the longest commit in microseconds, and how long the log grew.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from mqlite_actor.contract import limits
from mqlite_actor.contract.wire import CreateQueueRequest, Message, SendRequest
from mqlite_actor.semantics import entities, send
from mqlite_actor.storage.sqlite import SqliteStore, open_store

NOW = 1_800_000_000_000


@dataclass(frozen=True, slots=True)
class Latency:
    """Microseconds of single commits, and the log's greatest length in pages."""

    p50: float
    p99: float
    p999: float
    longest: float
    pages: int


def main() -> None:
    """Both ways in turn, NORMAL and FULL."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--number", type=int, default=20_000)
    given = parser.parse_args()
    for synchronous, number in (("NORMAL", given.number), ("FULL", given.number // 10)):
        found: dict[str, list[Latency]] = {"automatic": [], "beside": []}
        for run in range(given.runs):
            for way, samples in found.items():
                with tempfile.TemporaryDirectory(prefix="mqlite-checkpoints-") as folder:
                    path = Path(folder) / f"{run}.db"
                    samples.append(_run(path, synchronous, number, way))
        print(f"{synchronous}, {number} commits of one send, median of {given.runs} runs (µs)")
        for way, samples in found.items():
            print(f"  {way:10}", "  ".join(_line(samples)))


def _run(path: Path, synchronous: str, number: int, way: str) -> Latency:
    store = open_store(f"file:{path}", synchronous=synchronous)
    stop = threading.Event()
    due = threading.Event()
    keeper = threading.Thread(target=_keep, args=(store, stop, due))
    if way == "automatic":
        store.connection.set_wal_hook(None)
        store.connection.wal_autocheckpoint(limits.CHECKPOINT_PAGES)
    else:
        keeper.start()
    _commit(store, None)
    times: list[float] = []
    pages = 0
    for _ in range(number):
        started = time.perf_counter()
        _commit(store, Message(body=b"x" * 256))
        if way == "beside" and store.log_pages >= limits.LOG_PAGES_MAX:
            store.truncate_log()
        times.append((time.perf_counter() - started) * 1e6)
        pages = max(pages, store.log_pages)
        if store.log_pages >= limits.CHECKPOINT_PAGES:
            due.set()
    stop.set()
    due.set()
    if way == "beside":
        keeper.join()
    store.close()
    times.sort()
    return Latency(
        times[number // 2], times[number * 99 // 100], times[number * 999 // 1000], times[-1], pages
    )


def _commit(store: SqliteStore, message: Message | None) -> None:
    """One send in a transaction of its own; None makes the queue."""
    tx = store.begin()
    if message is None:
        entities.create_queue(tx, CreateQueueRequest(name="q"), NOW)
    else:
        request = SendRequest(queue="q", messages=[message])
        send.send(tx, request, NOW, message_bytes_max=2**20)
    tx.flush()
    store.commit()


def _keep(store: SqliteStore, stop: threading.Event, due: threading.Event) -> None:
    """The keeper's rule without trio: again when there is as much to move as before."""
    while not stop.is_set():
        due.wait()
        due.clear()
        if stop.is_set():
            return
        moved_at = store.log_pages
        store.checkpoint_passive()
        while (
            not stop.is_set() and moved_at <= store.log_pages < moved_at + limits.CHECKPOINT_PAGES
        ):
            due.wait()
            due.clear()


def _line(samples: list[Latency]) -> list[str]:
    return [
        f"{name} {statistics.median(getattr(each, name) for each in samples):,.0f}"
        f" [{min(getattr(each, name) for each in samples):,.0f} …"
        f" {max(getattr(each, name) for each in samples):,.0f}]"
        for name in ("p50", "p99", "p999", "longest", "pages")
    ]


if __name__ == "__main__":
    main()
