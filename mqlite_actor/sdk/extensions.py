"""The verbs of our own routes, written once over one `call`.

Inherited by `Handle`. A broker of another make, or an older one, does not have them: then they
raise Unsupported, except `release`, which falls back to Abandon, where nothing is lost but that the
delivery counts (ruling R8). Durations are seconds or timedeltas; None is "leave it as it is" or "no
bound", and 0 is not (faults B46).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal, TypeVar

from msgspec import UNSET, UnsetType

from mqlite_actor.contract import ext, wire
from mqlite_actor.contract.errors import InvalidArgument, LockLost, Unsupported
from mqlite_actor.contract.wire import Message
from mqlite_actor.sdk import requests
from mqlite_actor.sdk.durations import Duration, bound_to_ms, duration_to_ms
from mqlite_actor.sdk.instants import to_ms
from mqlite_actor.sdk.message import ReceivedMessage, settling
from mqlite_actor.sdk.requests import Body

R = TypeVar("R")
T = TypeVar("T")


class Extensions(ABC):
    """What our brokers and engines can do beyond the contract of mqlite v0.3.3."""

    __slots__ = ()

    @abstractmethod
    async def call(self, request: wire.Request[R]) -> R:
        """Send any request and return its response."""

    # -- messages ----------------------------------------------------------------------------------

    async def send_result(
        self,
        queue: str,
        messages: Iterable[Message | Body],
        *,
        ttl: Duration | None = None,
        at: datetime | None = None,
        request_id: str = "",
    ) -> list[ext.SendSlot]:
        """As `send`, answered for each message: inserted, duplicate, conflict or unmatched.

        With a `request_id` (a new one for each send, at most 255 bytes) the identical call can be
        repeated for thirty minutes, and gets the same answer. Raises DedupConflict when the id was
        used for something else; a conflict of a single message is an answer, not an error.
        """
        plain = requests.send(queue, requests.batch(messages), ttl=ttl, at=at)
        request = ext.SendResultRequest(
            queue=queue,
            messages=plain.messages,
            scheduled_enqueue_time_ms=plain.scheduled_enqueue_time_ms,
            ttl_ms=plain.ttl_ms,
            request_id=request_id,
        )
        return (await self.call(request)).results

    async def release(
        self, messages: Iterable[ReceivedMessage], *, attempt_id: str = ""
    ) -> list[bool]:
        """Give messages of one queue back without counting the delivery; which are, in order.

        At most 512. For what was taken and never handled. `attempt_id` of the receive, if it had
        one, makes a repetition of that receive claim anew. Against a broker without this call each
        is abandoned, and the delivery counts.
        """
        given = list(messages)
        queue, items = requests.leases(given)
        if not items:
            return []
        request = ext.ReleaseRequest(queue=queue, messages=items, receive_attempt_id=attempt_id)
        with settling(given) as done:
            try:
                done[:] = [result.ok for result in (await self.call(request)).results]
            except Unsupported:
                done[:] = [await self._is_done(each) for each in requests.abandons(request)]
        return done

    async def _is_done(self, request: wire.AbandonRequest) -> bool:
        try:
            await self.call(request)
        except LockLost:
            return False
        return True

    async def explain(self, queue: str, seq_number: int = 0) -> ext.ExplainResponse:
        """Why this message, or (0) anything of the queue, is not delivered. QueueNotFound.

        A message that is gone is an answer, not an error.
        """
        return await self.call(ext.ExplainRequest(queue=queue, seq_number=seq_number))

    async def search(
        self,
        queue: str,
        *,
        state: str = "",
        message_id: str = "",
        group_id: str = "",
        correlation_id: str = "",
        subject: str = "",
        properties: Mapping[str, str] | None = None,
        body_text: str = "",
        from_seq: int = 0,
        to_seq: int = 0,
        enqueued_from: datetime | None = None,
        enqueued_before: datetime | None = None,
        dead_letter_reason: str = "",
        filter: str = "",
        newest_first: bool = False,
        include_bodies: bool = False,
        max_messages: int = 100,
    ) -> list[ext.FoundMessage]:
        """Messages that are all of what is given, by number, at most `max_messages`.

        `filter` is an expression as of a subscription; a message that it fails on is not found.
        Looks through the queue page by page, so it takes as many calls as the queue is long;
        others are served in between. Cancelled, it changed nothing. Raises QueueNotFound,
        InvalidArgument for an unknown state, InvalidFilter.
        """
        if max_messages < 1:
            raise InvalidArgument("max_messages: at least 1")
        found: list[ext.FoundMessage] = []
        page_token = ""
        while True:
            request = ext.SearchRequest(
                queue=queue,
                state=state,
                message_id=message_id,
                group_id=group_id,
                correlation_id=correlation_id,
                subject=subject,
                properties=dict(properties or {}),
                body_text=body_text,
                from_seq=from_seq,
                to_seq=to_seq,
                enqueued_from_ms=_instant_or_zero(enqueued_from, "enqueued_from"),
                enqueued_before_ms=_instant_or_zero(enqueued_before, "enqueued_before"),
                dead_letter_reason=dead_letter_reason,
                filter=filter,
                newest_first=newest_first,
                include_bodies=include_bodies,
                max=max_messages - len(found),
                page_token=page_token,
            )
            page = await self.call(request)
            found += page.messages
            page_token = page.next_page_token
            if not page_token or len(found) >= max_messages:
                return found

    # -- queues ------------------------------------------------------------------------------------

    async def describe_queue(self, name: str) -> ext.DescribeQueueResponse:
        """A queue's whole configuration, its generation and how full it is. QueueNotFound."""
        return await self.call(ext.DescribeQueueRequest(name=name))

    async def update_queue(
        self,
        name: str,
        *,
        generation: str = "",
        lock_duration: Duration | None = None,
        max_delivery_count: int | None = None,
        default_ttl: Duration | None = None,
        dead_letter_on_expire: bool | None = None,
        dedup_window: Duration | None = None,
        ordering_mode: str | None = None,
        dlq_max_age: Duration | Literal["unbounded"] | None = None,
        dlq_max_count: int | None = None,
        dlq_max_bytes: int | None = None,
    ) -> ext.QueueSettings:
        """Change what is given and leave the rest; the configuration that holds now.

        0 is what it is in `create_queue`: the default. Raises QueueNotFound, and
        GenerationConflict if a generation is given that is not this queue's.
        """
        patch = ext.QueuePatch(
            lock_duration_ms=_duration_or_unset(lock_duration, "lock_duration"),
            max_delivery_count=_or_unset(max_delivery_count),
            default_ttl_ms=_duration_or_unset(default_ttl, "default_ttl"),
            dead_letter_on_expire=_or_unset(dead_letter_on_expire),
            dedup_window_ms=_duration_or_unset(dedup_window, "dedup_window"),
            ordering_mode=_or_unset(ordering_mode),
            dlq_max_age_ms=UNSET
            if dlq_max_age is None
            else bound_to_ms(dlq_max_age, field="dlq_max_age"),
            dlq_max_count=_or_unset(dlq_max_count),
            dlq_max_bytes=_or_unset(dlq_max_bytes),
        )
        request = ext.UpdateQueueRequest(name=name, config=patch, generation=generation)
        return (await self.call(request)).config

    async def delete_subscription(
        self, topic: str, name: str, *, generation: str = "", discard_messages: bool = False
    ) -> ext.DeleteSubscriptionResponse:
        """End a subscription and delete its queue.

        Raises QueueNotEmpty while it holds messages, unless they are to be discarded, which needs
        its generation. Routing ends first; if the engine ends before all is deleted (`deleted`
        False), or the call is cancelled, the same call again goes on. Raises also QueueNotFound,
        NotFound for a subscription of another topic, GenerationConflict.
        """
        return await self.call(
            ext.DeleteSubscriptionRequest(
                topic=topic, name=name, generation=generation, discard_messages=discard_messages
            )
        )

    async def purge_active(
        self,
        queue: str,
        *,
        generation: str = "",
        expected_count: int | None = None,
        max_messages: int = 0,
        older_than: Duration = 0,
    ) -> int:
        """Delete active messages, oldest first; how many. 0 is no bound.

        A guard must be given: the queue's generation, or how many active messages you saw.
        GenerationConflict if it does not hold. What is locked, scheduled, deferred or dead stays.
        Cancelled, what is deleted stays so.
        """
        request = ext.PurgeActiveRequest(
            queue=queue,
            generation=generation,
            expected_count=_or_unset(expected_count),
            max=max_messages,
            older_than_ms=duration_to_ms(older_than, field="older_than", is_zero_allowed=True),
        )
        return (await self.call(request)).purged

    # -- dead letters ------------------------------------------------------------------------------

    async def redrive_selected(
        self, queue: str, seq_numbers: Sequence[int], *, target: str = ""
    ) -> list[ext.RedriveResult]:
        """Make these dead letters active again, in place or in `target`; an answer for each.

        At most 1000. Raises QueueNotFound for either queue; a number that is no dead letter is an
        answer. Cancelled, those moved so far stay moved.
        """
        request = ext.RedriveSelectedRequest(
            queue=queue, seq_numbers=list(seq_numbers), target=target
        )
        return (await self.call(request)).results

    async def resubmit(
        self,
        queue: str,
        seq_number: int,
        *,
        target: str = "",
        body: Body | None = None,
        properties: Mapping[str, str] | None = None,
        message_id: str | None = None,
        group_id: str | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        subject: str | None = None,
        content_type: str | None = None,
    ) -> int:
        """Edit a dead letter and make it active again, in one step or not at all; its number.

        What is None stays; properties are replaced as a whole. Raises NotFound if it is no dead
        letter (any more), QueueNotFound, MessageTooLarge, GroupRequired.
        """
        content, own_type = (None, "") if body is None else requests.payload(body)
        if content_type is None and own_type:
            content_type = own_type
        patch = ext.MessagePatch(
            message_id=_or_unset(message_id),
            correlation_id=_or_unset(correlation_id),
            reply_to=_or_unset(reply_to),
            group_id=_or_unset(group_id),
            content_type=_or_unset(content_type),
            subject=_or_unset(subject),
            properties=UNSET if properties is None else dict(properties),
            body=UNSET if content is None else content,
        )
        request = ext.ResubmitRequest(
            queue=queue, seq_number=seq_number, message=patch, target=target
        )
        return (await self.call(request)).seq_number

    # -- the store ---------------------------------------------------------------------------------

    async def backup(self, path: str, *, keep: int = 0) -> ext.BackupResponse:
        """Write a checked snapshot of the whole store into a new file where the engine runs.

        With `keep`, `path` names a series: the time goes into the file's name, and all but the
        `keep` newest are removed afterwards. Never replaces a file; readable by its owner alone;
        opens like any store. Others go on meanwhile. `done` is False if the engine ended first;
        then, and when cancelled, no file stays. Raises InvalidArgument for a path that cannot be,
        Unavailable while another backup is being made, StorageFull.
        """
        return await self.call(ext.BackupRequest(path=path, keep=keep))


def _or_unset(value: T | None) -> T | UnsetType:
    return UNSET if value is None else value


def _duration_or_unset(duration: Duration | None, field: str) -> int | UnsetType:
    if duration is None:
        return UNSET
    return duration_to_ms(duration, field=field, is_zero_allowed=True)


def _instant_or_zero(instant: datetime | None, field: str) -> int:
    return 0 if instant is None else to_ms(instant, field=field)
