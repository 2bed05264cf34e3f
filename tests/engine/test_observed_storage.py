"""storage.operations counts whatever touched the store, also what runs in no group with others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import apsw
import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import InvalidArgument, MqliteError, QueueNotFound
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.sdk.embedded import Embedded
from tests.engine.gate import create, sending
from tests.engine.snapshots import observe, storage
from tests.storage.fault_vfs import Fault, FaultVfs, faulty

Counts = dict[tuple[str, str, str], int]

DONE = ("transaction", "ok", "")
LEFT = ("transaction", "rejected", "application")


@pytest.fixture
def vfs() -> Iterator[FaultVfs]:
    with faulty() as each:
        yield each


@pytest.fixture
async def frail(vfs: FaultVfs, store: Path, clock: ManualClock) -> AsyncIterator[Engine]:
    """An engine with a queue, on the faulty file system."""
    options = EngineOptions(clock=clock, background=False)
    async with open_engine(f"file:{store}", options) as engine:
        await create(engine, "q")
        yield engine
        vfs.disarm()


async def counted(engine: Engine, before: Counts) -> Counts:
    """What was counted since `before`, without the snapshots' own reads of the queues."""
    after = storage(await observe(engine))
    moved = {key: number - before.get(key, 0) for key, number in after.items()}
    moved["read", "ok", ""] = moved.get(("read", "ok", ""), 0) - 1
    return {key: number for key, number in moved.items() if number}


async def test_a_transaction_of_the_program_is_one_with_its_verbs(frail: Engine) -> None:
    q = Embedded(frail)
    before = storage(await observe(frail))
    async with q.tx() as tx:
        await tx.send_one("q", b"1")
        await tx.send_one("q", b"2")
        with pytest.raises(QueueNotFound):
            await tx.send_one("nowhere", b"3")
    assert await counted(frail, before) == {
        ("write", "ok", ""): 2,
        ("read", "rejected", "application"): 1,
        DONE: 1,
    }


async def test_one_that_its_program_leaves_is_counted_as_rejected(frail: Engine) -> None:
    q = Embedded(frail)
    before = storage(await observe(frail))

    async def fail() -> None:
        async with q.tx() as tx:
            await tx.send_one("q", b"1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    with pytest.raises(InvalidArgument):
        await q.run_tx(lambda tx: tx.execute("DELETE FROM messages"))
    assert await counted(frail, before) == {("write", "ok", ""): 1, LEFT: 2}


async def test_one_that_the_disk_ends_is_counted_with_its_reason(
    frail: Engine, vfs: FaultVfs
) -> None:
    q = Embedded(frail)
    before = storage(await observe(frail))
    vfs.arm(Fault("write", 1, apsw.FullError, lasting=True))
    with pytest.raises(MqliteError):
        await q.run_tx(lambda tx: tx.send_one("q", b"1"))
    vfs.disarm()
    found = await counted(frail, before)
    assert found["transaction", "error", "full"] == 1
    assert DONE not in found


async def test_what_runs_alone_is_counted(frail: Engine) -> None:
    before = storage(await observe(frail))
    await frail.compact(is_full=True)
    assert await counted(frail, before) == {DONE: 1}


async def test_every_try_to_open_a_file_in_doubt_is_counted(frail: Engine, vfs: FaultVfs) -> None:
    before = storage(await observe(frail))
    frail._store.healthy = False
    vfs.arm(Fault("open", 1, apsw.CantOpenError, lasting=True))
    for _ in range(3):
        with pytest.raises(MqliteError):
            await frail.call(sending("q", b"1"))
    vfs.disarm()
    assert (await frail.call(wire.StatsRequest(queue="q"))).active == 0
    found = await counted(frail, before)
    assert found["transaction", "error", "io"] == 3
    assert found[DONE] == 1, "the look that the writer answered after it opened the file"
