"""What outlives a message goes when its time is over, from the front, in slices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqlite_actor.storage import memory, receipts
from mqlite_actor.storage.database import Statement
from mqlite_actor.storage.receipts import Verb
from tests.storage.writer import Writer, writing

NOW = 1_000_000
TOKEN = bytes(16)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    with writing(tmp_path / "q.db") as each:
        yield each


def run(writer: Writer, *statements: Statement) -> list[list[tuple[object, ...]]]:
    """Statements in one transaction."""
    tx = writer.store.begin()
    found = tx.run(statements)
    writer.store.commit()
    return found


def left(writer: Writer, table: str) -> list[int]:
    """The expiry times still stored, in row order."""
    column = "seen_at" if table == "dedup" else "expires_at"
    rows = writer.store.run([(f"SELECT {column} FROM {table} ORDER BY rowid", ())])[0]
    return [row[0] for row in rows]


def receipt(seq: int, expires_at: int) -> Statement:
    return receipts.insert(seq, 1, Verb.COMPLETED, TOKEN, None, expires_at)


@pytest.mark.promise("E121")
def test_receipts_go_when_their_time_is_over_and_not_at_it(writer: Writer) -> None:
    run(writer, *[receipt(seq, NOW + seq) for seq in (-2, -1, 0, 1)])
    assert len(run(writer, receipts.prune(NOW, 10))[0]) == 2
    assert left(writer, "receipts") == [NOW, NOW + 1]


def test_receipts_are_pruned_from_the_front_in_slices(writer: Writer) -> None:
    run(writer, *[receipt(seq, NOW + seq) for seq in range(10)])
    slices = []
    while gone := run(writer, receipts.prune(NOW + 7, 3))[0]:
        slices.append(len(gone))
    assert slices == [3, 3, 1]
    assert left(writer, "receipts") == [NOW + 7, NOW + 8, NOW + 9]


def test_a_clock_that_went_back_only_delays_the_pruning(writer: Writer) -> None:
    """A receipt written before the step holds up those behind it, until its own time is over."""
    run(writer, *[receipt(1, NOW + 100)], *[receipt(seq, NOW + seq) for seq in range(2, 6)])
    assert run(writer, receipts.prune(NOW + 50, 1))[0] == []
    assert len(run(writer, receipts.prune(NOW + 50, 3))[0]) == 2
    assert len(run(writer, receipts.prune(NOW + 101, 100))[0]) == 3
    assert left(writer, "receipts") == []


@pytest.mark.parametrize(
    ("seq", "queue", "verb", "token", "args", "now", "found"),
    [
        (7, 1, Verb.ABANDONED, TOKEN, b"d", NOW - 1, True),
        (7, 1, Verb.ABANDONED, TOKEN, b"d", NOW, False),
        (8, 1, Verb.ABANDONED, TOKEN, b"d", NOW - 1, False),
        (7, 2, Verb.ABANDONED, TOKEN, b"d", NOW - 1, False),
        (7, 1, Verb.COMPLETED, TOKEN, b"d", NOW - 1, False),
        (7, 1, Verb.ABANDONED, b"\1" * 16, b"d", NOW - 1, False),
        (7, 1, Verb.ABANDONED, TOKEN, b"e", NOW - 1, False),
        (7, 1, Verb.ABANDONED, TOKEN, None, NOW - 1, False),
    ],
)
def test_a_receipt_covers_exactly_what_was_done(
    writer: Writer,
    seq: int,
    queue: int,
    verb: Verb,
    token: bytes,
    args: bytes | None,
    now: int,
    found: bool,  # noqa: FBT001 - a column of the table above
) -> None:
    run(writer, receipts.insert(7, 1, Verb.ABANDONED, TOKEN, b"d", NOW))
    assert bool(run(writer, receipts.find(seq, queue, verb, token, args, now))[0]) is found


@pytest.mark.promise("E121")
def test_attempts_go_when_their_time_is_over_and_not_at_it(writer: Writer) -> None:
    for number in range(-3, 2):
        run(writer, memory.remember_attempt(1, f"a{number}", NOW + number, b"reply"))
    assert len(run(writer, memory.prune_attempts(NOW, 2))[0]) == 2
    assert len(run(writer, memory.prune_attempts(NOW, 2))[0]) == 1
    assert left(writer, "attempts") == [NOW, NOW + 1]


@pytest.mark.promise("E121")
def test_duplicate_keys_go_when_their_window_is_over_and_queue_by_queue(writer: Writer) -> None:
    for queue in (1, 2):
        for number in range(-3, 2):
            run(writer, memory.accept(queue, f"k{number}", bytes(32), 1, NOW + number))
    assert len(run(writer, memory.prune_duplicates(1, NOW, 3))[0]) == 3
    assert len(run(writer, memory.prune_duplicates(1, NOW, 3))[0]) == 1
    assert left(writer, "dedup") == [NOW + 1, *range(NOW - 3, NOW + 2)]
    assert run(writer, memory.find_duplicate(1, "k1", NOW))[0] == [(1, bytes(32))]
    assert run(writer, memory.find_duplicate(1, "k0", NOW))[0] == []
