"""Peek, Stats and the counts behind Status: look, change nothing.

Called through the operations table. Peek of an unknown queue or state is an empty list, as on the
contract's wire (decision 6); the Python handles and the command line check first and say not found.
"""

from __future__ import annotations

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
from mqlite_actor.storage.database import Row, Stored, Transaction

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
    page = tx.run([messages.row(seq) for seq in _fitting(found, tx.ledger.page_bytes)])
    return MessagesResponse(messages=[rows.peeked(row) for (row,) in page])


def _fitting(found: list[Row], bytes_max: int) -> list[int]:
    """Numbers up to the byte budget; the one that reaches it is included."""
    numbers: list[int] = []
    total = 0
    for seq, size in found:
        numbers.append(seq)
        total += size
        if total >= bytes_max:
            break
    return numbers


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
