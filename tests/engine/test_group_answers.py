"""A group by itself, without an engine: what it answers, counts and puts in doubt when it fails.

The commands that fail are a test's own; they fail where the storage thread would run them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from outcome import Error

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import (
    Internal,
    OutcomeUnknown,
    StorageFailed,
    StorageFull,
)
from mqlite_actor.engine import commands
from mqlite_actor.engine.group import run_at_once, run_group
from mqlite_actor.engine.outcomes import GroupResult
from mqlite_actor.semantics.operations import Operation
from mqlite_actor.storage.database import Transaction
from tests.engine.gate import Custom, completing, sending
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
