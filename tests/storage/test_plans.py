"""Query plans are behaviour: every statement uses its index, whatever the file holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.words import State
from mqlite_actor.engine import commands
from mqlite_actor.semantics.receive import EXPIRED_ROUNDS_MAX
from mqlite_actor.storage import schema
from tests.storage.plans import PLANS, SCANS_ALLOWED, parameters, plan, statements
from tests.storage.writer import Writer, writing

STATEMENTS = statements()

HOUR_MS = 3_600_000

FIFO = wire.QueueConfig(ordering_mode="group_fifo", dedup_window_ms=HOUR_MS)
STRICT = wire.QueueConfig(ordering_mode="strict_fifo")


@pytest.fixture(scope="module", params=[0, 10_000], ids=["empty", "10,000 rows"])
def connection(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[apsw.Connection]:
    """A store's own connection, over no rows or many."""
    with writing(tmp_path_factory.mktemp("plans") / "q.db") as writer:
        writer.create("q")
        batch = [wire.Message(group_id=f"g{number % 99}", ttl_ms=number) for number in range(1000)]
        for _ in range(request.param // len(batch)):
            writer.ask(wire.SendRequest(queue="q", messages=batch))
        assert not writer.store.connection.table_exists(None, "sqlite_stat1")
        yield writer.store.connection


@pytest.mark.promise("E140")
def test_every_statement_has_a_pinned_plan() -> None:
    assert sorted(STATEMENTS) == sorted(PLANS)


@pytest.mark.promise("E140")
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_runs_as_pinned(connection: apsw.Connection, name: str) -> None:
    assert plan(connection, STATEMENTS[name]) == PLANS[name]


@pytest.mark.promise("E140")
def test_no_plan_reads_a_table_from_end_to_end() -> None:
    scans = {name for name, lines in PLANS.items() if any("SCAN" in line for line in lines)}
    assert scans == set(SCANS_ALLOWED)


def every_command(writer: Writer) -> None:
    """Each operation at least once, with something to do."""
    for queue, config in (("f", FIFO), ("s", STRICT), ("s", FIFO), ("p", wire.QueueConfig())):
        writer.create(queue, config)
    writer.create("s", STRICT)
    for queue in ("f", "s", "p"):
        batch = [wire.Message(group_id="g", body=bytes([n])) for n in range(8)]
        writer.ask(wire.SendRequest(queue=queue, messages=batch, ttl_ms=HOUR_MS))
        later = writer.clock.now_ms() + 1000
        scheduled = writer.ask(
            wire.ScheduleRequest(
                queue=queue,
                messages=[wire.Message(group_id="h"), wire.Message(group_id="i", body=b"i")],
                scheduled_enqueue_time_ms=later,
            )
        )
        assert scheduled.seq_numbers
        writer.ask(wire.CancelRequest(queue=queue, seq_number=scheduled.seq_numbers[0]))
        settle_all_ways(writer, queue)
        writer.ask(wire.PeekRequest(queue=queue))
        for state in State:
            writer.ask(wire.PeekRequest(queue=queue, state=state))
        writer.ask(wire.StatsRequest(queue=queue))
    claim_in_other_ways(writer)
    writer.ask(wire.ListQueuesRequest())
    writer.group(commands.CountEntities())


def settle_all_ways(writer: Writer, queue: str) -> None:
    for kind in (wire.CompleteRequest, wire.RejectRequest, wire.DeferRequest, wire.AbandonRequest):
        for message in writer.take(queue):
            seq, token = message.seq_number, message.lock_token
            items = [wire.SettleItem(seq_number=seq, lock_token=token)]
            writer.ask(wire.RenewRequest(queue=queue, seq_number=seq, lock_token=token))
            writer.ask(wire.RenewBatchRequest(queue=queue, messages=items))
            for _ in range(2):  # the second one finds the receipt
                writer.ask(kind(queue=queue, seq_number=seq, lock_token=token))
            writer.ask(wire.CompleteBatchRequest(queue=queue, messages=items))
            writer.ask(wire.ReceiveDeferredRequest(queue=queue, seq_numbers=[seq]))


def claim_in_other_ways(writer: Writer) -> None:
    """Under an attempt id, for good, and past heads that are over (so many that a claim leaves the
    rest to the pass)."""
    for _ in range(2):
        writer.send("p", b"a", b"b", bytes(limits.INLINE_BYTES_MAX + 1))
        writer.ask(wire.ReceiveRequest(queue="p", receive_attempt_id="a"))
        writer.ask(wire.ReceiveRequest(queue="p", receive_mode=1, max_messages=9))
    front = EXPIRED_ROUNDS_MAX * limits.MAINTENANCE_ROWS + 1
    writer.ask(wire.SendRequest(queue="p", messages=[wire.Message()] * front, ttl_ms=1))
    writer.send("p", b"fresh")
    writer.clock.advance(1)
    assert [message.body for message in writer.take("p", 2)] == [b"fresh"]


def every_pass(writer: Writer) -> None:
    """All maintenance, first with nothing over, then with everything over."""
    for _ in range(2):
        for command in (
            commands.Reap(),
            commands.Recover(),
            commands.Activate(),
            commands.Expire(),
            commands.PruneDuplicates(),
            commands.PruneReceipts(),
        ):
            for outcome in writer.group(command):
                outcome.unwrap()
        writer.clock.advance(10 * HOUR_MS)


@pytest.mark.promise("E140")
def test_nothing_runs_that_is_not_pinned(tmp_path: Path) -> None:
    seen: set[str] = set()

    def note(_: object, sql: str, bindings: object) -> bool:
        assert isinstance(bindings, tuple | None), "positional arguments only"
        assert parameters(sql) == len(bindings or ())
        seen.add(sql)
        return True

    with writing(tmp_path / "q.db", clock=ManualClock()) as writer:
        writer.store.connection.exec_trace = note
        every_command(writer)
        every_pass(writer)
        writer.store.connection.exec_trace = None
        writer.check()
    strangers = seen - set(STATEMENTS.values()) - {"BEGIN IMMEDIATE", "COMMIT"}
    assert not strangers
    unused = {name for name, sql in STATEMENTS.items() if sql not in seen}
    assert unused <= {"counts.TRUE_COUNTS", "queues.BY_ID"}  # for checks; for a cold cache


# -- the portable subset: the same texts have to run on a remote SQLite service --------------------

FORBIDDEN = re.compile(
    r"[:@$][A-Za-z]|\bWITH RECURSIVE\b|\bWITHOUT ROWID\b|\bchanges\s*\(|\blast_insert_rowid\b"
    r"|\bTRIGGER\b|\bATTACH\b|\bPRAGMA\b|\bINDEXED BY\b|\bOR REPLACE\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_stays_in_the_portable_subset(name: str) -> None:
    assert not FORBIDDEN.search(STATEMENTS[name])


def test_the_layout_stays_in_the_portable_subset() -> None:
    for name, sql in schema.layout().items():
        text = re.sub(r"--.*", "", sql)
        assert not FORBIDDEN.search(text), name
        assert text.startswith("CREATE INDEX") or text.rstrip().endswith("STRICT")
