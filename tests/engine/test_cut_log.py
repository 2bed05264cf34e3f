"""On a disk that is nearly full the writer itself gives the log's room back, however far the
checkpoints beside it have fallen behind: here there are none.

`tests/engine/test_small_disk.py` shows the same with an engine around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from outcome import Error

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import OutcomeUnknown, StorageFailed, StorageFull
from mqlite_actor.engine.disk import cut_log
from mqlite_actor.engine.group import run_at_once
from mqlite_actor.engine.outbox import UserTransaction
from mqlite_actor.storage.database import Transaction
from tests.engine.gate import Custom, completing, sending
from tests.storage.fault_vfs import Fault, faulty
from tests.storage.quota_vfs import SmallDisk, Usage, small_disk
from tests.storage.writer import Writer, writing

SIZE = limits.RESERVE_BYTES + 2 * limits.MIB
AMPLE = 100 * limits.MIB
"""So much more that nobody watches each group."""

BODY = bytes(20_000)
SMALL = bytes(500)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Holds nothing but the store."""
    with small_disk(tmp_path, SIZE) as each:
        yield each


@pytest.fixture
def writer(disk: SmallDisk, tmp_path: Path) -> Iterator[Writer]:
    with writing(tmp_path / "mq.db") as each:
        each.create("q")
        yield each
        disk.grow(SIZE)
        each.check()


def fill(writer: Writer, body: bytes) -> int:
    """Send until it is refused; how many were stored."""
    number = 0
    while True:
        (outcome,) = writer.group(sending("q", body))
        if isinstance(outcome, Error):
            assert isinstance(outcome.error, StorageFull)
            return number
        number += 1


def held(writer: Writer, number: int, leases: int = 50) -> list[wire.Message]:
    """The first few of the messages that are in the file and have leases, in the log alone."""
    writer.send("q", *[SMALL] * 50)
    writer.store.truncate_log()
    found = [writer.take("q")[0] for _ in range(leases)]
    return found[:number]


def take_all(disk: SmallDisk) -> None:
    """Leave not one block: what is there now is all that ever fits."""
    disk.grow(disk.used() - disk.size)


@pytest.mark.promise("E158")
@pytest.mark.parametrize("body", [BODY, SMALL], ids=["large", "small"])
def test_a_full_queue_is_worked_off_one_by_one_without_a_checkpoint_beside(
    writer: Writer, disk: SmallDisk, body: bytes
) -> None:
    sent = fill(writer, body)
    assert sent > 20
    for _ in range(sent):
        (message,) = writer.take("q")
        writer.ask(completing("q", message))
    assert disk.refusals == 0, "the disk itself was never full"
    writer.send("q", body)


@pytest.mark.promise("E158")
def test_a_settlement_that_meets_a_full_disk_finds_room_in_the_log(
    writer: Writer, disk: SmallDisk
) -> None:
    disk.grow(AMPLE)
    messages = held(writer, 5, 5)
    assert writer.store.log_pages < limits.ROOM_PAGES, "so nobody asks the disk yet"
    take_all(disk)
    for message in messages:
        writer.ask(completing("q", message))
    assert disk.refusals, "somebody else had taken the last block"
    assert len(writer.bodies("q")) == 45


def test_a_send_may_take_what_the_log_gives_back_and_is_refused_when_that_is_used(
    writer: Writer, disk: SmallDisk
) -> None:
    writer.send("q", *[BODY] * 20)
    take_all(disk)
    stored = fill(writer, SMALL)
    assert len(writer.bodies("q")) == 20 + stored


def test_a_group_at_once_leaves_the_cut_to_the_storage_thread(
    writer: Writer, disk: SmallDisk
) -> None:
    disk.grow(AMPLE)
    message, other = held(writer, 2)
    take_all(disk)
    pages = writer.store.log_pages
    request = completing("q", message)
    assert run_at_once(writer.store, writer.table, [request], writer.clock) is None
    assert writer.store.log_pages == pages, "nothing was cut"
    writer.ask(request)

    disk.grow(SIZE - disk.size)
    for _ in range(limits.ROOM_PAGES):
        if not writer.store.room.wants_cut:
            writer.send("q", SMALL)
    assert writer.store.room.wants_cut
    pages = writer.store.log_pages
    request = completing("q", other)
    assert run_at_once(writer.store, writer.table, [request], writer.clock) is None
    assert writer.store.log_pages == pages
    writer.ask(request)
    assert writer.store.log_pages < limits.ROOM_PAGES


def test_a_reader_that_holds_the_log_is_asked_only_when_it_has_grown(
    writer: Writer, disk: SmallDisk, tmp_path: Path
) -> None:
    fill(writer, BODY)
    writer.store.truncate_log()
    messages = writer.take("q", 100)
    with closing(apsw.Connection(str(tmp_path / "mq.db"))) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM messages").fetchall()
        tries = []
        for message in messages:
            writer.ask(completing("q", message))
            tries.append(writer.store.room.wants_cut)
        assert sum(tries) <= writer.store.log_pages / limits.ROOM_PAGES
        assert writer.store.log_pages > limits.ROOM_PAGES, "it could not be cut"
        reader.execute("COMMIT")
    assert disk.refusals == 0


