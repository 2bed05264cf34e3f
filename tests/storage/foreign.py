"""Files that are not ours: each maker leaves one at a path and says what it is.

Used by the tests of refusal. A maker may return a context that keeps the file open elsewhere.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw

from mqlite_actor.storage.sqlite import open_store

HOLDER = """
import os, sys
import apsw
connection = apsw.Connection(sys.argv[1])
for statement in sys.argv[2:]:
    connection.execute(statement).fetchall()
print("ready", flush=True)
sys.stdin.read()
"""

WAL = "PRAGMA journal_mode = wal"
META = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) STRICT"
TOKEN_5 = (META, "INSERT INTO meta VALUES ('schema_version', '5')")
BUSINESS = (
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)",
    "INSERT INTO orders (item) VALUES ('tea'), ('salt')",
    "CREATE INDEX orders_by_item ON orders (item)",
    "CREATE VIEW teas AS SELECT * FROM orders WHERE item = 'tea'",
    "CREATE TRIGGER kept AFTER DELETE ON orders BEGIN SELECT raise(ABORT, 'kept'); END",
)


def execute(path: Path, *statements: str) -> None:
    """Run statements on a connection of our own and close it."""
    connection = apsw.Connection(str(path))
    try:
        for statement in statements:
            connection.execute(statement).fetchall()
    finally:
        connection.close()


def start_holder(path: Path, *statements: str) -> subprocess.Popen[str]:
    """A process that has run these statements and holds its connection until its stdin ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), *statements],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def stop(process: subprocess.Popen[str], how: signal.Signals = signal.SIGKILL) -> None:
    """End a holder and collect it."""
    with process:
        process.send_signal(how)


def die(path: Path, *statements: str) -> None:
    """Run statements in a process that is then killed with its connection open."""
    stop(start_holder(path, *statements))


# -- the makers ------------------------------------------------------------------------------------


def another_format_number(path: Path) -> None:
    open_store(str(path)).close()
    execute(path, "UPDATE meta SET value = 'mqlite-actor/2' WHERE key = 'schema_version'")
    as_rollback_journal(path)


def as_rollback_journal(path: Path) -> None:
    """Leave one closed file without a log and without our sidecar."""
    execute(path, "PRAGMA journal_mode = delete")
    path.with_name(path.name + ".lock").unlink(missing_ok=True)


def original(path: Path) -> None:
    execute(path, *TOKEN_5)


def original_with_log_closed(path: Path) -> None:
    execute(path, WAL, *TOKEN_5)


def original_killed(path: Path) -> None:
    die(path, WAL, *TOKEN_5)
    assert path.with_name(path.name + "-wal").stat().st_size


def original_killed_and_copied(path: Path) -> None:
    """As a copy of database and log without the index, which nobody needs to copy."""
    original_killed(path)
    path.with_name(path.name + "-shm").unlink()


def original_killed_in_a_transaction(path: Path) -> None:
    """A rollback journal that is still to be played back."""
    execute(
        path, *TOKEN_5, "CREATE TABLE filler (x)", "INSERT INTO filler VALUES (zeroblob(99999))"
    )
    die(
        path,
        "PRAGMA cache_size = 2",
        "BEGIN",
        "UPDATE filler SET x = randomblob(99999)",
        "INSERT INTO filler SELECT randomblob(99999) FROM filler",
    )
    assert path.with_name(path.name + "-journal").stat().st_size


def changed_ours(*statements: str) -> Callable[[Path], None]:
    """Our file after somebody's statements."""

    def make(path: Path) -> None:
        open_store(str(path)).close()
        execute(path, *statements)
        as_rollback_journal(path)

    return make


def others(*statements: str) -> Callable[[Path], None]:
    """A file of somebody else's make."""
    return lambda path: execute(path, *statements)


def content(data: bytes) -> Callable[[Path], None]:
    """A file that SQLite never wrote."""

    def make(path: Path) -> None:
        path.write_bytes(data)

    return make


def broken_header(path: Path) -> None:
    """As encryption or a bad disk would leave it."""
    open_store(str(path)).close()
    as_rollback_journal(path)
    path.write_bytes(os.urandom(100) + path.read_bytes()[100:])


MAKERS: dict[str, Callable[[Path], None]] = {
    "another format number": another_format_number,
    "the original's file": original,
    "the original's file with a log, closed": original_with_log_closed,
    "the original's file with a live log": original_killed,
    "the original's file with a live log, copied": original_killed_and_copied,
    "a column added": changed_ours("ALTER TABLE messages ADD COLUMN extra TEXT"),
    "an index dropped": changed_ours("DROP INDEX messages_by_group"),
    "an index on other columns": changed_ours(
        "DROP INDEX receipts_by_seq", "CREATE INDEX receipts_by_seq ON receipts (queue_id)"
    ),
    "a table dropped": changed_ours("DROP TABLE attempts"),
    "no token row": changed_ours("DELETE FROM meta WHERE key = 'schema_version'"),
    "a table of our name": others("CREATE TABLE messages (id, text)"),
    "a table of our name in capitals": others("CREATE TABLE Messages (id, text)"),
    "a view of our name": others("CREATE TABLE t (a)", "CREATE VIEW queues AS SELECT a FROM t"),
    "an index of our name": others("CREATE TABLE t (a)", "CREATE INDEX messages ON t (a)"),
    "meta of another shape": others("CREATE TABLE meta (name, content)"),
    "meta of another program": others(META, "INSERT INTO meta VALUES ('version', '1')"),
    "a text": content(b"Dear sir or madam,\n" * 300),
    "noise": content(os.urandom(8192)),
    "a few bytes": content(b"hi"),
    "half a header": content(b"SQLite format 3\0\x10\0\x01\x01"),
    "a broken header": broken_header,
}
