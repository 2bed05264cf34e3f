"""What is committed on a small disk can be moved into the file, whatever was written anew with it,
and the log is in nobody's way: a program's transactions, leases of a dead process, sends, and
settlements beside a look.

`tests/engine/test_cut_log.py` has the cut itself, `test_full_disk_kinds.py` what fills a disk.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from outcome import Error

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import StorageFull
from mqlite_actor.engine import commands
from mqlite_actor.engine.disk import cut_log
from mqlite_actor.engine.engine import EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.engine.outbox import UserTransaction
from mqlite_actor.engine.outcomes import Answer, Done
from mqlite_actor.storage.database import Transaction
from mqlite_actor.storage.sqlite import SqliteStore
from tests.engine.gate import Custom, bounded, completing
from tests.storage.quota_vfs import SmallDisk, small_disk
from tests.storage.writer import Writer, writing

SIZE = 48 * limits.MIB
ROW = 3500
"""Bytes: each row has a page of its own."""

ADD = f"""
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
INSERT INTO mine (body) SELECT zeroblob({ROW}) FROM numbers"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path, SIZE) as each:
        yield each


@pytest.fixture
def writer(disk: SmallDisk, tmp_path: Path) -> Iterator[Writer]:
    with writing(tmp_path / "mq.db") as each:
        each.create("q")
        each.send("q", *[b"x"] * 50)
        yield each
        disk.grow(SIZE)
        each.check()


def rows(mib: int) -> int:
    """How many rows take so much of the disk."""
    return mib * limits.MIB // 4096


def ran(writer: Writer, *statements: tuple[str, tuple[int, ...]]) -> bool:
    """Run them in a transaction of a program; False if it was refused for want of room."""
    tx = UserTransaction(writer.store, writer.table, writer.clock, 60)
    try:
        for sql, arguments in statements:
            tx.execute(sql, arguments)
        tx.commit()
    except StorageFull:
        return False
    finally:
        tx.roll_back()
    return True


@pytest.mark.promise("E158")
@pytest.mark.parametrize("anew", [0, 4, 8, 12])
@pytest.mark.parametrize("added", [0, 4, 8, 12, 16])
def test_what_a_program_commits_can_be_moved_into_the_file(
    writer: Writer, disk: SmallDisk, anew: int, added: int
) -> None:
    assert ran(writer, ("CREATE TABLE mine (id INTEGER PRIMARY KEY, body BLOB)", ()))
    assert ran(writer, (ADD, (rows(12),)))
    writer.store.truncate_log()
    assert ran(writer, (ADD, (20,)))  # and some pages that are in the log alone
    change = (f"UPDATE mine SET body = randomblob({ROW}) WHERE id <= ?", (rows(anew),))
    is_done = ran(writer, change, (ADD, (rows(added),)))
    assert is_done or anew + 2 * added > 20, "there was room enough"
    assert writer.store.truncate_log()
    for message in writer.take("q", 50):
        writer.ask(completing("q", message))
    assert ran(writer, ("DELETE FROM mine WHERE id <= 100", ()))
    writer.store.reopen()
    assert disk.refusals == 0 or not is_done


def test_a_transaction_finds_the_room_that_the_log_of_the_last_one_took(
    writer: Writer, disk: SmallDisk
) -> None:
    """It cannot be run once more, and no keeper is here that cuts the log."""
    disk.grow(4 * limits.MIB)
    assert ran(writer, ("CREATE TABLE mine (id INTEGER PRIMARY KEY, body BLOB)", ()))
    assert ran(writer, (ADD, (rows(12),)))
    writer.store.room.look()
    assert not writer.store.room.is_near
    assert ran(writer, (ADD, (rows(12),)))


@pytest.mark.promise("E158")
@pytest.mark.parametrize(
    ("left", "anew", "added", "kind"),
    [
        (20, 12, 2, Done), (20, 12, 7, Error), (20, 12, 12, Error),
        (5, 2, 1, Done), (6, 4, 1, Error),  # all of it stays in the cache until then
    ],
)  # fmt: skip
def test_what_a_group_commits_can_be_moved_into_the_file(
    writer: Writer, disk: SmallDisk, left: int, anew: int, added: int, kind: type[Answer]
) -> None:
    assert ran(writer, ("CREATE TABLE mine (id INTEGER PRIMARY KEY, body BLOB)", ()))
    assert ran(writer, (ADD, (rows(12),)))
    writer.store.truncate_log()
    disk.grow(disk.used() + left * limits.MIB - disk.size)

    def change(tx: Transaction, _request: object, _now_ms: int) -> None:
        tx.run([(f"UPDATE mine SET body = randomblob({ROW}) WHERE id <= ?", (rows(anew),))])
        tx.run([(ADD, (rows(added),))])

    writer.table[Custom] = change
    writer.store.room.look()
    assert writer.store.room.is_near
    (outcome,) = writer.group(Custom())
    assert type(outcome) is kind
    assert writer.store.truncate_log()
    for message in writer.take("q", 50):
        writer.ask(completing("q", message))


