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
from mqlite_actor.storage.database import Stored, Transaction
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


# -- lanes -----------------------------------------------------------------------------------------


def has_lane(queue: Queue, group_id: str | None) -> bool:
    """Whether a message stands in line behind others."""
    return queue.is_strict or group_id is not None


def lane_of(queue: Queue, group_id: str | None) -> str | None:
    """The group that is the lane; None for the whole queue. Only meaningful where `has_lane`."""
    return None if queue.is_strict else group_id


def place(tx: Transaction, queue: Queue, group_id: str | None, seq: int) -> Stored:
    """READY or WAITING for an active message with this number."""
    if not has_lane(queue, group_id):
        return Stored.READY
    rows = tx.run([messages.lane_lives(queue.id, lane_of(queue, group_id), seq)])[0]
    return Stored.WAITING if rows else Stored.READY


def let_next_come(tx: Transaction, queue: Queue, group_id: str | None) -> None:
    """A message left its lane: whoever heads it now becomes ready, if it waits."""
    if not has_lane(queue, group_id):
        return
    if tx.run([messages.promote(queue.id, lane_of(queue, group_id))])[0]:
        tx.wake(queue.name)


# -- moves -----------------------------------------------------------------------------------------


def remove(tx: Transaction, queue: Queue, held: Held, event: Event) -> None:
    """The message is gone."""
    before = Stored(held.state)
    check_step(event, WORD[before], NONE)
    tx.run([messages.delete(held.id)])
    tx.moved(queue, before=before, dead_bytes=-held.body_bytes if before is Stored.DEAD else 0)
    if before is not Stored.DEAD:
        let_next_come(tx, queue, held.group_id)


def bury(
    tx: Transaction, queue: Queue, held: Held, event: Event, reason: str, description: str = ""
) -> None:
    """The message becomes a dead letter; it holds nobody back any more."""
    before = Stored(held.state)
    check_step(event, WORD[before], DEAD)
    tx.run([messages.bury(held.id, reason, description or None)])
    tx.moved(queue, before=before, after=Stored.DEAD, dead_bytes=held.body_bytes)
    tx.happened(queue.name, "dead_lettered")
    let_next_come(tx, queue, held.group_id)


def give_back(
    tx: Transaction, queue: Queue, held: Held, event: Event, visible_at: int, *, uncount: int = 0
) -> None:
    """The message is active again, at its old place in line."""
    before = Stored(held.state)
    check_step(event, WORD[before], ACTIVE)
    after = place(tx, queue, held.group_id, held.id)
    tx.run([messages.rest(held.id, after, visible_at, uncount=uncount)])
    tx.moved(queue, before=before, after=after)


def postpone(tx: Transaction, queue: Queue, held: Held, event: Event, visible_at: int) -> None:
    """The message is scheduled for a retry; it goes on holding its lane."""
    check_step(event, WORD[Stored(held.state)], SCHEDULED)
    tx.run([messages.rest(held.id, Stored.SCHEDULED, visible_at)])
    tx.moved(queue, before=Stored(held.state), after=Stored.SCHEDULED)


def set_aside(tx: Transaction, queue: Queue, held: Held) -> None:
    """The message is deferred; it goes on holding its lane."""
    check_step(Event.DEFER, WORD[Stored(held.state)], DEFERRED)
    tx.run([messages.set_state(held.id, Stored.DEFERRED)])
    tx.moved(queue, before=Stored(held.state), after=Stored.DEFERRED)


def activate(tx: Transaction, queue: Queue, held: Held) -> None:
    """A scheduled message's time has come; nothing else about it changes."""
    check_step(Event.ACTIVATE, WORD[Stored(held.state)], ACTIVE)
    after = place(tx, queue, held.group_id, held.id)
    tx.run([messages.set_state(held.id, after)])
    tx.moved(queue, before=Stored.SCHEDULED, after=after)
    tx.happened(queue.name, "activated")


def end_delivery(tx: Transaction, queue: Queue, held: Held, event: Event, now_ms: int) -> bool:
    """A delivery ended without success: back in line, or buried at the limit. True if buried."""
    if held.delivery_count >= queue.max_delivery_count:
        bury(tx, queue, held, event, MAX_DELIVERY_COUNT_EXCEEDED)
        return True
    give_back(tx, queue, held, event, now_ms)
    return False


def expire(tx: Transaction, queue: Queue, held: Held) -> None:
    """A message outlived its time: dead letter or gone, as its queue says."""
    if queue.dead_letter_on_expire:
        bury(tx, queue, held, Event.EXPIRE, TTL_EXPIRED)
    else:
        remove(tx, queue, held, Event.EXPIRE)
        tx.happened(queue.name, "ttl_discarded")
