"""Statements that only look: for Explain, Search, DescribeQueue and the guards of PurgeActive.

Called by those verbs, which but for the last may run on a reader's connection. Each statement reads
a bounded number of rows, given as an argument or one seek for each state; none loads a body.
"""

from __future__ import annotations

from typing import Final

from mqlite_actor.storage.database import Row, Statement, Stored
from mqlite_actor.storage.messages import BODY_BYTES, BROWSED
from mqlite_actor.storage.rows import ALL_BUT_BODY, STANDING, TEXT_BYTES

ENVELOPE: Final = f"SELECT {ALL_BUT_BODY}, {BODY_BYTES} FROM messages WHERE id = ?"

ENQUEUED_AT: Final = "SELECT enqueued_at FROM messages WHERE id = ?"

BODY_HOLDS: Final = """
SELECT 1 FROM messages WHERE id = ? AND instr(
  coalesce(body, (SELECT b.body FROM bodies AS b WHERE b.id = messages.id)), ?) > 0"""

_LATEST = f"""SELECT * FROM (SELECT id, {BODY_BYTES} AS bytes, {TEXT_BYTES} AS texts
  FROM messages
  WHERE queue_id = ? AND state = {{}} AND id <= ? ORDER BY id DESC LIMIT ?)"""


def _downwards(states: tuple[Stored, ...]) -> str:
    parts = " UNION ALL ".join(_LATEST.format(int(state)) for state in states)
    return f"SELECT id, bytes, texts FROM ({parts}) ORDER BY id DESC LIMIT ?"


DOWNWARDS: Final = {states: _downwards(states) for states in BROWSED}

# messages_by_group: the first row of the lane that lives, whatever its state.
GROUP_HEAD: Final = f"""
SELECT {STANDING}, {BODY_BYTES} FROM messages
WHERE queue_id = ? AND group_id = ? AND state < 6 AND id > 0 ORDER BY id LIMIT 1"""

_FIRST = (
    "SELECT * FROM (SELECT id FROM messages WHERE queue_id = ? AND state = {} ORDER BY id LIMIT 1)"
)
QUEUE_HEAD: Final = f"""
SELECT min(id) FROM ({" UNION ALL ".join(_FIRST.format(state) for state in range(1, 6))})"""

QUEUE_HEAD_ENVELOPE: Final = f"""
SELECT {STANDING}, {BODY_BYTES} FROM messages WHERE id = ({QUEUE_HEAD})"""

WAITING_LANES: Final = """
SELECT group_id, min(id), count(*) FROM (
  SELECT group_id, id FROM messages WHERE queue_id = ? AND state = 2 ORDER BY id LIMIT ?)
GROUP BY group_id ORDER BY min(id) LIMIT ?"""

_AHEAD = (
    "SELECT * FROM (SELECT id FROM messages WHERE queue_id = ? AND state = {} AND id < ? LIMIT ?)"
)
AHEAD_IN_QUEUE: Final = f"""
SELECT count(id) FROM ({" UNION ALL ".join(_AHEAD.format(state) for state in range(1, 6))})"""
AHEAD_READY: Final = f"SELECT count(id) FROM ({_AHEAD.format(1)})"
AHEAD_IN_GROUP: Final = """
SELECT count(*) FROM (
  SELECT 1 FROM messages WHERE queue_id = ? AND group_id = ? AND state < 6 AND id > 0 AND id < ?
  LIMIT ?)"""

_LAST = (
    "SELECT * FROM"
    " (SELECT id FROM messages WHERE queue_id = ? AND state = {} ORDER BY id DESC LIMIT 1)"
)
LAST_ACTIVE: Final = f"""
SELECT max(id) FROM ({_LAST.format(1)} UNION ALL {_LAST.format(2)})"""

OLDEST_DEAD: Final = """
SELECT enqueued_at FROM messages WHERE queue_id = ? AND state = 6 ORDER BY id LIMIT 1"""

# receipts_by_seq: one row per lease that was settled.
LAST_SETTLED: Final = """
SELECT verb, expires_at FROM receipts WHERE seq_number = ? AND queue_id = ?
ORDER BY id DESC LIMIT 1"""


def envelope(seq: int) -> Statement:
    """All of a row but its body, and the body's length (`rows.envelope`)."""
    return ENVELOPE, (seq,)


def downwards(queue_id: int, states: tuple[Stored, ...], to_seq: int, limit: int) -> Statement:
    """As `messages.browse`, from a number down, the highest first."""
    return DOWNWARDS[states], (queue_id, to_seq, limit) * len(states) + (limit,)


def enqueued_at(seq: int) -> Statement:
    """When a message was sent."""
    return ENQUEUED_AT, (seq,)


def body_holds(seq: int, text: bytes) -> Statement:
    """A row if the body holds these bytes."""
    return BODY_HOLDS, (seq, text)


def group_head_envelope(queue_id: int, group_id: str) -> Statement:
    """The envelope, as to STANDING, of the message that stands first in a group."""
    return GROUP_HEAD, (queue_id, group_id)


def queue_head(queue_id: int) -> Statement:
    """The live message with the lowest number, or NULL."""
    return QUEUE_HEAD, (queue_id,) * 5


def queue_head_envelope(queue_id: int) -> Statement:
    """The same of the live message with the lowest number."""
    return QUEUE_HEAD_ENVELOPE, (queue_id,) * 5


def waiting_lanes(queue_id: int, rows: int, lanes: int) -> Statement:
    """Group, first waiting number and how many wait, among the first `rows` waiting messages."""
    return WAITING_LANES, (queue_id, rows, lanes)


def ahead_in_queue(queue_id: int, seq: int, limit: int) -> Statement:
    """How many live messages of the queue have a lower number; each state counted to `limit`."""
    return AHEAD_IN_QUEUE, (queue_id, seq, limit) * 5


def ahead_in_group(queue_id: int, group_id: str, seq: int, limit: int) -> Statement:
    """How many live messages of the group have a lower number, counted to `limit`."""
    return AHEAD_IN_GROUP, (queue_id, group_id, seq, limit)


def ahead_ready(queue_id: int, seq: int, limit: int) -> Statement:
    """How many messages that could be claimed have a lower number, counted to `limit`."""
    return AHEAD_READY, (queue_id, seq, limit)


def last_active(queue_id: int) -> Statement:
    """The active message with the highest number, or NULL."""
    return LAST_ACTIVE, (queue_id,) * 2


def oldest_dead(queue_id: int) -> Statement:
    """enqueued_at of the dead letter with the lowest number."""
    return OLDEST_DEAD, (queue_id,)


def last_settled(seq: int, queue_id: int) -> Statement:
    """Verb and end of the last receipt about a message that may be gone."""
    return LAST_SETTLED, (seq, queue_id)


def only(rows: list[Row]) -> int:
    """The one number of a row; 0 for no row or NULL."""
    return int(rows[0][0] or 0) if rows else 0
