"""Receive and ReceiveDeferred: give messages out, under a lease or for good.

Called through the operations table; long polling is the engine's business, here a round finds what
there is or nothing. A claim takes the first READY rows of the queue, which are the heads of their
lanes, so its cost depends neither on the backlog nor on what is held back. The reply of a call with
an attempt id is recorded in the same transaction and returned again, whole, to whoever repeats the
id (spec/engine.md 3.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.wire import (
    Message,
    MessagesResponse,
    ReceiveDeferredRequest,
    ReceiveRequest,
)
from mqlite_actor.semantics import lifecycle
from mqlite_actor.semantics.lifecycle import Event, check_step, instant
from mqlite_actor.storage import memory, messages, queues, rows, taking
from mqlite_actor.storage.database import Row, Statement, Stored, Transaction
from mqlite_actor.storage.queues import Queue

RECEIVE_AND_DELETE: Final = 1

TOKEN_BYTES: Final = 16

EXPIRED_ROUNDS_MAX: Final = 8
"""Rounds of clearing expired heads within one claim (each up to MAINTENANCE_ROWS rows). A queue
whose front is longer than that is left to the expiry pass, and the claim looks behind it."""

NAMED_FACTOR: Final = 2
"""How many numbers one ReceiveDeferred may name, in times of what it gives out (RECALLED_MAX): each
is looked up while everybody else waits for the writer, half a second for all of them."""

_encode_reply = msgspec.msgpack.Encoder().encode
_decode_reply = msgspec.msgpack.Decoder(MessagesResponse).decode


def receive(tx: Transaction, request: ReceiveRequest, now_ms: int) -> MessagesResponse:
    """One round: messages in order of their numbers, at most one per lane under a lease."""
    queue = queues.find(tx, request.queue)
    attempt_id = request.receive_attempt_id
    wanted = bounded(request).max_messages
    if attempt_id:
        expect_front(tx, queue, wanted, now_ms)
        known = recorded(tx, queue, attempt_id, now_ms)
        if known is not None:
            return known
    take = _drain if request.receive_mode == RECEIVE_AND_DELETE else claim
    found, is_page_full = take(tx, queue, wanted, now_ms)
    if is_page_full:
        leave_to_others(tx, queue, wanted)
    reply = MessagesResponse(messages=found)
    record(tx, queue, attempt_id, reply, now_ms)
    return reply


def bounded(request: ReceiveRequest) -> ReceiveRequest:
    """The same request, for as many messages as a claim takes at least and at most."""
    wanted = min(max(request.max_messages, 1), limits.RECEIVE_MESSAGES_MAX)
    if wanted == request.max_messages:
        return request
    return msgspec.structs.replace(request, max_messages=wanted)


def leave_to_others(tx: Transaction, queue: Queue, number: int) -> None:
    """A claim of `number` was ended by the bytes of a page: what it was woken for may be there
    still."""
    tx.wake(queue.name, number)


def record(
    tx: Transaction, queue: Queue, attempt_id: str, reply: MessagesResponse, now_ms: int
) -> None:
    """Remember what an attempt got, if it is one and got something."""
    if attempt_id and reply.messages:
        lifetime = max(queue.lock_duration_ms, limits.ATTEMPT_MS_MIN)
        expires_at = instant(now_ms, lifetime)
        tx.write([memory.remember_attempt(queue.id, attempt_id, expires_at, _encode_reply(reply))])


def all_recorded(
    tx: Transaction, queue: Queue, attempt_ids: Sequence[str], now_ms: int
) -> list[MessagesResponse | None]:
    """`recorded` for several attempts, asked at once."""
    found = tx.run([memory.find_attempt(queue.id, each, now_ms) for each in attempt_ids])
    return [_decode_reply(known[0][0]) if known else None for known in found]


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

    Stops at the byte budget of a page, or at RECALLED_MAX: what is over it stays deferred (ruling
    R40). Raises InvalidArgument for more numbers than NAMED_FACTOR allows.
    """
    named_max = NAMED_FACTOR * limits.RECALLED_MAX
    if len(request.seq_numbers) > named_max:
        raise InvalidArgument(
            f"seq_numbers has {len(request.seq_numbers)} items; ask for at most {named_max} a call"
        )
    queue = queues.find(tx, request.queue)
    until = instant(now_ms, queue.lock_duration_ms)
    found: list[Message] = []
    room = tx.ledger.page_bytes
    for row in _deferred(tx, request.seq_numbers, queue, now_ms):
        check_step(Event.CLAIM_DEFERRED, lifecycle.DEFERRED, lifecycle.LOCKED)
        token = tx.random(TOKEN_BYTES)
        tx.write([messages.lock(row[0], token, until)])
        remember(tx, row, token, until)
        tx.moved(queue, before=Stored.DEFERRED, after=Stored.LOCKED)
        found.append(rows.delivered(row, token=token, locked_until=until))
        room -= rows.weight(row)
        if room <= 0 or len(found) >= limits.RECALLED_MAX:
            break
    if found:
        tx.due("locks", until)
    count_deliveries(tx, queue, found)
    return MessagesResponse(messages=found)


