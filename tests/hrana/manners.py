"""How the servers that speak the protocol differ, as a table: SQLD and TURSODB.

SQLD is sqld, whose manners the hosted service shares as far as a client may rely on them. TURSODB
is the small server of Turso's new engine: it knows two kinds of request, all its clients share one
connection, it says nothing about affected rows, and it forgives what others refuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import apsw

from tests.hrana.values import SqlFailure

HRANA_2: Final = frozenset({
    "execute", "batch", "sequence", "describe", "store_sql", "close_sql", "close",
})  # fmt: skip
HRANA_3: Final = HRANA_2 | {"get_autocommit"}


@dataclass(frozen=True)
class Manners:
    """One way to serve."""

    name: str
    requests: dict[int, frozenset[str]]
    """Kinds of request, by version of the protocol."""

    shares_connection: bool
    """One connection for all; a baton is answered with itself, and nothing stays open by it."""

    keeps_alive: bool
    counts_rows: bool
    """Whether affected rows and the last row id are told."""

    skipped_is_error: bool
    """What the condition `error` says of a step that did not run."""

    is_strict: bool
    """One statement in a text, of the kinds that are taken, with as many arguments as it has."""

    keeps_table_text: bool
    """Whether the schema keeps the text of a CREATE TABLE as it was sent; an index's never is."""

    failure: Callable[[apsw.Error], SqlFailure]
    """What SQLite's error becomes."""

    busy: tuple[str, str]
    """Code and message of a BEGIN that found the lock taken."""

    step_code: str = ""
    """The code of every error in a batch, where that is one."""


def _of_sqld(error: apsw.Error) -> SqlFailure:
    offset = getattr(error, "error_offset", -1)
    if isinstance(error, apsw.BindingsError):
        return SqlFailure("ARGS_INVALID", f"Arguments do not match SQL parameters: {error}")
    if isinstance(error, apsw.SQLError) and offset >= 0:
        return SqlFailure("SQL_INPUT_ERROR", f"SQL input error: {error} (at offset {offset})")
    code = str(apsw.mapping_result_codes[getattr(error, "result", apsw.SQLITE_ERROR) & 0xFF])
    return SqlFailure(
        "SQLITE_UNKNOWN" if code == "SQLITE_ERROR" else code, f"SQLite error: {error}"
    )


_PARSING = re.compile(r"syntax error|no such|incomplete input|unrecognized|no column named")


def _of_tursodb(error: apsw.Error) -> SqlFailure:
    is_parsing = isinstance(error, apsw.SQLError) and _PARSING.search(str(error)) is not None
    if is_parsing:
        return SqlFailure("PREPARE_ERROR", f"Parse error: {error}")
    number = " (19)" if isinstance(error, apsw.ConstraintError) else ""
    return SqlFailure("EXECUTE_ERROR", f"Runtime error: {error}{number}")


SQLD: Final = Manners(
    name="sqld",
    requests={2: HRANA_2, 3: HRANA_3},
    shares_connection=False,
    keeps_alive=True,
    counts_rows=True,
    skipped_is_error=True,
    is_strict=True,
    keeps_table_text=True,
    failure=_of_sqld,
    busy=("SQLITE_BUSY", "SQLite error: database is locked"),
)

TURSODB: Final = Manners(
    name="tursodb",
    requests={2: frozenset({"execute", "batch"})},
    shares_connection=True,
    keeps_alive=False,
    counts_rows=False,
    skipped_is_error=False,
    is_strict=False,
    keeps_table_text=False,
    failure=_of_tursodb,
    busy=("EXECUTE_ERROR", "Runtime error: database is locked"),
    step_code="BATCH_STEP_ERROR",
)

ALL: Final = {manners.name: manners for manners in (SQLD, TURSODB)}
