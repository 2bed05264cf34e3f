"""Neighbours: commands of one kind for one queue that share their statements (design.md 3.3).

The engine hands a run function the longest row of neighbouring commands of one kind in a group; it
serves as many from the front as can go together, and answers for those. What does not fit (topics,
duplicate detection, lanes, large bodies) it leaves to the verb's own function, so that
no rule is written twice: a run differs from the same commands one after another only in its speed.
A command that is refused in a run has written nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import CallerError
from mqlite_actor.contract.wire import MessagesResponse, OkResponse, SendResponse
from mqlite_actor.contract.words import Ordering
from mqlite_actor.semantics import lifecycle, receive, send, settle
from mqlite_actor.semantics.lifecycle import Event, check_step, instant
from mqlite_actor.storage import messages, queues, rows
from mqlite_actor.storage.database import Stored, Transaction, Value
from mqlite_actor.storage.queues import Queue

Run = Callable[[Transaction, Sequence[Any], int], Sequence[Any]]
"""(transaction, neighbours, now in ms) to a response or refusal for each command of a prefix, which
is empty when not even the first fits. Any: the pairing of types is the table's own."""


def runs(*, message_bytes_max: int) -> dict[type[Any], Run]:
    """The kinds whose neighbours share statements."""
    return {
        wire.SendRequest: partial(send_many, message_bytes_max=message_bytes_max),
        wire.ReceiveRequest: receive_many,
        wire.CompleteRequest: complete_many,
    }


# -- sends -----------------------------------------------------------------------------------------


def send_many(
    tx: Transaction,
    requests: Sequence[wire.SendRequest],
    now_ms: int,
    *,
    message_bytes_max: int,
) -> list[SendResponse]:
    """Sends, now, of small bodies into one queue that keeps neither lanes nor duplicate keys."""
    name = requests[0].queue
    queue = queues.lookup(tx, name)
    if queue is None or queue.dedup_window_ms > 0 or queue.ordering_mode != Ordering.STANDARD:
        return []
    bytes_max = min(message_bytes_max, limits.INLINE_BYTES_MAX)
    chosen: list[wire.SendRequest] = []
    number = 0
    for request in requests:
        if request.queue != name or not _is_plain(request, bytes_max):
            break
        chosen.append(request)
        number += len(request.messages)
    if not chosen:
        return []
    seq = tx.next_seq(number)
    written: list[tuple[Value, ...]] = []
    replies: list[SendResponse] = []
    for request in chosen:
        first = seq
        for message in request.messages:
            ttl_ms = send.effective_ttl(message, request, queue)
            expires_at = instant(now_ms, ttl_ms) if ttl_ms else 0
            texts = rows.texts(message)
            written.append(
                messages.ready_row(seq, queue.id, now_ms, expires_at, texts, message.body)
            )
            if expires_at:
                tx.due("ttl", expires_at)
            seq += 1
        replies.append(SendResponse(seq_numbers=list(range(first, seq))))
    tx.write_many(messages.INSERT, written)
    check_step(Event.SEND, lifecycle.NONE, lifecycle.ACTIVE)
    tx.moved(queue, after=Stored.READY, number=number)
    tx.happened(name, "enqueued", number)
    tx.wake(name, number)
    return replies


def _is_plain(request: wire.SendRequest, bytes_max: int) -> bool:
    if request.scheduled_enqueue_time_ms or not request.messages:
        return False
    for message in request.messages:
        if len(message.body) > bytes_max or message.group_id:
            return False
    return True


# -- claims ----------------------------------------------------------------------------------------


def receive_many(
    tx: Transaction, requests: Sequence[wire.ReceiveRequest], now_ms: int
) -> list[MessagesResponse]:
    """Claims of one queue: the messages next in line, dealt out in the order of the claims."""
    numbers = wanted(requests)
    queue = queues.lookup(tx, requests[0].queue) if len(numbers) > 1 else None
    if queue is None:
        return []
    receive.expect_front(tx, queue, sum(numbers), now_ms)
    known = _recorded(tx, queue, requests[: len(numbers)], now_ms)
    if known and not tx.ledger.is_distant:  # that one goes by itself
        numbers, known = numbers[: min(known)], {}
    total = sum(number for place, number in enumerate(numbers) if place not in known)
    found, is_page_full = receive.claim(tx, queue, total, now_ms) if total else ([], False)
    if is_page_full:
        receive.leave_to_others(tx, queue, total)
    replies: list[MessagesResponse] = []
    begin = 0
    for place, number in enumerate(numbers):
        if place in known:
            replies.append(known[place])
            continue
        if is_page_full and begin >= len(found):
            break  # there may be more, but not in this page
        reply = MessagesResponse(messages=found[begin : begin + number])
        receive.record(tx, queue, requests[place].receive_attempt_id, reply, now_ms)
        replies.append(reply)
        begin += number
    return replies


def _recorded(
    tx: Transaction, queue: Queue, requests: Sequence[wire.ReceiveRequest], now_ms: int
) -> dict[int, MessagesResponse]:
    """By their places, the replies of attempts that are repeated; of a store of this machine the
    first of them, since each may be as large as a page and costs no round trip."""
    asked = [place for place, each in enumerate(requests) if each.receive_attempt_id]
    if not asked:
        return {}
    if not tx.ledger.is_distant:
        for place in asked:
            reply = receive.recorded(tx, queue, requests[place].receive_attempt_id, now_ms)
            if reply is not None:
                return {place: reply}
        return {}
    ids = [requests[place].receive_attempt_id for place in asked]
    found = receive.all_recorded(tx, queue, ids, now_ms)
    return {place: reply for place, reply in zip(asked, found, strict=True) if reply is not None}


def wanted(requests: Sequence[wire.ReceiveRequest]) -> list[int]:
    """How many messages each of the first claims asks for, as far as one claim can serve them."""
    name, room = requests[0].queue, limits.RECEIVE_MESSAGES_MAX
    attempts: set[str] = set()
    numbers: list[int] = []
    for request in requests:
        number = receive.bounded(request).max_messages
        room -= number
        if (
            room < 0
            or request.queue != name
            or request.receive_attempt_id in attempts  # it gets what the first one gets
            or request.receive_mode == receive.RECEIVE_AND_DELETE
        ):
            break
        numbers.append(number)
        if request.receive_attempt_id:
            attempts.add(request.receive_attempt_id)
    return numbers


# -- completes -------------------------------------------------------------------------------------


def complete_many(
    tx: Transaction, requests: Sequence[wire.CompleteRequest], now_ms: int
) -> list[OkResponse | CallerError]:
    """Completes of one queue, each under its own fence and with its own receipt."""
    name = requests[0].queue
    queue = queues.lookup(tx, name)
    if queue is None:
        return []
    leases: list[settle.Lease] = []
    for request in requests:
        token = settle.parse_token(request.lock_token)
        if request.queue != name or token is None:
            break
        leases.append((request.seq_number, token))
    if len(leases) < 2:  # one alone shares nothing
        return []
    done = settle.complete_all(tx, queue, leases, now_ms)
    if done.issuperset(leases):
        return [settle.DONE] * len(leases)
    return [settle.DONE if lease in done else settle.lost(lease[0]) for lease in leases]
