"""What a store stands on: the SQLite library, the folder, the disk, the log; and what it looks like
from outside, for somebody who has to help from afar.

Called by the command line for `doctor` and `support-bundle`, through `engine.upkeep`. Reads, makes
nothing, and takes no lock that an engine would notice.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import apsw

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import OpenError
from mqlite_actor.contract.limits import MIB
from mqlite_actor.storage import counts, files, schema, sizes
from mqlite_actor.storage.checking import Finding, Verdict
from mqlite_actor.storage.connection import check_sqlite, connect_outsider
from mqlite_actor.storage.database import Value

DISK_LOW_BYTES: Final = 1024 * MIB
"""Below it somebody should look: a log under a long reader, or a backup, takes that much soon."""

DISK_OUT_BYTES: Final = 64 * MIB
"""Below it a log that is cut back only to WAL_BYTES_KEPT has no room."""

_SIZES: Final = """
SELECT p.page_count * s.page_size, f.freelist_count * s.page_size
FROM pragma_page_count AS p, pragma_page_size AS s, pragma_freelist_count AS f"""
_QUEUES: Final = f"""
SELECT q.name, q.kind, q.ordering_mode, c.active, c.locked, c.scheduled, c.deferred,
  c.dead_lettered, c.dead_letter_bytes
FROM queues AS q JOIN counts AS c ON c.queue_id = q.id ORDER BY q.name LIMIT {limits.PEEK_MAX}"""
_LAYOUT: Final = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND lower(name) IN ({})"


def examine_library() -> Finding:
    """The SQLite library that this Python uses (fault B1)."""
    version = apsw.sqlite_lib_version()
    try:
        check_sqlite(version)
    except OpenError as error:
        return Finding("sqlite", Verdict.FAIL, error.message, "pip install --upgrade apsw")
    return Finding("sqlite", Verdict.OK, f"{version}, apsw {apsw.apsw_version()}")


def examine_place(path: str) -> Iterator[Finding]:
    """The folder, its file system and disk; nothing has to exist yet but the folder."""
    try:
        files.check_place(path)
    except OpenError as error:
        yield Finding("place", Verdict.FAIL, error.message, "set MQLITE_DB to another place")
        return
    folder = os.path.dirname(path)
    kind = files.file_system(folder)
    yield Finding("place", Verdict.OK, f"{folder} is writable" + (f", on {kind}" if kind else ""))
    free = sizes.disk_free(path)
    if free is None:
        yield Finding("disk", Verdict.WARN, "the system does not say how much is free")
    else:
        verdict = Verdict.OK
        if free < DISK_LOW_BYTES:
            verdict = Verdict.WARN if free >= DISK_OUT_BYTES else Verdict.FAIL
        mend = "" if verdict is Verdict.OK else "make room, or move the store to a larger disk"
        yield Finding("disk", verdict, f"{free // MIB} MiB free", mend)


def examine_size(path: str) -> Iterator[Finding]:
    """The log and the free space inside of a file that exists and is sound."""
    log = sizes.log_size(path) or 0
    if log > limits.WAL_BYTES_KEPT:
        yield Finding(
            "log",
            Verdict.WARN,
            f"{log // MIB} MiB; it is cut at {limits.WAL_BYTES_KEPT // MIB}",
            "something reads for long, or a backup runs; if neither, look at the checkpoint task"
            " in `mqlite observe`",
        )
    else:
        yield Finding("log", Verdict.OK, f"{log} bytes")
    size, free = _one(path, _SIZES)
    assert isinstance(size, int)
    assert isinstance(free, int)
    if free > max(size // 2, limits.WAL_BYTES_KEPT):
        mend = "it will be used again; to give it to the disk, end the broker and `mqlite vacuum`"
        yield Finding("size", Verdict.WARN, f"{size} bytes, {free} of them hold nothing", mend)
    else:
        yield Finding("size", Verdict.OK, f"{size} bytes, {free} of them hold nothing")


def layout_found(path: str) -> str:
    """The definitions of our tables as the file has them, nobody else's."""
    names = ", ".join(f"'{name}'" for name in schema.layout())
    with _looking(path) as connection:
        rows = connection.execute(_LAYOUT.format(names)).fetchall()
    return "".join(f"{sql};\n\n" for (sql,) in rows)


def queues_found(path: str) -> list[dict[str, Value]]:
    """Names, kinds and counts of the first thousand queues."""
    keys = ("queue", "kind", "ordering_mode", "active", "locked", "scheduled", "deferred",
            "dead_lettered", "dead_letter_bytes")  # fmt: skip
    assert len(keys) == 3 + counts.COLUMNS
    with _looking(path) as connection:
        rows = connection.execute(_QUEUES).fetchall()
    return [dict(zip(keys, row, strict=True)) for row in rows]


def _one(path: str, sql: str) -> tuple[object, ...]:
    with _looking(path) as connection:
        row: tuple[object, ...] = connection.execute(sql).fetchall()[0]
        return row


@contextmanager
def _looking(path: str) -> Iterator[apsw.Connection]:
    """A connection that reads, whether an engine has the file or not. OpenError for SQLite's."""
    with files.undisturbed(path) as is_live:
        try:
            connection = connect_outsider(path) if is_live else schema.look_at(path)
            try:
                yield connection
            finally:
                connection.close(True)
        except apsw.Error as error:
            raise OpenError(f"{path} cannot be read: {error}") from error
