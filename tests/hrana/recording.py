"""What the product's own SQL is, and does: recorded on the local store, to be run again elsewhere.

`recorded` runs every verb and every pass (tests/storage/workload.py) and gives each statement that
SQLite ran, with its arguments and rows, in order. `replayed` runs them through a pipeline and gives
the rows that came back; transactions are made anew, a few hundred statements each, since a server
far away would take a minute for the small ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from mqlite_actor.clock import ManualClock
from mqlite_actor.storage import schema
from tests.hrana.values import Json, Value, decoded, encoded
from tests.storage.workload import everything
from tests.storage.writer import writing

Row = tuple[Any, ...]

STEPS: Final = 400
"""Statements in one transaction."""


class Spoken(NamedTuple):
    """A statement that ran."""

    sql: str
    arguments: tuple[Value, ...]
    rows: list[Row]


def recorded(file: Path) -> list[Spoken]:
    """Everything that one writer says; BEGIN and COMMIT apart, and what concerns only a file."""
    found: list[Spoken] = []
    latest: dict[int, Spoken] = {}

    def began(cursor: apsw.Cursor, sql: str, arguments: object) -> bool:
        assert isinstance(arguments, tuple | None)
        spoken = Spoken(sql, arguments or (), [])
        latest[id(cursor)] = spoken
        if sql not in ("BEGIN IMMEDIATE", "COMMIT") and not sql.startswith("pragma "):
            found.append(spoken)
        return True

    def returned(cursor: apsw.Cursor, row: Row) -> Row:
        latest[id(cursor)].rows.append(row)
        return row

    with writing(file, clock=ManualClock()) as writer:
        connection = writer.store.connection
        connection.exec_trace, connection.row_trace = began, returned
        everything(writer)
        connection.exec_trace = connection.row_trace = None
    return found


def layout() -> list[Spoken]:
    """The statements that make a fresh file ours."""
    script = re.sub(r"--.*", "", schema.script()).split(";")
    tables = [Spoken(text.strip(), (), []) for text in script if text.strip()]
    return [*tables, *(Spoken(sql, arguments, []) for sql, arguments in schema.START)]


def transaction(statements: Sequence[Spoken]) -> Json:
    """A request that runs all of them or none."""
    steps: list[Json] = [{"stmt": {"sql": "BEGIN IMMEDIATE", "want_rows": False}}]
    for number, spoken in enumerate(statements):
        stmt = {"sql": spoken.sql, "args": [encoded(each) for each in spoken.arguments]}
        steps.append({"stmt": stmt, "condition": ok(number)})
    last = len(statements)
    steps.append({"stmt": {"sql": "COMMIT"}, "condition": ok(last)})
    is_ours_to_undo = {"type": "and", "conds": [ok(0), {"type": "not", "cond": ok(last + 1)}]}
    steps.append({"stmt": {"sql": "ROLLBACK"}, "condition": is_ours_to_undo})
    return {"type": "batch", "batch": {"steps": steps}}


def ok(step: int) -> Json:
    """The condition that a step has succeeded."""
    return {"type": "ok", "step": step}


def replayed(
    statements: Sequence[Spoken], ask: Callable[[Json], Json]
) -> Iterator[tuple[Spoken, list[Row]]]:
    """Each statement and the rows that it gave there; AssertionError when one was refused."""
    for start in range(0, len(statements), STEPS):
        some = statements[start : start + STEPS]
        answer = ask(transaction(some))
        assert answer["type"] == "ok", answer
        result = answer["response"]["result"]
        for step, error in enumerate(result["step_errors"]):
            assert not error, f"{error['message']}: {some[step - 1] if step else 'BEGIN'}"
        for spoken, given in zip(some, result["step_results"][1:], strict=False):
            yield spoken, [tuple(decoded(value) for value in row) for row in given["rows"]]
