"""Send and Schedule: store messages, all of the call or none.

Called through the operations table; `judged` and `store` are its two halves, for SendResult too.
Order of refusals is the contract's (spec/wire.md 2.1): negative time, empty call, past time, size,
name, group; then each message meets duplicate detection and is written. One `now` serves the whole
call.
"""

from __future__ import annotations

import hashlib
from typing import TypeAlias

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import (
    DedupConflict,
    GroupRequired,
    InvalidArgument,
    MessageTooLarge,
    quoted,
)
from mqlite_actor.contract.ext import SendResultRequest
from mqlite_actor.contract.wire import Message, SendRequest, SendResponse
from mqlite_actor.contract.words import Ordering
from mqlite_actor.filters import Facts
from mqlite_actor.semantics import lifecycle, routing
from mqlite_actor.semantics.lifecycle import Event, check_step, instant
from mqlite_actor.semantics.routing import Route, Undecided, Verdicts
from mqlite_actor.storage import memory, messages, rows
from mqlite_actor.storage.database import Stored, Transaction, WriteSet
from mqlite_actor.storage.queues import Queue

UNASKED: Verdicts = {}

Sending: TypeAlias = SendRequest | SendResultRequest
"""What carries messages: both have the same four fields."""


def send(
    tx: Transaction,
    request: SendRequest,
    now_ms: int,
    *,
    message_bytes_max: int,
    known: Verdicts = UNASKED,
) -> SendResponse | Undecided:
    """Store every message in every target that wants it; one slot per message, in order.

    A slot is the number in the last target, in the order of their names, that stored or recognised
    the message; a recognised duplicate's number is that of the first acceptance. A duplicate with
    another body leaves 0, or raises DedupConflict when it is the only message of the call.
    Undecided when a slow filter has to be asked first, whose verdict is not among the `known`.
    """
    if request.scheduled_enqueue_time_ms >= 0 and not request.messages:
        return SendResponse(seq_numbers=None)
    slots = judged(tx, request, now_ms, message_bytes_max=message_bytes_max, known=known)
    if isinstance(slots, Undecided):
        return slots
    if len(slots) == 1 and slots[0].is_refused:
        for each in slots[0].deliveries:
            tx.happened(each.queue.name, "dedup_conflict")
        raise DedupConflict(
            f"message_id {quoted(request.messages[0].message_id)} was sent to"
            f" {quoted(request.queue)} before, with another body"
        )
    store(tx, request, slots, now_ms)
    return SendResponse(seq_numbers=[slot.seq for slot in slots])


def judged(
    tx: Transaction, request: Sending, now_ms: int, *, message_bytes_max: int, known: Verdicts
) -> list[Slot] | Undecided:
    """Which targets want each message and what duplicate detection says of it; writes nothing.

    Raises what a send is refused for.
    """
    at = request.scheduled_enqueue_time_ms
    if at < 0:
        raise InvalidArgument("scheduled_enqueue_time_ms is negative; use 0 for now")
    _check_time(at, now_ms)
    _check_sizes(request.messages, message_bytes_max)
    routes = routing.routes(tx, request.queue)
    questions = routing.undecided(routes, request.messages, known)
    if questions is not None:
        return questions
    deliveries = _wanted(tx, routes, request, now_ms, known)
    _recognise(tx, deliveries, request.messages, now_ms)
    slots = [Slot() for _ in request.messages]
    for each in deliveries:
        slots[each.index].deliveries.append(each)
    return slots


# -- refusals --------------------------------------------------------------------------------------


def _check_time(at: int, now_ms: int) -> None:
    if at and at <= now_ms:
        raise InvalidArgument(
            f"scheduled_enqueue_time_ms {at} is not in the future (now is {now_ms})"
        )
    if at > limits.INSTANT_MS_MAX:
        raise InvalidArgument(
            f"scheduled_enqueue_time_ms {at} is after the last instant, {limits.INSTANT_MS_MAX}"
        )


def _check_sizes(batch: list[Message], message_bytes_max: int) -> None:
    for index, message in enumerate(batch):
        if len(message.body) > message_bytes_max:
            raise MessageTooLarge(
                f"messages[{index}].body has {len(message.body)} bytes; the limit is"
                f" {message_bytes_max}"
            )


# -- who gets what ---------------------------------------------------------------------------------


class Delivery:
    """One message for one target, and what duplicate detection says of it."""

    __slots__ = ("body_hash", "index", "is_conflict", "key", "queue", "same_as", "seq")

    def __init__(self, index: int, queue: Queue) -> None:
        self.index = index  # of the message in the call
        self.queue = queue
        self.key = ""  # empty: the queue detects nothing
        self.body_hash = b""
        self.seq = 0  # of the first acceptance, or of this one once it has a number
        self.same_as: Delivery | None = None  # an equal message of this very call
        self.is_conflict = False

    @property
    def is_new(self) -> bool:
        """Whether it is to be stored. Asked before numbers are given."""
        return not (self.is_conflict or self.seq or self.same_as)


class Slot:
    """What the caller learns of one message."""

    __slots__ = ("deliveries",)

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []  # in the order of the targets' names

    @property
    def is_refused(self) -> bool:
        """Some target called it a conflict, and none took or knew it."""
        return bool(self.deliveries) and all(each.is_conflict for each in self.deliveries)

    @property
    def copies(self) -> int:
        """In how many targets it is new. Asked before numbers are given."""
        return sum(each.is_new for each in self.deliveries)

    @property
    def seq(self) -> int:
        """The number in the last target that took or knew it; 0 if none did."""
        for each in reversed(self.deliveries):
            if not each.is_conflict:
                return each.same_as.seq if each.same_as else each.seq
        return 0


