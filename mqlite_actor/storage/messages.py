"""Every statement about message rows.

Called by the semantics, which decide; here is only how a row is written and found, and which index
does it (pinned in tests/storage). A statement that must tell what it did returns it (RETURNING):
counts of changed rows are not portable. The constant states in the text let SQLite prove its
partial indexes.

A lane is the line that a message stands in: its group, or (`lane` "") its whole queue, or none at
all (`lane` None). Statements that put an active message in line decide themselves whether it is
READY or WAITING, and return that.
"""

from __future__ import annotations

from typing import Final

from mqlite_actor.contract.limits import INLINE_BYTES_MAX
from mqlite_actor.storage.database import Row, Statement, Stored, Value
from mqlite_actor.storage.rows import COLUMNS, TEXT_BYTES, WHOLE

_READY: Final = int(Stored.READY)

WHOLE_QUEUE: Final = ""
"""The lane of a strict queue. No group is called so: an absent group is NULL."""

Lane = str | None

# messages_by_group; messages_by_state, one seek for each state.
# `id > 0` holds for every row; without it SQLite takes messages_by_state for the range on state,
# and sorts all live rows of the queue.
GROUP_LIVES = """SELECT 1 FROM messages AS e
  WHERE e.queue_id = ? AND e.group_id = ? AND e.state < 6 AND e.id > 0"""
QUEUE_LIVES = "SELECT 1 FROM messages AS e WHERE e.queue_id = ? AND e.state IN (1, 2, 3, 4, 5)"
WAITS_IF = "CASE WHEN EXISTS ({}) THEN 2 ELSE 1 END"
BODY_BYTES = (
    "coalesce(length(body), (SELECT length(b.body) FROM bodies AS b WHERE b.id = messages.id))"
)
PAGE_BYTES: Final = f"{BODY_BYTES} + {TEXT_BYTES}"
"""What a row counts in a page (`rows.weight`)."""

# -- sending ---------------------------------------------------------------------------------------

_INSERT = f"""
INSERT INTO messages ({COLUMNS})
VALUES (?, ?, {{}}, ?, ?, 0, NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, ?)"""
INSERT: Final = _INSERT.format("?")
# A new row has the highest number, so whatever lives in its lane stands in front of it.
INSERT_IN_GROUP: Final = _INSERT.format(WAITS_IF.format(GROUP_LIVES)) + " RETURNING state"
INSERT_IN_QUEUE: Final = _INSERT.format(WAITS_IF.format(QUEUE_LIVES)) + " RETURNING state"

INSERT_BODY: Final = "INSERT INTO bodies (id, body) VALUES (?, ?)"
DELETE_BODY: Final = "DELETE FROM bodies WHERE id = ?"


def insert(
    seq: int,
    queue_id: int,
    lane: Lane,
    *,
    state: Stored,
    visible_at: int,
    enqueued_at: int,
    expires_at: int,
    texts: tuple[Value, ...],
    body: bytes,
) -> Statement:
    """A new row; `texts` are the columns group_id to properties.

    `state` READY with a lane is decided by the statement, which then returns it. A body over
    INLINE_BYTES_MAX is left to `insert_body`.
    """
    rest = (0, visible_at, enqueued_at, expires_at, *texts, None if is_apart(body) else body)
    if state is not Stored.READY or lane is None:
        return INSERT, (seq, queue_id, state, *rest)
    if lane == WHOLE_QUEUE:
        return INSERT_IN_QUEUE, (seq, queue_id, queue_id, *rest)
    return INSERT_IN_GROUP, (seq, queue_id, queue_id, lane, *rest)


def ready_row(
    seq: int,
    queue_id: int,
    now_ms: int,
    expires_at: int,
    texts: tuple[Value, ...],
    body: bytes,
) -> tuple[Value, ...]:
    """The arguments of INSERT for a message that stands in no lane, is due now and is kept
    whole in its row."""
    return (seq, queue_id, _READY, 0, now_ms, now_ms, expires_at, *texts, body)


def is_apart(body: bytes) -> bool:
    """Whether a body is kept beside its row."""
    return len(body) > INLINE_BYTES_MAX


def insert_body(seq: int, body: bytes) -> Statement:
    """The large body of a row."""
    return INSERT_BODY, (seq, body)


# -- claiming --------------------------------------------------------------------------------------

# messages_by_state: the first rows of state 1, whatever else the queue holds.
HEADS: Final = f"""
SELECT id, expires_at, group_id, {PAGE_BYTES} FROM messages
WHERE queue_id = ? AND state = 1 ORDER BY id LIMIT ?"""

