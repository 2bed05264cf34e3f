"""The everyday verbs, written once over one `call`.

Subclassed by each kind of handle, which only says how a request reaches an engine. A verb turns
Python values (seconds, datetimes, keyword arguments) into the contract's request and back, and adds
the checks that a person expects but the wire does not make: peek of an unknown queue is an error
here (decision 6), and so is a batch in which a message was refused (ruling R19). The verbs of
our own routes are in `extensions.py`.
"""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar, Unpack, cast

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import (
    DedupConflict,
    InvalidArgument,
    MqliteError,
    Unavailable,
    WorldError,
)
from mqlite_actor.contract.wire import Message
from mqlite_actor.contract.words import State
from mqlite_actor.sdk import requests
from mqlite_actor.sdk.administration import Administration
from mqlite_actor.sdk.durations import Duration, duration_to_ms, wait_to_ms
from mqlite_actor.sdk.entities import Entities, or_zero
from mqlite_actor.sdk.extensions import Extensions
from mqlite_actor.sdk.message import Received, ReceivedMessage, settling
from mqlite_actor.sdk.refusals import refused
from mqlite_actor.sdk.replays import claimed
from mqlite_actor.sdk.requests import Body

if TYPE_CHECKING:
    from mqlite_actor.sdk.receiver import Receiver
    from mqlite_actor.sdk.receiving import ReceiverOptions
    from mqlite_actor.sdk.typed import TypedQueue

R = TypeVar("R")
T = TypeVar("T")

READY_PAUSE_SECONDS = 0.1
"""Between two looks at a broker that is starting, which takes some tenths of a second."""


