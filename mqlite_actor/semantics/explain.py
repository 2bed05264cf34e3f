"""Explain: why is this message, or anything of this queue, not delivered?

Called through the operations table; looks only, with a bounded number of reads, so it may run on a
reader's connection. The lane rules are those of `lifecycle.py`: whoever waits, waits for the first
live message of its group, or of its strict queue.
"""

from __future__ import annotations

from typing import Final

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument, quoted
from mqlite_actor.contract.ext import (
    BlockedLane,
    ExplainRequest,
    ExplainResponse,
    Finding,
    Reason,
)
from mqlite_actor.semantics import lifecycle
from mqlite_actor.storage import counts, looking, messages, queues, rows
from mqlite_actor.storage.database import Row, Stored, Transaction
from mqlite_actor.storage.queues import Queue
from mqlite_actor.storage.receipts import Verb
from mqlite_actor.storage.rows import Envelope

SETTLED: Final = {
    Verb.COMPLETED: "completed",
    Verb.ABANDONED: "abandoned",
    Verb.DEAD_LETTERED: "rejected",
    Verb.DEFERRED: "deferred",
    Verb.RELEASED: "released",
}


def explain(tx: Transaction, request: ExplainRequest, now_ms: int) -> ExplainResponse:
    """Of one message if a number is given, else of the queue. QueueNotFound."""
    if request.seq_number < 0:
        raise InvalidArgument("seq_number is negative; use 0 to ask about the queue")
    queue = queues.find(tx, request.queue)
    if request.seq_number:
        return _of_message(tx, queue, request.seq_number, now_ms)
    return _of_queue(tx, queue, now_ms)


def _of_message(tx: Transaction, queue: Queue, seq: int, now_ms: int) -> ExplainResponse:
    found = _finding(tx, queue, seq, now_ms)
    reply = ExplainResponse(
        queue=queue.name, reason=found.reason, explanation=found.explanation, message=found
    )
    if not found.blocked_by:
        return reply
    return ExplainResponse(
        queue=queue.name,
        reason=found.reason,
        explanation=found.explanation,
        message=found,
        blocker=_finding(tx, queue, found.blocked_by, now_ms),
    )


def _of_queue(tx: Transaction, queue: Queue, now_ms: int) -> ExplainResponse:
    claimable, first, waiting = tx.run(
        [
            messages.fresh_heads(queue.id, now_ms, 1),
            looking.queue_head(queue.id),
            looking.waiting_lanes(queue.id, limits.EXPLAIN_ROWS, limits.EXPLAIN_LANES),
        ]
    )
    blocked = _blocked_lanes(tx, queue, waiting, now_ms)
    head = looking.only(claimable) or looking.only(first)
    if not head:
        dead = counts.six(tx.run([counts.read(queue.id)])[0][0])[4]
        letters = f"; it has {dead} dead letters" if dead else ""
        return ExplainResponse(
            queue=queue.name,
            reason=Reason.EMPTY,
            explanation=f"the queue holds no message that could be delivered{letters}",
        )
    found = _finding(tx, queue, head, now_ms)
    reason, why = found.reason, f"message {head} is next: {found.explanation}"
    if blocked and reason is not Reason.DELIVERABLE:
        reason = Reason.BLOCKED
        lines = "a line stands" if len(blocked) == 1 else f"{len(blocked)} lines stand"
        why = f"{lines} still; the first message is {head}: {found.explanation}"
    return ExplainResponse(
        queue=queue.name,
        reason=reason,
        explanation=why,
        message=found,
        blocked=blocked,
        has_more=sum(number for _, _, number in waiting) >= limits.EXPLAIN_ROWS
        or len(waiting) >= limits.EXPLAIN_LANES,
    )


def _blocked_lanes(
    tx: Transaction, queue: Queue, waiting: list[Row], now_ms: int
) -> list[BlockedLane]:
    """Lines whose head cannot be delivered now; behind a deliverable head nobody is stuck."""
    if queue.is_strict:
        number = sum(each for _, _, each in waiting)
        lanes: list[tuple[str | None, int]] = [(None, number)] if number else []
    else:
        lanes = [(group_id, number) for group_id, _, number in waiting]
    found: list[BlockedLane] = []
    for group_id, number in lanes:
        head = _finding(tx, queue, _lane_head(tx, queue, group_id), now_ms)
        if head.reason is not Reason.DELIVERABLE:
            found.append(BlockedLane(head=head, waiting=number, group_id=group_id or ""))
    return found


def _lane_head(tx: Transaction, queue: Queue, group_id: str | None) -> int:
    if queue.is_strict or group_id is None:
        return looking.only(tx.run([looking.queue_head(queue.id)])[0])
    return looking.only(tx.run([looking.group_head(queue.id, group_id)])[0])


