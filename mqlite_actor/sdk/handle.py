"""The everyday verbs, written once over one `call`.

Subclassed by each kind of handle, which only says how a request reaches an engine. A verb turns
Python values (seconds, datetimes, keyword arguments) into the contract's request and back, and adds
the checks that a person expects but the wire does not make: peek of an unknown queue is an error
here (decision 6), and so is a batch in which a message was refused (ruling R19). The verbs of
our own routes are in `extensions.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal, TypeVar

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import InvalidArgument, NotFound, PermissionDenied
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.contract.words import State
from mqlite_actor.sdk import requests
from mqlite_actor.sdk.durations import Duration, bound_to_ms, duration_to_ms, wait_to_ms
from mqlite_actor.sdk.extensions import Extensions
from mqlite_actor.sdk.message import ReceivedMessage
from mqlite_actor.sdk.requests import Body

R = TypeVar("R")


class Handle(Extensions):
    """Queues, messages and their verbs. Errors are the classes of `mqlite_actor.contract.errors`.

    Cancelling a call that has not begun leaves nothing behind; one that has begun takes effect. A
    cancelled `receive` gives back what it had claimed.
    """

    __slots__ = ()

    @abstractmethod
    async def call(self, request: wire.Request[R]) -> R:
        """Send any request of the contract and return its response."""

    # -- queues ------------------------------------------------------------------------------------

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
            lock_duration_ms=_or_zero(lock_duration, "lock_duration"),
            max_delivery_count=_not_negative(max_delivery_count, "max_delivery_count"),
            default_ttl_ms=_or_zero(default_ttl, "default_ttl"),
            dead_letter_on_expire=dead_letter_on_expire,
            dedup_window_ms=_or_zero(dedup_window, "dedup_window"),
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

    # -- sending -----------------------------------------------------------------------------------

    async def send_one(
        self,
        queue: str,
        body: Body = b"",
        *,
        message_id: str = "",
        group_id: str = "",
        correlation_id: str = "",
        reply_to: str = "",
        subject: str = "",
        content_type: str = "",
        properties: Mapping[str, str] | None = None,
        ttl: Duration | None = None,
        at: datetime | None = None,
    ) -> int:
        """Store one message, now or to be delivered from `at` on; returns its number.

        Durable when it returns. Raises QueueNotFound, MessageTooLarge, GroupRequired, and
        DedupConflict when the id was used with another body; a repetition with the same body
        returns the first number.
        """
        message = Message(
            body=requests.payload(body),
            message_id=message_id,
            group_id=group_id,
            correlation_id=correlation_id,
            reply_to=reply_to,
            subject=subject,
            content_type=content_type,
            properties=dict(properties or {}),
        )
        reply = await self.call(requests.send(queue, [message], ttl=ttl, at=at))
        return (reply.seq_numbers or [0])[0]

    async def send(
        self,
        queue: str,
        messages: Iterable[Message | Body],
        *,
        ttl: Duration | None = None,
        at: datetime | None = None,
    ) -> list[int]:
        """Store messages in one transaction; their numbers, in order.

        All or none, except that a message whose id was used with another body is left out: then the
        others are stored and DedupConflict is raised, with the numbers as its `seq_numbers` (0
        where refused).
        """
        batch = requests.batch(messages)
        reply = await self.call(requests.send(queue, batch, ttl=ttl, at=at))
        numbers = reply.seq_numbers or []
        if 0 in numbers and await self._is_queue(queue):
            requests.refuse_conflicts(numbers)
        return numbers

    async def cancel(self, queue: str, seq_number: int) -> None:
        """Delete a scheduled message before its first delivery; NotFound if it cannot be."""
        await self.call(wire.CancelRequest(queue=queue, seq_number=seq_number))

    async def _is_queue(self, name: str) -> bool:
        """A 0 from a queue is a refused message, one from a topic that nobody wanted it."""
        try:
            await self.stats(name)
        except (NotFound, PermissionDenied):
            return False
        return True

    # -- receiving ---------------------------------------------------------------------------------

    async def receive(
        self,
        queue: str,
        *,
        max_messages: int = 1,
        wait: Duration = 0,
        at_most_once: bool = False,
        attempt_id: str = "",
    ) -> list[ReceivedMessage]:
        """Take up to 256 messages, waiting up to 20 s for the first; empty when there are none.

        Each is under a lease of the queue's lock duration until it is settled; with `at_most_once`
        it is removed before it is returned. `attempt_id` makes a repetition after a lost answer
        return the same messages.
        """
        request = wire.ReceiveRequest(
            queue=queue,
            max_messages=max_messages,
            wait_time_ms=wait_to_ms(wait),
            receive_mode=1 if at_most_once else 0,
            receive_attempt_id=attempt_id,
        )
        reply = await self.call(request)
        return [ReceivedMessage(self, queue, message) for message in reply.messages]

    async def receive_deferred(
        self, queue: str, seq_numbers: Sequence[int]
    ) -> list[ReceivedMessage]:
        """Take deferred messages by number; those that are not deferred any more are left out."""
        request = wire.ReceiveDeferredRequest(queue=queue, seq_numbers=list(seq_numbers))
        reply = await self.call(request)
        return [ReceivedMessage(self, queue, message) for message in reply.messages]

    async def peek(
        self, queue: str, *, from_seq: int = 0, state: str = "", max_messages: int = 0
    ) -> list[Message]:
        """Look at messages without touching them, by number from `from_seq` on.

        32 unless `max_messages` says otherwise, at most 1000. QueueNotFound for an unknown queue,
        InvalidArgument for an unknown state.
        """
        if state and state not in list(State):
            raise InvalidArgument(f"state {state!r} is unknown; use {', '.join(State)}")
        request = wire.PeekRequest(queue=queue, from_seq=from_seq, state=state, max=max_messages)
        found = (await self.call(request)).messages
        if not found:
            await self.stats(queue)
        return found

    # -- dead letters ------------------------------------------------------------------------------

    async def redrive(
        self,
        queue: str,
        *,
        target: str = "",
        max_messages: int = 0,
        older_than: Duration = 0,
        rate_per_second: int = 0,
    ) -> int:
        """Make dead letters active again, here or in `target`, oldest first; how many were moved.

        0 is no bound. With a rate the call takes its time; when the engine ends meanwhile it
        answers what it has moved.
        """
        request = wire.RedriveRequest(
            queue=queue,
            target=target,
            max=max_messages,
            older_than_ms=_or_zero(older_than, "older_than"),
            rate_per_sec=rate_per_second,
        )
        return (await self.call(request)).moved

    async def purge(self, queue: str, *, max_messages: int = 0, older_than: Duration = 0) -> int:
        """Delete dead letters, oldest first; how many. 0 is no bound."""
        request = wire.PurgeRequest(
            queue=queue, max=max_messages, older_than_ms=_or_zero(older_than, "older_than")
        )
        return (await self.call(request)).purged

    # -- settling ----------------------------------------------------------------------------------

    def message(self, queue: str, seq_number: int, lock_token: str) -> ReceivedMessage:
        """A message in hand rebuilt from its lease, to settle it; asks nobody."""
        return ReceivedMessage(self, queue, Message(seq_number=seq_number, lock_token=lock_token))

    async def complete_batch(self, messages: Iterable[ReceivedMessage]) -> list[bool]:
        """Complete messages of one queue in one transaction; which of them were, in order."""
        queue, items = requests.leases(messages)
        if not items:
            return []
        reply = await self.call(wire.CompleteBatchRequest(queue=queue, messages=items))
        return [result.ok for result in reply.results]

    async def renew_batch(self, messages: Iterable[ReceivedMessage]) -> list[bool]:
        """Extend the leases of up to 512 messages of one queue; which of them are, in order."""
        queue, items = requests.leases(messages)
        if not items:
            return []
        reply = await self.call(wire.RenewBatchRequest(queue=queue, messages=items))
        return [result.ok for result in reply.results]


def _or_zero(duration: Duration, field: str) -> int:
    return duration_to_ms(duration, field=field, is_zero_allowed=True)


def _not_negative(value: int, field: str) -> int:
    if value < 0:
        raise InvalidArgument(f"{field}: negative; use 0 for the default")
    return value
