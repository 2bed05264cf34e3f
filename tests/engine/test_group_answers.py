"""A group by itself, without an engine: what it answers, counts and puts in doubt when it fails.

The commands that fail are a test's own; they fail where the storage thread would run them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from outcome import Error

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import (
    Internal,
    InvalidArgument,
    LockLost,
    OutcomeUnknown,
    QueueNotFound,
    StorageDamaged,
    StorageFailed,
    StorageFull,
    Unavailable,
)
from mqlite_actor.engine import commands
from mqlite_actor.engine.group import run_at_once, run_group
from mqlite_actor.engine.outcomes import GroupResult
from mqlite_actor.semantics.operations import Operation
from mqlite_actor.storage.database import Transaction
from tests.engine.gate import PATIENCE, Custom, completing, sending
from tests.storage.fault_vfs import Fault, faulty
from tests.storage.quota_vfs import small_disk
from tests.storage.writer import Writer, writing


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    with writing(tmp_path / "q.db") as writer:
        writer.create("q")
        yield writer


def run(writer: Writer, *requests: object) -> GroupResult:
    return run_group(writer.store, writer.table, requests, writer.clock)


def failing(*causes: Exception) -> Callable[..., Any]:
    """An operation that fails with each of these in turn."""
    left = iter(causes)

    def fail(_tx: Transaction, _request: object, _now_ms: int) -> object:
        raise next(left)

    return fail


def noting(ran: list[str], word: str, operation: Operation) -> Operation:
    """The operation, which says that it runs."""

    def run(tx: Transaction, request: object, now_ms: int) -> object:
        ran.append(word)
        return operation(tx, request, now_ms)

    return run


def kinds(result: GroupResult) -> list[type]:
    """Of each command, its error or its response."""
    return [
        type(each.error if isinstance(each, Error) else each.unwrap()) for each in result.outcomes
    ]


def refused(result: GroupResult) -> list[tuple[str, type, int]]:
    """The storage calls that were counted as failed."""
    return [(name, type(error), number) for name, error, _, number in result.timings if error]


def counted(result: GroupResult) -> list[tuple[str, type | None, int]]:
    """All storage calls; none of them took longer than a test may."""
    assert all(0 <= seconds < PATIENCE for _, _, seconds, _ in result.timings)
    return [(name, type(error) if error else None, n) for name, error, _, n in result.timings]


def test_each_call_of_a_group_is_counted_as_what_it_did(writer: Writer) -> None:
    writer.send("q", b"held")
    held = writer.take("q")[0]
    result = run(
        writer,
        *[sending("q", b"x")] * 2,
        wire.StatsRequest(queue="q"),
        wire.StatsRequest(queue="nowhere"),
        *[completing("q", held)] * 2,
        completing("q", msgspec.structs.replace(held, lock_token="0" * 32)),
    )
    assert kinds(result)[3:] == [QueueNotFound, *[wire.OkResponse] * 2, LockLost]
    assert result.commits == 1
    assert [each for each in counted(result) if each[2]] == [
        ("write", None, 2),
        ("read", None, 1),
        ("read", QueueNotFound, 1),
        ("write", None, 2),
        ("write", LockLost, 1),
        ("transaction", None, 1),
    ]
    assert counted(run(writer, commands.CountFreePages())) == [("transaction", None, 1)]


def test_two_commands_of_two_kinds_are_one_transaction(writer: Writer) -> None:
    writer.send("q", b"held")
    result = run(writer, completing("q", writer.take("q")[0]), sending("q", b"x"))
    assert kinds(result) == [wire.OkResponse, wire.SendResponse]
    assert result.commits == 1


def test_a_foreign_lock_that_stays_is_told_to_all_who_waited_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BUSY_MS", 1)
    with writing(tmp_path / "q.db") as writer:
        other = apsw.Connection(str(tmp_path / "q.db"))
        other.execute("BEGIN IMMEDIATE")
        result = run(writer, *[sending("q", b"a")] * 2)
        other.close()
        assert kinds(result) == [Unavailable] * 2
        assert counted(result) == [("transaction", Unavailable, 1)]


def test_a_command_that_fails_alone_is_not_tried_again(writer: Writer) -> None:
    writer.table[Custom] = failing(LookupError(), apsw.CorruptError())
    result = run(writer, Custom())
    assert kinds(result) == [Internal]
    assert counted(result) == [("transaction", Internal, 1)]
    result = run(writer, Custom(), sending("q", b"x"))
    assert kinds(result) == [StorageDamaged] * 2, "neither is anything on a damaged file"
    for each in result.outcomes:
        with pytest.raises(StorageDamaged) as caught:
            each.unwrap()
        assert caught.value.origin == "CorruptError"


def test_a_commit_of_which_nobody_knows_is_told_to_all_who_were_in_it(tmp_path: Path) -> None:
    with faulty() as vfs, writing(tmp_path / "q.db", synchronous="FULL") as writer:
        writer.create("q")
        vfs.arm(Fault("sync", 1))
        result = run(writer, *[sending("q", b"a")] * 2)
        vfs.disarm()
        assert kinds(result) == [OutcomeUnknown] * 2
        assert counted(result)[-1] == ("transaction", OutcomeUnknown, 1)
        assert result.is_doubtful
        assert (writer.store.healthy, writer.store.in_transaction) == (False, False)
        assert kinds(run(writer, sending("q", b"b"))) == [wire.SendResponse]
        assert writer.store.healthy, "it was opened anew"


@pytest.mark.parametrize("leaves_log", [False, True])
def test_what_a_commit_that_found_no_room_made_is_not_believed_to_be_there(
    tmp_path: Path,
    leaves_log: bool,  # noqa: FBT001  # of pytest's
) -> None:
    with faulty() as vfs, writing(tmp_path / "q.db") as writer:
        writer.store.leaves_log = leaves_log
        vfs.arm(Fault("write", 1, apsw.FullError))
        result = run(writer, wire.CreateQueueRequest(name="new"), sending("new", b"a"))
        assert vfs.fired
        vfs.disarm()
        assert kinds(result) == [wire.EmptyResponse, wire.SendResponse]
        assert result.commits == 1 + leaves_log, "together when the log is cut, or each by itself"
        writer.store.reopen()
        assert writer.bodies("new") == [b"a"]


def test_a_complaint_stays_until_something_is_written(
    writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    """One line in the log for each outage, and none for what a caller did wrong."""

    def refuse_late(tx: Transaction, _request: object, _now_ms: int) -> object:
        tx.write([("UPDATE queues SET updated_at = 7", ())])
        raise InvalidArgument("too late")

    full = [apsw.FullError()] * 3  # one of them is tried again, since the log gave room
    writer.table[Custom] = failing(*full, apsw.BusyError(), *full)
    look = wire.StatsRequest(queue="q")
    said: list[str] = []
    for request, line in (
        (Custom(), "the disk is full"),
        (look, ""),
        (Custom(), ""),
        (Custom(), "another program holds a lock"),
        (Custom(), "the disk is full"),
        (sending("q", b"x"), ""),
        (Custom(), "the disk is full"),
    ):
        run(writer, request)
        said += [line] if line else []
        lines = [record.getMessage() for record in caplog.records]
        assert [each.startswith(begin) for each, begin in zip(lines, said, strict=True)] == (
            [True] * len(said)
        ), lines
    writer.table[Custom] = refuse_late
    assert kinds(run(writer, Custom())) == [InvalidArgument]
    assert writer.store.complaint.startswith("the disk is full")
    assert len(caplog.records) == len(said)


def test_on_a_full_disk_a_group_still_settles_and_no_send_is_tried_again(writer: Writer) -> None:
    writer.send("q", b"held")
    writer.table[Custom] = failing(*[apsw.FullError()] * 4)
    result = run(writer, sending("q", b"a"), Custom(), *[sending("q", b"b")] * 2)
    assert kinds(result) == [wire.SendResponse, *[StorageFull] * 3]
    assert writer.bodies("q") == [b"held", b"a"]


def test_a_file_that_cannot_be_opened_again_refuses_group_by_group_and_is_one_line(
    writer: Writer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, aside = tmp_path / "q.db", tmp_path / "aside"
    writer.store.doubt()
    file.rename(aside)
    for _ in range(2):
        result = run(writer, *[sending("q", b"a")] * 2)
        assert kinds(result) == [StorageFailed] * 2
        assert counted(result) == [("transaction", StorageFailed, 1)]
    assert len(caplog.records) == 1
    aside.rename(file)
    assert kinds(run(writer, sending("q", b"a"))) == [wire.SendResponse]
    assert writer.bodies("q") == [b"a"]


def test_a_connection_that_cannot_roll_back_is_not_used_any_more(writer: Writer) -> None:
    def cut(_tx: Transaction, _request: object, _now_ms: int) -> object:
        writer.store.connection.close(True)
        raise LookupError

    writer.table[Custom] = cut
    assert kinds(run(writer, Custom())) == [Internal]
    assert not writer.store.healthy
    assert kinds(run(writer, sending("q", b"a"))) == [wire.SendResponse]


def test_at_once_means_without_waiting_for_a_foreign_lock(writer: Writer, tmp_path: Path) -> None:
    other = apsw.Connection(str(tmp_path / "q.db"))
    other.execute("BEGIN IMMEDIATE")
    requests = [sending("q", b"a")]
    assert run_at_once(writer.store, writer.table, requests, writer.clock) is None
    other.execute("ROLLBACK")
    other.close()
    result = run_at_once(writer.store, writer.table, requests, writer.clock)
    assert result is not None
    assert kinds(result) == [wire.SendResponse]
    assert writer.bodies("q") == [b"a"]


def test_a_group_that_is_repeated_one_by_one_settles_first(writer: Writer) -> None:
    writer.send("q", b"held")
    held = writer.take("q")[0]
    ran: list[str] = []
    for kind, word in ((wire.SendRequest, "send"), (wire.CompleteRequest, "complete")):
        writer.table[kind] = noting(ran, word, writer.table[kind])
    writer.table.runs.clear()
    writer.table[Custom] = failing(*[RuntimeError("x")] * 2)
    result = run(writer, sending("q", b"a"), Custom(), completing("q", held))
    assert kinds(result) == [wire.SendResponse, Internal, wire.OkResponse]
    assert ran == ["send", "complete", "send"], "the first is of the group that broke"
    assert refused(result) == [("transaction", Internal, 1)]


def test_a_commit_of_which_nobody_knows_is_told_so_when_a_group_is_repeated(
    tmp_path: Path,
) -> None:
    with faulty() as vfs, writing(tmp_path / "q.db", synchronous="FULL") as writer:
        writer.create("q")
        writer.table[Custom] = failing(*[RuntimeError("x")] * 2)
        vfs.arm(Fault("sync", 1))
        result = run(writer, sending("q", b"a"), Custom())
        vfs.disarm()
        assert kinds(result) == [OutcomeUnknown, Internal]
        assert result.is_doubtful
        assert refused(result) == [
            ("transaction", OutcomeUnknown, 1),
            ("transaction", Internal, 1),
        ]
        assert writer.bodies("q") in ([], [b"a"])


def test_a_file_that_fails_in_a_repetition_fails_all_who_come_behind(writer: Writer) -> None:
    writer.table[Custom] = failing(RuntimeError("x"), apsw.IOError("y"))
    result = run(writer, Custom(), *[sending("q", b"%d" % number) for number in range(3)])
    assert kinds(result) == [StorageFailed] * 4
    assert not writer.store.healthy
    assert writer.bodies("q") == [], "the next command opens the file anew, and nothing was run"
    assert len({id(each.error) for each in result.outcomes if isinstance(each, Error)}) == 4, (
        "its own"
    )


def test_what_runs_between_two_groups_and_fails_is_answered_and_counted(writer: Writer) -> None:
    def step() -> object:
        raise apsw.IOError("x")

    result = run(writer, commands.CopyPages(step))
    assert kinds(result) == [StorageFailed]
    assert refused(result) == [("transaction", StorageFailed, 1)]
    assert not writer.store.healthy
    assert kinds(run(writer, commands.CountFreePages())) == [int]


def test_sends_that_find_no_room_are_one_line_and_one_refused_transaction_a_group(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    size = 6 * limits.MIB
    with small_disk(tmp_path, size), writing(tmp_path / "q.db") as writer:
        writer.create("q")
        (tmp_path / "other").write_bytes(bytes(size - limits.MIB))
        with caplog.at_level(logging.WARNING, "mqlite"):
            for _ in range(3):
                result = run(writer, *[sending("q", b"x")] * 2)
                assert kinds(result) == [StorageFull] * 2
                assert refused(result) == [("transaction", StorageFull, 1)]
        texts = [record.getMessage() for record in caplog.records]
        assert ["nearly full" in text for text in texts] == [True], "one line an outage"
