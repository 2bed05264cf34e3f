"""The two idempotency tables beside receipts: duplicate detection and receive attempts.

Both remember something past the life of a message and are pruned by age in slices. Called by send
(dedup), receive (attempts), SendResult (attempts of no queue) and the pruning pass.
"""

from __future__ import annotations

from typing import Final

from mqlite_actor.storage.database import Statement

SENDS: Final = 0
"""Stands for the queue in attempts that are sends: their key names the target. No queue has it."""

FIND_DUPLICATE: Final = """
SELECT seq_number, body_hash FROM dedup WHERE queue_id = ? AND key = ? AND seen_at > ?"""
ACCEPT: Final = """
INSERT INTO dedup (queue_id, key, body_hash, seq_number, seen_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (queue_id, key) DO UPDATE SET
  body_hash = excluded.body_hash, seq_number = excluded.seq_number, seen_at = excluded.seen_at"""
# dedup_by_age
PRUNE_DUPLICATES: Final = """
DELETE FROM dedup WHERE rowid IN (
  SELECT rowid FROM dedup WHERE queue_id = ? AND seen_at <= ? ORDER BY seen_at LIMIT ?)
RETURNING rowid"""

FIND_ATTEMPT: Final = """
SELECT reply FROM attempts WHERE queue_id = ? AND attempt_id = ? AND expires_at > ?"""
REMEMBER_ATTEMPT: Final = """
INSERT INTO attempts (queue_id, attempt_id, expires_at, reply) VALUES (?, ?, ?, ?)
ON CONFLICT (queue_id, attempt_id) DO UPDATE SET
  expires_at = excluded.expires_at, reply = excluded.reply"""
FORGET_ATTEMPT: Final = "DELETE FROM attempts WHERE queue_id = ? AND attempt_id = ?"
PRUNE_ATTEMPTS: Final = """
DELETE FROM attempts WHERE rowid IN (
  SELECT rowid FROM attempts WHERE expires_at < ? ORDER BY expires_at LIMIT ?)
RETURNING rowid"""
SHORTEN_ATTEMPTS: Final = """
UPDATE attempts SET expires_at = ? WHERE rowid IN (
  SELECT rowid FROM attempts WHERE expires_at > ? LIMIT ?)
RETURNING rowid"""


def find_duplicate(queue_id: int, key: str, seen_after: int) -> Statement:
    """seq_number and body hash of the first acceptance of `key` inside the window."""
    return FIND_DUPLICATE, (queue_id, key, seen_after)


def accept(queue_id: int, key: str, body_hash: bytes, seq: int, now_ms: int) -> Statement:
    """Begin a window for `key`."""
    return ACCEPT, (queue_id, key, body_hash, seq, now_ms)


def prune_duplicates(queue_id: int, seen_until: int, limit: int) -> Statement:
    """Forget keys seen at or before an instant; returns the rows deleted."""
    return PRUNE_DUPLICATES, (queue_id, seen_until, limit)


def find_attempt(queue_id: int, attempt_id: str, now_ms: int) -> Statement:
    """The recorded reply of an attempt that still lives."""
    return FIND_ATTEMPT, (queue_id, attempt_id, now_ms)


def remember_attempt(queue_id: int, attempt_id: str, expires_at: int, reply: bytes) -> Statement:
    """Record the reply of an attempt."""
    return REMEMBER_ATTEMPT, (queue_id, attempt_id, expires_at, reply)


def forget_attempt(queue_id: int, attempt_id: str) -> Statement:
    """Drop the recorded reply of an attempt."""
    return FORGET_ATTEMPT, (queue_id, attempt_id)


def prune_attempts(now_ms: int, limit: int) -> Statement:
    """Forget attempts that expired; returns the rows deleted."""
    return PRUNE_ATTEMPTS, (now_ms, limit)


def shorten_attempts(expires_at: int, limit: int) -> Statement:
    """Let no attempt outlive an instant; returns the rows that would have."""
    return SHORTEN_ATTEMPTS, (expires_at, expires_at, limit)
