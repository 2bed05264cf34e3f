"""The passes that time brings: one slice each, and the recovery at opening.

Called by the engine's internal commands; when to run them is the sweeper's business. A slice
changes at most `limit` rows and returns how many it found, so that the caller knows whether more
waits. A queue's present limits decide, as for every end of a delivery.
"""

from __future__ import annotations

from dataclasses import dataclass

from mqlite_actor.contract import limits
from mqlite_actor.semantics import lifecycle
from mqlite_actor.semantics.lifecycle import Event, instant
from mqlite_actor.semantics.settle import is_held
from mqlite_actor.storage import memory, messages, queues, receipts, rows
from mqlite_actor.storage.database import Statement, Transaction
from mqlite_actor.storage.rows import Held

FOR_EVER = 2**62
"""A clock reading after every lease: recovery ends them all."""

OFF_MS = 7 * 86_400_000
"""For so long a queue whose window is off keeps its keys: create_queue resets what it is not told,
and whoever minds that turns the window on again."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What one slice found, and when the next of its kind is due (0: nothing waits)."""

    found: int
    next_due: int = 0


def _look(tx: Transaction, chosen: Statement, next_due: Statement) -> tuple[list[Held], int]:
    """What this slice is to change, and when the next falls due if that is nothing."""
    found, following = tx.run([chosen, next_due])
    return list(map(rows.held, found)), following[0][0] if following else 0


def _swept(tx: Transaction, found: int, next_due: Statement, seen_due: int) -> Swept:
    """A slice that changed something looks again for what comes next."""
    if not found:
        return Swept(0, seen_due)
    following = tx.run([next_due])[0]
    return Swept(found, following[0][0] if following else 0)


def reap(tx: Transaction, limit: int, now_ms: int) -> Swept:
    """Leases that ended: back in line, or buried at the delivery limit."""
    following = messages.next_lease_end()
    found, due = _look(tx, messages.expired_leases(now_ms, limit), following)
    _end_leases(tx, found, Event.LEASE_END, "lock_expired")
    return _swept(tx, len(found), following, due)


def recover(tx: Transaction, limit: int) -> int:
    """Every lease, whatever its end: its holder died with the process that gave it out."""
    found = list(map(rows.held, tx.run([messages.expired_leases(FOR_EVER, limit)])[0]))
    _end_leases(tx, found, Event.RECOVER, "recovered")
    return len(found)


def _end_leases(tx: Transaction, found: list[Held], event: Event, counted: str) -> None:
    writes = tx.writes()
    for held in found:
        queue = queues.by_id(tx, held.queue_id)
        tx.happened(queue.name, counted)
        lifecycle.end_delivery(tx, writes, queue, held, event)
    writes.run()


def activate(tx: Transaction, limit: int, now_ms: int) -> Swept:
    """Scheduled messages whose time has come."""
    following = messages.next_time()
    found, due = _look(tx, messages.due(now_ms, limit), following)
    writes = tx.writes()
    for held in found:
        queue = queues.by_id(tx, held.queue_id)
        lifecycle.give_back(tx, writes, queue, held, Event.ACTIVATE, None)
        tx.happened(queue.name, "activated")
    writes.run()
    return _swept(tx, len(found), following, due)


def expire(tx: Transaction, limit: int, now_ms: int) -> Swept:
    """Messages past their time to live, leased ones included (decision 9)."""
    following = messages.next_expiry()
    found, due = _look(tx, messages.expired(now_ms, limit), following)
    writes = tx.writes()
    for held in found:
        lifecycle.expire(tx, writes, queues.by_id(tx, held.queue_id), held)
    writes.run()
    return _swept(tx, len(found), following, due)


def prune_receipts(tx: Transaction, limit: int, now_ms: int) -> Swept:
    """Receipts, attempts and tombstones that nobody can ask for any more.

    Receipts that a clock wrote which was ahead live on for their usual time from now: they stand in
    front of those that are pruned next, and are looked for from there.
    """
    ledger = tx.ledger
    *gone, shortened = tx.run(
        [
            receipts.prune(now_ms, limit),
            memory.prune_attempts(now_ms, limit),
            queues.prune_tombstones(now_ms - limits.TOMBSTONE_MS, limit),
            receipts.shorten(ledger.receipts_seen, instant(now_ms, limits.RECEIPT_MS), limit),
        ]
    )
    ledger.receipts_seen = max((row[0] for row in shortened), default=0)
    return Swept(limit if shortened else max(map(len, gone)))


def prune_duplicates(tx: Transaction, limit: int, now_ms: int) -> Swept:
    """Keys whose window is over, by each queue's own window; one that is off keeps its keys for a
    while, unasked, since it may have been turned off by mistake.

    A key of a clock that was ahead is kept until that time: the clock of now may be the wrong one,
    and when it is set forth again a key that was forgotten would be let in twice. Attempts of one
    live no longer from now than any queue's would.
    """
    known = queues.list_all(tx)
    longest = max([limits.REQUEST_ID_MS, *(queue.lock_duration_ms for queue in known)])
    changed = [memory.shorten_attempts(instant(now_ms, longest), limit)]
    for queue in known:
        window_ms = queue.dedup_window_ms if queue.dedup_window_ms > 0 else OFF_MS
        changed.append(memory.prune_duplicates(queue.id, now_ms - window_ms, limit))
    return Swept(max(map(len, tx.run(changed))))


def release(
    tx: Transaction,
    queue_name: str,
    leases: tuple[tuple[int, bytes], ...],
    now_ms: int,
    *,
    is_counted: bool,
) -> int:
    """Take back deliveries whose answer reached nobody (ruling R42); returns how many.

    Not a byte was offered: active again as if never delivered. Some may have arrived
    (`is_counted`): the lease ends now and the delivery counts. A lease that was settled or ended
    meanwhile is left alone.
    """
    queue = queues.lookup(tx, queue_name)
    if queue is None:
        return 0
    released = 0
    writes = tx.writes()
    found = tx.run([messages.held(seq) for seq, _ in leases])
    for (_, token), row in zip(leases, found, strict=True):
        held = rows.held(row[0]) if row else None
        if held is None or not is_held(held, queue, token, now_ms):
            continue
        if is_counted:
            lifecycle.end_delivery(tx, writes, queue, held, Event.LEASE_END)
        else:
            lifecycle.give_back(tx, writes, queue, held, Event.RELEASE, None, uncount=1)
        released += 1
    writes.run()
    return released
