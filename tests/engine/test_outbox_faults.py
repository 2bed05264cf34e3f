"""Transactions on a disk that fails: told ok means both are there, told refused means neither.

Unknown may be either, and nothing is ever half done: not on the connection that goes on, not in
the files as a kill would leave them, not after opening anew. And the next transaction works.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import apsw
import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract.errors import (
    OutcomeUnknown,
    StorageFailed,
    StorageFull,
    Unavailable,
)
from mqlite_actor.sdk.embedded import Embedded, open_embedded
from mqlite_actor.sdk.message import ReceivedMessage
from mqlite_actor.sdk.transaction import SyncTx
from mqlite_actor.storage.guard import FileGuard
from tests.conformance.audit import audit_file
from tests.engine.gate import Call, bodies, bounded, parked, taking
from tests.engine.local import local
from tests.engine.outbox_scene import ORDER, nothing_is_there, orders, shop
from tests.storage.fault_vfs import Fault, FaultVfs, faulty
from tests.storage.foreign import start_holder, stop
from tests.storage.writer import killed_copy

STEPS_MAX = 200
"""More calls of one kind than a transaction makes; the loop ends when the fault is not reached."""

ITEM = "x" * 5_000
BODY = bytes(9_000)
"""Two pages and three, so that a write can fail within each."""

FAULTS = [
    Fault("write", 0),
    Fault("write", 0, lasting=True),
    Fault("write", 0, apsw.FullError),
    Fault("write", 0, apsw.FullError, lasting=True),
    Fault("sync", 0),
    Fault("sync", 0, lasting=True),
    Fault("read", 0),
    Fault("read", 0, apsw.CorruptError),
    Fault("read", 0, lasting=True),
    Fault("truncate", 0),
]


Work = Callable[[Embedded, ReceivedMessage], Awaitable[None]]


def name_of(fault: Fault) -> str:
    kind = fault.error.__name__.removesuffix("Error")
    return f"{fault.call}-{kind}-{'lasting' if fault.lasting else 'once'}"


@pytest.fixture
def vfs(caplog: pytest.LogCaptureFixture) -> Iterator[FaultVfs]:
    caplog.set_level(logging.CRITICAL)  # expected lines, hundreds of them
    with faulty() as each:
        yield each


COUNT = """
SELECT (SELECT count(*) FROM orders),
(SELECT count(*) FROM messages WHERE message_id = 'question'),
(SELECT count(*) FROM messages WHERE message_id = 'answer')"""

State = tuple[int, int, int]
"""Rows, questions, answers."""

DONE: State = (1, 0, 1)
UNDONE: State = (0, 1, 0)


async def prepare(path: Path, clock: ManualClock) -> None:
    """A shop with a question in hand, as a killed program leaves it."""
    async with open_embedded(f"file:{path}", clock=clock, background=False) as q:
        await shop(q.engine)
        await q.send_one("q", b"?", message_id="question")


def counted(path: Path) -> State:
    """What the next program would find."""
    connection = apsw.Connection(str(path))
    try:
        found: State = connection.execute(COUNT).get
        return found
    finally:
        connection.close()


async def answer(q: Embedded, lease: ReceivedMessage) -> None:
    """A row and a message, and the question is done."""
    async with q.tx() as tx:
        await tx.execute(ORDER, (1, ITEM))
        await tx.complete(lease)
        await tx.send_one("q", BODY, message_id="answer")


async def answer_in_thread(q: Embedded, lease: ReceivedMessage) -> None:
    """The same as a function."""

    def work(tx: SyncTx) -> None:
        tx.execute(ORDER, (1, ITEM))
        tx.complete(lease)
        tx.send_one("q", BODY, message_id="answer")

    await q.run_tx(work)


class Trial:
    """One transaction under one fault, and what must be true of it afterwards."""

    def __init__(self, template: Path, folder: Path, clock: ManualClock) -> None:
        folder.mkdir()
        self.path = folder / "q.db"
        self.store = f"file:{self.path}"
        self.clock = clock
        self.told: bool | None = True
        shutil.copyfile(template, self.path)

    async def run(self, vfs: FaultVfs, fault: Fault, work: Work) -> None:
        async with open_embedded(
            self.store, synchronous="FULL", clock=self.clock, background=False
        ) as q:
            lease = (await q.receive("q"))[0]
            vfs.arm(fault)
            await self.ask(work(q, lease))
            vfs.disarm()
            copy = killed_copy(self.path, self.path.with_name("killed"))
            seen = await self.judge(q)
            async with q.tx() as tx:
                await tx.execute(ORDER, (2, "after"))
                await tx.send_one("q", b"after")
        assert counted(copy) == seen
        rows, questions, answers = counted(self.path)
        assert (rows - 1, questions, answers) == seen
        assert audit_file(self.path) == []

    async def ask(self, work: Awaitable[None]) -> None:
        """Do it; what one was told about it."""
        try:
            await work
        except OutcomeUnknown:
            self.told = None
        except (StorageFailed, StorageFull, Unavailable):
            self.told = False

    async def judge(self, q: Embedded) -> State:
        """What the engine itself sees now: a transaction and an ordinary call alike."""
        async with q.tx() as tx:
            seen: State = (await tx.execute(COUNT))[0]
        assert seen in (DONE, UNDONE), "half done"
        assert self.told is None or (seen == DONE) is self.told
        found = [message.message_id for message in await q.peek("q")]
        assert found == (["answer"] if seen == DONE else ["question"])
        return seen


@pytest.mark.promise("E146", "E158")
@pytest.mark.parametrize("fault", FAULTS, ids=name_of)
async def test_told_done_is_both_told_undone_is_neither(
    tmp_path: Path, clock: ManualClock, vfs: FaultVfs, fault: Fault
) -> None:
    template = tmp_path / "template.db"
    await prepare(template, clock)
    told: list[bool | None] = []
    for step in range(1, STEPS_MAX):
        trial = Trial(template, tmp_path / str(step), clock)
        work = answer if step % 2 else answer_in_thread
        await trial.run(vfs, Fault(fault.call, step, fault.error, fault.lasting), work)
        told.append(trial.told)
        if not vfs.fired:
            break
    assert told.pop() is True, "the last one met no fault"
    assert set(told) <= {False, None}, "a fault was hidden"
    assert told or fault.call == "truncate"


# -- scenes ----------------------------------------------------------------------------------------


@pytest.fixture
async def q(vfs: FaultVfs, store: Path, clock: ManualClock) -> AsyncIterator[Embedded]:
    """A shop on the disk that fails."""
    async with open_embedded(
        f"file:{store}", synchronous="FULL", clock=clock, background=False
    ) as each:
        yield await shop(each.engine)
        vfs.disarm()
    assert not audit_file(store)


async def test_on_a_full_disk_nothing_is_left_and_a_settlement_still_works(q: Embedded) -> None:
    await q.send_one("q", b"held")
    lease = (await q.receive("q"))[0]
    connection = local(q.engine).connection

    async def work() -> None:
        async with q.tx() as tx:
            connection.pragma("max_page_count", connection.pragma("page_count"))
            await tx.execute(ORDER, (1, "tea"))
            with pytest.raises(StorageFull):
                await tx.send_one("q", bytes(500_000))
            for step in (tx.execute(ORDER, (2, "alone")), tx.send_one("q", b"alone")):
                with pytest.raises(StorageFailed, match="cannot go on"):
                    await step

    with pytest.raises(StorageFailed):
        await work()
    assert await orders(q) == []
    assert await bodies(q.engine, "q") == [b"held"]

    await q.run_tx(lambda tx: tx.complete(lease))
    await nothing_is_there(q)


@pytest.mark.promise("E158")
async def test_after_a_commit_that_nobody_knows_of_the_next_one_opens_the_file_anew(
    q: Embedded, vfs: FaultVfs
) -> None:
    connection = local(q.engine).connection
    vfs.arm(Fault("sync", 1))
    with pytest.raises(OutcomeUnknown):
        await q.run_tx(lambda tx: (tx.execute(ORDER, (1, "tea")), tx.send_one("q", b"one")))
    vfs.disarm()
    async with q.tx() as tx:
        assert local(q.engine).connection is not connection
        rows = await tx.execute("SELECT (SELECT count(*) FROM orders), count(*) FROM messages")
        assert rows in ([(0, 0)], [(1, 1)])
        await tx.send_one("q", b"after")
    assert len(await bodies(q.engine, "q")) == rows[0][0] + 1


@pytest.mark.promise("E158")
@pytest.mark.parametrize(
    "error",
    [PermissionError(13, "no"), apsw.NoMemError(), StorageFailed("its log is gone")],
    ids=repr,
)
async def test_whatever_fails_behind_the_commit_leaves_a_doubt(
    q: Embedded, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is committed here, and nobody is told that nothing was done."""

    def fail(_: object) -> None:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(FileGuard, "check_log", fail)
        with pytest.raises(OutcomeUnknown, match="may or may not be on disk"):
            await q.run_tx(lambda tx: (tx.execute(ORDER, (1, "tea")), tx.send_one("q", b"one")))
    assert len(await orders(q)) == 1
    assert await bodies(q.engine, "q") == [b"one"]


