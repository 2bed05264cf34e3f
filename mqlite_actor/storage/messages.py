"""Every statement about message rows.

Called by the semantics, which decide; here is only how a row is written and found, and which index
does it (pinned in tests/storage/test_plans.py). Statements that must know whether they hit
something return the row (RETURNING): changed-row counts are not portable. The constant states in
the text let SQLite prove its partial indexes.
"""

from __future__ import annotations

from typing import Final

from mqlite_actor.storage.database import Row, Statement, Stored, Value
from mqlite_actor.storage.rows import COLUMNS

# -- sending ---------------------------------------------------------------------------------------

INSERT: Final = f"""
INSERT INTO messages ({COLUMNS})
VALUES (?, ?, ?, ?, ?, 0, NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, ?)"""

# messages_by_group; any row of the group that is not dead-lettered holds back a newer one.
GROUP_LIVES: Final = """
SELECT 1 FROM messages WHERE queue_id = ? AND group_id = ? AND state < 6 AND id < ? LIMIT 1"""

# messages_by_state, one seek for each state.
QUEUE_LIVES: Final = """
SELECT 1 FROM messages WHERE queue_id = ? AND state IN (1, 2, 3, 4, 5) AND id < ? LIMIT 1"""


def insert(
    seq: int,
    queue_id: int,
    state: Stored,
    *,
    delivery_count: int = 0,
    visible_at: int,
    enqueued_at: int,
    expires_at: int,
    texts: tuple[Value, ...],
    body: bytes,
) -> Statement:
    """A new row; `texts` are the columns group_id to properties."""
    return INSERT, (
        seq, queue_id, state, delivery_count, visible_at, enqueued_at, expires_at, *texts, body,
    )  # fmt: skip


def lane_lives(queue_id: int, group_id: str | None, before: int) -> Statement:
    """One row if a message in front of id `before` still lives in the lane.

    The lane is the group, or (group_id None) the whole queue.
    """
    if group_id is None:
        return QUEUE_LIVES, (queue_id, before)
    return GROUP_LIVES, (queue_id, group_id, before)


# -- claiming --------------------------------------------------------------------------------------

# messages_by_state: the first rows of state 1, whatever else the queue holds.
HEADS: Final = """
SELECT id, expires_at, group_id, length(body) FROM messages
WHERE queue_id = ? AND state = 1 ORDER BY id LIMIT ?"""

# The heads that are not past their time, for a queue whose front is full of expired ones.
FRESH_HEADS: Final = """
SELECT id, expires_at, group_id, length(body) FROM messages
WHERE queue_id = ? AND state = 1 AND (expires_at = 0 OR expires_at > ?) ORDER BY id LIMIT ?"""

HEAD_ROWS: Final = f"""
SELECT {COLUMNS} FROM messages WHERE queue_id = ? AND state = 1 ORDER BY id LIMIT ?"""

HELD_COLUMNS: Final = (
    "id, queue_id, state, delivery_count, locked_until, lock_token, expires_at, group_id,"
    " length(body)"
)
HELD_HEADS: Final = f"""
SELECT {HELD_COLUMNS} FROM messages WHERE queue_id = ? AND state = 1 ORDER BY id LIMIT ?"""

ROW: Final = f"SELECT {COLUMNS} FROM messages WHERE id = ?"

LOCK: Final = """
UPDATE messages SET state = 3, locked_until = ?, lock_token = ?, delivery_count = delivery_count + 1
WHERE id = ?"""

DELETE: Final = "DELETE FROM messages WHERE id = ?"

# The first row of the lane that lives, if it waits: it is next in line now.
PROMOTE_IN_GROUP: Final = """
UPDATE messages SET state = 1 WHERE state = 2 AND id = (
  SELECT id FROM messages WHERE queue_id = ? AND group_id = ? AND state < 6 ORDER BY id LIMIT 1)
RETURNING id"""

_FIRST_OF = (
    "SELECT * FROM (SELECT id FROM messages WHERE queue_id = ?1 AND state = {} ORDER BY id LIMIT 1)"
)
PROMOTE_IN_QUEUE: Final = f"""
UPDATE messages SET state = 1 WHERE state = 2 AND id = (
  SELECT min(id) FROM ({" UNION ALL ".join(_FIRST_OF.format(state) for state in range(1, 6))}))
RETURNING id"""


def heads(queue_id: int, limit: int) -> Statement:
    """id, expires_at, group_id and body length of the next messages in line."""
    return HEADS, (queue_id, limit)


def fresh_heads(queue_id: int, now_ms: int, limit: int) -> Statement:
    """As `heads`, leaving out those past their time."""
    return FRESH_HEADS, (queue_id, now_ms, limit)


def head_rows(queue_id: int, limit: int) -> Statement:
    """The whole rows of the next messages in line."""
    return HEAD_ROWS, (queue_id, limit)


def held_heads(queue_id: int, limit: int) -> Statement:
    """As `heads`, with what a decision about each needs (`rows.held`)."""
    return HELD_HEADS, (queue_id, limit)


def row(seq: int) -> Statement:
    """One whole row."""
    return ROW, (seq,)


def lock(seq: int, token: bytes, locked_until: int) -> Statement:
    """Give out a lease and count the delivery."""
    return LOCK, (locked_until, token, seq)


def delete(seq: int) -> Statement:
    """Remove a row."""
    return DELETE, (seq,)