def _deferred(tx: Transaction, numbers: Sequence[int], queue: Queue, now_ms: int) -> Iterator[Row]:
    """The rows of those numbers that can be received. One by one where a question costs nothing, so
    that no more bodies are read than are given out; else by two questions. A number that is named
    again is asked for once."""
    if not tx.ledger.is_distant:
        for seq in dict.fromkeys(numbers):
            row = messages.first(tx.run([messages.row(seq)])[0])
            if row is not None:
                _, queue_id, state, *_ = row
                if _is_receivable(queue_id, state, row[rows.EXPIRES_AT], queue, now_ms):
                    yield row
        return
    chosen: list[int] = []
    total = 0
    for found in tx.run([taking.weighed(seq) for seq in dict.fromkeys(numbers)]):
        for seq, queue_id, state, expires_at, size in found:
            is_over_budget = (
                total >= tx.ledger.page_bytes or len(chosen) >= limits.REMOTE_RECALLED_MAX
            )
            if is_over_budget or not _is_receivable(queue_id, state, expires_at, queue, now_ms):
                continue
            chosen.append(seq)
            total += size
    for found in tx.run([messages.row(seq) for seq in chosen]):
        yield from found


def _is_receivable(queue_id: int, state: int, expires_at: int, queue: Queue, now_ms: int) -> bool:
    is_ours = queue_id == queue.id and state == Stored.DEFERRED
    return is_ours and not _is_over(expires_at, now_ms)


# -- peek-lock -------------------------------------------------------------------------------------


def claim(tx: Transaction, queue: Queue, wanted: int, now_ms: int) -> tuple[list[Message], bool]:
    """Lock the next messages in line, each under a token of its own, within count and bytes; and
    whether it was the bytes that ended it."""
    chosen, _, is_page_full = _next_in_line(tx, queue, wanted, now_ms, room=tx.ledger.page_bytes)
    if not chosen:
        return [], False
    check_step(Event.CLAIM, lifecycle.ACTIVE, lifecycle.LOCKED)
    until = instant(now_ms, queue.lock_duration_ms)
    random = tx.random(TOKEN_BYTES * len(chosen))
    tokens = [random[at : at + TOKEN_BYTES] for at in range(0, len(random), TOKEN_BYTES)]
    leases = [(until, token, row[0]) for row, token in zip(chosen, tokens, strict=True)]
    tx.write_many(messages.LOCK, leases)
    for row, token in zip(chosen, tokens, strict=True) if tx.ledger.is_distant else ():
        remember(tx, row, token, until)
    tx.due("locks", until)
    tx.moved(queue, before=Stored.READY, after=Stored.LOCKED, number=len(chosen))
    found = [
        rows.delivered(row, token=token, locked_until=until)
        for row, token in zip(chosen, tokens, strict=True)
    ]
    count_deliveries(tx, queue, found)
    return found, is_page_full


# -- receive and delete ----------------------------------------------------------------------------


def _drain(tx: Transaction, queue: Queue, wanted: int, now_ms: int) -> tuple[list[Message], bool]:
    """Taking a head lets the next of its lane come, so one call may empty a group in order."""
    check_step(Event.TAKE, lifecycle.ACTIVE, lifecycle.NONE)
    found: list[Message] = []
    room = tx.ledger.page_bytes
    while len(found) < wanted and room > 0:
        number = wanted - len(found)
        chosen, weight, _ = _next_in_line(tx, queue, number, now_ms, room=room, until_lane=True)
        if not chosen:
            break
        room -= weight
        writes = tx.writes()
        for row in chosen:
            writes.add(*messages.delete(row[0], has_body_apart=bool(row[rows.IS_APART])))
            found.append(rows.delivered(row, token=None, locked_until=0))
        tx.moved(queue, before=Stored.READY, number=len(chosen))
        lifecycle.let_next_come(writes, queue, chosen[-1][rows.GROUP_ID])
        writes.run()
    tx.happened(queue.name, "receive_deleted", len(found))
    count_deliveries(tx, queue, found)
    return found, room <= 0 and len(found) < wanted


# -- the front of the queue ------------------------------------------------------------------------


class _Front(NamedTuple):
    """Whole rows that are to be taken, what they weigh, and whether the bytes of a page left some
    of those that are wanted."""

    rows: list[Row]
    weight: int
    is_cut: bool