@pytest.mark.promise("E158")
async def test_a_commit_that_finds_the_disk_full_is_told_as_not_done(
    q: Embedded, vfs: FaultVfs
) -> None:
    connection = local(q.engine).connection
    vfs.arm(Fault("write", 1, apsw.FullError))
    with pytest.raises(StorageFull):
        await q.run_tx(lambda tx: tx.send_one("q", b"one"))
    vfs.disarm()
    assert await bodies(q.engine, "q") == []
    assert local(q.engine).connection is connection, "nothing is in doubt"


@pytest.mark.promise("E158")
async def test_what_a_lost_commit_left_behind_reaches_whoever_waits(
    q: Embedded, vfs: FaultVfs, nursery: trio.Nursery
) -> None:
    call = Call(q.engine, taking("q", wait_ms=20_000))
    nursery.start_soon(call.run)
    await parked(q.engine, "q", 1)
    vfs.arm(Fault("sync", 1))
    with pytest.raises(OutcomeUnknown):
        await q.run_tx(lambda tx: tx.send_one("q", b"perhaps"))
    vfs.disarm()
    if await bodies(q.engine, "q"):
        with bounded():
            await call.ended.wait()
        assert [message.body for message in call.reply.messages] == [b"perhaps"]
    else:
        await parked(q.engine, "q", 1)
        q.engine.stop_waiting()


