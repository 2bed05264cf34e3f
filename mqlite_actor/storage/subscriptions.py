"""Subscription rows: which backing queue listens to which topic.

Called by the entity verbs and by send, which asks for a topic's roster only when no queue has the
name. A topic is nothing but the rows that name it.
"""

from __future__ import annotations

from typing import Final

from mqlite_actor.storage.database import Row, Statement, Transaction

# subscriptions_by_topic; bytewise by name, which is the order of fan-out.
ROSTER: Final = """
SELECT s.queue_id, q.name, s.expr FROM subscriptions AS s JOIN queues AS q ON q.id = s.queue_id
WHERE s.topic = ? ORDER BY q.name"""
TOPIC_EXISTS: Final = "SELECT 1 FROM subscriptions WHERE topic = ? LIMIT 1"
TOPIC_OF: Final = "SELECT topic FROM subscriptions WHERE queue_id = ?"
OF_QUEUE: Final = "SELECT topic, expr FROM subscriptions WHERE queue_id = ?"
UNSUBSCRIBE: Final = "DELETE FROM subscriptions WHERE queue_id = ?"
LIST: Final = """
SELECT s.topic, q.name, s.expr FROM subscriptions AS s JOIN queues AS q ON q.id = s.queue_id
ORDER BY s.topic, q.name"""
SUBSCRIBE: Final = """
INSERT INTO subscriptions (queue_id, topic, expr, created_at) VALUES (?, ?, ?, ?)
ON CONFLICT (queue_id) DO UPDATE SET expr = excluded.expr"""


def roster(tx: Transaction, topic: str) -> list[tuple[int, str, str]]:
    """Queue id, name and filter text ("" for none) of a topic's subscriptions, in fan-out order."""
    return [(row[0], row[1], row[2] or "") for row in tx.run([(ROSTER, (topic,))])[0]]


def topic_exists(tx: Transaction, name: str) -> bool:
    """Whether a subscription names this topic."""
    return bool(tx.run([(TOPIC_EXISTS, (name,))])[0])


def topic_of(tx: Transaction, queue_id: int) -> str | None:
    """The topic that a backing queue listens to; None for an orphan or a plain queue."""
    rows = tx.run([(TOPIC_OF, (queue_id,))])[0]
    return str(rows[0][0]) if rows else None


def of_queue(queue_id: int) -> Statement:
    """Topic and filter text or NULL of a backing queue; no row for an orphan or a plain queue."""
    return OF_QUEUE, (queue_id,)


def unsubscribe(queue_id: int) -> Statement:
    """End the mapping; the backing queue gets nothing any more."""
    return UNSUBSCRIBE, (queue_id,)


def list_all(tx: Transaction) -> list[Row]:
    """Topic, subscription name and filter text or NULL, by topic and name."""
    return tx.run([(LIST, ())])[0]


def subscribe(queue_id: int, topic: str, expr: str, now_ms: int) -> Statement:
    """Make the mapping, or replace its filter."""
    return SUBSCRIBE, (queue_id, topic, expr or None, now_ms)
