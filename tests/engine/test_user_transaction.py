"""A user's transaction by itself, in the storage thread: how it ends, and what is kept of that.

`Hold` ends each one, whatever became of it; so what one end alone does is only seen from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import apsw
import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import (
    Internal,
    InvalidArgument,
    MqliteError,
    OutcomeUnknown,
    StorageFailed,
    TxTimeout,
    Unavailable,
)
from mqlite_actor.engine.outbox import Hold, UserTransaction
from mqlite_actor.engine.outcomes import Answer
from tests.engine.gate import Custom, sending
from tests.storage.fault_vfs import Fault, faulty
from tests.storage.writer import Writer, writing

SECONDS = 1.0


class LateClock(ManualClock):
    """Monotonic time jumps past every limit after so many looks at it."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        super().__init__()
        self.left = 1_000_000

    def monotonic(self) -> float:
        self.left -= 1
        return super().monotonic() + (1_000_000.0 if self.left < 0 else 0.0)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    with writing(tmp_path / "q.db", clock=LateClock()) as writer:
        writer.create("q")
        yield writer


def begun(writer: Writer) -> UserTransaction:
    return UserTransaction(writer.store, writer.table, writer.clock, SECONDS)


def be_late_after(writer: Writer, looks: int) -> None:
    assert isinstance(writer.clock, LateClock)
    writer.clock.left = looks


def ends(transaction: UserTransaction) -> list[type | None]:
    """How it was counted as a transaction."""
    return [
        None if error is None else type(error)
        for name, error, _, number in transaction.result.timings
        if name == "transaction" and number == 1
    ]


def test_a_committed_one_is_over_and_stays_what_it_is(writer: Writer) -> None:
    transaction = begun(writer)
    transaction.call(sending("q", b"a"))
    transaction.commit()
    transaction.roll_back()
    assert transaction.is_over
    assert ends(transaction) == [None]
    with pytest.raises(TxTimeout, match="it was committed"):
        transaction.execute("SELECT 1")
    assert writer.bodies("q") == [b"a"]


def test_one_that_was_left_is_counted_as_refused_and_says_so(writer: Writer) -> None:
    transaction = begun(writer)
    transaction.call(sending("q", b"a"))
    transaction.roll_back()
    transaction.roll_back()
    assert ends(transaction) == [InvalidArgument]
    with pytest.raises(TxTimeout, match="it was left"):
        transaction.execute("SELECT 1")
    assert writer.bodies("q") == []


def test_it_is_late_when_its_time_is_over_and_not_before(writer: Writer) -> None:
    transaction = begun(writer)
    writer.clock.advance(round(SECONDS * 1000))
    transaction.execute("SELECT 1")
    writer.clock.advance(1)
    with pytest.raises(TxTimeout, match="took too long"):
        transaction.execute("SELECT 1")
    transaction.roll_back()
    with pytest.raises(TxTimeout, match="it took too long"):
        transaction.commit()


def test_one_that_is_late_once_its_counts_are_written_is_not_committed(writer: Writer) -> None:
    transaction = begun(writer)
    transaction.call(sending("q", b"a"))
    be_late_after(writer, 1)
    with pytest.raises(TxTimeout):
        transaction.commit()
    transaction.roll_back()
    assert writer.bodies("q") == []


def test_a_send_whose_filters_take_too_long_is_not_done(writer: Writer) -> None:
    slow = wire.Filter(expr='any(property_keys, # == "a")')
    writer.ask(wire.SubscribeRequest(topic="t", name="s", filter=slow))
    transaction = begun(writer)
    be_late_after(writer, 1)
    with pytest.raises(TxTimeout):
        transaction.call(sending("t", b"a"))
    transaction.roll_back()
    assert writer.bodies("s") == []


def test_a_send_asks_its_slow_filters_itself(writer: Writer) -> None:
    slow = wire.Filter(expr='any(property_keys, # == "a")')
    writer.ask(wire.SubscribeRequest(topic="t", name="s", filter=slow))
    transaction = begun(writer)
    be_late_after(writer, 100)
    wanted = wire.Message(body=b"wanted", properties={"a": ""})
    transaction.call(wire.SendRequest(queue="t", messages=[wire.Message(), wanted]))
    transaction.commit()
    assert writer.bodies("s") == [b"wanted"]


def test_a_text_that_is_none_is_refused_and_the_rest_goes_on(writer: Writer) -> None:
    transaction = begun(writer)
    with pytest.raises(InvalidArgument, match=r"messages\[0\].subject holds half a surrogate pair"):
        transaction.call(wire.SendRequest(queue="q", messages=[wire.Message(subject="\ud800")]))
    assert transaction.result.timings == [], "storage was not asked"
    transaction.call(sending("q", b"a"))
    transaction.commit()
    assert writer.bodies("q") == [b"a"]


