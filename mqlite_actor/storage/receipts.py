"""Settlement receipts: proof that exactly this request took effect.

Written in the transaction of the settlement, read only when a fence failed. A row says that `verb`
with `args` was done to (queue, seq, token); anything else with that token is not covered.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mqlite_actor.storage.database import Statement, Value


class Verb(IntEnum):
    """The verb column."""

    COMPLETED = 1
    ABANDONED = 2
    DEAD_LETTERED = 3
    DEFERRED = 4
    RELEASED = 5


INSERT: Final = """
INSERT INTO receipts (seq_number, queue_id, verb, expires_at, lock_token, args)
VALUES (?, ?, ?, ?, ?, ?)"""

# Few rows share a sequence number (one per lease that was settled), so the index on it is enough.
FIND: Final = """
SELECT 1 FROM receipts
WHERE seq_number = ? AND queue_id = ? AND verb = ? AND lock_token = ? AND args IS ?
  AND expires_at > ?
LIMIT 1"""

# From the front, where the oldest rows are: stops reading at the first slice that is still live.
PRUNE: Final = """
DELETE FROM receipts WHERE expires_at < ? AND id IN (SELECT id FROM receipts ORDER BY id LIMIT ?)
RETURNING id"""

# Those of a clock that was ahead would hold up all behind them until their own time.
SHORTEN: Final = """
UPDATE receipts SET expires_at = ? WHERE expires_at > ? AND id IN (
  SELECT id FROM receipts WHERE id > ? ORDER BY id LIMIT ?)
RETURNING id"""


def insert(
    seq_number: int, queue_id: int, verb: Verb, token: bytes, args: bytes | None, expires_at: int
) -> Statement:
    """Remember a settlement until `expires_at`."""
    return INSERT, values(seq_number, queue_id, verb, token, args, expires_at)


def values(
    seq_number: int, queue_id: int, verb: Verb, token: bytes, args: bytes | None, expires_at: int
) -> tuple[Value, ...]:
    """The arguments of INSERT."""
    return (seq_number, queue_id, verb, expires_at, token, args)


def find(
    seq_number: int, queue_id: int, verb: Verb, token: bytes, args: bytes | None, now_ms: int
) -> Statement:
    """One row if an identical settlement is still remembered."""
    return FIND, (seq_number, queue_id, verb, token, args, now_ms)


def prune(now_ms: int, limit: int) -> Statement:
    """Delete what expired among the `limit` oldest rows; returns the ids deleted."""
    return PRUNE, (now_ms, limit)


def shorten(after: int, expires_at: int, limit: int) -> Statement:
    """Let no receipt of the next `limit` behind an id outlive an instant; returns the ids that
    would have."""
    return SHORTEN, (expires_at, expires_at, after, limit)