class Handle(Entities, Extensions, Administration):
    """Queues, messages and their verbs. Errors are the classes of `mqlite_actor.contract.errors`.

    Cancelling a call that has not begun leaves nothing behind; one that has begun takes effect. A
    cancelled `receive` gives back what it had claimed.
    """

    __slots__ = ()

    @abstractmethod
    async def call(self, request: wire.Request[R]) -> R:
        """Send any request of the contract and return its response."""

    def now_ms(self) -> int:
        """The engine's wall clock, as far as it is known here: what its deadlines are measured
        by."""
        return SystemClock().now_ms()

    async def give_back(
        self,
        queue: str,
        messages: Sequence[Message],
        *,
        attempt_id: str = "",
    ) -> None:
        """Return claims that nobody has seen, as if they had not been delivered.

        `attempt_id` is that of the receive which brought them, if it had one.
        Where the other side cannot do that, they are abandoned, which counts as a delivery.
        """
        held = [ReceivedMessage(self, queue, message) for message in messages]
        await self.release(held, attempt_id=attempt_id)

    def receiver(self, queue: str, **options: Unpack[ReceiverOptions]) -> Receiver:
        """A consumer of this queue, to be `run` with a handler. Options: `ReceiverOptions`."""
        settings = import_module("mqlite_actor.sdk.receiving").settings_of(options)
        module = import_module("mqlite_actor.sdk.receiver")
        return cast("Receiver", module.Receiver(self, queue, settings))

    async def consume(
        self, queue: str, *, wait: Duration = 20, until_empty: bool = False
    ) -> AsyncIterator[ReceivedMessage]:
        """`async for message in q.consume("orders")`: one message after the other, for ever.

        Settle each before you ask for the next; the lease is the queue's, and nobody renews it (a
        receiver does). `until_empty` ends with the first poll that finds nothing within `wait`.
        Nothing is claimed ahead, so leaving the loop leaves nothing behind. Errors as for
        `receive`, but one Unavailable or OutcomeUnknown is tried again under the same attempt id;
        a message whose lease has ended by then is left out.
        """
        while True:
            request = wire.ReceiveRequest(
                queue=queue,
                max_messages=1,
                wait_time_ms=wait_to_ms(wait),
                receive_attempt_id=secrets.token_hex(16),
            )
            claim = await claimed(self, request, self._guarded, repeats=WorldError)
            for message in claim.held:
                yield ReceivedMessage(self, queue, message)
            if until_empty and claim.was_empty:
                return

    def queue(self, name: str, kind: type[T]) -> TypedQueue[T]:
        """A queue of JSON bodies of one type (struct, dataclass, list[int] …), or a refusal."""
        module = import_module("mqlite_actor.sdk.typed")
        return cast("TypedQueue[T]", module.TypedQueue(self, name, kind))

    async def send_all(
        self, queue: str, messages: Iterable[Message | Body], *, ttl: Duration | None = None
    ) -> list[int]:
        """Send any number of messages, in as many calls as their size needs; their numbers.

        Each call is one transaction, the whole is not: when one fails, those before it are stored.
        Errors as for `send`, but a DedupConflict is raised when all else is stored, over the whole.
        """
        numbers: list[int] = []
        refused: list[int] = []
        reason = ""
        for part in requests.parts(messages):
            try:
                slots, fault = await self._send_part(queue, part, ttl=ttl)
            except DedupConflict as error:  # of a part that is one message
                slots, fault = [0], error.message
            except MqliteError as error:
                if refused:
                    error.add_note(requests.conflict(refused, numbers, reason).message)
                raise
            if fault:
                reason = reason or fault
                refused += [len(numbers) + index for index in requests.unstored(slots)]
            numbers += slots
        if refused:
            raise requests.conflict(refused, numbers, reason)
        return numbers

    async def reply(
        self,
        received: Received,
        body: Body = b"",
        *,
        content_type: str = "",
        properties: Mapping[str, str] | None = None,
    ) -> int:
        """Answer a message at the queue that its `reply_to` names; the answer's number.

        The answer's `correlation_id` is the request's, or else its `message_id`. InvalidArgument
        if it names no queue. `requester` is the other side.
        """
        if not received.reply_to:
            raise InvalidArgument("the message has no reply_to; nobody waits for an answer")
        answer = requests.message(
            body,
            correlation_id=received.correlation_id or received.message_id,
            content_type=content_type,
            properties=properties or {},
        )
        return (await self.send(received.reply_to, [answer]))[0]

    async def wait_ready(self, *, seconds: Duration = 30) -> wire.StatusResponse:
        """Wait until the engine answers; its status. For programs that start beside their broker.

        Raises Unavailable when `seconds` are over; everything but Unavailable at once.
        """
        clock = SystemClock()
        until = clock.monotonic() + duration_to_ms(seconds, field="seconds") / 1000
        while True:
            try:
                return await self.status()
            except Unavailable:
                if clock.monotonic() >= until:
                    raise
            await self.pause(READY_PAUSE_SECONDS)

    async def pause(self, seconds: float) -> None:
        """Let time pass, the way this handle's kind of program does."""
        await import_module("anyio").sleep(seconds)

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
        content, own_type = requests.payload(body)
        message = Message(
            body=content,
            message_id=message_id,
            group_id=group_id,
            correlation_id=correlation_id,
            reply_to=reply_to,
            subject=subject,
            content_type=content_type or own_type,
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
        where refused). From a topic 0 is also a message that no subscription wanted, which is no
        error by itself.
        """
        numbers, fault = await self._send_part(queue, requests.batch(messages), ttl=ttl, at=at)
        if fault:
            raise requests.conflict(requests.unstored(numbers), numbers, fault)
        return numbers

    async def _send_part(
        self,
        queue: str,
        batch: list[Message],
        *,
        ttl: Duration | None,
        at: datetime | None = None,
    ) -> tuple[list[int], str]:
        """The numbers; and why there are zeros among them, "" where nobody wanted those messages.

        A batch's answer does not tell a refused message from an unwanted one, and only one with an
        id can have been refused.
        """
        request = requests.send(queue, batch, ttl=ttl, at=at)
        numbers = (await self.call(request)).seq_numbers or []
        asked = [index for index in requests.unstored(numbers) if batch[index].message_id]
        if not asked or len(batch) == 1:  # a single one that was refused has raised
            return numbers, ""
        return await refused(self, request, list(numbers), asked)

    async def cancel(self, queue: str, seq_number: int) -> None:
        """Delete a scheduled message before its first delivery; NotFound if it cannot be."""
        await self.call(wire.CancelRequest(queue=queue, seq_number=seq_number))

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
        it is removed before it is returned. With an `attempt_id`, another one for each receive, a
        lost answer is asked for once more; what is not under its lease any more is left out then.
        OutcomeUnknown if that fails, too: the same `attempt_id` brings the same messages again,
        which may be over by then.
        """
        request = wire.ReceiveRequest(
            queue=queue,
            max_messages=max_messages,
            wait_time_ms=wait_to_ms(wait),
            receive_mode=1 if at_most_once else 0,
            receive_attempt_id=attempt_id,
        )
        if attempt_id:
            held = (await claimed(self, request, self._guarded)).held
        else:
            held = (await self.call(request)).messages
        return [ReceivedMessage(self, queue, message) for message in held]

    def _guarded(
        self, queue: str, messages: Sequence[Message], attempt_id: str
    ) -> AbstractAsyncContextManager[None]:
        """A block that gives a claim back if it is cancelled before it hands it out."""
        module = import_module("mqlite_actor.sdk.handing")
        guarded: AbstractAsyncContextManager[None] = module.guarded(
            self, queue, messages, attempt_id
        )
        return guarded

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

        0 is no bound. With a rate the call takes its time, over HTTP at most a week; when the
        engine ends meanwhile it answers what it has moved. What was moved stays so if the call
        fails, or is cancelled, which ends it.
        """
        request = wire.RedriveRequest(
            queue=queue,
            target=target,
            max=max_messages,
            older_than_ms=or_zero(older_than, "older_than"),
            rate_per_sec=rate_per_second,
        )
        return (await self.call(request)).moved

    async def purge(self, queue: str, *, max_messages: int = 0, older_than: Duration = 0) -> int:
        """Delete dead letters, oldest first; how many. 0 is no bound."""
        request = wire.PurgeRequest(
            queue=queue, max=max_messages, older_than_ms=or_zero(older_than, "older_than")
        )
        return (await self.call(request)).purged

    # -- settling ----------------------------------------------------------------------------------

    def message(self, queue: str, seq_number: int, lock_token: str) -> ReceivedMessage:
        """A message in hand rebuilt from its lease, to settle it; asks nobody."""
        return ReceivedMessage(self, queue, Message(seq_number=seq_number, lock_token=lock_token))

    async def complete_batch(self, messages: Iterable[Received]) -> list[bool]:
        """Complete messages of one queue in one transaction; which of them were, in order."""
        given = list(messages)
        queue, items = requests.leases(given)
        if not items:
            return []
        with settling(given) as done:
            reply = await self.call(wire.CompleteBatchRequest(queue=queue, messages=items))
            done[:] = [result.ok for result in reply.results]
        return done

    async def renew_batch(self, messages: Iterable[Received]) -> list[bool]:
        """Extend the leases of up to 512 messages of one queue; which of them are, in order."""
        given = list(messages)
        queue, items = requests.leases(given)
        if not items:
            return []
        reply = await self.call(wire.RenewBatchRequest(queue=queue, messages=items))
        now_ms = self.now_ms()
        for each, result in zip(given, reply.results, strict=False):
            if result.ok:
                each.note_renewed((result.locked_until_ms - now_ms) / 1000)
        return [result.ok for result in reply.results]
