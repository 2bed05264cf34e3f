"""Taking messages where a question costs a round trip: claims that the database decides by itself.

Called by `semantics/far_claims.py` and, for the front alone, by `semantics/receive.py`. The
statements of one claim run one after the other in one
transaction, and each names the same page by the same words: the first claimable rows within a
number and a sum of bytes, the row that reaches it included. So the rows that FRONT returns are
those that TAKE locks and COUNT counts, and no row is sent to the database to say so. A page is
empty while one of the first `guarded` heads is past its time (STALE says so): such a head is to be
expired first, so that it never holds back its lane.
"""

from __future__ import annotations

from typing import Final

from mqlite_actor.storage.database import Row, Statement
from mqlite_actor.storage.messages import HELD_COLUMNS, PAGE_BYTES, WHOLE_QUEUE
from mqlite_actor.storage.rows import WHOLE

STALE: Final = """
SELECT 1 FROM (
  SELECT expires_at FROM messages WHERE queue_id = ? AND state = 1 ORDER BY id LIMIT ?)
WHERE expires_at > 0 AND expires_at <= ? LIMIT 1"""

_PAGE = f"""
SELECT taken, place FROM (
  SELECT id AS taken, row_number() OVER (ORDER BY id) AS place,
    sum(size) OVER (ORDER BY id) - size AS before
  FROM (
    SELECT id, {PAGE_BYTES} AS size FROM messages
    WHERE queue_id = ? AND state = 1 AND (expires_at = 0 OR expires_at > ?) ORDER BY id LIMIT ?))
WHERE before < ? AND NOT EXISTS ({STALE})"""

FRONT: Final = f"SELECT {WHOLE} FROM messages WHERE id IN (SELECT taken FROM ({_PAGE})) ORDER BY id"
COUNT: Final = f"""
UPDATE counts SET active = active - page.number, locked = locked + page.number
FROM (SELECT count(*) AS number FROM ({_PAGE})) AS page WHERE queue_id = ?"""
# Row by row its own piece of the tokens, which are 16 bytes each.
TAKE: Final = f"""
UPDATE messages SET state = 3, locked_until = ?, lock_token = substr(?, 16 * page.place - 15, 16),
  delivery_count = delivery_count + 1
FROM ({_PAGE}) AS page WHERE id = page.taken"""

_BEHIND = f"""
SELECT {WHOLE} FROM messages WHERE id IN (SELECT id FROM (
  SELECT id, sum(size) OVER (ORDER BY id) AS total FROM (
    SELECT id, {PAGE_BYTES} AS size FROM messages WHERE {{}} ORDER BY id LIMIT ?))
  WHERE total <= ?)
ORDER BY id"""
IN_GROUP: Final = _BEHIND.format("queue_id = ? AND group_id = ? AND state < 6 AND id > ?")
IN_QUEUE: Final = _BEHIND.format("""queue_id = ? AND state = 2 AND id > ? AND NOT EXISTS (
      SELECT 1 FROM messages AS e
      WHERE e.queue_id = ? AND e.state IN (3, 4, 5) AND e.id < messages.id)""")

# messages_by_lease: those that were locked in the same instant, for the same time.
LEASED: Final = f"""
SELECT {WHOLE} FROM messages
WHERE state = 3 AND locked_until = ? AND +queue_id = ? ORDER BY id"""

# messages_by_expiry; whether they wait in a lane or head it.
OVERDUE: Final = f"""
SELECT {HELD_COLUMNS} FROM messages
WHERE expires_at > 0 AND state < 6 AND expires_at <= ? AND +queue_id = ? AND +state IN (1, 2)
ORDER BY expires_at LIMIT ?"""

WEIGHED: Final = f"""
SELECT id, queue_id, state, expires_at, {PAGE_BYTES} FROM messages WHERE id = ?"""


def take(
    queue_id: int,
    now_ms: int,
    *,
    number: int,
    bytes_max: int,
    guarded: int,
    tokens: bytes,
    locked_until: int,
) -> list[Statement]:
    """Lock up to `number` messages; returns whether the front is stale, and the whole rows as they
    were before. `tokens`: 16 bytes for each, in their order."""
    stale = (queue_id, guarded, now_ms)
    page = (queue_id, now_ms, number, bytes_max, *stale)
    return [
        (STALE, stale),
        (FRONT, page),
        (COUNT, (*page, queue_id)),
        (TAKE, (locked_until, tokens, *page)),
    ]


def front(queue_id: int, now_ms: int, number: int, bytes_max: int) -> Statement:
    """The whole rows of the next messages in line that are not overdue, up to a number and a sum of
    bytes."""
    return FRONT, (queue_id, now_ms, number, bytes_max, queue_id, 0, now_ms)


def followers(queue_id: int, lane: str, after: int, number: int, bytes_max: int) -> Statement:
    """The whole rows that stand in a lane behind a number, as far as all of them fit; those behind
    somebody who is not active, perhaps, too."""
    if lane == WHOLE_QUEUE:
        return IN_QUEUE, (queue_id, after, queue_id, number, bytes_max)
    return IN_GROUP, (queue_id, lane, after, number, bytes_max)


def leased(queue_id: int, locked_until: int) -> Statement:
    """The whole rows of the queue whose lease ends at an instant."""
    return LEASED, (locked_until, queue_id)


def weighed(seq: int) -> Statement:
    """id, queue_id, state, expires_at and PAGE_BYTES of one message."""
    return WEIGHED, (seq,)


def before_lock(row: Row) -> Row:
    """A row of `leased` as `take` would have returned it."""
    return (*row[:3], row[3] - 1, *row[4:])


def overdue(queue_id: int, now_ms: int, limit: int) -> Statement:
    """Active rows of the queue past their time to live (`rows.held`), longest over first."""
    return OVERDUE, (now_ms, queue_id, limit)
