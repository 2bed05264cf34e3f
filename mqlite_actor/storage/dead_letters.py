"""Statements about dead letters: choose, revive in place, move to another queue, delete.

Called by redrive, purge and retention. Each works on the lowest numbers first, in chunks; whether a
row is still a dead letter is asked again in the statement that acts, because others act between two
chunks.
"""

from __future__ import annotations

from typing import Final

from mqlite_actor.storage.database import Statement, Value
from mqlite_actor.storage.messages import (
    GROUP_LIVES,
    HELD_COLUMNS,
    QUEUE_LIVES,
    WAITS_IF,
    WHOLE_QUEUE,
    Lane,
)
from mqlite_actor.storage.rows import COLUMNS

SCAN_ROWS: Final = 4096
"""Dead letters looked at for their age in one step. Numbers follow the time of enqueueing, so the
old ones are in front; a clock that was set back may delay a few until those in front are gone."""

# messages_by_state: a range of one state.
CHOOSE: Final = f"""
SELECT {HELD_COLUMNS} FROM messages
WHERE queue_id = ? AND state = 6 AND id > ? AND id <= ? AND enqueued_at < ? ORDER BY id LIMIT ?"""
LAST: Final = """
SELECT id FROM messages WHERE queue_id = ? AND state = 6 ORDER BY id DESC LIMIT 1"""
OLDEST: Final = f"""
SELECT {HELD_COLUMNS} FROM messages WHERE queue_id = ? AND state = 6 ORDER BY id LIMIT ?"""
AGED: Final = f"""
SELECT {HELD_COLUMNS} FROM messages WHERE enqueued_at < ? AND id IN (
  SELECT id FROM messages WHERE queue_id = ? AND state = 6 ORDER BY id LIMIT {SCAN_ROWS})
ORDER BY id LIMIT ?"""

_REVIVE = """
UPDATE messages SET state = {}, delivery_count = 0, visible_at = 0, expires_at = ?,
  dead_letter_reason = NULL, dead_letter_description = NULL
WHERE id = ? AND state = 6 RETURNING state"""
REVIVE: Final = _REVIVE.format("1")
REVIVE_IN_GROUP: Final = _REVIVE.format(WAITS_IF.format(GROUP_LIVES + " AND e.id < ?"))
REVIVE_IN_QUEUE: Final = _REVIVE.format(WAITS_IF.format(QUEUE_LIVES + " AND e.id < ?"))

# A revived message has its old number: whoever was READY behind it in the lane waits again.
STAND_BACK_IN_GROUP: Final = """
UPDATE messages SET state = 2
WHERE queue_id = ? AND group_id = ? AND state = 1 AND state < 6 AND id > ?"""
STAND_BACK_IN_QUEUE: Final = """
UPDATE messages SET state = 2 WHERE queue_id = ? AND state = 1 AND id > ?"""

_COPIED = (
    "group_id, message_id, correlation_id, reply_to, content_type, subject, properties, NULL, NULL,"
    " body"
)
_MOVE = f"""
INSERT INTO messages ({COLUMNS})
SELECT ?, ?, {{}}, 0, 0, 0, NULL, ?, 0, {_COPIED} FROM messages WHERE id = ? AND state = 6
RETURNING state"""
MOVE: Final = _MOVE.format("1")
MOVE_TO_GROUP: Final = _MOVE.format(WAITS_IF.format(GROUP_LIVES))
MOVE_TO_QUEUE: Final = _MOVE.format(WAITS_IF.format(QUEUE_LIVES))
MOVE_BODY: Final = "UPDATE bodies SET id = ? WHERE id = ?"

EDIT: Final = """
UPDATE messages SET group_id = ?, message_id = ?, correlation_id = ?, reply_to = ?,
  content_type = ?, subject = ?, properties = ?
WHERE id = ? AND state = 6"""
EDIT_BODY: Final = "UPDATE messages SET body = ? WHERE id = ? AND state = 6"
REPLACE_BODY: Final = """
INSERT INTO bodies (id, body) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body"""


def choose(queue_id: int, after: int, last: int, enqueued_before: int, limit: int) -> Statement:
    """The next dead letters with numbers in (after, last], enqueued before an instant."""
    return CHOOSE, (queue_id, after, last, enqueued_before, limit)


def last(queue_id: int) -> Statement:
    """The highest number among the dead letters."""
    return LAST, (queue_id,)


def oldest(queue_id: int, limit: int) -> Statement:
    """The dead letters with the lowest numbers."""
    return OLDEST, (queue_id, limit)


def aged(queue_id: int, enqueued_before: int, limit: int) -> Statement:
    """Those of the first SCAN_ROWS dead letters that were enqueued before an instant."""
    return AGED, (enqueued_before, queue_id, limit)


def revive(seq: int, queue_id: int, lane: Lane, expires_at: int) -> Statement:
    """Active again, at its old place in line; returns READY or WAITING."""
    if lane is None:
        return REVIVE, (expires_at, seq)
    if lane == WHOLE_QUEUE:
        return REVIVE_IN_QUEUE, (queue_id, seq, expires_at, seq)
    return REVIVE_IN_GROUP, (queue_id, lane, seq, expires_at, seq)


def stand_back(seq: int, queue_id: int, lane: str) -> Statement:
    """Whoever is READY behind this number in the lane waits."""
    if lane == WHOLE_QUEUE:
        return STAND_BACK_IN_QUEUE, (queue_id, seq)
    return STAND_BACK_IN_GROUP, (queue_id, lane, seq)


def move(seq: int, new_seq: int, queue_id: int, lane: Lane, now_ms: int) -> Statement:
    """Copy a dead letter as a new active message of another queue; returns READY or WAITING."""
    if lane is None:
        return MOVE, (new_seq, queue_id, now_ms, seq)
    if lane == WHOLE_QUEUE:
        return MOVE_TO_QUEUE, (new_seq, queue_id, queue_id, now_ms, seq)
    return MOVE_TO_GROUP, (new_seq, queue_id, queue_id, lane, now_ms, seq)


def move_body(seq: int, new_seq: int) -> Statement:
    """Let a body kept apart follow its message."""
    return MOVE_BODY, (new_seq, seq)


def edit(seq: int, texts: tuple[Value, ...]) -> Statement:
    """Replace the columns group_id to properties of a dead letter."""
    return EDIT, (*texts, seq)


def edit_body(seq: int, body: bytes | None) -> Statement:
    """Replace the body in the row; None for one that is kept apart."""
    return EDIT_BODY, (body, seq)


def replace_body(seq: int, body: bytes) -> Statement:
    """Keep this body apart, in place of another or anew."""
    return REPLACE_BODY, (seq, body)
