"""Query plans are behaviour: every statement uses its index, whatever the file holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.storage import schema
from mqlite_actor.storage.blocks import widened
from tests.storage.plans import PLANS, SCANS_ALLOWED, parameters, plan, statements
from tests.storage.workload import everything
from tests.storage.writer import writing

STATEMENTS = statements()


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
def test_every_statement_runs_as_pinned(connection: apsw.Connection) -> None:
    found = {name: plan(connection, sql) for name, sql in STATEMENTS.items()}
    assert {name: lines for name, lines in found.items() if lines != PLANS.get(name)} == {}


@pytest.mark.promise("E140")
def test_no_plan_reads_a_table_from_end_to_end() -> None:
    scans = {name for name, lines in PLANS.items() if any("SCAN" in line for line in lines)}
    assert scans == set(SCANS_ALLOWED)


OF_THE_DISK = r'pragma "(page_count|freelist_count|max_page_count)"(\(\d+\))?'
"""What a file is asked and told about room (`storage.room`); a remote service never is."""


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
        everything(writer)
        writer.store.connection.exec_trace = None
        writer.check()
    blocks_of_rows = set(map(widened, STATEMENTS.values()))
    of_the_disk = {sql for sql in seen if re.fullmatch(OF_THE_DISK, sql)}
    strangers = (
        seen
        - of_the_disk
        - set(STATEMENTS.values())
        - blocks_of_rows
        - {"BEGIN IMMEDIATE", "COMMIT"}
    )
    assert not strangers
    unused = {name for name, sql in STATEMENTS.items() if not any(sql in each for each in seen)}
    only_remote = {"messages.CERTIFY", *(name for name in STATEMENTS if name[:7] == "taking.")}
    assert unused <= {"counts.TRUE_COUNTS"} | only_remote, "only checks count all messages"


# -- the portable subset: the same texts have to run on a remote SQLite service --------------------

FORBIDDEN = re.compile(
    r"[:@$][A-Za-z]|\bWITH RECURSIVE\b|\bWITHOUT ROWID\b|\bchanges\s*\(|\blast_insert_rowid\b"
    r"|\bTRIGGER\b|\bATTACH\b|\bPRAGMA\b|\bINDEXED BY\b|\bOR REPLACE\b",
    re.IGNORECASE,
)


def test_every_statement_stays_in_the_portable_subset() -> None:
    assert {name: sql for name, sql in STATEMENTS.items() if FORBIDDEN.search(sql)} == {}


def test_the_layout_stays_in_the_portable_subset() -> None:
    for name, sql in schema.layout().items():
        text = re.sub(r"--.*", "", sql)
        assert not FORBIDDEN.search(text), name
        assert text.startswith("CREATE INDEX") or text.rstrip().endswith("STRICT")
