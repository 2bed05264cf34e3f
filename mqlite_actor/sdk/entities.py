"""The verbs about queues, topics and the store as a whole; inherited by `Handle`.

Written once over one `call`, as all verbs are: Python values become the contract's request, and its
response comes back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, TypeVar

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.sdk.durations import Duration, bound_to_ms, duration_to_ms

R = TypeVar("R")


class Entities(ABC):
    """What there is to send to and to receive from."""

    __slots__ = ()

    @abstractmethod
    async def call(self, request: wire.Request[R]) -> R:
        """Send any request of the contract and return its response."""

    async def create_queue(
        self,
        name: str,
        *,
        kind: str = "",
        lock_duration: Duration = 0,
        max_delivery_count: int = 0,
        default_ttl: Duration = 0,
        dead_letter_on_expire: bool = True,
        dedup_window: Duration = 0,
        ordering_mode: str = "",
        dlq_max_age: Duration | Literal["unbounded"] = 0,
        dlq_max_count: int = 0,
        dlq_max_bytes: int = 0,
    ) -> None:
        """Create a queue, or replace the whole configuration of an existing one.

        0 means the default: 30 s lock, 10 deliveries, no expiry, no duplicate detection, the
        broker's bounds on dead letters. `ordering_mode` is standard, group_fifo or strict_fifo.
        Raises NameConflict when the name is of another kind.
        """
        config = QueueConfig(
            kind=kind,
            lock_duration_ms=or_zero(lock_duration, "lock_duration"),
            max_delivery_count=_not_negative(max_delivery_count, "max_delivery_count"),
            default_ttl_ms=or_zero(default_ttl, "default_ttl"),
            dead_letter_on_expire=dead_letter_on_expire,
            dedup_window_ms=or_zero(dedup_window, "dedup_window"),
            ordering_mode=ordering_mode,
            dlq_max_age_ms=bound_to_ms(dlq_max_age, field="dlq_max_age"),
            dlq_max_count=dlq_max_count,
            dlq_max_bytes=dlq_max_bytes,
        )
        await self.call(wire.CreateQueueRequest(name=name, config=config))

    async def list_queues(self) -> list[wire.QueueInfo]:
        """All queues by name, subscription queues included."""
        return (await self.call(wire.ListQueuesRequest())).queues

    async def delete_queue(self, name: str, *, generation: str) -> None:
        """Delete an empty plain queue, named by the generation that `list_queues` showed.

        Repeating it with the same generation succeeds for a day and never hits a queue made later
        under the same name. Raises QueueNotEmpty, GenerationConflict, NameConflict, QueueNotFound.
        """
        await self.call(wire.DeleteQueueRequest(name=name, generation=generation))

    async def subscribe(self, topic: str, name: str, *, filter: str = "") -> None:
        """Route a topic's messages into the queue `name`; repeated, it replaces only the filter.

        An empty filter matches everything. Raises InvalidFilter, NameConflict.
        """
        request = wire.SubscribeRequest(topic=topic, name=name, filter=wire.Filter(expr=filter))
        await self.call(request)

    async def test_filter(
        self, expr: str, sample: Message | None = None
    ) -> wire.TestFilterResponse:
        """Compile a filter and, if a sample is given, say whether it matches. Stores nothing.

        A filter that does not compile or fails is an answer, not an error.
        """
        return await self.call(wire.TestFilterRequest(expr=expr, message=sample))

    async def list_subscriptions(self) -> list[wire.SubscriptionInfo]:
        """All subscriptions by topic and name."""
        return (await self.call(wire.ListSubscriptionsRequest())).subscriptions

    async def stats(self, queue: str) -> wire.StatsResponse:
        """Counts by state; QueueNotFound."""
        return await self.call(wire.StatsRequest(queue=queue))

    async def status(self) -> wire.StatusResponse:
        """Version, store, sizes and uptime."""
        return await self.call(wire.StatusRequest())


def or_zero(duration: Duration, field: str) -> int:
    """A duration of which 0 is the default or no bound."""
    return duration_to_ms(duration, field=field, is_zero_allowed=True)


def _not_negative(value: int, field: str) -> int:
    if value < 0:
        raise InvalidArgument(f"{field}: negative; use 0 for the default")
    return value