# -- one message -----------------------------------------------------------------------------------


def _finding(tx: Transaction, queue: Queue, seq: int, now_ms: int) -> Finding:
    row = messages.first(tx.run([looking.envelope(seq)])[0])
    stored = None if row is None else rows.envelope(row)
    if stored is None or stored.queue_id != queue.id:
        return Finding(seq, Reason.GONE, _whereabouts(tx, queue, seq))
    reason = _reason(stored, now_ms)
    blocked_by = _lane_head(tx, queue, stored.group_id) if reason is Reason.BLOCKED else 0
    return Finding(
        seq_number=seq,
        reason=reason,
        explanation=_sentence(queue, stored, reason, blocked_by, now_ms),
        state=rows.WIRE_STATE[Stored(stored.state)],
        enqueued_at_ms=stored.enqueued_at,
        visible_at_ms=stored.visible_at,
        locked_until_ms=stored.locked_until,
        expires_at_ms=stored.expires_at,
        delivery_count=stored.delivery_count,
        max_delivery_count=queue.max_delivery_count,
        group_id=stored.group_id or "",
        dead_letter_reason=stored.dead_letter_reason or "",
        dead_letter_description=stored.dead_letter_description or "",
        ahead=_ahead(tx, queue, stored, reason),
        blocked_by=blocked_by,
    )


def _reason(stored: Envelope, now_ms: int) -> Reason:
    is_over = 0 < stored.expires_at <= now_ms
    match Stored(stored.state):
        case Stored.LOCKED:
            return Reason.LOCKED if stored.locked_until > now_ms else Reason.LEASE_OVER
        case Stored.DEAD:
            return Reason.DEAD_LETTERED
        case _ if is_over:
            return Reason.EXPIRED
        case Stored.READY:
            return Reason.DELIVERABLE
        case Stored.WAITING:
            return Reason.BLOCKED
        case Stored.SCHEDULED:
            return Reason.SCHEDULED if stored.visible_at > now_ms else Reason.DUE
        case Stored.DEFERRED:
            return Reason.DEFERRED


def _ahead(tx: Transaction, queue: Queue, stored: Envelope, reason: Reason) -> int:
    most = limits.EXPLAIN_ROWS
    if reason is Reason.DELIVERABLE:
        statement = looking.ahead_ready(queue.id, stored.id, most)
    elif reason is not Reason.BLOCKED:
        return 0
    elif queue.is_strict or stored.group_id is None:
        statement = looking.ahead_in_queue(queue.id, stored.id, most)
    else:
        statement = looking.ahead_in_group(queue.id, stored.group_id, stored.id, most)
    return min(looking.only(tx.run([statement])[0]), most)


# -- words -----------------------------------------------------------------------------------------


def _sentence(queue: Queue, stored: Envelope, reason: Reason, blocked_by: int, now_ms: int) -> str:
    match reason:
        case Reason.DELIVERABLE:
            return "the next receive that comes to it takes it"
        case Reason.BLOCKED:
            line = "the queue, which is strict" if queue.is_strict else "its group"
            return f"it waits for message {blocked_by}, the first of {line}"
        case Reason.LOCKED:
            ends = _span(stored.locked_until - now_ms)
            return (
                f"it is being handled: delivery {stored.delivery_count} of at most"
                f" {queue.max_delivery_count}, under a lease that ends in {ends}"
            )
        case Reason.LEASE_OVER:
            return "its lease is over; the next pass gives it back, or buries it at its limit"
        case Reason.SCHEDULED:
            what = "a retry is delayed" if stored.delivery_count else "it was sent for later"
            return f"{what}; it is due in {_span(stored.visible_at - now_ms)}"
        case Reason.DUE:
            return "its time has come; the next pass makes it active"
        case Reason.DEFERRED:
            return "a consumer set it aside; only ReceiveDeferred with its number fetches it"
        case Reason.EXPIRED:
            after = "a dead letter" if queue.dead_letter_on_expire else "deleted"
            return f"its time to live is over; the next pass makes it {after}"
        case _:
            why = quoted(stored.dead_letter_reason or lifecycle.APP_REQUESTED)
            return f"it is a dead letter because of {why}; redrive or resubmit it"


def _whereabouts(tx: Transaction, queue: Queue, seq: int) -> str:
    row = messages.first(tx.run([looking.last_settled(seq, queue.id)])[0])
    if row is None:
        return "the queue has no message of this number; it was taken, deleted or never here"
    return f"the queue has no message of this number any more; it was {SETTLED[Verb(row[0])]}"


def _span(ms: int) -> str:
    """A duration for a person."""
    return f"{ms} ms" if ms < 1000 else f"{ms / 1000:,.1f} s"
