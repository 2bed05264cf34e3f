"""Counts of messages by queue and state: one row per queue, moved by deltas.

Called by `Transaction.flush` and by the verbs that read counts. The rule that everything rests on:
a statement that changes a message's state has a matching `moved` in the same transaction.
`TRUE_COUNTS` computes the same numbers from the messages, for checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mqlite_actor.storage.database import Row, Statement

# Indexed by the stored state: 1 ready and 2 waiting are one count.
COLUMN: Final = (-1, 0, 0, 1, 2, 3, 4)
DEAD_BYTES: Final = 5
COLUMNS: Final = 6

ADD: Final = """
UPDATE counts SET active = active + ?, locked = locked + ?, scheduled = scheduled + ?,
  deferred = deferred + ?, dead_lettered = dead_lettered + ?,
  dead_letter_bytes = dead_letter_bytes + ?
WHERE queue_id = ?"""

START: Final = "INSERT INTO counts (queue_id) VALUES (?)"

READ: Final = """
SELECT active, locked, scheduled, deferred, dead_lettered, dead_letter_bytes FROM counts
WHERE queue_id = ?"""

TRUE_COUNTS: Final = """
SELECT sum(state IN (1, 2)), sum(state = 3), sum(state = 4), sum(state = 5), sum(state = 6),
  sum(CASE WHEN state = 6 THEN coalesce(
    length(body), (SELECT length(b.body) FROM bodies AS b WHERE b.id = messages.id)) ELSE 0 END)
FROM messages WHERE queue_id = ?"""

# The lowest sequence number of each live state; sequence order is enqueue order, so the oldest is
# one of them (review: an index on enqueued_at would be paid by every message).
OLDEST: Final = """
SELECT min(enqueued_at) FROM messages WHERE id IN (
  (SELECT id FROM messages WHERE queue_id = ? AND state = 1 ORDER BY id LIMIT 1),
  (SELECT id FROM messages WHERE queue_id = ? AND state = 2 ORDER BY id LIMIT 1),
  (SELECT id FROM messages WHERE queue_id = ? AND state = 3 ORDER BY id LIMIT 1))"""


# Pages that hold nothing; they are used again before the file grows.
FREE_BYTES: Final = """
SELECT f.freelist_count * p.page_size FROM pragma_freelist_count AS f, pragma_page_size AS p"""


def free_bytes() -> Statement:
    """Bytes of the file that hold nothing."""
    return FREE_BYTES, ()


def add(queue_id: int, delta: Sequence[int]) -> Statement:
    """Add a delta in the order of the columns."""
    return ADD, (*delta, queue_id)


def start(queue_id: int) -> Statement:
    """The zero row of a new queue."""
    return START, (queue_id,)


def read(queue_id: int) -> Statement:
    """active, locked, scheduled, deferred, dead_lettered, dead_letter_bytes."""
    return READ, (queue_id,)


def true_counts(queue_id: int) -> Statement:
    """The same six numbers counted from the messages."""
    return TRUE_COUNTS, (queue_id,)


def oldest(queue_id: int) -> Statement:
    """enqueued_at of the oldest active or locked message, or NULL."""
    return OLDEST, (queue_id,) * 3


def six(row: Row) -> tuple[int, int, int, int, int, int]:
    """A row of `read` or `true_counts` with NULL (no messages) as 0."""
    numbers = [value or 0 for value in row]
    active, locked, scheduled, deferred, dead, dead_bytes = numbers
    return active, locked, scheduled, deferred, dead, dead_bytes
