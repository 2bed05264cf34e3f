"""DeleteQueue: an empty plain queue, named by its generation.

Called through the operations table. The generation tells the queue that the caller saw from one
made later under the same name; a tombstone answers the repetition of a deletion whose answer was
lost, and never lets it hit a successor (spec/wire.md 2.21).
"""

from __future__ import annotations

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import (
    GenerationConflict,
    InvalidArgument,
    NameConflict,
    QueueNotEmpty,
    QueueNotFound,
    quoted,
)
from mqlite_actor.contract.wire import DeleteQueueRequest, OkResponse
from mqlite_actor.contract.words import Kind
from mqlite_actor.semantics.settle import DONE
from mqlite_actor.storage import counts, queues, subscriptions
from mqlite_actor.storage.database import Transaction
from mqlite_actor.storage.queues import Queue


def delete_queue(tx: Transaction, request: DeleteQueueRequest, now_ms: int) -> OkResponse:
    """Delete the queue and all that is remembered about it; its messages must be gone before."""
    if not request.name:
        raise InvalidArgument("name is empty; say which queue")
    if not request.generation:
        raise InvalidArgument("generation is empty; pass the one that ListQueues showed")
    queue = queues.lookup(tx, request.name)
    if _is_taken(tx, request.name, queue):
        raise NameConflict(
            f"{quoted(request.name)} is a topic or a subscription, not a plain queue"
        )
    if queue is None or queue.generation != request.generation:
        _answer_from_tombstone(tx, request, queue)
        return DONE
    if any(counts.six(tx.run([counts.read(queue.id)])[0][0])[:5]) or tx.has_changes(queue):
        raise QueueNotEmpty(
            f"{quoted(request.name)} still holds messages; receive, purge or redrive them first"
        )
    queues.delete(tx, queue, now_ms)
    tx.wake(queue.name, limits.INT64_MAX)  # whoever waits for its messages learns that it is gone
    return DONE


def _is_taken(tx: Transaction, name: str, queue: Queue | None) -> bool:
    if queue is not None:
        return queue.kind == Kind.SUBSCRIPTION
    return subscriptions.topic_exists(tx, name)


def _answer_from_tombstone(
    tx: Transaction, request: DeleteQueueRequest, queue: Queue | None
) -> None:
    """Success if exactly this was deleted before; else say what is wrong."""
    if queues.was_deleted(tx, request.name, request.generation):
        return
    if queue is None:
        raise QueueNotFound(f"queue {quoted(request.name)} does not exist")
    raise GenerationConflict(
        f"{quoted(request.name)} is not the queue of this generation; list queues again"
    )
