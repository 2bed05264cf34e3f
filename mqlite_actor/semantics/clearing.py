"""Deleting messages that live: PurgeActive, and DeleteSubscription with what it still holds.

Steps and chunks, called by the engine's commands of the same names; repetition and stopping are the
engine's business (`engine/chores.py`). The guard is checked once, in the first step. A chunk takes
what it finds in its own transaction: a message that was claimed meanwhile is not active any more
and stays its holder's.
"""

from __future__ import annotations

from msgspec import UNSET

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import (
    GenerationConflict,
    InvalidArgument,
    NameConflict,
    NotFound,
    QueueNotEmpty,
    QueueNotFound,
    quoted,
)
from mqlite_actor.contract.ext import DeleteSubscriptionRequest, PurgeActiveRequest
from mqlite_actor.contract.words import Kind
from mqlite_actor.semantics import lifecycle
from mqlite_actor.semantics.dead_letters import Chunk
from mqlite_actor.semantics.describe import check_generation
from mqlite_actor.semantics.lifecycle import Event
from mqlite_actor.storage import counts, looking, messages, queues, rows, subscriptions
from mqlite_actor.storage.database import Stored, Transaction
from mqlite_actor.storage.queues import Queue
from mqlite_actor.storage.rows import Held

# -- PurgeActive -----------------------------------------------------------------------------------


def last_active(tx: Transaction, request: PurgeActiveRequest) -> tuple[int, str]:
    """Where a purge of active messages ends that begins now, if its guard holds; and the queue's
    generation, which every chunk asks for again.

    Raises QueueNotFound; InvalidArgument without a guard; GenerationConflict if it does not hold.
    """
    queue = queues.find(tx, request.queue)
    if not request.generation and request.expected_count is UNSET:
        raise InvalidArgument(
            "no guard: give the queue's generation, or expected_count, the number of active"
            " messages that you saw"
        )
    check_generation(queue, request.generation)
    last = looking.last_active(queue.id)
    tx.expect([last])
    active = tx.depths(queue)[counts.COLUMN[Stored.READY]]
    if request.expected_count is not UNSET and request.expected_count != active:
        raise GenerationConflict(
            f"{quoted(queue.name)} has {active} active messages, not {request.expected_count};"
            " look again, nothing was deleted"
        )
    return looking.only(tx.run([last])[0]), queue.generation


def purge_active_chunk(
    tx: Transaction,
    queue_name: str,
    generation: str,
    *,
    after: int,
    last: int,
    enqueued_before: int,
    limit: int,
) -> Chunk:
    """Delete up to `limit` active messages among the next CHORE_ROWS, the lowest numbers first."""
    queue = queues.find(tx, queue_name)
    check_generation(queue, generation)
    looked_at = tx.run([messages.browse_active(queue.id, after + 1, limits.CHORE_ROWS)])[0]
    active = [held for held in map(rows.held, looked_at) if held.id <= last]
    old_enough = active
    if enqueued_before < limits.INT64_MAX:
        found = tx.run([looking.enqueued_at(held.id) for held in active])
        old_enough = [
            held
            for held, ((enqueued_at,),) in zip(active, found, strict=True)
            if enqueued_at < enqueued_before
        ]
    doomed = old_enough[:limit]
    _remove(tx, queue, doomed, Event.PURGE_ACTIVE)
    if len(doomed) == limit:
        return len(doomed), doomed[-1].id
    return len(doomed), active[-1].id if len(active) == limits.CHORE_ROWS else last


# -- DeleteSubscription ----------------------------------------------------------------------------


def end_subscription(
    tx: Transaction, request: DeleteSubscriptionRequest, limit: int, now_ms: int
) -> tuple[str, int]:
    """Stop the routing, delete up to `limit` messages if they are to be discarded, and the queue if
    it is empty then; the generation to go on with, "" when all is done, and how many were deleted.

    Raises QueueNotFound, NotFound for another topic's, NameConflict for a plain queue,
    QueueNotEmpty unless messages are to be discarded, GenerationConflict, and InvalidArgument for
    what is missing.
    Repeated with its generation within a day, a deletion that is done is a success.
    """
    _check_words(request)
    queue = queues.lookup(tx, request.name)
    if queue is None or (request.generation and queue.generation != request.generation):
        if request.generation and queues.was_deleted(tx, request.name, request.generation):
            return "", 0
        if queue is None:
            raise QueueNotFound(f"subscription {quoted(request.name)} does not exist")
    check_generation(queue, request.generation)
    if queue.kind != Kind.SUBSCRIPTION:
        raise NameConflict(f"{quoted(request.name)} is a plain queue; delete it as one")
    tx.expect([counts.read(queue.id)])
    if request.discard_messages:
        tx.expect([messages.browse_held(queue.id, limit)])
    # One without a topic is left over from a deletion that was interrupted.
    if subscriptions.topic_of(tx, queue.id) not in (request.topic, None):
        raise NotFound(f"{quoted(request.name)} does not listen to topic {quoted(request.topic)}")
    is_empty = not any(tx.depths(queue)[: counts.DEAD_BYTES])
    if not is_empty and not request.discard_messages:
        raise QueueNotEmpty(
            f"{quoted(request.name)} still holds messages; handle them, or pass discard_messages"
            " with its generation"
        )
    tx.write([subscriptions.unsubscribe(queue.id)])
    number, is_gone = _discard(tx, queue, 0 if is_empty else limit, now_ms)
    return "" if is_gone else queue.generation, number


def discard_chunk(
    tx: Transaction, queue_name: str, generation: str, limit: int, now_ms: int
) -> tuple[int, bool]:
    """Delete up to `limit` messages in whatever state; how many, and whether the queue is gone."""
    queue = queues.lookup(tx, queue_name)
    if queue is None:
        return 0, True  # somebody else deleted it when it was empty
    check_generation(queue, generation)
    tx.expect([messages.browse_held(queue.id, limit)])
    tx.expect([counts.read(queue.id)])
    if subscriptions.topic_of(tx, queue.id) is not None:
        raise GenerationConflict(f"{quoted(queue_name)} was subscribed again meanwhile")
    return _discard(tx, queue, limit, now_ms)


def _discard(tx: Transaction, queue: Queue, limit: int, now_ms: int) -> tuple[int, bool]:
    """Delete up to `limit` messages and, when none is left, the queue."""
    looked_at = tx.run([messages.browse_held(queue.id, limit)])[0] if limit else []
    _remove(tx, queue, list(map(rows.held, looked_at)), Event.DISCARD)
    if any(tx.depths(queue)[: counts.DEAD_BYTES]):
        return len(looked_at), False
    _delete(tx, queue, now_ms)
    return len(looked_at), True


def _check_words(request: DeleteSubscriptionRequest) -> None:
    for field in ("topic", "name"):
        if not getattr(request, field):
            raise InvalidArgument(f"{field} is empty; name topic and subscription")
    if request.discard_messages and not request.generation:
        raise InvalidArgument("generation is empty; to discard messages pass the one you saw")


def _delete(tx: Transaction, queue: Queue, now_ms: int) -> None:
    queues.delete(tx, queue, now_ms)
    tx.wake(queue.name, limits.INT64_MAX)  # whoever waits for its messages learns that it is gone


def _remove(tx: Transaction, queue: Queue, doomed: list[Held], event: Event) -> None:
    writes = tx.writes()
    for held in doomed:
        lifecycle.remove(tx, writes, queue, held, event)
    writes.run()
    tx.happened(queue.name, "purged", len(doomed))