def _wanted(
    tx: Transaction, routes: list[Route], request: Sending, now_ms: int, known: Verdicts
) -> list[Delivery]:
    """Every message with every target that wants it. A target that does not is not asked whether
    the message has a group."""
    found: list[Delivery] = []
    visible_at_ms = request.scheduled_enqueue_time_ms or now_ms
    for index, message in enumerate(request.messages):
        facts = Facts(message, enqueued_at_ms=now_ms, visible_at_ms=visible_at_ms, now_ms=now_ms)
        for route in routes:
            if not routing.wants(tx, route, index, facts, known):
                continue
            if route.queue.ordering_mode == Ordering.GROUP_FIFO and not message.group_id:
                raise GroupRequired(
                    f"messages[{index}].group_id is empty; queue {quoted(route.queue.name)}"
                    " orders by group (group_fifo)"
                )
            found.append(Delivery(index, route.queue))
    return found


def _recognise(
    tx: Transaction, deliveries: list[Delivery], batch: list[Message], now_ms: int
) -> None:
    """Mark the duplicates among the deliveries, each target by its own window."""
    watched = [each for each in deliveries if each.queue.dedup_window_ms > 0]
    for each in watched:
        message = batch[each.index]
        digest = hashlib.sha256(message.body)
        each.body_hash = digest.digest()
        each.key = message.message_id or digest.hexdigest()
    known = tx.run(
        [
            memory.find_duplicate(e.queue.id, e.key, now_ms - e.queue.dedup_window_ms)
            for e in watched
        ]
    )
    first: dict[tuple[int, str], Delivery] = {}
    for each, rows_found in zip(watched, known, strict=True):
        earlier = first.get((each.queue.id, each.key))
        if rows_found:
            seq, body_hash = rows_found[0]
            each.is_conflict = body_hash != each.body_hash
            each.seq = 0 if each.is_conflict else seq
        elif earlier is not None:
            each.is_conflict = earlier.body_hash != each.body_hash
            each.same_as = None if each.is_conflict else earlier
        else:
            first[each.queue.id, each.key] = each


# -- writing ---------------------------------------------------------------------------------------


def store(tx: Transaction, request: Sending, slots: list[Slot], now_ms: int) -> None:
    """Write what is new and count what is not."""
    at = request.scheduled_enqueue_time_ms
    state = Stored.SCHEDULED if at else Stored.READY
    writes = tx.writes()
    stored: dict[str, tuple[Queue, int]] = {}
    for each in (each for slot in slots for each in slot.deliveries):
        queue = each.queue
        if not each.is_new:
            event = "dedup_conflict" if each.is_conflict else "deduplicated"
            tx.happened(queue.name, event)
            continue
        _insert(tx, writes, request, each, state, now_ms)
        stored[queue.name] = (queue, stored.get(queue.name, (queue, 0))[1] + 1)
    writes.run()
    if at:
        tx.due("scheduled", at)
    for queue, number in stored.values():
        _note(tx, queue, state, number)


def _insert(
    tx: Transaction,
    writes: WriteSet,
    request: Sending,
    delivery: Delivery,
    state: Stored,
    now_ms: int,
) -> None:
    queue = delivery.queue
    message = request.messages[delivery.index]
    visible_at = request.scheduled_enqueue_time_ms or now_ms
    seq = delivery.seq = tx.next_seq()
    ttl_ms = effective_ttl(message, request, queue)
    expires_at = instant(visible_at, ttl_ms) if ttl_ms else 0
    lane = lifecycle.lane_of(queue, message.group_id or None)
    insert = messages.insert(
        seq,
        queue.id,
        lane,
        state=state,
        visible_at=visible_at,
        enqueued_at=now_ms,
        expires_at=expires_at,
        texts=rows.texts(message),
        body=message.body,
    )
    if state is Stored.READY and lane is not None:
        writes.place(insert, queue)
    else:
        writes.add(insert)
    if messages.is_apart(message.body):
        writes.add(messages.insert_body(seq, message.body))
    if delivery.key:
        writes.add(memory.accept(queue.id, delivery.key, delivery.body_hash, seq, now_ms))
    if state is Stored.READY and lane is None:
        tx.wake(queue.name)
    tx.due("ttl", expires_at)


def effective_ttl(message: Message, request: Sending, queue: Queue) -> int:
    """The message's own time to live, or the call's, with the queue's as default and ceiling; 0 is
    for ever."""
    own = max(message.ttl_ms if message.ttl_ms > 0 else request.ttl_ms, 0)
    ceiling = queue.default_ttl_ms
    if ceiling > 0:
        return min(own, ceiling) if own else ceiling
    return own


def _note(tx: Transaction, queue: Queue, state: Stored, number: int) -> None:
    if not number:
        return
    is_scheduled = state is Stored.SCHEDULED
    event = Event.SCHEDULE if is_scheduled else Event.SEND
    check_step(event, lifecycle.NONE, lifecycle.WORD[state])
    tx.moved(queue, after=state, number=number)
    tx.happened(queue.name, "enqueued", number)
    if is_scheduled:
        tx.happened(queue.name, "scheduled", number)
