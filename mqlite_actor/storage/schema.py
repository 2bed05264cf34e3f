"""The file format: apply it to a fresh file, recognise ours, refuse everything else untouched.

Called by `sqlite.open_store`, and by `outside` for a look. Ours is a file whose
`meta.schema_version` is FORMAT and whose tables have exactly the text of schema.sql; fresh is a
file that holds none of our tables (an application's own tables may be there and stay). Anything
else is refused before the file is opened for writing.
"""

from __future__ import annotations

import errno
import os
from functools import cache
from importlib import resources
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import apsw

from mqlite_actor.contract.errors import OpenError, SchemaVersionMismatch
from mqlite_actor.storage import aside

FORMAT: Final = "mqlite-actor/1"

WIRE_SCHEMA_VERSION: Final = "5"
"""What Status, Observe and /metrics report: the contract's token, not our format (ruling R2)."""

_ORIGINAL_TOKEN: Final = "5"


class ForeignKeyToUs(SchemaVersionMismatch):
    """A table of an application is tied to a table of ours."""


class Migration(NamedTuple):
    """How a file of one format becomes one of the next."""

    after: str
    statements: tuple[str, ...]


MIGRATIONS: Final[dict[str, Migration]] = {}
"""By the format that they start from. A format is changed by raising FORMAT, changing schema.sql
and adding the step here; a file is upgraded when it is opened, each step in one transaction."""

START: Final = (
    ("INSERT INTO meta (key, value) VALUES ('schema_version', ?)", (FORMAT,)),
    ("INSERT INTO meta (key, value) VALUES ('epoch', '0')", ()),
    ("INSERT INTO counters (name, value) VALUES ('seq', 0)", ()),
)


@cache
def layout() -> dict[str, str]:
    """Name to SQL text of every table and index of ours, as SQLite stores it."""
    memory = apsw.Connection(":memory:")
    try:
        memory.execute(script())
        return _objects(memory)
    finally:
        memory.close()


def has_unfinished_transaction(path: str) -> bool:
    """Whether a rollback journal lies beside the file: its writer died."""
    return _size(path + "-journal") > 0


def inspect(path: str, *, may_roll_back: bool = False) -> bool:
    """True if the file holds our format, False if it is fresh; SchemaVersionMismatch otherwise.

    Reads without writing anything, so that a refused file and its folder keep every byte. Except
    with `may_roll_back`, for a file that an engine of ours was about to make its own when it died:
    then its unfinished transaction is undone first.
    """
    if has_unfinished_transaction(path) and not may_roll_back:
        raise OpenError(
            f"{path} has an unfinished transaction of another program (its -journal); open it once"
            " with that program"
        )
    try:
        connection = apsw.Connection(path) if may_roll_back else look_at(path)
        try:
            found = is_ours(connection, path)
            check_foreign_keys(connection)
            return found
        finally:
            connection.close()
    except apsw.NotADBError as error:
        raise SchemaVersionMismatch(
            f"{path} is not a SQLite database; it was not touched"
        ) from error
    except apsw.Error as error:
        raise OpenError(f"{path} cannot be read: {error}") from error


def look_at(path: str) -> apsw.Connection:
    """A connection that leaves no trace, whatever state the log is in."""
    aside.check_whole(path)
    if not _size(path + "-wal"):
        uri = f"file:{quote(path)}?immutable=1"
        return apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    if os.path.exists(path + "-shm"):
        return apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    # A log without its index, as a killed program leaves it: reading needs an index, which
    # exclusive mode keeps in memory; and closing must not move the log into the file.
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    return connection


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return 0  # then it is not there either
        raise OpenError(f"{path} cannot be looked at: {error.strerror}") from error


def establish(connection: apsw.Connection) -> None:
    """Make a fresh file ours, or bring an older format of ours up to date."""
    if not _objects(connection).keys() & layout().keys():
        _in_one_transaction(connection, (script(),), START)
        return
    while (token := read_token(connection)) != FORMAT:
        step = MIGRATIONS.get(token or "")
        if step is None:
            raise SchemaVersionMismatch(f"the file has schema {token!r}, not {FORMAT!r}")
        rename = ("UPDATE meta SET value = ? WHERE key = 'schema_version'", (step.after,))
        _in_one_transaction(connection, step.statements, (rename,))


def check_current(connection: apsw.Connection, path: str) -> None:
    """For whoever only looks: SchemaVersionMismatch unless the file holds this very format."""
    if not is_ours(connection, path):
        raise SchemaVersionMismatch(f"{path} holds no queue")
    token = read_token(connection)
    if token != FORMAT:
        raise SchemaVersionMismatch(
            f"{path} has schema {token!r}, an older one; the engine that owns it brings it up to"
            " date when it opens it"
        )


