"""Layouts tried against each other: the same work on different tables, straight on APSW.

    python -m bench.layout [--runs 5] [--number 6000]

Each try is a row of TRIES: DDL and the statements of a send, claim, complete and abandon. For each
it prints rates (median of interleaved runs, spread), the bytes that a step appends to the log, and
the bytes of a stored message. Log bytes do not depend on the machine's mood, so they decide where
rates are close. The figures stand in docs/decisions/0004-layout.md.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import apsw

from bench.measure import Figure

Step = tuple[str, tuple[str, ...]]
"""A statement and the names of its arguments."""

PER_TRANSACTION: Final = 64
NOW: Final = 1_800_000_000_000

_TEXTS = (
    "group_id TEXT, message_id TEXT, correlation_id TEXT, reply_to TEXT, content_type TEXT,"
    " subject TEXT, properties TEXT, dead_letter_reason TEXT, dead_letter_description TEXT"
)
_HOT = (
    "queue_id INTEGER NOT NULL, state INTEGER NOT NULL, delivery_count INTEGER NOT NULL,"
    " visible_at INTEGER NOT NULL, locked_until INTEGER NOT NULL, lock_token BLOB,"
    f" enqueued_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, {_TEXTS}"
)
_MESSAGES = f"CREATE TABLE messages (id INTEGER PRIMARY KEY, {_HOT}, body BLOB NOT NULL) STRICT"
_BY_STATE = "CREATE INDEX by_state ON messages (queue_id, state)"
_BY_LEASE = "CREATE INDEX by_lease ON messages (locked_until) WHERE state = 3"
_BY_GROUP = (
    "CREATE INDEX by_group ON messages (queue_id, group_id)"
    " WHERE group_id IS NOT NULL AND state < 6"
)
_BY_TIME = "CREATE INDEX by_time ON messages (visible_at) WHERE state = 4"
_BY_EXPIRY = "CREATE INDEX by_expiry ON messages (expires_at) WHERE expires_at > 0 AND state < 6"
_RECEIPTS = (
    (
        "CREATE TABLE receipts (id INTEGER PRIMARY KEY, seq_number INTEGER NOT NULL,"
        " queue_id INTEGER NOT NULL, verb INTEGER NOT NULL, expires_at INTEGER NOT NULL,"
        " lock_token BLOB NOT NULL, args BLOB) STRICT"
    ),
    "CREATE INDEX receipts_by_seq ON receipts (seq_number)",
)
_COUNTS = (
    (
        "CREATE TABLE counts (queue_id INTEGER PRIMARY KEY, active INTEGER NOT NULL,"
        " locked INTEGER NOT NULL) STRICT"
    ),
    "INSERT INTO counts VALUES (1, 0, 0)",
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT",
    "INSERT INTO counters VALUES ('seq', 0)",
)
_INDEXES = (_BY_STATE, _BY_LEASE, _BY_GROUP, _BY_TIME, _BY_EXPIRY)

_INSERT: Step = (
    (
        "INSERT INTO messages (id, queue_id, state, delivery_count, visible_at, locked_until,"
        " enqueued_at, expires_at, body) VALUES (?, 1, 1, 0, ?, 0, ?, 0, ?)"
    ),
    ("seq", "now", "now", "body"),
)
_HEAD: Step = (
    "SELECT * FROM messages WHERE queue_id = 1 AND state = 1 ORDER BY id LIMIT 1",
    (),
)
_LOCK: Step = (
    (
        "UPDATE messages SET state = 3, locked_until = ?, lock_token = ?,"
        " delivery_count = delivery_count + 1 WHERE id = ?"
    ),
    ("until", "token", "seq"),
)
_COMPLETE: Step = (
    (
        "DELETE FROM messages WHERE id = ? AND queue_id = 1 AND state = 3 AND lock_token = ?"
        " AND locked_until > ? RETURNING group_id"
    ),
    ("seq", "token", "now"),
)
_ABANDON: Step = (
    (
        "UPDATE messages SET state = 1, visible_at = ?, locked_until = 0, lock_token = NULL"
        " WHERE id = ?"
    ),
    ("now", "seq"),
)
_RECEIPT: Step = (
    (
        "INSERT INTO receipts (seq_number, queue_id, verb, expires_at, lock_token)"
        " VALUES (?, 1, 1, ?, ?)"
    ),
    ("seq", "until", "token"),
)
_SUMS: tuple[Step, ...] = (
    ("UPDATE counts SET active = active + 1, locked = locked + 1 WHERE queue_id = 1", ()),
    ("UPDATE counters SET value = ? WHERE name = 'seq'", ("seq",)),
)

_DEDUP: Final = (
    (
        "CREATE TABLE dedup (queue_id INTEGER NOT NULL, key TEXT NOT NULL, body_hash BLOB NOT NULL,"
        " seq_number INTEGER NOT NULL, seen_at INTEGER NOT NULL,"
        " PRIMARY KEY (queue_id, key)) STRICT"
    ),
    "CREATE INDEX dedup_by_age ON dedup (queue_id, seen_at)",
)
_NOTE_KEY: Step = ("INSERT INTO dedup VALUES (1, ?, ?, ?, ?)", ("key", "hash", "seq", "now"))
_ATTEMPTS: Final = (
    (
        "CREATE TABLE attempts (queue_id INTEGER NOT NULL, attempt_id TEXT NOT NULL,"
        " expires_at INTEGER NOT NULL, reply BLOB NOT NULL,"
        " PRIMARY KEY (queue_id, attempt_id)) STRICT"
    ),
    "CREATE INDEX attempts_by_expiry ON attempts (expires_at)",
)
_NOTE_REPLY: Step = ("INSERT INTO attempts VALUES (1, ?, ?, ?)", ("key", "until", "reply"))

_BODIES = "CREATE TABLE bodies (id INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT"
_INSERT_BODY: Step = ("INSERT INTO bodies VALUES (?, ?)", ("seq", "body"))
_INSERT_BARE: Step = (_INSERT[0].replace(", ?)", ", x'')"), ("seq", "now", "now"))
_HEAD_BODY: Step = ("SELECT body FROM bodies WHERE id = ?", ("seq",))
_DELETE_BODY: Step = ("DELETE FROM bodies WHERE id = ?", ("seq",))

_TABLES: Final = (_MESSAGES, _BODIES, *_INDEXES, *_RECEIPTS, *_COUNTS)


@dataclass(frozen=True, slots=True)
class Try:
    """One layout. `head` must give the sequence number first; `group` ends each transaction."""

    name: str
    ddl: tuple[str, ...] = _TABLES
    send: tuple[Step, ...] = (_INSERT,)
    head: tuple[Step, ...] = (_HEAD,)
    claim: tuple[Step, ...] = (_LOCK,)
    complete: tuple[Step, ...] = (_COMPLETE, _RECEIPT)
    abandon: tuple[Step, ...] = (_ABANDON, _RECEIPT)
    group: tuple[Step, ...] = _SUMS
    page_size: int = 4096
    inline_max: int = 1024
    """Bodies over it go through the `large_` steps."""
    large_send: tuple[Step, ...] = (_INSERT_BARE, _INSERT_BODY)
    large_head: tuple[Step, ...] = (_HEAD, _HEAD_BODY)
    large_complete: tuple[Step, ...] = (_COMPLETE, _RECEIPT, _DELETE_BODY)


TRIES: Final = (
    Try("chosen"),
    Try("without kept counts", group=()),
    Try(
        "AUTOINCREMENT and RETURNING",
        ddl=(
            _MESSAGES.replace("PRIMARY KEY", "PRIMARY KEY AUTOINCREMENT"),
            _BODIES,
            *_INDEXES,
            *_RECEIPTS,
            *_COUNTS,
        ),
        send=((_INSERT[0].replace("(?, 1", "(NULL, 1") + " RETURNING id", ("now", "now", "body")),),
        group=_SUMS[:1],
    ),
    Try(
        "a partial index per state",
        ddl=(
            _MESSAGES,
            _BODIES,
            "CREATE INDEX ready ON messages (queue_id) WHERE state = 1",
            "CREATE INDEX locked ON messages (queue_id) WHERE state = 3",
            *_INDEXES[1:],
            *_RECEIPTS,
            *_COUNTS,
        ),
    ),
    Try(
        "locked rows only in the lease index",
        ddl=(
            _MESSAGES,
            _BODIES,
            "CREATE INDEX by_state ON messages (queue_id, state) WHERE state <> 3",
            *_INDEXES[1:],
            *_RECEIPTS,
            *_COUNTS,
        ),
    ),
    Try(
        "receipts keyed by token",
        ddl=(
            _MESSAGES,
            _BODIES,
            *_INDEXES,
            (
                "CREATE TABLE receipts (lock_token BLOB PRIMARY KEY, seq_number INTEGER NOT NULL,"
                " queue_id INTEGER NOT NULL, verb INTEGER NOT NULL, expires_at INTEGER NOT NULL,"
                " args BLOB) STRICT"
            ),
            *_COUNTS,
        ),
    ),
    Try("without receipts", complete=(_COMPLETE,), abandon=(_ABANDON,)),
    Try("with duplicate keys", ddl=(*_TABLES, *_DEDUP), send=(_INSERT, _NOTE_KEY)),
    Try(
        "with duplicate keys WITHOUT ROWID",
        ddl=(*_TABLES, _DEDUP[0] + ", WITHOUT ROWID", _DEDUP[1]),
        send=(_INSERT, _NOTE_KEY),
    ),
    Try("with attempts", ddl=(*_TABLES, *_ATTEMPTS), claim=(_LOCK, _NOTE_REPLY)),
    Try(
        "with attempts WITHOUT ROWID",
        ddl=(*_TABLES, _ATTEMPTS[0] + ", WITHOUT ROWID", _ATTEMPTS[1]),
        claim=(_LOCK, _NOTE_REPLY),
    ),
    Try("body always in the row", inline_max=2**31),
    Try("body always apart", inline_max=-1),
    Try("pages of 8 KiB", page_size=8192),
    Try("pages of 16 KiB", page_size=16384),
)
"""The first is what the others are compared with."""

STEPS: Final = ("send", "claim", "abandon", "complete")


def main() -> None:
    """Run every try at every body size, in turn, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--number", type=int, default=6000)
    parser.add_argument("--only", default="", help="tries whose name has this, beside the first")
    given = parser.parse_args()
    for body_bytes, divisor in ((256, 1), (1024, 1), (4096, 4), (65_536, 40)):
        number = max(64, given.number // divisor)
        print(f"\nbodies of {body_bytes} bytes, {number} messages, 64 a transaction, NORMAL")
        tries = [each for each in TRIES if each is TRIES[0] or given.only in each.name]
        report(measure(tries, given.runs, number, body_bytes))


Samples = dict[str, list["Result"]]


@dataclass(frozen=True, slots=True)
class Result:
    """One run of one try: seconds, log bytes and stored bytes for each step, per message."""

    rate: dict[str, float]
    log_bytes: dict[str, float]
    stored_bytes: float


def measure(tries: Sequence[Try], runs: int, number: int, body_bytes: int) -> Samples:
    """These tries, interleaved."""
    samples: Samples = {each.name: [] for each in tries}
    with tempfile.TemporaryDirectory(prefix="mqlite-layout-") as folder:
        for run in range(runs):
            for place, each in enumerate(tries):
                path = Path(folder) / f"{run}-{place}.db"
                samples[each.name].append(one_run(each, path, number, os.urandom(body_bytes)))
    return samples


def one_run(each: Try, path: Path, number: int, body: bytes) -> Result:
    """Send, claim, abandon, claim again and complete `number` messages on a fresh file."""
    connection = _open(each, path)
    is_large = len(body) > each.inline_max
    send = each.large_send if is_large else each.send
    head = each.large_head if is_large else each.head
    complete = each.large_complete if is_large else each.complete
    work: dict[str, tuple[Step, ...]] = {
        "send": send, "claim": each.claim, "abandon": each.abandon, "complete": complete,
    }  # fmt: skip
    rate: dict[str, float] = {}
    log_bytes: dict[str, float] = {}
    stored = 0.0
    for lease, name in enumerate(("send", "claim", "abandon", "claim", "complete")):
        before = _log_size(path)
        started = time.perf_counter()
        heads = head if name == "claim" else ()
        _loop(connection, heads, work[name], each.group, number, body, lease=(lease + 1) // 2)
        rate[name] = number / (time.perf_counter() - started)
        log_bytes[name] = (_log_size(path) - before) / number
        if name == "send":
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            stored = path.stat().st_size / number
    connection.close()
    return Result(rate, log_bytes, stored)


def _open(each: Try, path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    for pragma in (
        f"page_size = {each.page_size}", "auto_vacuum = INCREMENTAL", "journal_mode = WAL",
        "synchronous = NORMAL", "temp_store = MEMORY", "cache_size = -8192",
        "wal_autocheckpoint = 0",
    ):  # fmt: skip
        connection.execute(f"PRAGMA {pragma}").fetchall()
    assert connection.pragma("synchronous") == 1
    assert connection.pragma("page_size") == each.page_size
    for statement in each.ddl:
        connection.execute(statement)
    return connection


def _loop(
    connection: apsw.Connection,
    head: Sequence[Step],
    work: Sequence[Step],
    group: Sequence[Step],
    number: int,
    body: bytes,
    *,
    lease: int,
) -> None:
    """`number` commands. With `head` each finds its message; else they go 1, 2, 3 …"""
    execute: Any = connection.execute
    values: dict[str, Any] = {"now": NOW, "until": NOW + 30_000, "body": body, "seq": 0}
    values["reply"] = body + bytes(100)  # a claim of one message, kept whole
    for start in range(0, number, PER_TRANSACTION):
        execute("BEGIN IMMEDIATE")
        for index in range(start, min(start + PER_TRANSACTION, number)):
            seq = index + 1
            # A token that every step can compute again, random enough for an index.
            salt = (2 * seq + lease) * 0x9E3779B97F4A7C15F39CC0605CEDC835
            values["token"] = token = (salt % 2**128).to_bytes(16, "big")
            values["key"], values["hash"] = token.hex(), token + token
            for sql, names in head:
                values["seq"] = seq
                seq = execute(sql, tuple(values[name] for name in names)).fetchall()[0][0]
                if "bodies" in sql:
                    seq = index + 1
            values["seq"] = index + 1
            for sql, names in work:
                execute(sql, tuple(values[name] for name in names)).fetchall()
        for sql, names in group:
            execute(sql, tuple(values[name] for name in names))
        execute("COMMIT")


def _log_size(path: Path) -> int:
    log = Path(f"{path}-wal")
    return log.stat().st_size if log.exists() else 0


def report(samples: Samples) -> None:
    """A line a try and step: rate with spread, log bytes; and the stored bytes."""
    for name, results in samples.items():
        stored = results[0].stored_bytes
        print(f"  {name} ({stored:,.0f} B stored)")
        for step in STEPS:
            figure = Figure(step, tuple(result.rate[step] for result in results))
            print(f"    {figure}  {results[0].log_bytes[step]:8,.0f} B of log")


if __name__ == "__main__":
    main()
