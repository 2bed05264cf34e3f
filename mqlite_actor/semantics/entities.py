"""Queues and subscriptions: create or reconfigure, list. One name space for all.

Called through the operations table. Creating an existing queue of the same kind replaces its whole
configuration; what a caller leaves out becomes the default (spec/wire.md 2.11). Identity stays:
kind, created_at and the generation that tells this queue from one made later under the same name.
"""

from __future__ import annotations

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument, NameConflict, quoted
from mqlite_actor.contract.wire import (
    CreateQueueRequest,
    EmptyResponse,
    ListQueuesRequest,
    ListQueuesResponse,
    ListSubscriptionsRequest,
    ListSubscriptionsResponse,
    QueueConfig,
    QueueInfo,
    SubscribeRequest,
    SubscriptionInfo,
)
from mqlite_actor.contract.words import Kind, Ordering
from mqlite_actor.semantics import lifecycle, routing
from mqlite_actor.storage import messages, queues, subscriptions
from mqlite_actor.storage.database import Transaction
from mqlite_actor.storage.queues import Queue

DONE = EmptyResponse()


def create_queue(tx: Transaction, request: CreateQueueRequest, now_ms: int) -> EmptyResponse:
    """Create a queue, or replace the configuration of one of the same kind."""
    if not request.name:
        raise InvalidArgument("name is empty; give the queue a name")
    wanted = _configured(tx, request.name, request.config, now_ms)
    existing = queues.lookup(tx, request.name)
    if existing is None:
        if subscriptions.topic_exists(tx, request.name):
            raise NameConflict(f"{quoted(request.name)} is already a topic")
        queues.insert(tx, wanted)
        return DONE
    if existing.kind != wanted.kind:
        raise NameConflict(
            f"{quoted(request.name)} is already a {existing.kind}; it cannot become a {wanted.kind}"
        )
    _replace(tx, existing, wanted)
    return DONE


def reconfigure(tx: Transaction, queue: Queue, config: QueueConfig, now_ms: int) -> None:
    """Replace the whole configuration of a queue that exists; `config` is of its kind."""
    _replace(tx, queue, _configured(tx, queue.name, config, now_ms))


def _replace(tx: Transaction, existing: Queue, wanted: Queue) -> None:
    queues.update(tx, _with_identity_of(existing, wanted))
    if existing.is_strict != wanted.is_strict:
        _reorder(tx, queues.find(tx, existing.name))


def list_queues(tx: Transaction, request: ListQueuesRequest, now_ms: int) -> ListQueuesResponse:
    """All queues by name."""
    return ListQueuesResponse(
        queues=[
            QueueInfo(
                name=queue.name,
                kind=queue.kind,
                lock_duration_ms=queue.lock_duration_ms,
                max_delivery_count=queue.max_delivery_count,
                default_ttl_ms=queue.default_ttl_ms,
                dedup_window_ms=queue.dedup_window_ms,
                generation=queue.generation,
            )
            for queue in queues.list_all(tx)
        ]
    )


def subscribe(tx: Transaction, request: SubscribeRequest, now_ms: int) -> EmptyResponse:
    """Route a topic into a backing queue; for an existing subscription replace only the filter."""
    topic, name, expr = request.topic, request.name, request.filter.expr
    if not topic or not name:
        raise InvalidArgument(f"{'name' if topic else 'topic'} is empty")
    if topic == name:
        raise NameConflict(f"topic and subscription are both called {quoted(name)}; use two names")
    routing.checked(expr)
    if queues.lookup(tx, topic) is not None:
        raise NameConflict(f"topic {quoted(topic)} is already a queue or a subscription")
    queue = queues.lookup(tx, name)
    if queue is None:
        if subscriptions.topic_exists(tx, name):
            raise NameConflict(f"subscription {quoted(name)} is already a topic")
        queues.insert(tx, _configured(tx, name, QueueConfig(kind=Kind.SUBSCRIPTION), now_ms))
        queue = queues.find(tx, name)
    elif queue.kind != Kind.SUBSCRIPTION:
        raise NameConflict(f"{quoted(name)} is already a plain queue")
    elif subscriptions.topic_of(tx, queue.id) not in (None, topic):
        raise NameConflict(f"{quoted(name)} already listens to another topic")
    tx.write([subscriptions.subscribe(queue.id, topic, expr if expr.strip() else "", now_ms)])
    return DONE


def list_subscriptions(
    tx: Transaction, request: ListSubscriptionsRequest, now_ms: int
) -> ListSubscriptionsResponse:
    """All subscriptions by topic and name."""
    return ListSubscriptionsResponse(
        subscriptions=[
            SubscriptionInfo(topic=topic, name=name, expr=expr or "")
            for topic, name, expr in subscriptions.list_all(tx)
        ]
    )


def _configured(tx: Transaction, name: str, config: QueueConfig, now_ms: int) -> Queue:
    """A row with every default filled in; refuses unknown words and negative durations."""
    return Queue(
        id=0,
        name=name,
        kind=_one_of(Kind, config.kind or Kind.QUEUE, "config.kind"),
        ordering_mode=_one_of(
            Ordering, config.ordering_mode or Ordering.STANDARD, "config.ordering_mode"
        ),
        lock_duration_ms=_positive_or(
            config.lock_duration_ms, limits.LOCK_DURATION_MS_DEFAULT, limits.DURATION_MS_MAX
        ),
        max_delivery_count=_positive_or(
            config.max_delivery_count,
            limits.MAX_DELIVERY_COUNT_DEFAULT,
            limits.MAX_DELIVERY_COUNT_MAX,
        ),
        default_ttl_ms=_not_negative(config.default_ttl_ms, "config.default_ttl_ms"),
        dead_letter_on_expire=int(config.dead_letter_on_expire is not False),
        dedup_window_ms=_not_negative(config.dedup_window_ms, "config.dedup_window_ms"),
        dlq_max_age_ms=min(config.dlq_max_age_ms, limits.DURATION_MS_MAX),
        dlq_max_count=config.dlq_max_count,
        dlq_max_bytes=config.dlq_max_bytes,
        created_at=now_ms,
        updated_at=now_ms,
        generation=tx.random(16).hex(),
    )


def _with_identity_of(existing: Queue, wanted: Queue) -> Queue:
    fields = {name: getattr(wanted, name) for name in Queue.__struct_fields__}
    for name in ("id", "created_at", "generation"):
        fields[name] = getattr(existing, name)
    return Queue(**fields)


def _reorder(tx: Transaction, queue: Queue) -> None:
    """Lanes changed: a strict queue is one line, any other a line for each group."""
    if queue.is_strict:
        writes = tx.writes()
        writes.add(messages.hold_all(queue.id))
        lifecycle.let_next_come(writes, queue, None)
        writes.run()
    else:
        tx.write([messages.free_heads(queue.id)])
        tx.wake(queue.name, limits.INT64_MAX)  # nobody counted how many came free


def _one_of(words: type[Kind | Ordering], word: str, field: str) -> str:
    if word not in list(words):
        raise InvalidArgument(f"{field} {quoted(word)} is unknown; use {', '.join(words)}")
    return str(word)


def _positive_or(value: int, default: int, maximum: int) -> int:
    return min(value, maximum) if value > 0 else default


def _not_negative(value: int, field: str) -> int:
    if value < 0:
        raise InvalidArgument(f"{field} is negative; use 0 for none")
    return min(value, limits.DURATION_MS_MAX)