def check_foreign_keys(connection: apsw.Connection) -> None:
    """ForeignKeyToUs if a table of somebody's refers to one of ours.

    Such a key would let the engine's deletions fail, or delete rows of others, and would run their
    triggers.
    """
    names = ", ".join(f"'{name}'" for name in layout())
    found = _rows(
        connection,
        'SELECT t.name, f."table" FROM sqlite_schema AS t, pragma_foreign_key_list(t.name) AS f'
        f" WHERE t.type = 'table' AND lower(f.\"table\") IN ({names}) LIMIT 1",
    )
    if found:
        raise ForeignKeyToUs(
            f"table {found[0][0]!r} has a foreign key to {found[0][1]!r}, which is the engine's;"
            " keep the sequence number in a plain column"
        )


def _in_one_transaction(
    connection: apsw.Connection,
    scripts: tuple[str, ...],
    statements: tuple[tuple[str, tuple[str, ...]], ...],
) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for script in scripts:
            connection.execute(script)
        for sql, arguments in statements:
            connection.execute(sql, arguments)
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def is_ours(connection: apsw.Connection, path: str) -> bool:
    """Whether the file holds our format, or an older one that opening brings up to date; False for
    a fresh one. SchemaVersionMismatch for anything else."""
    wanted = layout()
    found = {name: sql for name, sql in _objects(connection).items() if name in wanted}
    if not found:
        return False
    token = read_token(connection) if "meta" in found else None
    if token in MIGRATIONS:
        return True  # of an older format of ours: `establish` brings it up to date
    if token != FORMAT:
        raise SchemaVersionMismatch(_refusal(path, token, found))
    for name, sql in wanted.items():
        if found.get(name) != sql:
            raise SchemaVersionMismatch(
                f"{path} is {FORMAT} but its {name!r} has another shape; it was not touched"
            )
    _check_triggers(connection, path)
    return True


def _check_triggers(connection: apsw.Connection, path: str) -> None:
    """A trigger on one of our tables would write unjudged whenever the engine writes."""
    names = ", ".join(f"'{name}'" for name in layout())
    found = _rows(
        connection,
        "SELECT name, tbl_name FROM sqlite_schema"
        f" WHERE type = 'trigger' AND lower(tbl_name) IN ({names}) LIMIT 1",
    )
    if found:
        trigger, table = found[0]
        raise SchemaVersionMismatch(
            f"{path}: trigger {trigger!r} was put on the engine's table {table!r}; drop it with the"
            " program that made it"
        )


def read_token(connection: apsw.Connection) -> str | None:
    """The format that the file says it has; None if it says nothing that we understand."""
    try:
        rows = _rows(connection, "SELECT value FROM meta WHERE key = 'schema_version'")
    except apsw.SQLError:
        return None  # a table of that name with other columns: somebody else's
    return str(rows[0][0]) if rows else None


def _refusal(path: str, token: str | None, found: dict[str, str]) -> str:
    if token == _ORIGINAL_TOKEN:
        return (
            f"{path} was made by the original mqlite (schema 5); it was not touched. To move it,"
            " serve it there, export the messages over HTTP, and import them into a new file here"
        )
    if token is not None:
        return f"{path} has schema {token!r}, this program reads {FORMAT!r}; it was not touched"
    names = ", ".join(sorted(found))
    return (
        f"{path} already has tables of other make with our names ({names}); it was not touched."
        " Use another file"
    )


def _objects(connection: apsw.Connection) -> dict[str, str]:
    """Tables, indexes and views; names in lower case, since SQLite takes them in any."""
    rows = _rows(
        connection,
        "SELECT name, sql FROM sqlite_schema WHERE type <> 'trigger' AND sql IS NOT NULL"
        " AND name NOT LIKE 'sqlite_%'",
    )
    return {str(name).lower(): str(sql) for name, sql in rows}


def _rows(connection: apsw.Connection, sql: str) -> list[tuple[Any, ...]]:
    """What a file says of itself. SQLite takes any bytes for a text, and a damaged file has some
    that are none."""
    try:
        return connection.execute(sql).fetchall()
    except UnicodeDecodeError as error:
        raise SchemaVersionMismatch(
            "the file's schema holds a text that is not UTF-8; it is damaged, and was not touched"
        ) from error


@cache
def columns() -> dict[str, tuple[str, ...]]:
    """Name to columns of every table of ours, in their order."""
    memory = apsw.Connection(":memory:")
    try:
        memory.execute(script())
        return {
            name: tuple(str(row[1]) for row in memory.execute(f"PRAGMA table_info({name})"))
            for name, sql in layout().items()
            if sql.startswith("CREATE TABLE")
        }
    finally:
        memory.close()


def script() -> str:
    """The tables and indexes as they are made."""
    return resources.files(__package__).joinpath("schema.sql").read_text(encoding="utf-8")
