"""Is a file sound, is it ours, and does what it keeps about its messages agree with them?

Called by the command line for `check`, `restore` and `doctor`. Looks at a file whether an engine
has it or not, from one snapshot, and writes nothing; `mend_counts` alone does, on a file that
nobody has. Every finding says what was looked at, and what to do where something is wrong. Reading
everything takes as long as the file is large; the thread stays open to signals meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Final

import apsw
import msgspec

from mqlite_actor.contract.errors import MqliteError, OpenError
from mqlite_actor.storage import aside, counts, database, files, schema
from mqlite_actor.storage.connection import connect_outsider
from mqlite_actor.storage.database import Row, Value

PROGRESS_STEPS: Final = 50_000
"""SQLite's own instructions between two chances for a signal: about a millisecond."""

_PROBLEMS_MAX: Final = 20
"""Broken pages are named one by one, but a file that is one ruin need not be read out."""

_RESTORE: Final = (
    "end its broker, keep a copy, and restore a snapshot (mqlite restore); without one, the"
    " .recover of SQLite's shell may save rows"
)
_REPORT: Final = "please report it; mqlite export and import move what is there into a new file"

_INTEGRITY: Final = f"PRAGMA integrity_check({_PROBLEMS_MAX})"
_FOREIGN_KEYS: Final = "PRAGMA foreign_key_check"
_KEPT: Final = """
SELECT q.id, q.name, c.active, c.locked, c.scheduled, c.deferred, c.dead_lettered,
  c.dead_letter_bytes
FROM queues AS q LEFT JOIN counts AS c ON c.queue_id = q.id ORDER BY q.name"""
_STRAYS: Final = """
SELECT (SELECT count(*) FROM messages WHERE queue_id NOT IN (SELECT id FROM queues)),
  (SELECT count(*) FROM bodies WHERE id NOT IN (SELECT id FROM messages)),
  (SELECT count(*) FROM subscriptions WHERE queue_id NOT IN (SELECT id FROM queues)),
  (SELECT count(*) FROM counts WHERE queue_id NOT IN (SELECT id FROM queues))"""
_KINDS_OF_STRAYS: Final = (
    "messages without a queue", "bodies without a message", "subscriptions without a queue",
    "counts without a queue",
)  # fmt: skip
_DROP_COUNTS: Final = "DELETE FROM counts"
_KEEP_COUNTS: Final = "INSERT INTO counts VALUES (?, ?, ?, ?, ?, ?, ?)"


class Verdict(StrEnum):
    """How a finding turned out."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at. `mend` is what to do, where there is something to do."""

    name: str
    verdict: Verdict
    detail: str
    mend: str = ""


def check_file(
    path: str, *, is_whole: bool = True, tick: Callable[[], None] | None = None
) -> list[Finding]:
    """Everything that can be said of the file at this canonical path.

    OpenError if there is no such file. `is_whole` False leaves out whether every page is sound,
    which takes longest. `tick` is called every millisecond or so.
    """
    aside.check_whole(path)
    if not os.path.isfile(path):
        raise OpenError(f"{path} does not exist, or is no file")
    with files.undisturbed(path) as is_live:
        return [
            _mode(path),
            _owner(path, is_live=is_live),
            *_examine(path, is_live=is_live, is_whole=is_whole, tick=tick),
        ]


def _examine(
    path: str, *, is_live: bool, is_whole: bool = True, tick: Callable[[], None] | None
) -> list[Finding]:
    if schema.has_unfinished_transaction(path):
        return [_unfinished(path)]
    try:
        connection = connect_outsider(path) if is_live else schema.look_at(path)
    except apsw.Error as error:
        return [_unreadable(error)]
    try:
        connection.set_progress_handler(_passing(tick), PROGRESS_STEPS)
        connection.execute("BEGIN").fetchall()  # one snapshot for all that is compared
        return list(_contents(connection, path, is_whole=is_whole))
    except apsw.Error as error:
        return [_unreadable(error)]
    finally:
        connection.close(True)


def mend_counts(path: str) -> int:
    """Write the counts of every queue anew from its messages; how many queues that were wrong.

    DatabaseLocked while an engine has the file, OpenError for one that is not sound and ours.
    """
    aside.recover(path)
    lock = files.FileLock(path)
    try:
        others = [
            each
            for each in failures(_examine(path, is_live=False, tick=None))
            if each.name != "counts"
        ]
        if others:
            raise OpenError(
                f"{path} is not sound and ours, so its counts cannot be mended; check it"
            )
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            with connection:
                wrong = _disagreements(connection)
                kept = _rows(connection, _KEPT)
                true = [(row[0], *_true(connection, row[0])) for row in kept]
                connection.execute(_DROP_COUNTS)
                connection.executemany(_KEEP_COUNTS, true)
        finally:
            connection.close(True)
        return len(wrong)
    finally:
        lock.release()


def failures(findings: list[Finding]) -> list[Finding]:
    """Those that mean that the file must not be relied on."""
    return [each for each in findings if each.verdict is Verdict.FAIL]


