"""Receive and ReceiveDeferred: give messages out, under a lease or for good.

Called through the operations table; long polling is the engine's business, here a round finds what
there is or nothing. A claim takes the first READY rows of the queue, which are the heads of their
lanes, so its cost depends neither on the backlog nor on what is held back. The reply of a call with
an attempt id is recorded in the same transaction and returned again, whole, to whoever repeats the
id (spec/engine.md 3.4).
"""

from __future__ import annotations

import secrets
from typing import Final

import msgspec

from mqlite_actor.contract import limits
from mqlite_actor.contract.wire import (
    Message,
    MessagesResponse,
    ReceiveDeferredRequest,
    ReceiveRequest,
)
from mqlite_actor.semantics import lifecycle
from mqlite_actor.semantics.lifecycle import Event, check_step, instant
from mqlite_actor.storage import memory, messages, queues, rows
from mqlite_actor.storage.database import Row, Stored, Transaction
from mqlite_actor.storage.queues import Queue

RECEIVE_AND_DELETE: Final = 1

TOKEN_BYTES: Final = 16

EXPIRED_ROUNDS_MAX: Final = 8
"""Rounds of clearing expired heads within one claim (each up to MAINTENANCE_ROWS rows). A queue
whose front is longer than that is left to the expiry pass, and the claim looks behind it."""

_encode_reply = msgspec.msgpack.Encoder().encode
_decode_reply = msgspec.msgpack.Decoder(MessagesResponse).decode


def receive(tx: Transaction, request: ReceiveRequest, now_ms: int) -> MessagesResponse:
    """One round: messages in order of their numbers, at most one per lane under a lease."""
    queue = queues.find(tx, request.queue)
    attempt_id = request.receive_attempt_id
    if attempt_id:
        known = recorded(tx, queue, attempt_id, now_ms)
        if known is not None:
            return known
    wanted = min(max(request.max_messages, 1), limits.RECEIVE_MESSAGES_MAX)
    take = _drain if request.receive_mode == RECEIVE_AND_DELETE else claim
    reply = MessagesResponse(messages=take(tx, queue, wanted, now_ms))
    if attempt_id and reply.messages:
        lifetime = max(queue.lock_duration_ms, limits.ATTEMPT_MS_MIN)
        expires_at = instant(now_ms, lifetime)
        tx.run([memory.remember_attempt(queue.id, attempt_id, expires_at, _encode_reply(reply))])
    return reply


def recorded(
    tx: Transaction, queue: Queue, attempt_id: str, now_ms: int
) -> MessagesResponse | None:
    """The reply that this attempt got, if it is still remembered."""
    known = tx.run([memory.find_attempt(queue.id, attempt_id, now_ms)])[0]
    return _decode_reply(known[0][0]) if known else None


def receive_deferred(
    tx: Transaction, request: ReceiveDeferredRequest, now_ms: int
) -> MessagesResponse:
    """Lock deferred messages by number, in the order asked; unknown and expired ones are skipped.

    Stops at the byte budget of a page: what is over it stays deferred (ruling R40).
    """
    queue = queues.find(tx, request.queue)
    until = instant(now_ms, queue.lock_duration_ms)
    found: list[Message] = []
    total = 0
    for seq in request.seq_numbers:
        row = messages.first(tx.run([messages.row(seq)])[0])
        if row is None or not _is_receivable(row, queue, now_ms):
            continue
        check_step(Event.CLAIM_DEFERRED, lifecycle.DEFERRED, lifecycle.LOCKED)
        token = secrets.token_bytes(TOKEN_BYTES)
        tx.run([messages.lock(seq, token, until)])
        tx.moved(queue, before=Stored.DEFERRED, after=Stored.LOCKED)
        found.append(rows.delivered(row, token=token, locked_until=until))
        total += len(found[-1].body)
        if total >= limits.PAGE_BYTES_MAX:
            break
    if found:
        tx.due("locks", until)
    _count_deliveries(tx, queue, found)
    return MessagesResponse(messages=found)


def _is_receivable(row: Row, queue: Queue, now_ms: int) -> bool:
    _, queue_id, state, *_ = row
    is_ours: bool = queue_id == queue.id and state == Stored.DEFERRED
    return is_ours and not _is_over(row[rows.EXPIRES_AT], now_ms)


# -- peek-lock -------------------------------------------------------------------------------------