def test_what_is_too_much_together_is_done_one_by_one_with_a_cut_between(
    writer: Writer, disk: SmallDisk
) -> None:
    assert ran(writer, ("CREATE TABLE mine (id INTEGER PRIMARY KEY, body BLOB)", ()))
    assert ran(writer, (ADD, (rows(8),)))
    writer.store.truncate_log()
    disk.grow(disk.used() + 3 * limits.MIB - disk.size)
    places = iter(range(100))

    def change(tx: Transaction, _request: object, _now_ms: int) -> None:
        first = next(places) % 8 * rows(1)
        sql = f"UPDATE mine SET body = randomblob({ROW}) WHERE id BETWEEN ? AND ?"
        tx.run([(sql, (first + 1, first + rows(1)))])

    writer.table[Custom] = change
    outcomes = writer.group(*[Custom()] * 8)
    assert not [each for each in outcomes if isinstance(each, Error)]


def test_a_log_that_kept_its_room_on_the_disk_is_cut_before_sends_are_refused(
    writer: Writer, disk: SmallDisk
) -> None:
    disk.grow(SIZE)
    for _ in range(8):
        writer.send("q", bytes(limits.MIB))
    assert writer.store.truncate_log(keeps_room=True)
    log_bytes = writer.store.log_bytes()
    assert log_bytes
    assert log_bytes > 8 * limits.MIB
    disk.grow(disk.used() + limits.MIB - disk.size)  # somebody else takes the rest
    writer.store.room.look()
    assert writer.store.room.is_near
    writer.send("q", b"x")
    writer.send("q", bytes(100_000))


def test_a_checkpoint_beside_keeps_the_log_from_being_cut_and_no_longer(writer: Writer) -> None:
    writer.send("q", bytes(limits.MIB))
    with writer.store._checkpointer.lock:
        assert not cut_log(writer.store)
    assert cut_log(writer.store)


@contextmanager
def looking(path: Path) -> Iterator[apsw.Connection]:
    """Somebody who reads, and so keeps the log."""
    with closing(apsw.Connection(str(path))) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM messages").fetchall()
        yield reader


@pytest.mark.promise("E158")
def test_settlements_beside_a_look_end_while_the_log_can_still_be_moved(
    writer: Writer, disk: SmallDisk, tmp_path: Path
) -> None:
    for _ in range(20):
        writer.send("q", *[bytes(500)] * 50)
    held = [message for _ in range(20) for message in writer.take("q", 50)]
    writer.store.truncate_log()
    disk.grow(disk.used() + 3 * limits.MIB - disk.size)
    refused = 0
    with looking(tmp_path / "mq.db"):
        for message in held:
            (outcome,) = writer.group(completing("q", message))
            refused += isinstance(outcome, Error)
            if refused == 5:
                break
    assert refused == 5, "the log took all that was left"
    assert writer.store.truncate_log()
    writer.clock.advance(3_600_000)
    for command in (commands.Reap(), commands.PruneReceipts()):
        writer.group(command)[0].unwrap()
    while found := writer.take("q"):
        writer.ask(completing("q", found[0]))


@pytest.mark.promise("E158")
def test_what_is_added_page_by_page_ends_while_it_can_still_be_moved(
    writer: Writer, disk: SmallDisk, tmp_path: Path
) -> None:
    assert ran(writer, ("CREATE TABLE mine (id INTEGER PRIMARY KEY, body BLOB)", ()))
    assert ran(writer, (ADD, (rows(2),)))
    writer.store.truncate_log()
    disk.grow(disk.used() + 4 * limits.MIB - disk.size)

    def change(tx: Transaction, _request: object, _now_ms: int) -> None:
        tx.run([(ADD, (1,))])

    writer.table[Custom] = change
    refused = 0
    with looking(tmp_path / "mq.db"):
        for _ in range(rows(4)):
            (outcome,) = writer.group(Custom())
            refused += isinstance(outcome, Error)
            if refused == 5:
                break
    assert refused == 5
    assert writer.store.truncate_log()
    writer.store.reopen()
    for message in writer.take("q", 50):
        writer.ask(completing("q", message))