def promote(queue_id: int, group_id: str | None) -> Statement:
    """Make the head of a lane ready if it waits; returns its id."""
    if group_id is None:
        return PROMOTE_IN_QUEUE, (queue_id,)
    return PROMOTE_IN_GROUP, (queue_id, group_id)


# -- settling --------------------------------------------------------------------------------------

HELD: Final = f"SELECT {HELD_COLUMNS} FROM messages WHERE id = ?"

# The fence: this row, this queue, this lease, and the lease still runs.
_FENCE = "id = ? AND queue_id = ? AND state = 3 AND lock_token = ? AND locked_until > ?"
COMPLETE: Final = f"DELETE FROM messages WHERE {_FENCE} RETURNING group_id"
RENEW: Final = f"""
UPDATE messages SET locked_until = max(locked_until, ?) WHERE {_FENCE} RETURNING locked_until"""

REST: Final = """
UPDATE messages SET state = ?, visible_at = ?, locked_until = 0, lock_token = NULL,
  delivery_count = delivery_count - ? WHERE id = ?"""
BURY: Final = """
UPDATE messages SET state = 6, locked_until = 0, lock_token = NULL,
  dead_letter_reason = ?, dead_letter_description = ? WHERE id = ?"""
SET_STATE: Final = """
UPDATE messages SET state = ?, locked_until = 0, lock_token = NULL WHERE id = ?"""


def held(seq: int) -> Statement:
    """What a decision about one message needs (`rows.held`)."""
    return HELD, (seq,)


def complete(seq: int, queue_id: int, token: bytes, now_ms: int) -> Statement:
    """Delete under the fence; returns the group if it took effect."""
    return COMPLETE, (seq, queue_id, token, now_ms)


def renew(seq: int, queue_id: int, token: bytes, now_ms: int, locked_until: int) -> Statement:
    """Extend under the fence, never shorten; returns the new deadline if it took effect."""
    return RENEW, (locked_until, seq, queue_id, token, now_ms)


def rest(seq: int, state: Stored, visible_at: int, *, uncount: int = 0) -> Statement:
    """End a lease: back to active or scheduled. `uncount` takes that many deliveries back."""
    return REST, (state, visible_at, uncount, seq)


def bury(seq: int, reason: str, description: str | None) -> Statement:
    """Dead-letter a row."""
    return BURY, (reason, description, seq)


def set_state(seq: int, state: Stored) -> Statement:
    """End a lease and keep everything else."""
    return SET_STATE, (state, seq)


# -- looking ---------------------------------------------------------------------------------------

_PEEK_STATE = """SELECT * FROM (SELECT id, length(body) AS bytes FROM messages
  WHERE queue_id = ?1 AND state = {} AND id >= ?2 ORDER BY id LIMIT ?3)"""


def _peek_sql(states: tuple[Stored, ...]) -> str:
    parts = " UNION ALL ".join(_PEEK_STATE.format(int(state)) for state in states)
    return f"SELECT id, bytes FROM ({parts}) ORDER BY id LIMIT ?3"


_PEEKS: Final = {
    states: _peek_sql(states)
    for states in (
        tuple(Stored),
        (Stored.READY, Stored.WAITING),
        (Stored.LOCKED,),
        (Stored.SCHEDULED,),
        (Stored.DEFERRED,),
        (Stored.DEAD,),
    )
}


def browse(queue_id: int, states: tuple[Stored, ...], from_seq: int, limit: int) -> Statement:
    """id and body length of the rows in these states from a number on, in order."""
    return _PEEKS[states], (queue_id, from_seq, limit)


# -- sweeping --------------------------------------------------------------------------------------

EXPIRED_LEASES: Final = f"""
SELECT {HELD_COLUMNS} FROM messages WHERE state = 3 AND locked_until <= ?
ORDER BY locked_until LIMIT ?"""
DUE: Final = f"""
SELECT {HELD_COLUMNS} FROM messages WHERE state = 4 AND visible_at <= ?
ORDER BY visible_at LIMIT ?"""
EXPIRED: Final = f"""
SELECT {HELD_COLUMNS} FROM messages WHERE expires_at > 0 AND state < 6 AND expires_at <= ?
ORDER BY expires_at LIMIT ?"""


def expired_leases(now_ms: int, limit: int) -> Statement:
    """Locked rows whose lease ended, longest over first."""
    return EXPIRED_LEASES, (now_ms, limit)


def due(now_ms: int, limit: int) -> Statement:
    """Scheduled rows whose time has come."""
    return DUE, (now_ms, limit)


def expired(now_ms: int, limit: int) -> Statement:
    """Live rows past their time to live."""
    return EXPIRED, (now_ms, limit)


# -- changing the ordering of a queue --------------------------------------------------------------

HOLD_ALL: Final = "UPDATE messages SET state = 2 WHERE queue_id = ? AND state = 1"
FREE_HEADS: Final = """
UPDATE messages SET state = 1 WHERE queue_id = ? AND state = 2 AND NOT EXISTS (
  SELECT 1 FROM messages AS e WHERE e.queue_id = messages.queue_id
    AND e.group_id = messages.group_id AND e.state < 6 AND e.id < messages.id)"""


def hold_all(queue_id: int) -> Statement:
    """Every active row waits; the caller promotes the head."""
    return HOLD_ALL, (queue_id,)


def free_heads(queue_id: int) -> Statement:
    """Every waiting row that heads its group, or has none, becomes ready."""
    return FREE_HEADS, (queue_id,)


def first(rows: list[Row]) -> Row | None:
    """The only row of a look-up, or None."""
    return rows[0] if rows else None
