"""DescribeQueue and UpdateQueue: one queue's whole configuration, and a change of parts of it.

Called through the operations table. Describing looks only, so it may run on a reader's connection.
An update names what changes and leaves the rest, where CreateQueue replaces everything, and may
make a queue that is not there; the optional generation keeps it from a queue that was made anew
under the same name.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mqlite_actor.contract.errors import GenerationConflict, InvalidArgument, QueueNotFound, quoted
from mqlite_actor.contract.ext import (
    DescribeQueueRequest,
    DescribeQueueResponse,
    QueuePatch,
    QueueSettings,
    UpdateQueueRequest,
    UpdateQueueResponse,
)
from mqlite_actor.contract.wire import (
    CreateQueueRequest,
    QueueConfig,
    StatsRequest,
    SubscriptionInfo,
)
from mqlite_actor.semantics import entities
from mqlite_actor.semantics.peek import stats
from mqlite_actor.storage import counts, looking, queues, subscriptions
from mqlite_actor.storage.database import Transaction
from mqlite_actor.storage.queues import Queue

NOT_NEGATIVE: Final = (
    "lock_duration_ms", "max_delivery_count", "default_ttl_ms", "dedup_window_ms",
)  # fmt: skip
"""Of the other numbers a negative one means: unbounded."""


def describe_queue(
    tx: Transaction, request: DescribeQueueRequest, now_ms: int
) -> DescribeQueueResponse:
    """Configuration, identity and counts. QueueNotFound, which says so if the name is a topic."""
    queue = _named(tx, request.name)
    kept, oldest_dead, heard = tx.run(
        [
            counts.read(queue.id),
            looking.oldest_dead(queue.id),
            subscriptions.of_queue(queue.id),
        ]
    )
    depths = stats(tx, StatsRequest(queue=queue.name), now_ms)
    died_of = looking.only(oldest_dead)
    return DescribeQueueResponse(
        name=queue.name,
        kind=queue.kind,
        generation=queue.generation,
        created_at_ms=queue.created_at,
        updated_at_ms=queue.updated_at,
        config=settings(queue),
        active=depths.active,
        locked=depths.locked,
        deferred=depths.deferred,
        scheduled=depths.scheduled,
        dead_lettered=depths.dead_lettered,
        total=depths.total,
        oldest_message_age_ms=depths.oldest_message_age_ms,
        dead_letter_bytes=counts.six(kept[0])[counts.DEAD_BYTES],
        oldest_dead_letter_age_ms=max(0, now_ms - died_of) if died_of else 0,
        subscriptions=[
            SubscriptionInfo(topic=topic, name=queue.name, expr=expr or "") for topic, expr in heard
        ],
    )


def update_queue(tx: Transaction, request: UpdateQueueRequest, now_ms: int) -> UpdateQueueResponse:
    """Change what the patch names, or make the queue; the configuration that holds now."""
    created = _created(tx, request, now_ms)
    queue = _named(tx, request.name)
    check_generation(queue, request.generation)
    if request.config != QueuePatch():
        entities.reconfigure(tx, queue, _patched(queue, request.config), now_ms)
        queue = queues.find(tx, request.name)
    return UpdateQueueResponse(queue.generation, settings(queue), created)


def _created(tx: Transaction, request: UpdateQueueRequest, now_ms: int) -> bool:
    """Make the queue if that was asked for and it is not there."""
    if request.create is msgspec.UNSET:
        return False
    if request.generation:
        raise InvalidArgument("generation names a queue that is there; with create leave it out")
    if request.name and queues.lookup(tx, request.name) is not None:
        return False
    entities.create_queue(tx, CreateQueueRequest(request.name, request.create), now_ms)
    return True


def check_generation(queue: Queue, generation: str) -> None:
    """GenerationConflict if one is given that is not the queue's."""
    if generation and generation != queue.generation:
        raise GenerationConflict(
            f"{quoted(queue.name)} is not the queue of this generation; describe it again"
        )


def settings(queue: Queue) -> QueueSettings:
    """A queue row's configuration as it is shown."""
    return QueueSettings(
        lock_duration_ms=queue.lock_duration_ms,
        max_delivery_count=queue.max_delivery_count,
        default_ttl_ms=queue.default_ttl_ms,
        dead_letter_on_expire=bool(queue.dead_letter_on_expire),
        dedup_window_ms=queue.dedup_window_ms,
        ordering_mode=queue.ordering_mode,
        dlq_max_age_ms=queue.dlq_max_age_ms,
        dlq_max_count=queue.dlq_max_count,
        dlq_max_bytes=queue.dlq_max_bytes,
    )


def _named(tx: Transaction, name: str) -> Queue:
    if not name:
        raise InvalidArgument("name is empty; say which queue")
    queue = queues.lookup(tx, name)
    if queue is not None:
        return queue
    is_topic = subscriptions.topic_exists(tx, name)
    what = "is a topic; name one of its subscriptions" if is_topic else "does not exist"
    raise QueueNotFound(f"queue {quoted(name)} {what}")


def _patched(queue: Queue, patch: QueuePatch) -> QueueConfig:
    """The whole configuration with the patch laid over it."""
    changes = {
        name: value
        for name in patch.__struct_fields__
        if (value := getattr(patch, name)) is not msgspec.UNSET
    }
    for name in NOT_NEGATIVE:
        if changes.get(name, 0) < 0:
            raise InvalidArgument(f"config.{name} is negative; use 0 for the default")
    present = msgspec.structs.asdict(settings(queue))
    return QueueConfig(**{"kind": queue.kind, **present, **changes})