def test_a_log_that_somebody_keeps_is_asked_for_now_and_then_while_there_is_plenty(
    writer: Writer, disk: SmallDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.grow(200 * limits.MIB)
    waits: list[bool] = []
    truncate = type(writer.store).truncate_log

    def noted(store: SqliteStore, **how: bool) -> bool:
        waits.append(how.get("waits", False))
        return truncate(store, **how)

    assert ran(writer, ("CREATE TABLE mine (id INTEGER PRIMARY KEY, body BLOB)", ()))
    monkeypatch.setattr(type(writer.store), "truncate_log", noted)
    with looking(tmp_path / "mq.db"):
        for _ in range(100):
            assert ran(writer, (ADD, (70,)))
    assert writer.store.log_pages > 7000
    assert 1 <= len(waits) < 30
    assert not any(waits)


@pytest.mark.promise("E158")
@pytest.mark.parametrize("number", [1, 5], ids=["alone", "in a group"])
def test_a_settlement_that_meets_a_full_disk_waits_for_a_look_that_keeps_the_log(
    writer: Writer, disk: SmallDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(limits, "FULL_WAIT_MS", 60_000)
    writer.store.truncate_log()
    held = [writer.take("q")[0] for _ in range(50)]
    requests = [completing("q", message) for message in held[:number]]
    was_refused = threading.Event()
    need = disk.need

    def told(before: int, after: int) -> None:
        try:
            need(before, after)
        except apsw.FullError:
            was_refused.set()
            raise

    with closing(apsw.Connection(str(tmp_path / "mq.db"))) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM messages").fetchall()

        def end() -> None:
            assert was_refused.wait(60)
            reader.execute("COMMIT")

        ends = threading.Thread(target=end)
        ends.start()
        monkeypatch.setattr(disk, "need", told)
        disk.grow(disk.used() - disk.size)
        outcomes = writer.group(*requests)
        ends.join()
    assert not [each for each in outcomes if isinstance(each, Error)]
    assert len(writer.bodies("q")) == 50 - number


def test_without_the_end_of_the_look_one_wait_is_enough_for_a_group(
    writer: Writer, disk: SmallDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[bool] = []
    truncate = writer.store.truncate_log

    def noted(**how: bool) -> bool:
        waits.append(how.get("waits", False))
        return truncate(**how)

    writer.store.truncate_log()
    requests = [completing("q", writer.take("q")[0]) for _ in range(5)]
    monkeypatch.setattr(type(writer.store), "truncate_log", lambda _, **how: noted(**how))
    with closing(apsw.Connection(str(tmp_path / "mq.db"))) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM messages").fetchall()
        disk.grow(disk.used() - disk.size)
        outcomes = writer.group(*requests)
        reader.execute("COMMIT")
    assert all(isinstance(each, Error) and type(each.error) is StorageFull for each in outcomes)
    assert waits.count(True) <= 2
    assert len(waits) > 2


@pytest.mark.promise("E158")
async def test_leases_of_a_dead_process_are_ended_where_no_log_of_all_of_them_fits(
    disk: SmallDisk, tmp_path: Path, clock: ManualClock
) -> None:
    number = 2500
    assert number * 4096 > limits.RESERVE_BYTES, "each on a page of its own"
    with writing(tmp_path / "mq.db", clock=clock) as writer:
        writer.create("q")
        large = wire.Message(body=bytes(1000), properties={"is": "large" * 300})
        for _ in range(number // 50):
            writer.ask(wire.SendRequest(queue="q", messages=[large] * 50))
        for _ in range(number // 50):
            writer.take("q", 50)
        assert writer.ask(wire.StatsRequest(queue="q")).locked == number
        writer.store.truncate_log()
    disk.grow(disk.used() + limits.RESERVE_BYTES - disk.size)
    with bounded():
        async with open_engine(
            str(tmp_path / "mq.db"), EngineOptions(clock=clock, background=False)
        ) as engine:
            found = await engine.call(wire.StatsRequest(queue="q"))
            assert (found.active, found.locked) == (number, 0)
    disk.grow(SIZE)


def test_a_run_that_fails_is_told_though_each_command_succeeds_by_itself(
    writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_tx: object, alike: Sequence[Any], _now_ms: int) -> Sequence[Any]:
        if len(alike) == 1:
            return ()  # it goes by itself
        raise ZeroDivisionError

    send = wire.SendRequest(queue="q", messages=[wire.Message(body=b"y")])
    writer.table.runs[wire.SendRequest] = fail
    outcomes = writer.group(send, send)
    assert [each.unwrap().seq_numbers for each in outcomes] == [[51], [52]]
    (line,) = [each for each in caplog.records if each.exc_info]
    assert "one by one" in line.message


def test_a_command_that_fails_is_told_once(
    writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[object] = []

    def fail(_tx: object, request: object, _now_ms: int) -> object:
        tries.append(request)
        raise ZeroDivisionError

    writer.table[commands.Reap] = fail
    peek = wire.StatsRequest(queue="q")
    outcomes = writer.group(peek, commands.Reap(), peek)
    assert [isinstance(each, Error) for each in outcomes] == [False, True, False]
    (line,) = [each for each in caplog.records if each.exc_info]
    assert "rolled back" in line.message
    assert len(tries) == 2, "once together, once alone"
