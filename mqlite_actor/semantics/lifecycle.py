"""The life of a message as a table, and the moves that walk it.

TRANSITIONS says which event may take a message from which state to which; it is spec/engine.md 0.6
as data, drawn in the docs and tried whole by the tests. The functions below are the only ones that
change a state: each checks its step against the table, writes the row, keeps the counts, and lets
the next message of the lane come forward. Called by the verbs and the sweeps.

Lanes. A grouped message waits behind every earlier message of its group that still lives (is not
dead-lettered or gone), a message of a strict_fifo queue behind every earlier one of the queue.
READY is stored for the head of a lane, WAITING for the rest, so that a claim never looks at what is
held back (spec/engine.md W-4). Ungrouped messages have no lane and are always READY.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from mqlite_actor.contract import limits
from mqlite_actor.storage import messages
from mqlite_actor.storage.database import Stored, Transaction, WriteSet
from mqlite_actor.storage.queues import Queue
from mqlite_actor.storage.rows import Held


class Event(StrEnum):
    """What can happen to a message."""

    SEND = "send"
    SCHEDULE = "schedule"
    ACTIVATE = "activate"
    CLAIM = "claim"
    TAKE = "receive and delete"
    CLAIM_DEFERRED = "receive deferred"
    COMPLETE = "complete"
    ABANDON = "abandon"
    REJECT = "reject"
    DEFER = "defer"
    LEASE_END = "lease end"
    RECOVER = "recover"
    RELEASE = "release"
    EXPIRE = "expire"
    CANCEL = "cancel"
    REDRIVE = "redrive"
    PURGE = "purge"
    PURGE_ACTIVE = "purge active"
    DISCARD = "discard"


NONE: Final = "none"
ACTIVE, LOCKED, SCHEDULED, DEFERRED, DEAD = (
    "active",
    "locked",
    "scheduled",
    "deferred",
    "dead_lettered",
)

TRANSITIONS: Final[dict[tuple[Event, str], frozenset[str]]] = {
    (Event.SEND, NONE): frozenset({ACTIVE}),
    (Event.SCHEDULE, NONE): frozenset({SCHEDULED}),
    (Event.ACTIVATE, SCHEDULED): frozenset({ACTIVE}),
    (Event.CLAIM, ACTIVE): frozenset({LOCKED}),
    (Event.TAKE, ACTIVE): frozenset({NONE}),
    (Event.CLAIM_DEFERRED, DEFERRED): frozenset({LOCKED}),
    (Event.COMPLETE, LOCKED): frozenset({NONE}),
    (Event.ABANDON, LOCKED): frozenset({ACTIVE, SCHEDULED, DEAD}),
    (Event.REJECT, LOCKED): frozenset({DEAD}),
    (Event.DEFER, LOCKED): frozenset({DEFERRED}),
    (Event.LEASE_END, LOCKED): frozenset({ACTIVE, DEAD}),
    (Event.RECOVER, LOCKED): frozenset({ACTIVE, DEAD}),
    (Event.RELEASE, LOCKED): frozenset({ACTIVE}),
    (Event.EXPIRE, ACTIVE): frozenset({NONE, DEAD}),
    (Event.EXPIRE, LOCKED): frozenset({NONE, DEAD}),
    (Event.EXPIRE, SCHEDULED): frozenset({NONE, DEAD}),
    (Event.EXPIRE, DEFERRED): frozenset({NONE, DEAD}),
    (Event.CANCEL, SCHEDULED): frozenset({NONE}),
    (Event.REDRIVE, DEAD): frozenset({ACTIVE, NONE}),
    (Event.PURGE, DEAD): frozenset({NONE}),
    (Event.PURGE_ACTIVE, ACTIVE): frozenset({NONE}),
    **{
        (Event.DISCARD, state): frozenset({NONE})
        for state in (ACTIVE, LOCKED, SCHEDULED, DEFERRED, DEAD)
    },
}

MAX_DELIVERY_COUNT_EXCEEDED: Final = "MaxDeliveryCountExceeded"
TTL_EXPIRED: Final = "TTLExpired"
APP_REQUESTED: Final = "AppRequested"

WORD: Final = {
    Stored.READY: ACTIVE,
    Stored.WAITING: ACTIVE,
    Stored.LOCKED: LOCKED,
    Stored.SCHEDULED: SCHEDULED,
    Stored.DEFERRED: DEFERRED,
    Stored.DEAD: DEAD,
}


def check_step(event: Event, before: str, after: str) -> None:
    """Our own mistakes stop here, before they reach a row."""
    assert after in TRANSITIONS.get((event, before), ()), (
        f"{event} may not take {before} to {after}"
    )


def instant(start_ms: int, duration_ms: int) -> int:
    """`start_ms` plus a duration, saturated (ruling R26)."""
    duration = min(duration_ms, limits.DURATION_MS_MAX)
    return min(start_ms + duration, limits.INSTANT_MS_MAX)


def lane_of(queue: Queue, group_id: str | None) -> str | None:
    """The line that a message stands in; None if it stands in none."""
    return messages.WHOLE_QUEUE if queue.is_strict else group_id


# -- moves -----------------------------------------------------------------------------------------
# Each takes the message out of one state into another: checks the step, adds the statements to the
# verb's write set, keeps the counts, and lets the next of the lane come when this one left it.


def let_next_come(writes: WriteSet, queue: Queue, group_id: str | None) -> None:
    """A message left its lane: whoever heads it now becomes READY, if it waits."""
    lane = lane_of(queue, group_id)
    if lane is not None:
        writes.place(messages.promote(queue.id, lane), queue)


def remove(tx: Transaction, writes: WriteSet, queue: Queue, held: Held, event: Event) -> None:
    """The message is gone."""
    before = Stored(held.state)
    check_step(event, WORD[before], NONE)
    writes.add(*messages.delete(held.id, has_body_apart=bool(held.is_body_apart)))
    tx.moved(queue, before=before, dead_bytes=-held.body_bytes if before is Stored.DEAD else 0)
    if before is not Stored.DEAD:
        let_next_come(writes, queue, held.group_id)


def bury(
    tx: Transaction,
    writes: WriteSet,
    queue: Queue,
    held: Held,
    event: Event,
    *,
    reason: str,
    description: str = "",
) -> None:
    """The message becomes a dead letter; it holds nobody back any more."""
    before = Stored(held.state)
    check_step(event, WORD[before], DEAD)
    writes.add(messages.bury(held.id, reason, description or None))
    tx.moved(queue, before=before, after=Stored.DEAD, dead_bytes=held.body_bytes)
    tx.happened(queue.name, "dead_lettered")
    let_next_come(writes, queue, held.group_id)


def give_back(
    tx: Transaction,
    writes: WriteSet,
    queue: Queue,
    held: Held,
    event: Event,
    visible_at: int | None,
    *,
    uncount: int = 0,
) -> None:
    """The message is active again, at its old place in line. `visible_at` None keeps its time."""
    before = Stored(held.state)
    check_step(event, WORD[before], ACTIVE)
    lane = lane_of(queue, held.group_id)
    statement = messages.give_back(held.id, queue.id, lane, visible_at, uncount=uncount)
    writes.place(statement, queue)
    tx.moved(queue, before=before, after=Stored.READY)


def postpone(
    tx: Transaction, writes: WriteSet, queue: Queue, held: Held, event: Event, visible_at: int
) -> None:
    """The message is scheduled for a retry; it goes on holding its lane."""
    before = Stored(held.state)
    check_step(event, WORD[before], SCHEDULED)
    writes.add(messages.rest(held.id, Stored.SCHEDULED, visible_at))
    tx.due("scheduled", visible_at)
    tx.moved(queue, before=before, after=Stored.SCHEDULED)


def set_aside(tx: Transaction, writes: WriteSet, queue: Queue, held: Held) -> None:
    """The message is deferred; it goes on holding its lane."""
    before = Stored(held.state)
    check_step(Event.DEFER, WORD[before], DEFERRED)
    writes.add(messages.rest(held.id, Stored.DEFERRED))
    tx.moved(queue, before=before, after=Stored.DEFERRED)


def end_delivery(
    tx: Transaction,
    writes: WriteSet,
    queue: Queue,
    held: Held,
    event: Event,
    visible_at: int | None = None,
) -> None:
    """A delivery ended without success: back in line, or buried at the queue's limit."""
    if held.delivery_count >= queue.max_delivery_count:
        bury(tx, writes, queue, held, event, reason=MAX_DELIVERY_COUNT_EXCEEDED)
    else:
        give_back(tx, writes, queue, held, event, visible_at)


def expire(tx: Transaction, writes: WriteSet, queue: Queue, held: Held) -> None:
    """A message outlived its time: dead letter or gone, as its queue says."""
    if queue.dead_letter_on_expire:
        bury(tx, writes, queue, held, Event.EXPIRE, reason=TTL_EXPIRED)
    else:
        remove(tx, writes, queue, held, Event.EXPIRE)
        tx.happened(queue.name, "ttl_discarded")
