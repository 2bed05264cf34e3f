"""Send and Schedule: store messages, all of the call or none.

Called through the operations table. Order of refusals is the contract's (spec/wire.md 2.1):
negative time, empty call, past time, size, name, group; then each message meets duplicate detection
and is written. One `now` serves the whole call.
"""

from __future__ import annotations

import hashlib

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import (
    DedupConflict,
    GroupRequired,
    InvalidArgument,
    MessageTooLarge,
)
from mqlite_actor.contract.wire import Message, SendRequest, SendResponse
from mqlite_actor.contract.words import Ordering
from mqlite_actor.semantics import lifecycle
from mqlite_actor.semantics.lifecycle import Event, check_step, instant
from mqlite_actor.storage import memory, messages, queues, rows
from mqlite_actor.storage.database import Stored, Transaction
from mqlite_actor.storage.queues import Queue


def send(
    tx: Transaction, request: SendRequest, now_ms: int, *, message_bytes_max: int
) -> SendResponse:
    """Store every message; one slot per message, in order.

    A duplicate's slot is the number of the first acceptance. A conflicting duplicate raises
    DedupConflict when it is the only message of the call, else its slot is 0 and the others are
    stored.
    """
    at = request.scheduled_enqueue_time_ms
    if at < 0:
        raise InvalidArgument("scheduled_enqueue_time_ms is negative; use 0 for now")
    if not request.messages:
        return SendResponse(seq_numbers=None)
    _check_time(at, now_ms)
    _check_sizes(request.messages, message_bytes_max)
    queue = queues.find(tx, request.queue)
    _check_groups(queue, request.messages)
    verdicts = _verdicts(tx, queue, request.messages, now_ms)
    if len(verdicts) == 1 and verdicts[0].is_conflict:
        tx.happened(queue.name, "dedup_conflict")
        raise DedupConflict(
            f"message_id {request.messages[0].message_id!r} was sent to {queue.name!r} before,"
            " with another body"
        )
    return SendResponse(seq_numbers=_store(tx, queue, request, verdicts, now_ms))


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


def _check_groups(queue: Queue, batch: list[Message]) -> None:
    if queue.ordering_mode != Ordering.GROUP_FIFO:
        return
    for index, message in enumerate(batch):
        if not message.group_id:
            raise GroupRequired(
                f"messages[{index}].group_id is empty; queue {queue.name!r} orders by group"
                " (group_fifo)"
            )


# -- duplicates ------------------------------------------------------------------------------------


class _Verdict:
    """What duplicate detection says of one message of a call."""

    __slots__ = ("body_hash", "is_conflict", "key", "same_as", "seq")

    def __init__(self) -> None:
        self.key = ""  # empty: the queue detects nothing
        self.body_hash = b""
        self.seq = 0  # number of the first acceptance
        self.same_as = -1  # or its index in this very call
        self.is_conflict = False


def _verdicts(tx: Transaction, queue: Queue, batch: list[Message], now_ms: int) -> list[_Verdict]:
    verdicts = [_Verdict() for _ in batch]
    if queue.dedup_window_ms <= 0:
        return verdicts
    for message, verdict in zip(batch, verdicts, strict=True):
        digest = hashlib.sha256(message.body)
        verdict.body_hash = digest.digest()
        verdict.key = message.message_id or digest.hexdigest()
    seen_after = now_ms - queue.dedup_window_ms
    found = tx.run([memory.find_duplicate(queue.id, v.key, seen_after) for v in verdicts])
    accepted: dict[str, int] = {}
    for index, (verdict, known) in enumerate(zip(verdicts, found, strict=True)):
        if known:
            seq, body_hash = known[0]
            verdict.is_conflict = body_hash != verdict.body_hash
            verdict.seq = 0 if verdict.is_conflict else seq
        elif verdict.key in accepted:
            first = accepted[verdict.key]
            verdict.is_conflict = verdicts[first].body_hash != verdict.body_hash
            verdict.same_as = -1 if verdict.is_conflict else first
        else:
            accepted[verdict.key] = index
    return verdicts


# -- writing ---------------------------------------------------------------------------------------


def _store(
    tx: Transaction, queue: Queue, request: SendRequest, verdicts: list[_Verdict], now_ms: int
) -> list[int]:
    at = request.scheduled_enqueue_time_ms
    state = Stored.SCHEDULED if at else Stored.READY
    visible_at = at or now_ms
    writes = tx.writes()
    slots: list[int] = []
    stored = 0
    for message, verdict in zip(request.messages, verdicts, strict=True):
        if verdict.is_conflict or verdict.seq or verdict.same_as >= 0:
            slots.append(slots[verdict.same_as] if verdict.same_as >= 0 else verdict.seq)
            tx.happened(queue.name, "dedup_conflict" if verdict.is_conflict else "deduplicated")
            continue
        seq = tx.next_seq()
        ttl_ms = _effective_ttl(message.ttl_ms if message.ttl_ms > 0 else request.ttl_ms, queue)
        lane = lifecycle.lane_of(queue, message.group_id or None)
        insert = messages.insert(
            seq,
            queue.id,
            lane,
            state=state,
            visible_at=visible_at,
            enqueued_at=now_ms,
            expires_at=instant(visible_at, ttl_ms) if ttl_ms else 0,
            texts=rows.texts(message),
            body=message.body,
        )
        if state is Stored.READY and lane is not None:
            writes.place(insert, queue)
        else:
            writes.add(insert)
        if messages.is_apart(message.body):
            writes.add(messages.insert_body(seq, message.body))
        if verdict.key:
            writes.add(memory.accept(queue.id, verdict.key, verdict.body_hash, seq, now_ms))
        slots.append(seq)
        stored += 1
        if state is Stored.READY and lane is None:
            tx.wake(queue.name)
    writes.run()
    _note(tx, queue, state, stored)
    return slots


def _effective_ttl(ttl_ms: int, queue: Queue) -> int:
    """The message's own time to live, with the queue's as default and ceiling; 0 is for ever."""
    own = max(ttl_ms, 0)
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