# The heads that are not past their time, for a queue whose front is full of expired ones.
FRESH_HEADS: Final = f"""
SELECT id, expires_at, group_id, {PAGE_BYTES} FROM messages
WHERE queue_id = ? AND state = 1 AND (expires_at = 0 OR expires_at > ?) ORDER BY id LIMIT ?"""

HEAD_ROWS: Final = f"""
SELECT {WHOLE} FROM messages WHERE queue_id = ? AND state = 1 ORDER BY id LIMIT ?"""

HELD_COLUMNS: Final = (
    "id, queue_id, state, delivery_count, locked_until, lock_token, expires_at, group_id,"
    f" {BODY_BYTES}, body IS NULL"
)
HELD_HEADS: Final = f"""
SELECT {HELD_COLUMNS} FROM messages WHERE queue_id = ? AND state = 1 ORDER BY id LIMIT ?"""

ROW: Final = f"SELECT {WHOLE} FROM messages WHERE id = ?"

LOCK: Final = """
UPDATE messages SET state = 3, locked_until = ?, lock_token = ?, delivery_count = delivery_count + 1
WHERE id = ?"""

DELETE: Final = "DELETE FROM messages WHERE id = ?"

# The first row of the lane that lives, if it waits: it is next in line now.
PROMOTE_IN_GROUP: Final = """
UPDATE messages SET state = 1 WHERE state = 2 AND id = (
  SELECT id FROM messages WHERE queue_id = ? AND group_id = ? AND state < 6 AND id > 0
  ORDER BY id LIMIT 1)
RETURNING state"""

_FIRST = (
    "SELECT * FROM (SELECT id FROM messages WHERE queue_id = ? AND state = {} ORDER BY id LIMIT 1)"
)
PROMOTE_IN_QUEUE: Final = f"""
UPDATE messages SET state = 1 WHERE state = 2 AND id = (
  SELECT min(id) FROM ({" UNION ALL ".join(_FIRST.format(state) for state in range(1, 6))}))
RETURNING state"""


def heads(queue_id: int, limit: int) -> Statement:
    """id, expires_at, group_id and PAGE_BYTES of the next messages in line."""
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


def delete(seq: int, *, has_body_apart: bool) -> list[Statement]:
    """Remove a row and what belongs to it."""
    row_only: list[Statement] = [(DELETE, (seq,))]
    return [*row_only, delete_body(seq)] if has_body_apart else row_only


def delete_body(seq: int) -> Statement:
    """Remove the large body of a row that is gone."""
    return DELETE_BODY, (seq,)


def promote(queue_id: int, lane: str) -> Statement:
    """Make the head of a lane READY if it waits; returns that state if it did."""
    if lane == WHOLE_QUEUE:
        return PROMOTE_IN_QUEUE, (queue_id,) * 5
    return PROMOTE_IN_GROUP, (queue_id, lane)


# -- settling --------------------------------------------------------------------------------------

HELD: Final = f"SELECT {HELD_COLUMNS} FROM messages WHERE id = ?"

# The fence: this row, this queue, this lease, and the lease still runs.
_FENCE = "id = ? AND queue_id = ? AND state = 3 AND lock_token = ? AND locked_until > ?"
COMPLETE: Final = f"""
DELETE FROM messages WHERE {_FENCE} RETURNING id, lock_token, group_id, body IS NULL"""
RENEW: Final = f"""
UPDATE messages SET locked_until = max(locked_until, ?) WHERE {_FENCE} RETURNING locked_until"""

_REST = """
UPDATE messages SET state = {}, visible_at = coalesce(?, visible_at), locked_until = 0,
  lock_token = NULL, delivery_count = delivery_count - ? WHERE id = ?"""
REST: Final = _REST.format("?")
GIVE_BACK: Final = _REST.format("1") + " RETURNING state"
GIVE_BACK_IN_GROUP: Final = (
    _REST.format(WAITS_IF.format(GROUP_LIVES + " AND e.id < ?")) + " RETURNING state"
)
GIVE_BACK_IN_QUEUE: Final = (
    _REST.format(WAITS_IF.format(QUEUE_LIVES + " AND e.id < ?")) + " RETURNING state"
)
BURY: Final = """
UPDATE messages SET state = 6, locked_until = 0, lock_token = NULL,
  dead_letter_reason = ?, dead_letter_description = ? WHERE id = ?"""


def held(seq: int) -> Statement:
    """What a decision about one message needs (`rows.held`)."""
    return HELD, (seq,)


def complete(seq: int, queue_id: int, token: bytes, now_ms: int) -> Statement:
    """Delete under the fence; if it took effect returns id, token, group and `body is apart`."""
    return COMPLETE, (seq, queue_id, token, now_ms)


def renew(seq: int, queue_id: int, token: bytes, now_ms: int, locked_until: int) -> Statement:
    """Extend under the fence, never shorten; returns the new deadline if it took effect."""
    return RENEW, (locked_until, seq, queue_id, token, now_ms)


