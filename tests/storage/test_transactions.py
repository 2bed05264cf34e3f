"""What a transaction carries until COMMIT: counts, sequence numbers, what the writer remembers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import (
    Internal,
    LockLost,
    MqliteError,
    QueueNotFound,
    StorageDamaged,
    StorageFailed,
    StorageFull,
    Unavailable,
)
from mqlite_actor.storage import counts, queues
from mqlite_actor.storage.database import Stored, Transaction
from mqlite_actor.storage.failures import mapped
from mqlite_actor.storage.queues import Queue
from tests.storage.foreign import execute
from tests.storage.writer import Writer, killed_copy, writing


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    with writing(tmp_path / "q.db") as each:
        each.create("q")
        each.create("other")
        yield each


@pytest.fixture
def tx(writer: Writer) -> Iterator[Transaction]:
    """An open transaction, rolled back afterwards."""
    yield writer.store.begin()
    writer.store.rollback()


def kept(tx: Transaction, queue: Queue) -> tuple[int, ...]:
    return counts.six(tx.run([counts.read(queue.id)])[0][0])


# -- its begin -------------------------------------------------------------------------------------


def test_a_begin_is_patient_or_not_from_its_first_statement(writer: Writer) -> None:
    connection = writer.store.connection
    waits: list[int] = []

    def look(_cursor: apsw.Cursor, sql: str, _bindings: object) -> bool:
        if "busy_timeout" not in sql:
            waits.append(connection.pragma("busy_timeout"))
        return True

    for is_patient in (True, False, True):
        writer.store.rollback()  # so that it asks for the last number first
        waits.clear()
        connection.exec_trace = look
        writer.store.begin(is_patient=is_patient)
        connection.exec_trace = None
        assert len(waits) > 1
        assert set(waits) == {limits.BUSY_MS if is_patient else 0}
    writer.store.rollback()


# -- counts ----------------------------------------------------------------------------------------


def test_counts_are_written_at_flush_and_once_for_each_queue(
    writer: Writer, tx: Transaction
) -> None:
    mine, other = queues.find(tx, "q"), queues.find(tx, "other")
    for state in Stored:
        tx.moved(mine, after=state, number=int(state), dead_bytes=7 if state == Stored.DEAD else 0)
    tx.moved(mine, before=Stored.LOCKED, after=Stored.DEFERRED, number=2)
    tx.moved(other, after=Stored.READY)
    assert kept(tx, mine) == (0, 0, 0, 0, 0, 0)
    changed = writer.store.changes
    tx.flush()
    assert writer.store.changes == changed + 2
    assert kept(tx, mine) == (3, 1, 4, 7, 6, 7)
    assert kept(tx, other) == (1, 0, 0, 0, 0, 0)


def test_what_cancels_out_is_not_written(writer: Writer, tx: Transaction) -> None:
    queue = queues.find(tx, "q")
    tx.moved(queue, after=Stored.READY)
    tx.moved(queue, before=Stored.READY, after=Stored.LOCKED)
    tx.moved(queue, before=Stored.LOCKED)
    tx.moved(queue, before=Stored.READY, after=Stored.WAITING)  # one count for both
    tx.ledger.is_ahead = False  # of the counter, which is written when something is removed
    changed = writer.store.changes
    tx.flush()
    assert writer.store.changes == changed


def test_flushing_twice_adds_once(tx: Transaction) -> None:
    queue = queues.find(tx, "q")
    tx.moved(queue, after=Stored.READY)
    tx.flush()
    tx.flush()
    assert kept(tx, queue)[0] == 1


def test_wakes_add_up_by_queue(tx: Transaction) -> None:
    tx.wake("q")
    tx.wake("q", 4)
    tx.wake("other", 3)
    assert tx.wakes == {"q": 5, "other": 3}


def test_counts_follow_every_rollback(writer: Writer) -> None:
    writer.send("q", b"kept")
    tx = writer.store.begin()
    queue = queues.find(tx, "q")
    tx.moved(queue, after=Stored.READY, number=5)
    tx.flush()
    writer.store.rollback()
    writer.check()
    assert writer.ask(wire.StatsRequest(queue="q")).active == 1


# -- sequence numbers ------------------------------------------------------------------------------


@pytest.mark.promise("E19")
def test_numbers_grow_over_queues_deletions_and_reopening(tmp_path: Path) -> None:
    path = tmp_path / "q.db"
    given: list[int] = []
    for _ in range(3):
        with writing(path) as writer:
            for queue in ("a", "b"):
                writer.create(queue)
            given += writer.send("a", b"1", b"2") + writer.send("b", b"3") + writer.send("a", b"4")
            later = writer.clock.now_ms() + 1000
            scheduled = wire.ScheduleRequest(
                queue="b", messages=[wire.Message()], scheduled_enqueue_time_ms=later
            )
            given += writer.ask(scheduled).seq_numbers or []
            writer.ask(wire.CancelRequest(queue="b", seq_number=given[-1]))
            drain(writer, "a")
            drain(writer, "b")
        execute(path, "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)")
    assert given == sorted(set(given))
    assert given == list(range(1, len(given) + 1)), "nothing failed, so nothing was left out"


def drain(writer: Writer, queue: str) -> None:
    """Remove every message: the highest number's row with them."""
    while writer.ask(wire.ReceiveRequest(queue=queue, receive_mode=1, max_messages=256)).messages:
        pass
    assert writer.bodies(queue) == []


