"""What a program over an engine saw, on one line of time, through deaths and reopenings.

`tests/crash/lease_worker.py` writes Events, `Timeline.read` gathers them into sends and claims, and
the rules of tests/crash/lease_rules.py judge them. Times are milliseconds of the one clock that the
engine reads too. A claim's instant is exact (the end of its lease less the queue's lock duration);
of everything else it is known that it happened between its invocation and its answer, or that it
never happened, when the process ended in between. The clock is set back an hour between two lives,
and forth between two or amid one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from mqlite_actor.contract import wire

LOCK_MS = 250
WINDOW_MS = 600
"""A lease and a duplicate window that end several times within the life of a worker."""

STEP_MS = 3_600_000
"""How far the clock is set back and forth; no run takes nearly as long, so that it shows."""

DELIVERIES_MAX = 4

QUEUES = {
    "plain": wire.QueueConfig(lock_duration_ms=LOCK_MS, max_delivery_count=DELIVERIES_MAX),
    "groups": wire.QueueConfig(
        lock_duration_ms=LOCK_MS, max_delivery_count=DELIVERIES_MAX, ordering_mode="group_fifo"
    ),
    "strict": wire.QueueConfig(
        lock_duration_ms=LOCK_MS, max_delivery_count=DELIVERIES_MAX, ordering_mode="strict_fifo"
    ),
    "drain": wire.QueueConfig(),
    "once": wire.QueueConfig(lock_duration_ms=LOCK_MS, dedup_window_ms=WINDOW_MS),
}


class Kind(StrEnum):
    """What an event says."""

    READY = "ready"
    SENDING = "sending"
    SENT = "sent"
    CONFLICT = "conflict"
    DRAINING = "draining"
    CLAIMED = "claimed"
    SETTLING = "settling"
    SETTLED = "settled"
    LOST = "lost"


class Verb(StrEnum):
    """What is asked of a lease."""

    COMPLETE = "complete"
    ABANDON = "abandon"
    REJECT = "reject"
    RENEW = "renew"


class Item(msgspec.Struct, frozen=True, array_like=True):
    """A message of an event; what is not known yet is empty."""

    body: str
    seq: int = 0
    group: str = ""
    key: str = ""
    count: int = 0
    enqueued: int = 0
    until: int = 0


class Event(msgspec.Struct, frozen=True, array_like=True):
    """One line. `call` tells the calls of a life apart; an answer has the number of its call."""

    kind: Kind
    at: int = 0
    queue: str = ""
    call: int = 0
    items: tuple[Item, ...] = ()
    verb: Verb = Verb.COMPLETE
    delay: int = 0


@dataclass
class Act:
    """Something asked for at `begun`; answered at `ended`, or never."""

    begun: int
    ended: int | None = None


@dataclass
class Send(Act):
    """One call of one queue."""

    queue: str = ""
    items: tuple[Item, ...] = ()
    numbers: tuple[int, ...] = ()
    is_conflict: bool = False


@dataclass
class Ask(Act):
    """A verb asked of a lease. `is_ok` False: the lease was said to be lost."""

    verb: Verb = Verb.COMPLETE
    delay: int = 0
    is_ok: bool | None = None


@dataclass
class Claim:
    """One delivery, under a lease unless it was drained."""

    queue: str
    item: Item
    life: int
    asks: list[Ask] = field(default_factory=list)

    @property
    def at(self) -> int:
        """When the engine granted it."""
        return self.item.until - LOCK_MS

    def ends_after(self) -> int:
        """The lease is certainly not over before this, if nobody settles it."""
        renewals = [ask.begun for ask in self.asks if ask.verb is Verb.RENEW and ask.is_ok]
        return max([self.item.until, *(begun + LOCK_MS for begun in renewals)])

    def ends_before(self) -> int | None:
        """The lease is certainly over at this time; None when an answer is missing."""
        ends = [self.item.until]
        for ask in self.asks:
            if ask.verb is Verb.RENEW and ask.is_ok is not False:
                if ask.ended is None:
                    return None
                ends.append(ask.ended + LOCK_MS)
        return max(ends)

    @property
    def last(self) -> Ask | None:
        """What was asked of it to end it."""
        endings = [ask for ask in self.asks if ask.verb is not Verb.RENEW]
        return endings[-1] if endings else None

    def asked(self, verb: Verb) -> Ask | None:
        """The request of this verb that may have had its effect."""
        last = self.last
        return last if last and last.verb is verb and last.is_ok is not False else None


def was_set_back(before: int, after: int) -> bool:
    """Whether the clock stepped between these two readings, of which the first is the earlier."""
    return after < before - STEP_MS // 2


class Timeline:
    """All lives of a store so far."""

    def __init__(self) -> None:
        self.life = 0
        self.sends: list[Send] = []
        self.claims: list[Claim] = []
        self.in_hands = 0  # messages that a drain may have taken without a word
        self.found: dict[str, list[wire.Message]] = {}  # by queue, after the last life
        self._sending: dict[int, Send] = {}
        self._asking: dict[int, Ask] = {}
        self._draining: dict[int, int] = {}
        self._leases: dict[tuple[str, int, int], Claim] = {}

    def begin(self) -> None:
        """A new process opens the store; what was not answered will not be."""
        self.life += 1
        self.in_hands += sum(self._draining.values())
        self._sending.clear()
        self._asking.clear()
        self._draining.clear()

    def read(self, event: Event) -> None:
        """Take one event."""
        match event.kind:
            case Kind.SENDING:
                send = Send(event.at, queue=event.queue, items=event.items)
                self._sending[event.call] = send
                self.sends.append(send)
            case Kind.SENT | Kind.CONFLICT:
                send = self._sending.pop(event.call)
                send.ended = event.at
                send.is_conflict = event.kind is Kind.CONFLICT
                send.numbers = tuple(item.seq for item in event.items)
            case Kind.DRAINING:
                self._draining[event.call] = len(event.items)
            case Kind.CLAIMED:
                self._draining.pop(event.call, None)
                for item in event.items:
                    self._claimed(event.queue, item)
            case Kind.SETTLING:
                item = event.items[0]
                ask = Ask(event.at, verb=event.verb, delay=event.delay)
                self._asking[event.call] = ask
                self._leases[event.queue, item.seq, item.count].asks.append(ask)
            case Kind.SETTLED | Kind.LOST:
                ask = self._asking.pop(event.call)
                ask.ended = event.at
                ask.is_ok = event.kind is Kind.SETTLED
            case Kind.READY:
                return

    def _claimed(self, queue: str, item: Item) -> None:
        claim = Claim(queue, item, self.life)
        self.claims.append(claim)
        self._leases[queue, item.seq, item.count] = claim

    # -- what the rules ask ------------------------------------------------------------------------

    def leases(self) -> list[Claim]:
        """Claims under a lease, by their instant."""
        found = [claim for claim in self.claims if claim.queue != "drain"]
        return sorted(
            found, key=lambda claim: (claim.life, claim.at, claim.item.seq, claim.item.count)
        )

    def by_message(self) -> dict[int, list[Claim]]:
        """Leases of each message, in order."""
        found: dict[int, list[Claim]] = {}
        for claim in self.leases():
            found.setdefault(claim.item.seq, []).append(claim)
        return found

    def by_lane(self) -> dict[tuple[str, str], list[Claim]]:
        """Leases that must follow each other: of a group, or of a strict queue."""
        found: dict[tuple[str, str], list[Claim]] = {}
        for claim in self.leases():
            if claim.queue == "strict" or claim.item.group:
                found.setdefault((claim.queue, claim.item.group), []).append(claim)
        return found
