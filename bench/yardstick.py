"""The yardstick: the product's own statements straight on APSW, with nothing around them.

What a queue on this disk and this SQLite could do if Python cost nothing between the statements.
One statement set per command, PER_TRANSACTION commands in a transaction, the group's counts and
sequence counter written once, as the engine does. Frozen: a change here makes old figures
incomparable. Pragmas are those of the store and are read back by it.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mqlite_actor.storage import counts, database, messages, queues, receipts, sqlite

PER_TRANSACTION: Final = 64
BODY: Final = b"x" * 256
NOW: Final = 1_800_000_000_000
LOCKED_UNTIL: Final = NOW + 30_000

_NO_TEXTS: Final = (None,) * 7


class Yardstick:
    """A fresh file with one queue, and the raw loops over it."""

    def __init__(self, folder: Path, synchronous: str) -> None:
        self.path = folder / f"yardstick-{secrets.token_hex(4)}.db"
        store = sqlite.open_store(f"file:{self.path}", synchronous=synchronous)
        tx = store.begin()
        queues.insert(tx, _queue())
        tx.flush()
        store.commit()
        self.store = store
        self._execute = store.connection.execute
        self._next = 1
        self._held: deque[tuple[int, bytes]] = deque()

    def close(self) -> None:
        """Close and remove the file."""
        self.store.close()
        for suffix in ("", "-wal", "-shm", ".lock"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    def sends(self, number: int, per_transaction: int = PER_TRANSACTION) -> float:
        """Insert messages; sends per second."""
        started = time.perf_counter()
        for many in _parts(number, per_transaction):
            self._execute("BEGIN IMMEDIATE")
            for _ in range(many):
                self._run(
                    messages.insert(
                        self._next,
                        1,
                        None,
                        state=database.Stored.READY,
                        visible_at=NOW,
                        enqueued_at=NOW,
                        expires_at=0,
                        texts=_NO_TEXTS,
                        body=BODY,
                    )
                )
                self._next += 1
            self._commit((many, 0, 0, 0, 0, 0))
        return number / (time.perf_counter() - started)

    def claims(self, number: int, per_transaction: int = PER_TRANSACTION) -> float:
        """Lock the oldest message, one a claim; claims per second. They stay held."""
        started = time.perf_counter()
        for many in _parts(number, per_transaction):
            self._execute("BEGIN IMMEDIATE")
            for _ in range(many):
                row = self._run(messages.head_rows(1, 1))[0]
                token = os.urandom(16)
                self._run(messages.lock(row[0], token, LOCKED_UNTIL))
                self._held.append((row[0], token))
            self._commit((-many, many, 0, 0, 0, 0))
        return number / (time.perf_counter() - started)

    def completes(self, number: int, per_transaction: int = PER_TRANSACTION) -> float:
        """Complete what is held, under its fence and with a receipt; completes per second."""
        started = time.perf_counter()
        for many in _parts(number, per_transaction):
            self._execute("BEGIN IMMEDIATE")
            for _ in range(many):
                seq, token = self._held.popleft()
                self._run(messages.complete(seq, 1, token, NOW))
                done = receipts.Verb.COMPLETED
                self._run(receipts.insert(seq, 1, done, token, None, NOW + 1_800_000))
            self._commit((0, -many, 0, 0, 0, 0))
        return number / (time.perf_counter() - started)

    def abandons(self, number: int, per_transaction: int = PER_TRANSACTION) -> float:
        """Give back what is held, under its fence and with a receipt; abandons per second."""
        started = time.perf_counter()
        for many in _parts(number, per_transaction):
            self._execute("BEGIN IMMEDIATE")
            for _ in range(many):
                seq, token = self._held.popleft()
                self._run(messages.held(seq))
                self._run(messages.give_back(seq, 1, None, NOW))
                done = receipts.Verb.ABANDONED
                self._run(receipts.insert(seq, 1, done, token, None, NOW + 1_800_000))
            self._commit((many, -many, 0, 0, 0, 0))
        return number / (time.perf_counter() - started)

    def receipts(self, number: int, per_transaction: int = PER_TRANSACTION) -> float:
        """Remember settlements, and nothing else of them; receipts per second."""
        started = time.perf_counter()
        for many in _parts(number, per_transaction):
            self._execute("BEGIN IMMEDIATE")
            for _ in range(many):
                token = os.urandom(16)
                done = receipts.Verb.COMPLETED
                self._run(receipts.insert(self._next, 1, done, token, None, NOW + 1_800_000))
                self._next += 1
            self._execute("COMMIT")
        return number / (time.perf_counter() - started)

    def cycles(self, number: int, per_transaction: int = PER_TRANSACTION) -> float:
        """Claim one and complete it under the fence with a receipt; cycles per second.

        Claims of a transaction first, then their completes in the next one, as concurrent consumers
        make them.
        """
        started = time.perf_counter()
        for many in _parts(number, per_transaction):
            self.claims(many, many)
            self.completes(many, many)
        return number / (time.perf_counter() - started)

    def _run(self, statement: database.Statement) -> list[database.Row]:
        sql, arguments = statement
        return self._execute(sql, arguments).fetchall()

    def _commit(self, delta: tuple[int, int, int, int, int, int]) -> None:
        self._run(counts.add(1, delta))
        self._run((database.WRITE_COUNTER, (self._next, "seq")))
        self._execute("COMMIT")


def _parts(number: int, size: int) -> Iterator[int]:
    """`number` cut into transactions of `size`."""
    for start in range(0, number, size):
        yield min(size, number - start)


def pragmas(folder: Path, synchronous: str) -> dict[str, object]:
    """What the store's connection really runs with."""
    yardstick = Yardstick(folder, synchronous)
    try:
        connection = yardstick.store.connection
        names = ("journal_mode", "synchronous", "cache_size", "page_size", "auto_vacuum")
        return {name: connection.pragma(name) for name in names}
    finally:
        yardstick.close()


def _queue() -> queues.Queue:
    return queues.Queue(
        id=0, name="q", kind="queue", lock_duration_ms=30_000, max_delivery_count=10,
        default_ttl_ms=0, dead_letter_on_expire=1, dedup_window_ms=0, ordering_mode="standard",
        dlq_max_age_ms=0, dlq_max_count=0, dlq_max_bytes=0, created_at=NOW, updated_at=NOW,
        generation="0" * 32,
    )  # fmt: skip