async def test_a_disk_that_fails_for_a_while_refuses_and_then_goes_on(
    q: Embedded, vfs: FaultVfs
) -> None:
    vfs.arm(Fault("write", 1, lasting=True))
    for _ in range(4):
        with pytest.raises((StorageFailed, OutcomeUnknown)):
            await q.run_tx(lambda tx: tx.send_one("q", b"x"))
    vfs.disarm()
    await nothing_is_there(q)


async def test_a_foreign_lock_refuses_the_transaction_before_it_begins(
    q: Embedded, store: Path
) -> None:
    local(q.engine).connection.set_busy_timeout(100)
    began: list[str] = []
    holder = start_holder(store, "BEGIN IMMEDIATE")
    try:
        with pytest.raises(Unavailable, match="another program"):
            await q.run_tx(lambda _: began.append("began"))
    finally:
        stop(holder)
    assert began == []
    await nothing_is_there(q)


async def test_a_file_in_doubt_refuses_the_transaction_until_it_opens_again(
    q: Embedded, vfs: FaultVfs
) -> None:
    q.engine._store.healthy = False
    vfs.arm(Fault("open", 1, apsw.CantOpenError, lasting=True))
    for _ in range(2):
        with pytest.raises(StorageFailed):
            await q.run_tx(lambda tx: tx.send_one("q", b"x"))
    vfs.disarm()
    await nothing_is_there(q)
