"""Peek, Stats and the counts behind Status: look, change nothing.

Called through the operations table. Peek of an unknown queue or state is an empty list, as on the
contract's wire (decision 6); the Python handles and the command line check first and say not found.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from mqlite_actor.contract import limits
from mqlite_actor.contract.wire import (
    MessagesResponse,
    PeekRequest,
    StatsRequest,
    StatsResponse,
)
from mqlite_actor.contract.words import Kind, State
from mqlite_actor.storage import counts, messages, queues, rows
from mqlite_actor.storage.database import Stored, Transaction

STATES: Final[dict[str, tuple[Stored, ...]]] = {
    "": tuple(Stored),
    State.ACTIVE: (Stored.READY, Stored.WAITING),
    State.LOCKED: (Stored.LOCKED,),
    State.SCHEDULED: (Stored.SCHEDULED,),
    State.DEFERRED: (Stored.DEFERRED,),
    State.DEAD_LETTERED: (Stored.DEAD,),
}


def peek(tx: Transaction, request: PeekRequest, now_ms: int) -> MessagesResponse:
    """Messages as stored, by number, up to the page's count and bytes."""
    queue = queues.lookup(tx, request.queue)
    states = STATES.get(request.state)
    if queue is None or states is None:
        return MessagesResponse(messages=[])
    wanted = min(request.max, limits.PEEK_MAX) if request.max > 0 else limits.PEEK_DEFAULT
    found = tx.run([messages.browse(queue.id, states, request.from_seq, wanted)])[0]
    number = fitting([size + texts for _, size, texts in found], tx.ledger.page_bytes)
    page = tx.run([messages.row(seq) for seq, *_ in found[:number]])
    return MessagesResponse(messages=[rows.peeked(row) for (row,) in page])


def fitting(sizes: Sequence[int], bytes_max: int) -> int:
    """How many of these fit a page of bytes; the one that fills it is included."""
    for number, total in enumerate(accumulate(sizes), start=1):
        if total >= bytes_max:
            return number
    return len(sizes)


def stats(tx: Transaction, request: StatsRequest, now_ms: int) -> StatsResponse:
    """Counts by state, and the age of the oldest active or locked message."""
    queue = queues.find(tx, request.queue)
    counted, oldest = tx.run([counts.read(queue.id), counts.oldest(queue.id)])
    active, locked, scheduled, deferred, dead, _ = counts.six(counted[0])
    enqueued_at = oldest[0][0]
    age = 0 if enqueued_at is None else max(0, now_ms - enqueued_at)
    return StatsResponse(
        queue=queue.name,
        active=active,
        locked=locked,
        deferred=deferred,
        scheduled=scheduled,
        dead_lettered=dead,
        total=active + locked + scheduled + deferred + dead,
        oldest_message_age_ms=age,
    )


def count_entities(tx: Transaction) -> tuple[int, int]:
    """Plain queues, and subscription queues."""
    kinds = [queue.kind for queue in queues.list_all(tx)]
    subscriptions = kinds.count(Kind.SUBSCRIPTION)
    return len(kinds) - subscriptions, subscriptions
