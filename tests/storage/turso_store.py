"""A store on Turso's engine: another program that runs the same SQL, for the tests of portability.

It has what a group of commands asks of a store and nothing more: no file care, no settings. Remote
stores will stand where this stands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import turso

from mqlite_actor.storage import schema
from mqlite_actor.storage.database import (
    Ledger,
    Row,
    Statement,
    Transaction,
    Value,
    read_last_seq,
)
from mqlite_actor.storage.room import Boundless
from mqlite_actor.storage.store import FILE


class TursoStore:
    """A fresh file in Turso's engine."""

    is_memory = False
    backend = FILE
    log_pages = 0
    leaves_log = False

    def __init__(self, path: Path) -> None:
        self.ledger = Ledger()
        self.room = Boundless()
        self.healthy = True
        self.complaint = ""
        self.changes = 0
        self.in_transaction = False
        self._connection = turso.connect(str(path), isolation_level=None)
        for statement in re.sub(r"--.*", "", schema.script()).split(";"):
            if statement.strip():
                self._connection.execute(statement)
        self.run(schema.START)

    def run(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run statements in order; each one's rows."""
        found: list[list[Row]] = []
        for sql, arguments in statements:
            plain = tuple(int(each) if isinstance(each, int) else each for each in arguments)
            cursor = self._connection.execute(sql, plain)
            found.append([tuple(row) for row in cursor.fetchall()])
            self.changes += not sql.lstrip().startswith("SELECT")
        return found

    def run_many(self, sql: str, arguments: Sequence[tuple[Value, ...]]) -> list[Row]:
        """Run one statement once for each row of arguments; the rows of all, in order."""
        return [row for rows in self.run([(sql, each) for each in arguments]) for row in rows]

    def begin(self, *, is_patient: bool = True) -> Transaction:
        """Start a write transaction."""
        assert is_patient, "no other connection is here to wait for"
        read_last_seq(self.run, self.ledger)
        self._connection.execute("BEGIN IMMEDIATE")
        self.in_transaction = True
        return Transaction(self.run, self.run_many, self.ledger)

    def commit(self) -> None:
        """COMMIT."""
        self._connection.execute("COMMIT")
        self.in_transaction = False

    def rollback(self) -> None:
        """Undo what is open."""
        self.ledger.forget()
        if self.in_transaction:
            self._connection.execute("ROLLBACK")
            self.in_transaction = False

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
