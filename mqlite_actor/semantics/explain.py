"""Explain: why is this message, or anything of this queue, not delivered?

Called through the operations table; looks only, with a bounded number of reads, so it may run on a
reader's connection. The lane rules are those of `lifecycle.py`: whoever waits, waits for the first
live message of its group, or of its strict queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import UNSET

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
from mqlite_actor.semantics.peek import fitting
from mqlite_actor.storage import counts, looking, messages, queues, rows
from mqlite_actor.storage.database import Row, Statement, Stored, Transaction
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


COUNTED: Final = (Reason.DELIVERABLE, Reason.BLOCKED)
"""Where it tells something how many stand in front."""

Lane = tuple[Statement, str | None, int]
"""What finds its head, its group, and how many wait."""


def explain(tx: Transaction, request: ExplainRequest, now_ms: int) -> ExplainResponse:
    """Of one message if a number is given, else of the queue. QueueNotFound."""
    if request.seq_number < 0:
        raise InvalidArgument("seq_number is negative; use 0 to ask about the queue")
    queue = queues.find(tx, request.queue)
    if request.seq_number:
        return _of_message(tx, queue, request.seq_number, now_ms)
    return _of_queue(tx, queue, now_ms)


def _of_message(tx: Transaction, queue: Queue, seq: int, now_ms: int) -> ExplainResponse:
    tx.expect([looking.last_settled(seq, queue.id)])
    stored = _only(tx.run([looking.envelope(seq)])[0])
    if stored is None or stored.queue_id != queue.id:
        found = Finding(seq, Reason.GONE, _whereabouts(tx, queue, seq))
        return ExplainResponse(
            queue=queue.name, reason=found.reason, explanation=found.explanation, message=found
        )
    blocker: Envelope | None = None
    if _reason(stored, now_ms) is Reason.BLOCKED:
        tx.expect([_ahead(queue, stored, Reason.BLOCKED)])
        blocker = _only(tx.run([_lane_head(queue, stored.group_id)])[0])
    found = _finding(tx, queue, stored, now_ms, blocked_by=blocker.id if blocker else 0)
    return ExplainResponse(
        queue=queue.name,
        reason=found.reason,
        explanation=found.explanation,
        message=found,
        blocker=_finding(tx, queue, blocker, now_ms) if blocker else UNSET,
    )


def _of_queue(tx: Transaction, queue: Queue, now_ms: int) -> ExplainResponse:
    tx.expect([counts.read(queue.id)])
    claimable, first, waiting = tx.run(
        [
            messages.fresh_heads(queue.id, now_ms, 1),
            looking.queue_head(queue.id),
            looking.waiting_lanes(queue.id, limits.EXPLAIN_ROWS, limits.EXPLAIN_LANES),
        ]
    )
    head = looking.only(claimable) or looking.only(first)
    if not head:
        dead = counts.six(tx.run([counts.read(queue.id)])[0][0])[4]
        letters = f"; it has {dead} dead letters" if dead else ""
        return ExplainResponse(
            queue=queue.name,
            reason=Reason.EMPTY,
            explanation=f"the queue holds no message that could be delivered{letters}",
        )
    lanes = _lanes(queue, waiting, tx.ledger.page_bytes // 2)
    heads = map(_only, tx.run([looking.envelope(head), *(each for each, _, _ in lanes)]))
    first_one = next(heads)
    assert first_one is not None, "it was just seen"
    blocked = _blocked_lanes(tx, queue, zip(lanes, heads, strict=True), now_ms)
    found = _finding(tx, queue, first_one, now_ms)
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
        or len(waiting) >= limits.EXPLAIN_LANES
        or (len(lanes) < len(waiting) and not queue.is_strict),
    )


def _lanes(queue: Queue, waiting: list[Row], bytes_max: int) -> list[Lane]:
    """As many as their names leave room for: each stands in the answer twice."""
    if not queue.is_strict:
        names = [2 * limits.TEXT_FACTOR * len(group_id or "") for group_id, *_ in waiting]
        named = waiting[: fitting(names, bytes_max)]
        return [(_lane_head(queue, group_id), group_id, number) for group_id, _, number in named]
    number = sum(each for _, _, each in waiting)
    return [(_lane_head(queue, None), None, number)] if number else []


def _blocked_lanes(
    tx: Transaction, queue: Queue, lanes: Iterable[tuple[Lane, Envelope | None]], now_ms: int
) -> list[BlockedLane]:
    """Lines whose head cannot be delivered now; behind a deliverable head nobody is stuck."""
    return [
        BlockedLane(head=_finding(tx, queue, head, now_ms), waiting=number, group_id=group_id or "")
        for (_, group_id, number), head in lanes
        if head is not None and _reason(head, now_ms) is not Reason.DELIVERABLE
    ]


def _lane_head(queue: Queue, group_id: str | None) -> Statement:
    if queue.is_strict or group_id is None:
        return looking.queue_head_envelope(queue.id)
    return looking.group_head_envelope(queue.id, group_id)


# -- one message -----------------------------------------------------------------------------------


def _only(found: list[Row]) -> Envelope | None:
    return rows.envelope(found[0]) if found else None


def _finding(
    tx: Transaction, queue: Queue, stored: Envelope, now_ms: int, *, blocked_by: int = 0
) -> Finding:
    reason = _reason(stored, now_ms)
    counted = tx.run([_ahead(queue, stored, reason)])[0] if reason in COUNTED else []
    return Finding(
        seq_number=stored.id,
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
        ahead=min(looking.only(counted), limits.EXPLAIN_ROWS),
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


def _ahead(queue: Queue, stored: Envelope, reason: Reason) -> Statement:
    """Counts what stands in front of a message, for the reasons COUNTED."""
    most = limits.EXPLAIN_ROWS
    if reason is Reason.DELIVERABLE:
        return looking.ahead_ready(queue.id, stored.id, most)
    if queue.is_strict or stored.group_id is None:
        return looking.ahead_in_queue(queue.id, stored.id, most)
    return looking.ahead_in_group(queue.id, stored.group_id, stored.id, most)


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
