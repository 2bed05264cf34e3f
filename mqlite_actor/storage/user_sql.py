"""A caller's own SQL inside an engine transaction, kept away from what is the engine's.

Called by the outbox (`engine/outbox.py`) in the storage thread. The authorizer is set once for the
life of the connection, since setting it prepares every cached statement anew, and judges only while
`run` is on its way; a caller's text is never taken from the statement cache, whose entries were
prepared for the engine and would pass unjudged (ruling R43). A caller may read everything, and
write and define tables of its own; it may not touch the engine's tables in any way, end the
transaction, or change settings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import apsw

from mqlite_actor.contract.errors import InvalidArgument, TxTimeout
from mqlite_actor.storage import schema
from mqlite_actor.storage.database import Row, Value

PROGRESS_STEPS: Final = 10_000
"""Steps of SQLite's machine between two looks at the clock: well below a millisecond."""

READING_PRAGMAS: Final = frozenset({
    "table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo",
    "foreign_key_list", "foreign_key_check", "database_list", "data_version",
    "quick_check", "integrity_check",  # SQLite runs the first by itself in ALTER TABLE ADD COLUMN
})  # fmt: skip
NUMBER_PRAGMAS: Final = frozenset({"user_version", "application_id"})
"""Read without an argument, set with one."""

# Action codes whose first argument names the table that is touched, and those whose second does.
_ON_FIRST: Final = frozenset({
    apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE, apsw.SQLITE_DROP_TABLE,
    apsw.SQLITE_CREATE_TABLE, apsw.SQLITE_CREATE_VIEW, apsw.SQLITE_CREATE_VTABLE,
    apsw.SQLITE_DROP_VTABLE,
})  # fmt: skip
_ON_SECOND: Final = frozenset({
    apsw.SQLITE_CREATE_INDEX, apsw.SQLITE_DROP_INDEX, apsw.SQLITE_CREATE_TRIGGER,
    apsw.SQLITE_DROP_TRIGGER, apsw.SQLITE_ALTER_TABLE,
})  # fmt: skip
_WRITES: Final = frozenset({apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE})
_DEFINES: Final = frozenset({
    apsw.SQLITE_CREATE_TABLE, apsw.SQLITE_ALTER_TABLE, apsw.SQLITE_CREATE_VTABLE,
})  # fmt: skip
_RENUMBERS: Final = frozenset({apsw.SQLITE_DROP_TABLE, apsw.SQLITE_ALTER_TABLE})
"""Statements in which SQLite itself writes sqlite_sequence, for the table that they name."""

_TEMPORARY = "temporary tables could stand in front of the engine's; use a table of your own"
_NEVER: Final = {
    apsw.SQLITE_TRANSACTION: "BEGIN, COMMIT and ROLLBACK belong to tx(); leave its block instead",
    apsw.SQLITE_SAVEPOINT: "savepoints are not available inside tx()",
    apsw.SQLITE_ATTACH: "ATTACH and VACUUM are not available inside tx()",
    apsw.SQLITE_DETACH: "DETACH is not available inside tx()",
    apsw.SQLITE_ANALYZE: "ANALYZE would change the engine's query plans",
    apsw.SQLITE_CREATE_TEMP_TABLE: _TEMPORARY,
    apsw.SQLITE_CREATE_TEMP_VIEW: _TEMPORARY,
    apsw.SQLITE_CREATE_TEMP_INDEX: _TEMPORARY,
    apsw.SQLITE_CREATE_TEMP_TRIGGER: _TEMPORARY,
}

_OF_THE_CALLER = (
    apsw.SQLError, apsw.BindingsError, apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError,
    TypeError, ValueError, OverflowError,
)  # fmt: skip
"""What a caller's own text or values run into; UnicodeEncodeError is a ValueError."""


class UserSql:
    """Runs a caller's statements on the writer's connection. One per connection."""

    __slots__ = ("_connection", "_has_defined", "_is_judging", "_reason", "_renumbers")

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._is_judging = False
        self._has_defined = False
        self._renumbers = False
        self._reason = ""
        connection.authorizer = self._judge

    def run(self, sql: str, arguments: Sequence[Value], is_over: Callable[[], bool]) -> list[Row]:
        """Rows of one statement. InvalidArgument names what was refused or is wrong with it;
        TxTimeout when `is_over` says so while it runs.

        Raises ForeignKeyToUs after a definition that would tie the engine's rows to the caller's,
        also when a later statement of the text failed: the transaction has to be rolled back then.
        """
        self._is_judging, self._has_defined, self._reason = True, False, ""
        self._renumbers = False
        self._connection.set_progress_handler(is_over, PROGRESS_STEPS)
        try:
            return self._rows(sql, arguments)
        finally:
            self._connection.set_progress_handler(None)
            self._is_judging = False
            if self._has_defined:
                schema.check_foreign_keys(self._connection)

    def _rows(self, sql: str, arguments: Sequence[Value]) -> list[Row]:
        cursor = self._connection.cursor()
        cursor.exec_trace = self._between
        try:
            return cursor.execute(sql, tuple(arguments), can_cache=False).fetchall()
        except apsw.AuthError as error:
            raise InvalidArgument(f"refused inside tx(): {self._reason}") from error
        except apsw.InterruptError as error:
            raise TxTimeout("the transaction took too long and was rolled back") from error
        except _OF_THE_CALLER as error:
            raise InvalidArgument(f"your statement failed: {error}") from error

    def _between(self, *_: object) -> bool:
        """One statement of the text is judged, the next is not yet."""
        self._renumbers = False
        return True

    def _judge(
        self,
        action: int,
        first: str | None,
        second: str | None,
        database: str | None,
        trigger: str | None,
    ) -> int:
        if not self._is_judging:
            # The engine has no triggers: one that runs inside its statements is a caller's, reached
            # by a cascade, and would write unjudged.
            return apsw.SQLITE_DENY if trigger and action in _WRITES else apsw.SQLITE_OK
        reason = _NEVER.get(action, "")
        if action in _ON_FIRST and _is_ours(first):
            reason = f"{first!r} is the engine's; use the queue's verbs"
        elif action in _ON_SECOND and _is_ours(second):
            reason = f"{second!r} is the engine's; it takes no indexes, triggers or changes"
        elif action in _WRITES and _is_bookkeeping(first) and not self._renumbers:
            reason = f"{first!r} is SQLite's own"
        elif "temp" in (database, first) and action in _DEFINES:
            reason = _TEMPORARY
        elif action == apsw.SQLITE_PRAGMA and not _only_reads(first, second):
            reason = f"PRAGMA {first} is not available inside tx()"
        if reason:
            self._reason = reason
            return apsw.SQLITE_DENY
        self._has_defined |= action in _DEFINES
        self._renumbers |= action in _RENUMBERS
        return apsw.SQLITE_OK


def _is_ours(name: str | None) -> bool:
    return name is not None and name.lower() in schema.layout()


def _is_bookkeeping(name: str | None) -> bool:
    """sqlite_sequence and the statistics; the schema table changes with every definition."""
    lower = (name or "").lower()
    return lower == "sqlite_sequence" or lower.startswith("sqlite_stat")


def _only_reads(name: str | None, argument: str | None) -> bool:
    lower = (name or "").lower()
    return lower in READING_PRAGMAS or (lower in NUMBER_PRAGMAS and argument is None)