@pytest.mark.promise("E19")
def test_a_number_of_a_rolled_back_transaction_was_nobodys(writer: Writer) -> None:
    first = writer.send("q", b"a")[0]
    tx = writer.store.begin()
    lost = [tx.next_seq() for _ in range(3)]
    tx.flush()
    writer.store.rollback()
    assert lost == [first + 1, first + 2, first + 3]
    assert writer.send("q", b"b")[0] > first
    assert [message.seq_number for message in writer.take("q", 2)] == [first, first + 1]


@pytest.mark.promise("E19")
def test_numbers_outlive_the_rows_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "q.db"
    with writing(path) as writer:
        writer.create("q")
        last = writer.send("q", *[b"x"] * 10)[-1]
        drain(writer, "q")
        copy = killed_copy(path, tmp_path / "copy")
    with writing(copy) as writer:
        assert writer.send("q", b"new")[0] > last


@pytest.mark.promise("E19")
def test_a_number_outlives_its_row_when_its_removal_is_the_first_thing_after_a_kill(
    tmp_path: Path,
) -> None:
    path = tmp_path / "q.db"
    with writing(path) as writer:
        writer.create("q")
        last = writer.send("q", b"a", b"b")[-1]
        first_copy = killed_copy(path, tmp_path / "first")
    with writing(first_copy) as writer:
        drain(writer, "q")
        second_copy = killed_copy(first_copy, tmp_path / "second")
    with writing(second_copy) as writer:
        assert writer.send("q", b"new")[0] > last


def test_the_counter_is_written_once_and_only_when_rows_that_tell_of_it_go(
    writer: Writer,
) -> None:
    def changes_of_flush(tx: Transaction) -> int:
        before = writer.store.changes
        tx.flush()
        return writer.store.changes - before

    tx = writer.store.begin()
    queue = queues.find(tx, "q")
    for _ in range(100):
        tx.next_seq()
    assert changes_of_flush(tx) == 0
    tx.moved(queue, before=Stored.READY)
    assert changes_of_flush(tx) == 2, "the counts and the counter"
    tx.moved(queue, before=Stored.READY)
    assert changes_of_flush(tx) == 1, "no new number since"
    writer.store.rollback()


# -- what the writer remembers ---------------------------------------------------------------------


def test_a_rolled_back_queue_is_forgotten(writer: Writer) -> None:
    tx = writer.store.begin()
    template = queues.find(tx, "q")
    fields = {name: getattr(template, name) for name in Queue.__struct_fields__}
    queues.insert(tx, Queue(**(fields | {"name": "never"})))
    assert queues.find(tx, "never").id != template.id
    writer.store.rollback()
    with pytest.raises(QueueNotFound, match="'never'"):
        writer.take("never")


def test_a_rolled_back_setting_is_forgotten(writer: Writer) -> None:
    tx = writer.store.begin()
    before = queues.find(tx, "q")
    fields = {name: getattr(before, name) for name in Queue.__struct_fields__}
    queues.update(tx, Queue(**(fields | {"lock_duration_ms": 1})))
    assert queues.find(tx, "q").lock_duration_ms == 1
    writer.store.rollback()
    tx = writer.store.begin()
    assert queues.find(tx, "q") == before
    writer.store.rollback()


def test_a_queue_row_is_read_once_until_it_changes(writer: Writer) -> None:
    reads: list[str] = []

    def note(_: object, sql: str, __: object) -> bool:
        reads.extend([sql] if sql == queues.FIND else [])
        return True

    writer.store.ledger.forget()
    writer.store.connection.exec_trace = note
    for _ in range(5):
        writer.send("q", b"x")
    assert len(reads) == 1
    writer.create("q", wire.QueueConfig(lock_duration_ms=5))
    assert writer.take("q")[0].locked_until_ms == writer.clock.now_ms() + 5
    writer.store.connection.exec_trace = None


def test_the_epoch_moves_with_configuration_and_only_with_it(writer: Writer) -> None:
    def epoch() -> int:
        return int(writer.store.run([("SELECT value FROM meta WHERE key = 'epoch'", ())])[0][0][0])

    start = epoch()
    writer.send("q", b"x")
    writer.take("q")
    assert epoch() == start
    writer.create("q")
    writer.create("new")
    assert epoch() == start + 2


# -- what went wrong, in our words -----------------------------------------------------------------

MEANINGS: dict[type[Exception], type[MqliteError]] = {
    apsw.FullError: StorageFull,
    apsw.BusyError: Unavailable,
    apsw.LockedError: Unavailable,
    apsw.IOError: StorageFailed,
    apsw.CorruptError: StorageDamaged,
    apsw.NotADBError: StorageDamaged,
    apsw.CantOpenError: StorageFailed,
    apsw.ReadOnlyError: StorageFailed,
    apsw.SQLError: Internal,
    apsw.ConstraintError: Internal,
    AssertionError: Internal,
    MemoryError: Internal,
    LockLost: LockLost,
}


@pytest.mark.parametrize("kind", MEANINGS)
def test_a_failure_has_one_meaning(kind: type[Exception]) -> None:
    secret = "INSERT INTO messages VALUES ('secret')"
    error = mapped(kind(secret))
    assert type(error) is MEANINGS[kind]
    if not isinstance(kind(secret), MqliteError):
        assert "secret" not in error.message
