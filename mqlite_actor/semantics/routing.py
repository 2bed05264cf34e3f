"""Where a send goes: one queue, or the subscriptions of a topic that want the message.

Called by send. Queues and topics share one name space, so a name is either. A subscription's filter
decides for each message; one that does not compile or fails at run time routes nothing to its own
subscription, is counted, and never fails the publish (spec/engine.md 3.15).
"""

from __future__ import annotations

import logging
from typing import Protocol, cast

from mqlite_actor.contract.errors import InvalidFilter, QueueNotFound, quoted
from mqlite_actor.contract.wire import Message
from mqlite_actor.storage import queues, subscriptions
from mqlite_actor.storage.database import Transaction
from mqlite_actor.storage.queues import Queue

_log = logging.getLogger("mqlite.filters")


class Filter(Protocol):
    """What a compiled filter is to this floor."""

    def evaluate(
        self, message: Message, *, enqueued_at_ms: int, visible_at_ms: int, now_ms: int
    ) -> bool:
        """Whether the message matches; raises an Exception when it fails at run time."""


class MatchAll:
    """The filter of a subscription that has none."""

    __slots__ = ()

    def evaluate(self, *_: object, **__: object) -> bool:
        """Every message matches."""
        return True


MATCH_ALL = MatchAll()


class Route:
    """One possible target: a queue, and the filter that a message has to pass."""

    __slots__ = ("filter", "queue")

    def __init__(self, queue: Queue, filter_: Filter | None) -> None:
        self.queue = queue
        self.filter = filter_  # None: it does not compile, so nothing passes


def compile_filter(source: str) -> Filter:
    """The filter of this text; InvalidFilter says where and why not. Blank matches everything."""
    if not source.strip():
        return MATCH_ALL
    raise InvalidFilter("this version has no filter language yet; subscribe without a filter")


def routes(tx: Transaction, name: str) -> list[Route]:
    """The targets behind a name, in the order of fan-out; QueueNotFound if it is nothing."""
    queue = queues.lookup(tx, name)
    if queue is not None:
        return [Route(queue, MATCH_ALL)]
    roster = subscriptions.roster(tx, name)
    if not roster:
        raise QueueNotFound(f"no queue or topic is called {quoted(name)}")
    return [
        Route(queues.by_id(tx, queue_id), _compiled(tx, subscription, source))
        for queue_id, subscription, source in roster
    ]


def wants(
    tx: Transaction, route: Route, message: Message, *, now_ms: int, visible_at_ms: int
) -> bool:
    """Whether the message goes to this target; a filter that fails is counted and says no."""
    if route.filter is MATCH_ALL:
        return True
    if route.filter is None:
        return False
    try:
        return route.filter.evaluate(
            message, enqueued_at_ms=now_ms, visible_at_ms=visible_at_ms, now_ms=now_ms
        )
    except Exception as error:  # noqa: BLE001  # fail closed, whatever a filter runs into
        tx.filter_failed(route.queue.name, "evaluate")
        _log.error("filter of subscription %s failed: %s", quoted(route.queue.name), error)
        return False


def _compiled(tx: Transaction, subscription: str, source: str) -> Filter | None:
    filters = tx.ledger.filters
    if source not in filters:
        try:
            filters[source] = compile_filter(source)
        except InvalidFilter as error:
            tx.filter_failed(subscription, "compile")
            _log.error(
                "filter of subscription %s does not compile: %s",
                quoted(subscription),
                error.message,
            )
            filters[source] = None
    return cast("Filter | None", filters[source])  # storage knows nothing of filters