def rest(seq: int, state: Stored, visible_at: int | None = None) -> Statement:
    """End a lease: scheduled or deferred from now on. None keeps the time."""
    return REST, (state, visible_at, 0, seq)


def give_back(
    seq: int, queue_id: int, lane: Lane, visible_at: int | None, *, uncount: int = 0
) -> Statement:
    """Active again, at its place in line; returns READY or WAITING. None keeps the time.

    `uncount` takes that many deliveries back.
    """
    if lane is None:
        return GIVE_BACK, (visible_at, uncount, seq)
    if lane == WHOLE_QUEUE:
        return GIVE_BACK_IN_QUEUE, (queue_id, seq, visible_at, uncount, seq)
    return GIVE_BACK_IN_GROUP, (queue_id, lane, seq, visible_at, uncount, seq)


def bury(seq: int, reason: str, description: str | None) -> Statement:
    """Dead-letter a row."""
    return BURY, (reason, description, seq)


# Fails, by the table's own constraint, unless the lease is exactly what somebody takes it for.
CERTIFY: Final = """
INSERT INTO meta (key, value) SELECT 'surprise', NULL WHERE NOT EXISTS (
  SELECT 1 FROM messages WHERE id = ? AND queue_id = ? AND state = 3 AND delivery_count = ?
    AND locked_until = ? AND lock_token = ? AND expires_at = ?)"""


def certify(row: Row) -> Statement:
    """Undo everything unless a row of HELD_COLUMNS is true. The rest of it never changes under a
    lease."""
    seq, queue_id, _, delivery_count, locked_until, token, expires_at, *_ = row
    return CERTIFY, (seq, queue_id, delivery_count, locked_until, token, expires_at)


# -- looking ---------------------------------------------------------------------------------------

_PEEK_STATE = f"""SELECT * FROM (SELECT id, {BODY_BYTES} AS bytes, {TEXT_BYTES} AS texts
  FROM messages
  WHERE queue_id = ? AND state = {{}} AND id >= ? ORDER BY id LIMIT ?)"""


def _peek_sql(states: tuple[Stored, ...]) -> str:
    parts = " UNION ALL ".join(_PEEK_STATE.format(int(state)) for state in states)
    return f"SELECT id, bytes, texts FROM ({parts}) ORDER BY id LIMIT ?"


BROWSED: Final = (
    tuple(Stored),
    (Stored.READY, Stored.WAITING),
    (Stored.LOCKED,),
    (Stored.SCHEDULED,),
    (Stored.DEFERRED,),
    (Stored.DEAD,),
)
_PEEKS: Final = {states: _peek_sql(states) for states in BROWSED}


def browse(queue_id: int, states: tuple[Stored, ...], from_seq: int, limit: int) -> Statement:
    """id, body length and TEXT_BYTES of the rows in these states from a number on, in order."""
    return _PEEKS[states], (queue_id, from_seq, limit) * len(states) + (limit,)


_BROWSE_HELD = f"SELECT {HELD_COLUMNS} FROM messages WHERE id IN (SELECT id FROM ({{}}))"
HELD_ACTIVE: Final = _BROWSE_HELD.format(_PEEKS[Stored.READY, Stored.WAITING]) + " ORDER BY id"
HELD_ALL: Final = _BROWSE_HELD.format(_PEEKS[tuple(Stored)]) + " ORDER BY id"


def browse_active(queue_id: int, from_seq: int, limit: int) -> Statement:
    """What a decision about each active row from a number on needs (`rows.held`), in order."""
    return HELD_ACTIVE, (queue_id, from_seq, limit) * 2 + (limit,)


def browse_held(queue_id: int, limit: int) -> Statement:
    """The same for the first rows in whatever state."""
    return HELD_ALL, (queue_id, 0, limit) * len(Stored) + (limit,)


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


NEXT_LEASE_END: Final = """
SELECT locked_until FROM messages WHERE state = 3 ORDER BY locked_until LIMIT 1"""
NEXT_TIME: Final = """
SELECT visible_at FROM messages WHERE state = 4 ORDER BY visible_at LIMIT 1"""
NEXT_EXPIRY: Final = """
SELECT expires_at FROM messages WHERE expires_at > 0 AND state < 6 ORDER BY expires_at LIMIT 1"""


def next_lease_end() -> Statement:
    """When the first lease ends."""
    return NEXT_LEASE_END, ()


def next_time() -> Statement:
    """When the first scheduled message is due."""
    return NEXT_TIME, ()


def next_expiry() -> Statement:
    """When the first message outlives its time."""
    return NEXT_EXPIRY, ()


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
