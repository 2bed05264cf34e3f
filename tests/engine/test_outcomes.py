"""What a group makes true in several transactions: counted together, without what is gone.

The transactions are real and carry what a verb would have told them; no store is below them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.engine.meters import GONE
from mqlite_actor.engine.outcomes import GroupResult
from mqlite_actor.storage.database import Ledger, Row, Statement, Transaction
from mqlite_actor.storage.queues import Queue
from tests.storage.writer import writing


def nothing(_: Sequence[Statement]) -> list[list[Row]]:
    raise AssertionError("nothing is asked here")


def nothing_many(_: str, __: object) -> list[Row]:
    raise AssertionError("nothing is asked here")


def transaction() -> Transaction:
    return Transaction(nothing, nothing_many, Ledger())


@pytest.fixture(scope="module")
def queue() -> Queue:
    """A row as a store has it."""
    with writing(":memory:", clock=ManualClock()) as writer:
        writer.create("q")
        return writer.store.ledger.queues["q"]


def commit(result: GroupResult, number: int, due_ms: int, *queues: str) -> None:
    """One more transaction of the group: so many of everything in each queue."""
    tx = transaction()
    for name in queues:
        tx.wake(name, number)
        tx.happened(name, "enqueued", number)
        for _ in range(number):
            tx.filter_failed(name, "evaluate")
    tx.due("locks", due_ms)
    result.publish(tx)


def test_what_several_transactions_of_a_group_made_true_is_added_up() -> None:
    result = GroupResult(3)
    commit(result, 2, 500, "q")
    commit(result, 1, 300, "q", "other")
    commit(result, 4, 400, "other")
    assert (result.commits, result.is_doubtful) == (3, False)
    assert result.wakes == {"q": 3, "other": 5}
    assert result.events == {("q", "enqueued"): 3, ("other", "enqueued"): 5}
    assert result.filter_failures == {("q", "evaluate"): 3, ("other", "evaluate"): 5}
    assert result.dues == {"locks": 300}, "the earliest, whichever told of it"


def test_a_queue_that_a_later_one_deletes_takes_its_counters_along(queue: Queue) -> None:
    result = GroupResult(2)
    commit(result, 2, 500, "q", "other")
    tx = transaction()
    tx.happened("q", "completed", 9)
    tx.drop_counts(queue)
    tx.happened("q", "enqueued", 1)  # of a new one with that name
    result.publish(tx)
    assert result.deleted == {"q"}
    assert result.events == {("other", "enqueued"): 2, ("q", "enqueued"): 1}
    assert result.filter_failures == {("other", "evaluate"): 2, (GONE, "evaluate"): 2}
