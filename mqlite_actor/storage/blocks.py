"""Many rows by one statement: the text of an INSERT widened to a block of rows.

Called by `SqliteStore`. SQLite starts, binds and resets a statement for each row of arguments,
which costs a third of storing a small message; a block of rows pays it once. Rule: what a block
writes is what its rows would have written one after another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import apsw

    from mqlite_actor.storage.database import Value

BLOCK_ROWS: Final = 8
"""Rows in a block; 16 are no faster and 32 slower (docs/decisions/0009-group-cost.md)."""

_PLAIN_INSERT: Final = re.compile(r"(\s*INSERT INTO \w+ \([^()]*\)\s*VALUES\s*)(\([^()]*\))\s*")


@cache  # by the texts of the product, which are few
def widened(sql: str) -> str | None:
    """The statement for a block of rows; None where it is no plain INSERT of one row."""
    found = _PLAIN_INSERT.fullmatch(sql)
    return None if found is None else found[1] + ", ".join([found[2]] * BLOCK_ROWS)


def write_many(connection: apsw.Connection, sql: str, rows: Sequence[tuple[Value, ...]]) -> None:
    """Run a statement that returns nothing once for each row of arguments."""
    if len(rows) == 1:
        connection.execute(sql, rows[0]).fetchall()
        return
    whole = len(rows) - len(rows) % BLOCK_ROWS
    wide = widened(sql) if whole else None
    if wide is not None:
        blocks = [
            tuple(chain.from_iterable(rows[start : start + BLOCK_ROWS]))
            for start in range(0, whole, BLOCK_ROWS)
        ]
        connection.executemany(wide, blocks).fetchall()
        rows = rows[whole:]
    connection.executemany(sql, rows).fetchall()