def test_nothing_more_is_done_once_sqlite_has_rolled_back_by_itself(writer: Writer) -> None:
    """It would be committed at once, and alone."""
    transaction = begun(writer)
    transaction.call(sending("q", b"a"))
    writer.table[Custom] = lambda tx, *_: tx.run([("ROLLBACK", ())])
    transaction.call(Custom())
    for step in (lambda: transaction.call(sending("q", b"alone")), transaction.commit):
        with pytest.raises(StorageFailed, match="cannot go on: SQLite rolled it back"):
            step()
    transaction.roll_back()
    assert writer.bodies("q") == []


def test_a_rollback_that_fails_puts_the_file_in_doubt(writer: Writer) -> None:
    transaction = begun(writer)
    transaction.call(sending("q", b"a"))
    writer.store.connection.close(True)
    transaction.roll_back()
    assert not writer.store.healthy
    assert writer.bodies("q") == []
    assert writer.store.healthy


def test_how_long_it_took_is_counted_from_its_beginning(writer: Writer) -> None:
    before = perf_counter()
    transaction = begun(writer)
    transaction.call(sending("q", b"a"))
    transaction.commit()
    most = perf_counter() - before
    assert [name for name, *_ in transaction.result.timings] == ["write", "transaction"]
    assert all(0 < seconds <= most for _, _, seconds, _ in transaction.result.timings)


def test_a_constraint_at_the_commit_rolls_back_at_once(writer: Writer) -> None:
    transaction = begun(writer)
    transaction.execute("CREATE TABLE a (id INTEGER PRIMARY KEY)")
    transaction.execute("CREATE TABLE b (a REFERENCES a DEFERRABLE INITIALLY DEFERRED)")
    transaction.execute("INSERT INTO b VALUES (1)")
    with pytest.raises(InvalidArgument, match="constraint"):
        transaction.commit()
    assert transaction.is_over
    assert not writer.store.in_transaction
    assert ends(transaction) == [InvalidArgument]
    assert writer.store.healthy


def test_a_commit_of_which_nobody_knows_puts_the_file_in_doubt(tmp_path: Path) -> None:
    with faulty() as vfs, writing(tmp_path / "q.db", synchronous="FULL") as writer:
        writer.create("q")
        transaction = begun(writer)
        transaction.call(sending("q", b"a"))
        vfs.arm(Fault("sync", 1))
        with pytest.raises(OutcomeUnknown):
            transaction.commit()
        vfs.disarm()
        assert not writer.store.healthy
        assert transaction.result.is_doubtful, "what may be there may be claimable"
        assert transaction.is_over
        assert ends(transaction) == [OutcomeUnknown]
        with pytest.raises(TxTimeout, match="it was left"):
            transaction.commit()


@pytest.mark.parametrize(
    ("cause", "told", "is_sound"),
    [
        (apsw.IOError("x"), StorageFailed, False),
        (apsw.CorruptError("x"), StorageFailed, False),
        (RuntimeError("x"), Internal, True),
    ],
)
def test_a_step_that_fails_ends_it_and_a_failing_file_is_in_doubt(
    writer: Writer, cause: Exception, told: type[MqliteError], *, is_sound: bool
) -> None:
    def fail(*_: object) -> object:
        raise cause

    writer.table[Custom] = fail
    transaction = begun(writer)
    with pytest.raises(told):
        transaction.call(Custom())
    assert writer.store.healthy is is_sound
    with pytest.raises(StorageFailed, match="cannot go on"):
        transaction.commit()
    transaction.roll_back()
    (end,) = ends(transaction)
    assert end is not None
    assert issubclass(end, told), "storage ended it, not its holder"


async def test_one_that_cannot_begin_is_told_and_counted() -> None:
    refusal = Unavailable("locked")
    answers: list[Answer] = []

    async def in_thread(function: Any, *arguments: object) -> Any:  # noqa: ANN401  # runs it here
        return function(*arguments)

    def make(_seconds: float) -> UserTransaction:
        raise refusal

    result = await Hold(make, in_thread, SECONDS).lend(answers.append)
    assert [(name, error, number) for name, error, _, number in result.timings] == [
        ("transaction", refusal, 1)
    ]
    assert result.outcomes == [], "its answer went out by itself"
    (answer,) = answers
    with pytest.raises(Unavailable):
        answer.unwrap()
