"""One statement: from its JSON to its rows.

`prepare` needs no connection: it reads text and arguments. `run` needs one, since only there it is
known how many arguments a text takes. What fails is a SqlFailure in the manners' words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import apsw
import apsw.ext

from tests.hrana.manners import Manners
from tests.hrana.statements import Facts, facts, in_one_line, one
from tests.hrana.values import Json, SqlFailure, Value, decoded, encoded

ANSWER_BYTES_MAX: Final = 10_000_000
NAMES_KEPT: Final = 4096

_names: dict[str, tuple[str | None, ...]] = {}


@dataclass
class Result:
    """What a statement gave."""

    columns: list[Json] = field(default_factory=list)
    rows: list[list[Json]] = field(default_factory=list)
    affected: int = 0
    last_row_id: str | None = None

    def told(self) -> Json:
        """As it stands in an answer, among fields that a client has to overlook."""
        return {
            "cols": self.columns,
            "rows": self.rows,
            "affected_row_count": self.affected,
            "last_insert_rowid": self.last_row_id,
            "replication_index": None,
            "rows_read": len(self.rows),
            "rows_written": self.affected,
            "query_duration_ms": 0.125,
        }


class Prepared(NamedTuple):
    """A statement that was read and may run."""

    sql: str
    facts: Facts
    positional: tuple[Value, ...] = ()
    named: dict[str, Value] = {}
    wants_rows: bool = True


def prepare(sql: str, stmt: Json, manners: Manners) -> Prepared:
    """Read a statement whose text is `sql`."""
    found = one(sql) if manners.is_strict else facts(sql)
    if not found.first:
        raise SqlFailure("PREPARE_ERROR", "The supplied SQL string contains no statements")
    return Prepared(
        _kept(found, manners),
        found,
        tuple(decoded(item) for item in stmt.get("args") or ()),
        {item["name"]: decoded(item["value"]) for item in stmt.get("named_args") or ()},
        stmt.get("want_rows") is not False,
    )


def run(connection: apsw.Connection, prepared: Prepared, manners: Manners) -> Result:
    """Run it to its end."""
    result = Result()

    def note(cursor: apsw.Cursor, _: str, __: object) -> bool:
        result.columns = [
            {"name": name, "decltype": kind} for name, kind in cursor.get_description()
        ]
        return True

    try:
        arguments = _bound(connection, prepared, manners)
        before = connection.total_changes()
        cursor = connection.cursor()
        cursor.exec_trace = note
        rows = cursor.execute(prepared.sql, arguments).fetchall()
    except apsw.Error as error:
        raise manners.failure(error) from error
    if prepared.wants_rows:
        result.rows = [[encoded(value) for value in row] for row in rows]
    if manners.counts_rows:
        is_changed = connection.total_changes() != before
        result.affected = connection.changes() if is_changed else 0
        if prepared.facts.word in ("INSERT", "REPLACE"):
            result.last_row_id = str(connection.last_insert_rowid())
    return result


def weight(result: Result) -> int:
    """About as many bytes as the rows take in an answer."""
    values = (value for row in result.rows for value in row)
    return sum(30 + len(str(item.get("value") or item.get("base64") or "")) for item in values)


def spelled(connection: apsw.Connection, sql: str) -> tuple[str | None, ...]:
    """The parameters of a statement as it spells them; None is a plain question mark."""
    if not re.search(r"[?:@$]", sql):
        return ()
    if sql not in _names:
        if len(_names) >= NAMES_KEPT:
            _names.clear()
        found = apsw.ext.query_info(connection, sql).bindings_names
        _names[sql] = tuple(_spelled(sql, name) for name in found)
    return _names[sql]


def _spelled(sql: str, name: str | None) -> str | None:
    if name is None:
        return None
    if name.isdigit():
        return f"?{name}"
    found = re.search(rf"[:@$]{re.escape(name)}\b", sql)
    return found[0] if found else name


def _bound(connection: apsw.Connection, prepared: Prepared, manners: Manners) -> tuple[Value, ...]:
    names = spelled(connection, prepared.sql)
    positional, named = prepared.positional, prepared.named
    if not manners.is_strict:
        return (*positional, *[None] * len(names))[: len(names)]
    if positional and named:
        message = "Specifying both positional and named arguments is not supported"
        raise SqlFailure("ARGS_BOTH_POSITIONAL_AND_NAMED", message)
    if named:
        return _by_name(names, named)
    if len(positional) != len(names):
        raise _mismatch(f"{len(names)} parameters, {len(positional)} values")
    return positional


def _by_name(names: Sequence[str | None], named: dict[str, Value]) -> tuple[Value, ...]:
    found: list[Value] = []
    for name in names:
        keys = [key for key in (name, (name or "")[1:]) if key in named]
        if not keys:
            raise _mismatch(f"value for parameter {name} not found")
        found.append(named[keys[0] or ""])
    return tuple(found)


def _mismatch(what: str) -> SqlFailure:
    return SqlFailure("ARGS_INVALID", f"Arguments do not match SQL parameters: {what}")


def _kept(found: Facts, manners: Manners) -> str:
    """The text that SQLite gets; a definition's is kept in the schema."""
    is_table = re.match(r"CREATE\s+TABLE\b", found.first, re.IGNORECASE) is not None
    if found.word != "CREATE" or (is_table and manners.keeps_table_text):
        return found.first
    return in_one_line(found.first)
