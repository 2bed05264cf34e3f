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
    "foreign_key_list", "foreign_key_check", "database_list", "data_version", "user_version",
    "application_id",
})  # fmt: skip

# Action codes whose first argument names the table that is touched, and those whose second does.
_ON_FIRST: Final = frozenset({
    apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE, apsw.SQLITE_DROP_TABLE,
    apsw.SQLITE_CREATE_TABLE, apsw.SQLITE_CREATE_VIEW, apsw.SQLITE_CREATE_TEMP_TABLE,
    apsw.SQLITE_CREATE_TEMP_VIEW,
})  # fmt: skip
_ON_SECOND: Final = frozenset({
    apsw.SQLITE_CREATE_INDEX, apsw.SQLITE_DROP_INDEX, apsw.SQLITE_CREATE_TRIGGER,
    apsw.SQLITE_DROP_TRIGGER, apsw.SQLITE_CREATE_TEMP_TRIGGER, apsw.SQLITE_DROP_TEMP_TRIGGER,
    apsw.SQLITE_CREATE_TEMP_INDEX, apsw.SQLITE_ALTER_TABLE,
})  # fmt: skip
_NEVER: Final = {
    apsw.SQLITE_TRANSACTION: "BEGIN, COMMIT and ROLLBACK belong to tx(); leave its block instead",
    apsw.SQLITE_SAVEPOINT: "savepoints are not available inside tx()",
    apsw.SQLITE_ATTACH: "ATTACH and VACUUM are not available inside tx()",
    apsw.SQLITE_DETACH: "DETACH is not available inside tx()",
}


class UserSql:
    """Runs a caller's statements on the writer's connection. One per connection."""

    __slots__ = ("_connection", "_is_judging", "_reason")

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._is_judging = False
        self._reason = ""
        connection.authorizer = self._judge

    def run(self, sql: str, arguments: Sequence[Value], is_over: Callable[[], bool]) -> list[Row]:
        """Rows of one statement. InvalidArgument names what was refused or is wrong with it;
        TxTimeout when `is_over` says so while it runs."""
        self._is_judging, self._reason = True, ""
        self._connection.set_progress_handler(is_over, PROGRESS_STEPS)
        try:
            return self._connection.execute(sql, tuple(arguments), can_cache=False).fetchall()
        except apsw.AuthError as error:
            raise InvalidArgument(f"refused inside tx(): {self._reason}") from error
        except apsw.InterruptError as error:
            raise TxTimeout("the transaction took too long and was rolled back") from error
        except (
            apsw.SQLError,
            apsw.BindingsError,
            apsw.ConstraintError,
            apsw.MismatchError,
        ) as error:
            raise InvalidArgument(f"your statement failed: {error}") from error
        except (TypeError, OverflowError, UnicodeEncodeError) as error:
            raise InvalidArgument(f"a value of your statement cannot be stored: {error}") from error
        finally:
            self._connection.set_progress_handler(None)
            self._is_judging = False

    def _judge(
        self, action: int, first: str | None, second: str | None, _: str | None, __: str | None
    ) -> int:
        if not self._is_judging:
            return apsw.SQLITE_OK
        reason = _NEVER.get(action, "")
        if action in _ON_FIRST and _is_ours(first):
            reason = f"{first!r} is the engine's; use the queue's verbs"
        elif action in _ON_SECOND and _is_ours(second):
            reason = f"{second!r} is the engine's; it takes no indexes, triggers or changes"
        elif action == apsw.SQLITE_PRAGMA and (first or "").lower() not in READING_PRAGMAS:
            reason = f"PRAGMA {first} is not available inside tx()"
        if not reason:
            return apsw.SQLITE_OK
        self._reason = reason
        return apsw.SQLITE_DENY


def _is_ours(name: str | None) -> bool:
    return name is not None and name.lower() in schema.layout()