def _contents(connection: apsw.Connection, path: str, *, is_whole: bool) -> Iterator[Finding]:
    if is_whole:
        problems = [str(row[0]) for row in _rows(connection, _INTEGRITY)]
        if problems != ["ok"]:
            yield Finding("integrity", Verdict.FAIL, "; ".join(problems), _RESTORE)
            return
        yield Finding("integrity", Verdict.OK, "every page and index is sound")
    try:
        if not schema.is_ours(connection, path):
            yield Finding("schema", Verdict.FAIL, "it holds no queues of mqlite-actor")
            return
        schema.check_foreign_keys(connection)
    except MqliteError as error:
        yield Finding("schema", Verdict.FAIL, error.message)
        return
    yield _version(connection)
    yield _keys(connection)
    yield _counted(connection)
    yield _strays(connection)
    yield _numbered(connection)


def _version(connection: apsw.Connection) -> Finding:
    token = schema.read_token(connection)
    if token != schema.FORMAT:
        return Finding("schema", Verdict.WARN, f"{token}, an older format of ours",
                       "opening it brings it up to date")  # fmt: skip
    return Finding("schema", Verdict.OK, schema.FORMAT)


def _keys(connection: apsw.Connection) -> Finding:
    tables = sorted({str(row[0]) for row in _rows(connection, _FOREIGN_KEYS)})
    if not tables:
        return Finding("foreign-keys", Verdict.OK, "no row refers to one that is not there")
    return Finding(
        "foreign-keys",
        Verdict.WARN,
        f"rows of {', '.join(tables)} refer to rows that are not there",
        "these are tables of an application; mend them with it",
    )


def _counted(connection: apsw.Connection) -> Finding:
    wrong = _disagreements(connection)
    if wrong:
        mend = "end its broker and let `mqlite check FILE --mend-counts` count anew"
        return Finding("counts", Verdict.FAIL, "; ".join(wrong), mend)
    number = len(_rows(connection, _KEPT))
    return Finding("counts", Verdict.OK, f"those of {number} queue(s) agree with their messages")


def _disagreements(connection: apsw.Connection) -> list[str]:
    wrong = []
    for queue_id, name, *kept in _rows(connection, _KEPT):
        true = _true(connection, queue_id)
        if tuple(kept) != true:
            wrong.append(f"queue {name!r} keeps {_six(kept)}, its messages are {_six(true)}")
    return wrong


def _true(connection: apsw.Connection, queue_id: Value) -> tuple[int, ...]:
    return counts.six(_rows(connection, counts.TRUE_COUNTS, queue_id)[0])


def _six(numbers: Sequence[Value]) -> str:
    return "/".join("none" if each is None else str(each) for each in numbers)


def _strays(connection: apsw.Connection) -> Finding:
    numbers = zip(_rows(connection, _STRAYS)[0], _KINDS_OF_STRAYS, strict=True)
    found = [f"{number} {kind}" for number, kind in numbers if number]
    if found:
        return Finding("references", Verdict.FAIL, ", ".join(found), _REPORT)
    return Finding("references", Verdict.OK, "every row belongs to something")


def _numbered(connection: apsw.Connection) -> Finding:
    """The counter lags behind while no row is removed, so what is there may count for it."""
    found = _rows(connection, database.READ_COUNTER, "seq")
    if not found or not isinstance(found[0][0], int):
        detail = "the counter of sequence numbers is missing"
        return Finding("numbers", Verdict.FAIL, detail, _REPORT)
    return Finding("numbers", Verdict.OK, f"the last sequence number is {found[0][0]}")


def _mode(path: str) -> Finding:
    parts = [path + suffix for suffix in ("", "-wal", "-shm", ".lock")]
    there = [each for each in parts if os.name == "posix" and os.path.exists(each)]
    wide = [each for each in there if os.stat(each).st_mode & 0o077]
    if wide:
        mend = f"chmod 600 {' '.join(wide)}"
        return Finding(
            "mode", Verdict.WARN, f"others than its owner may open {', '.join(wide)}", mend
        )
    return Finding("mode", Verdict.OK, "its owner's alone")


def _owner(path: str, *, is_live: bool) -> Finding:
    if not is_live:
        return Finding("owner", Verdict.OK, "no engine has it")
    holder = files.lock_holder(path)
    return Finding("owner", Verdict.OK, f"in use by process {holder}" if holder else "in use")


def _unfinished(path: str) -> Finding:
    return Finding(
        "integrity",
        Verdict.FAIL,
        f"a transaction of another program was not finished ({path}-journal)",
        "open it once with that program",
    )


def _unreadable(error: apsw.Error) -> Finding:
    if isinstance(error, apsw.NotADBError):
        return Finding("integrity", Verdict.FAIL, "it is not a SQLite database", _RESTORE)
    return Finding("integrity", Verdict.FAIL, f"it cannot be read: {error}", _RESTORE)


def _rows(connection: apsw.Connection, sql: str, *arguments: Value) -> list[Row]:
    return connection.execute(sql, arguments).fetchall()


def _passing(tick: Callable[[], None] | None) -> Callable[[], bool]:
    """A progress handler that never stops anything. That Python runs at all lets a signal in."""

    def passing() -> bool:
        if tick is not None:
            tick()
        return False

    return passing