def _next_in_line(
    tx: Transaction,
    queue: Queue,
    wanted: int,
    now_ms: int,
    *,
    room: int,
    until_lane: bool = False,
) -> _Front:
    """The first claimable messages, up to the one that fills `room`.

    A head past its time is expired here and now, so that it never holds back its lane
    (spec/engine.md 3.5, E57). `until_lane` stops after the first message that heads a lane.
    """
    if tx.ledger.is_distant:
        front, _ = front_afar(tx, queue, wanted, now_ms)
        taken = _until_lane(front, queue) if until_lane else front
        return _Front(taken, sum(map(rows.weight, taken)), is_cut=is_cut(tx, front, wanted))
    for _ in range(EXPIRED_ROUNDS_MAX):
        if wanted == 1:
            front = tx.run([messages.head_rows(queue.id, 1)])[0]
            if not any(_is_over(row[rows.EXPIRES_AT], now_ms) for row in front):
                return _Front(front, 0, is_cut=False)  # the last of all: nobody has to weigh it
            _expire_heads(tx, queue, now_ms)
            continue
        heads = tx.run([messages.heads(queue.id, wanted)])[0]
        if any(_is_over(expires_at, now_ms) for _, expires_at, _, _ in heads):
            _expire_heads(tx, queue, now_ms)
            continue
        number, weight = _how_many(heads, queue, room, until_lane=until_lane)
        front = tx.run([messages.head_rows(queue.id, number)])[0] if number else []
        return _Front(front, weight, is_cut=number < len(heads))
    fresh = tx.run([messages.fresh_heads(queue.id, now_ms, wanted)])[0]
    number, weight = _how_many(fresh, queue, room, until_lane=until_lane)
    found = tx.run([messages.row(head[0]) for head in fresh[:number]])
    return _Front([row for (row,) in found], weight, is_cut=number < len(fresh))


def is_cut(tx: Transaction, front: list[Row], wanted: int) -> bool:
    """Whether it was the bytes of a page that left these fewer than wanted."""
    return len(front) < wanted and sum(map(rows.weight, front)) >= tx.ledger.page_bytes


def front_afar(tx: Transaction, queue: Queue, wanted: int, now_ms: int) -> tuple[list[Row], bool]:
    """The same where a question costs a round trip: one, and another only where messages that were
    overdue stood in a lane, which is the second part of the result. What is overdue beyond
    MAINTENANCE_ROWS is left to the expiry pass."""
    front, overdue = tx.run(_front_questions(tx, queue, wanted, now_ms))
    if not overdue:
        return front, False
    writes = tx.writes()
    lanes: set[str | None] = set()
    for held in map(rows.held, overdue):
        lifecycle.expire(tx, writes, queue, held)
        lanes.add(lifecycle.lane_of(queue, held.group_id))
    writes.run()
    if lanes == {None}:
        return front, False
    return tx.run(_front_questions(tx, queue, wanted, now_ms)[:1])[0], True


def expect_front(tx: Transaction, queue: Queue, wanted: int, now_ms: int) -> None:
    """Say that the front will be asked for, where that spares a round trip."""
    if tx.ledger.is_distant:
        tx.expect(_front_questions(tx, queue, wanted, now_ms))


def _front_questions(tx: Transaction, queue: Queue, wanted: int, now_ms: int) -> list[Statement]:
    return [
        taking.front(queue.id, now_ms, wanted, tx.ledger.page_bytes),
        taking.overdue(queue.id, now_ms, limits.MAINTENANCE_ROWS),
    ]


def _until_lane(front: list[Row], queue: Queue) -> list[Row]:
    """Up to the first that heads a lane."""
    for number, row in enumerate(front, start=1):
        if queue.is_strict or row[rows.GROUP_ID] is not None:
            return front[:number]
    return front


def _is_over(expires_at: int, now_ms: int) -> bool:
    return 0 < expires_at <= now_ms


def _how_many(
    heads: list[Row], queue: Queue, bytes_max: int, *, until_lane: bool
) -> tuple[int, int]:
    """How many of these heads fit the byte budget, and what they weigh; the one that reaches it is
    included."""
    total = 0
    for number, (_, _, group_id, size) in enumerate(heads, start=1):
        total += size
        if total >= bytes_max or (until_lane and (queue.is_strict or group_id is not None)):
            return number, total
    return len(heads), total


def _expire_heads(tx: Transaction, queue: Queue, now_ms: int) -> None:
    front = tx.run([messages.held_heads(queue.id, limits.MAINTENANCE_ROWS)])[0]
    writes = tx.writes()
    for held in map(rows.held, front):
        if _is_over(held.expires_at, now_ms):
            lifecycle.expire(tx, writes, queue, held)
    writes.run()


def remember(tx: Transaction, row: Row, token: bytes, until: int) -> None:
    """What a settlement will find, for a store that takes a guess at it (`Ledger.leases`)."""
    leases = tx.ledger.leases
    if leases is not None:
        leases[row[0]] = rows.held_after_lock(row, token, until)


def count_deliveries(tx: Transaction, queue: Queue, found: list[Message]) -> None:
    tx.happened(queue.name, "delivered", len(found))
    tx.happened(queue.name, "redelivered", sum(m.delivery_count > 1 for m in found))