def claim(tx: Transaction, queue: Queue, wanted: int, now_ms: int) -> list[Message]:
    """Lock the next messages in line, each under a token of its own, within count and bytes."""
    chosen = _next_in_line(tx, queue, wanted, now_ms)
    if not chosen:
        return []
    check_step(Event.CLAIM, lifecycle.ACTIVE, lifecycle.LOCKED)
    until = instant(now_ms, queue.lock_duration_ms)
    random = secrets.token_bytes(TOKEN_BYTES * len(chosen))
    tokens = [random[at : at + TOKEN_BYTES] for at in range(0, len(random), TOKEN_BYTES)]
    leases = [(until, token, row[0]) for row, token in zip(chosen, tokens, strict=True)]
    tx.run_many(messages.LOCK, leases)
    tx.due("locks", until)
    tx.moved(queue, before=Stored.READY, after=Stored.LOCKED, number=len(chosen))
    found = [
        rows.delivered(row, token=token, locked_until=until)
        for row, token in zip(chosen, tokens, strict=True)
    ]
    _count_deliveries(tx, queue, found)
    return found


# -- receive and delete ----------------------------------------------------------------------------


def _drain(tx: Transaction, queue: Queue, wanted: int, now_ms: int) -> list[Message]:
    """Taking a head lets the next of its lane come, so one call may empty a group in order."""
    check_step(Event.TAKE, lifecycle.ACTIVE, lifecycle.NONE)
    found: list[Message] = []
    total = 0
    while len(found) < wanted and total < limits.PAGE_BYTES_MAX:
        chosen = _next_in_line(tx, queue, wanted - len(found), now_ms, until_lane=True)
        if not chosen:
            break
        writes = tx.writes()
        for row in chosen:
            writes.add(*messages.delete(row[0], has_body_apart=bool(row[rows.IS_APART])))
            found.append(rows.delivered(row, token=None, locked_until=0))
            total += len(found[-1].body)
        tx.moved(queue, before=Stored.READY, number=len(chosen))
        lifecycle.let_next_come(writes, queue, chosen[-1][rows.GROUP_ID])
        writes.run()
    tx.happened(queue.name, "receive_deleted", len(found))
    _count_deliveries(tx, queue, found)
    return found


# -- the front of the queue ------------------------------------------------------------------------


def _next_in_line(
    tx: Transaction, queue: Queue, wanted: int, now_ms: int, *, until_lane: bool = False
) -> list[Row]:
    """Whole rows of the first claimable messages, within count and bytes.

    A head past its time is expired here and now, so that it never holds back its lane
    (spec/engine.md 3.5, E57). `until_lane` stops after the first message that heads a lane.
    """
    for _ in range(EXPIRED_ROUNDS_MAX):
        if wanted == 1:
            front = tx.run([messages.head_rows(queue.id, 1)])[0]
            if not front or not _is_over(front[0][rows.EXPIRES_AT], now_ms):
                return front
            _expire_heads(tx, queue, now_ms)
            continue
        heads = tx.run([messages.heads(queue.id, wanted)])[0]
        if any(_is_over(expires_at, now_ms) for _, expires_at, _, _ in heads):
            _expire_heads(tx, queue, now_ms)
            continue
        number = _how_many(heads, queue, until_lane=until_lane)
        return tx.run([messages.head_rows(queue.id, number)])[0] if number else []
    fresh = tx.run([messages.fresh_heads(queue.id, now_ms, wanted)])[0]
    number = _how_many(fresh, queue, until_lane=until_lane)
    found = tx.run([messages.row(head[0]) for head in fresh[:number]])
    return [row for (row,) in found]


def _is_over(expires_at: int, now_ms: int) -> bool:
    return 0 < expires_at <= now_ms


def _how_many(heads: list[Row], queue: Queue, *, until_lane: bool) -> int:
    """How many of these heads fit the byte budget; the one that reaches it is included."""
    total = 0
    for number, (_, _, group_id, size) in enumerate(heads, start=1):
        total += size
        if total >= limits.PAGE_BYTES_MAX or (
            until_lane and (queue.is_strict or group_id is not None)
        ):
            return number
    return len(heads)


def _expire_heads(tx: Transaction, queue: Queue, now_ms: int) -> None:
    front = tx.run([messages.held_heads(queue.id, limits.MAINTENANCE_ROWS)])[0]
    writes = tx.writes()
    for held in map(rows.held, front):
        if _is_over(held.expires_at, now_ms):
            lifecycle.expire(tx, writes, queue, held)
    writes.run()


def _count_deliveries(tx: Transaction, queue: Queue, found: list[Message]) -> None:
    tx.happened(queue.name, "delivered", len(found))
    tx.happened(queue.name, "redelivered", sum(m.delivery_count > 1 for m in found))