def test_a_transaction_of_a_program_finds_the_log_cut(writer: Writer, disk: SmallDisk) -> None:
    fill(writer, BODY)
    for message in writer.take("q", 20):
        tx = UserTransaction(writer.store, writer.table, writer.clock, 60)
        tx.call(completing("q", message))
        tx.commit()
    assert disk.refusals == 0
    assert writer.store.log_pages < 2 * limits.ROOM_PAGES


@pytest.mark.parametrize("leases", [2, 50], ids=["a short log", "a long log"])
def test_a_transaction_that_meets_a_full_disk_is_refused_and_the_next_finds_room(
    writer: Writer, disk: SmallDisk, leases: int
) -> None:
    disk.grow(AMPLE)
    (message,) = held(writer, 1, leases)
    is_short = writer.store.log_pages < limits.ROOM_PAGES
    assert is_short is (leases == 2)
    take_all(disk)

    def completed() -> None:
        tx = UserTransaction(writer.store, writer.table, writer.clock, 60)
        try:
            tx.call(completing("q", message))
            tx.commit()
        finally:
            tx.roll_back()

    if is_short:
        with pytest.raises(StorageFull):
            completed()
    completed()  # a long log is cut before
    assert writer.ask(wire.StatsRequest(queue="q")).locked == leases - 1


@pytest.mark.parametrize("error", [apsw.IOError, apsw.CorruptError, apsw.FullError])
def test_a_cut_that_fails_is_no_end_of_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[apsw.Error]
) -> None:
    nearly_full = Usage(AMPLE, AMPLE - limits.RESERVE_BYTES, limits.RESERVE_BYTES)
    with faulty() as vfs, writing(tmp_path / "mq.db") as writer:
        writer.create("q")
        writer.send("q", *[BODY] * 20)
        (message,) = writer.take("q")
        vfs.arm(Fault("truncate", 1, error))
        monkeypatch.setattr("shutil.disk_usage", lambda _: nearly_full)
        writer.store.room.look()
        assert writer.store.room.wants_cut
        (outcome,) = writer.group(completing("q", message))
        assert vfs.fired
        if isinstance(outcome, Error):
            assert isinstance(outcome.error, StorageFailed | OutcomeUnknown)
            writer.ask(completing("q", message))
        assert len(writer.bodies("q")) == 19


def test_groups_at_once_go_on_where_the_log_is_another_program_s(writer: Writer) -> None:
    writer.store.leaves_log = True
    writer.store.room.look()
    assert writer.store.room.is_near
    hops = 0
    for _ in range(100):
        request = sending("q", SMALL)
        if run_at_once(writer.store, writer.table, [request], writer.clock) is None:
            hops += 1
            writer.ask(request)
    assert writer.store.log_pages > 2 * limits.ROOM_PAGES
    assert 0 < hops <= writer.store.log_pages / limits.ROOM_PAGES


def test_a_log_of_another_program_stays_as_it_is(writer: Writer, disk: SmallDisk) -> None:
    writer.store.leaves_log = True
    (message,) = held(writer, 1)
    take_all(disk)
    pages = writer.store.log_pages
    (outcome,) = writer.group(completing("q", message))
    assert isinstance(outcome, Error)
    assert isinstance(outcome.error, StorageFull)
    assert writer.store.log_pages == pages
    assert writer.ask(wire.StatsRequest(queue="q")).locked == 50


@pytest.mark.parametrize("reason", ["it is another program's", "it cannot be cut"])
def test_without_the_room_of_the_log_nothing_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    same = Usage(AMPLE, 0, AMPLE)  # what others do to a real disk meanwhile is not in it
    monkeypatch.setattr("shutil.disk_usage", lambda _: same)
    tries: list[object] = []

    def full(_tx: Transaction, request: object, _now_ms: int) -> object:
        tries.append(request)
        raise apsw.FullError

    with faulty() as vfs, writing(tmp_path / "mq.db") as writer:
        writer.create("q")
        writer.table[Custom] = full
        if reason == "it cannot be cut":
            vfs.arm(Fault("truncate", 1, apsw.FullError, lasting=True))
        else:
            writer.store.leaves_log = True
        (outcome,) = writer.group(Custom())
        vfs.disarm()
    assert isinstance(outcome, Error)
    assert isinstance(outcome.error, StorageFull)
    assert len(tries) == 1


def test_a_file_whose_log_could_not_be_cut_is_opened_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with faulty() as vfs, writing(tmp_path / "mq.db") as writer:
        writer.create("q")
        writer.send("q", *[BODY] * 20)
        vfs.arm(Fault("truncate", 1, apsw.IOError))
        assert not cut_log(writer.store)
        assert not writer.store.healthy
        writer.send("q", SMALL)
        assert "opened again" in caplog.text
        assert len(writer.bodies("q")) == 21


def test_the_log_of_a_file_in_doubt_is_left_to_whoever_opens_it(writer: Writer) -> None:
    writer.send("q", BODY)
    writer.store.doubt()
    before = writer.store.log_bytes()
    assert before
    assert not cut_log(writer.store)
    assert writer.store.log_bytes() == before
    writer.send("q", BODY)
    assert cut_log(writer.store)
