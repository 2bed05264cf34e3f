"""The same statements run on another engine, and leave the same behind.

Turso's engine is written anew and is stricter in places; what runs on both stays clear of either's
peculiarities (design: the portable subset).
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import DedupConflict, LockLost, QueueNotFound
from mqlite_actor.storage.sqlite import SqliteStore
from tests.conformance.audit import audit
from tests.storage.plans import parameters, statements
from tests.storage.turso_store import TursoStore
from tests.storage.workload import everything
from tests.storage.writer import Writer, writing

STATEMENTS = statements()


@pytest.fixture
def other(tmp_path: Path) -> Writer:
    """The writer on Turso's engine."""
    store = TursoStore(tmp_path / "turso.db")
    return Writer(cast("SqliteStore", store), ManualClock())


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> TursoStore:
    """A fresh file that only prepares statements."""
    return TursoStore(tmp_path_factory.mktemp("turso") / "turso.db")


def contents(writer: Writer) -> dict[str, tuple[wire.StatsResponse, list[wire.Message]]]:
    """Counts and messages of every queue."""
    found: dict[str, tuple[wire.StatsResponse, list[wire.Message]]] = {}
    for queue in writer.ask(wire.ListQueuesRequest()).queues:
        page = writer.ask(wire.PeekRequest(queue=queue.name, max=limits.PEEK_MAX)).messages
        found[queue.name] = writer.ask(wire.StatsRequest(queue=queue.name)), page
    return found


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_is_understood(prepared: TursoStore, name: str) -> None:
    sql = STATEMENTS[name]
    prepared.run([(f"EXPLAIN {sql}", (1,) * parameters(sql))])


def test_every_verb_and_pass_leaves_the_same_behind(tmp_path: Path, other: Writer) -> None:
    everything(other)
    with writing(tmp_path / "sqlite.db", clock=ManualClock()) as writer:
        everything(writer)
        assert contents(other) == contents(writer)
    assert list(audit(lambda statement: other.store.run([statement])[0])) == []


def test_refusals_are_the_same_and_undo_nothing(other: Writer) -> None:
    other.create("q", wire.QueueConfig(dedup_window_ms=1000))
    first = wire.SendRequest(queue="q", messages=[wire.Message(message_id="m", body=b"a")])
    conflict = wire.SendRequest(queue="q", messages=[wire.Message(message_id="m", body=b"b")])
    lost = wire.CompleteRequest(queue="q", seq_number=1, lock_token="0" * 32)
    outcomes = other.group(
        first, conflict, lost, wire.SendRequest(queue="no", messages=[wire.Message()]), first
    )
    assert outcomes[0].unwrap() == outcomes[4].unwrap() == wire.SendResponse(seq_numbers=[1])
    for outcome, kind in zip(outcomes[1:4], (DedupConflict, LockLost, QueueNotFound), strict=True):
        with pytest.raises(kind):
            outcome.unwrap()
    assert other.bodies("q") == [b"a"]


def test_a_group_that_breaks_is_rolled_back_and_run_one_by_one(other: Writer) -> None:
    def break_down(_tx: object, _request: object, _now_ms: int) -> object:
        raise RuntimeError

    other.create("q")
    other.table[wire.StatsRequest] = break_down
    sent = wire.SendRequest(queue="q", messages=[wire.Message(body=b"x")])
    outcomes = other.group(sent, wire.StatsRequest(queue="q"), sent)
    with pytest.raises(Exception, match="RuntimeError"):
        outcomes[1].unwrap()
    assert other.bodies("q") == [b"x", b"x"]
    assert [m.seq_number for m in other.take("q", 2)] == [1, 2]
