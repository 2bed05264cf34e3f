"""What a backup costs those who send meanwhile: three ways to copy a store under load.

Run by a person: python -m bench.backup [--messages N]. One sender sends one message at a time as
fast as it can; its latencies are taken without a backup and beside each way, in turn, three times.
Kept in docs/decisions/0010-backup.md.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import apsw
import trio

from mqlite_actor.contract import limits, wire
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.storage.snapshot import Snapshot
from mqlite_actor.storage.sqlite import SqliteStore

BODY = bytes(900)
ROUNDS = 3
ALONE_SECONDS = 2
"""How long the sender runs with nothing beside it: about as long as a backup takes."""


def steps_beside(engine: Engine, target: str) -> None:
    """SQLite's backup, a reader's connection, in steps."""
    snapshot = Snapshot(engine.location, target)
    snapshot.start()
    while not snapshot.step():
        pass
    snapshot.close()
    snapshot.discard()


def vacuum_beside(engine: Engine, target: str) -> None:
    """VACUUM INTO on a reader's connection."""
    source = apsw.Connection(engine.location, flags=apsw.SQLITE_OPEN_READONLY)
    source.execute("VACUUM INTO ?", (target,)).fetchall()
    source.close()
    Path(target).unlink()


def steps_of_writer(engine: Engine, target: str) -> None:
    """SQLite's backup on the writer's own connection, in steps between its groups."""
    store = engine._store
    assert isinstance(store, SqliteStore)
    snapshot = Snapshot(store.connection, target)
    snapshot.start()

    def step() -> bool:
        return trio.from_thread.run(engine._actor.in_thread, snapshot.step)

    while not step():
        pass
    snapshot.close()
    snapshot.discard()


WAYS: dict[str, Callable[[Engine, str], None] | None] = {
    "nothing": None,
    "steps beside": steps_beside,
    "VACUUM INTO beside": vacuum_beside,
    "steps of the writer": steps_of_writer,
}


async def beside(engine: Engine, way: Callable[[Engine, str], None] | None, target: str) -> str:
    """Send while it runs (or for two seconds); one line of figures."""
    latencies: list[float] = []
    done = trio.Event()
    took = 0.0

    async def copy() -> None:
        nonlocal took
        started = perf_counter()
        if way is None:
            await trio.sleep(ALONE_SECONDS)
        else:
            await trio.to_thread.run_sync(way, engine, target)
        took = perf_counter() - started
        done.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(copy)
        while not done.is_set():
            started = perf_counter()
            await engine.call(wire.SendRequest(queue="q", messages=[wire.Message(body=b"x")]))
            latencies.append((perf_counter() - started) * 1000)
    latencies.sort()
    at = [latencies[int(len(latencies) * part)] for part in (0.5, 0.99, 0.999)]
    return (
        f"{took:6.2f} s  {len(latencies) / took:7.0f}/s  p50 {at[0]:6.2f}  p99 {at[1]:6.2f}"
        f"  p99.9 {at[2]:6.2f}  max {latencies[-1]:7.2f} ms"
    )


async def run(number: int) -> None:
    """Fill a store, then each way in turn."""
    with tempfile.TemporaryDirectory() as folder:
        options = EngineOptions(synchronous="NORMAL")
        async with open_engine(f"file:{folder}/q.db", options) as engine:
            await engine.call(wire.CreateQueueRequest(name="q"))
            batch = [wire.Message(body=BODY)] * 1000
            for _ in range(number // len(batch)):
                await engine.call(wire.SendRequest(queue="q", messages=batch))
            print(f"{engine._store.size_bytes() / limits.MIB:.0f} MiB")
            for _ in range(ROUNDS):
                for name, way in WAYS.items():
                    print(f"{name:20}", await beside(engine, way, f"{folder}/copy.db"), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200_000)
    trio.run(run, parser.parse_args().messages)
