"""What the clients of a simulated engine were told, and what must therefore be so.

Written by the clients as answers come in, judged at the end by `judge.py`. Nothing is uncertain in
here: a call that raised, cancelled or refused, did nothing; one that answered did everything. The
exceptions are named: a receive under an attempt id that was cancelled may keep its claim, and
a purge or redrive may have done a part.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from mqlite_actor.contract import wire

Place = tuple[str, bytes]
"""A queue and a body: no body is sent to a queue twice."""


@dataclass
class Told:
    """One message, as its clients know it."""

    place: Place
    group_id: str = ""
    is_sent: bool = False
    """The send was acknowledged."""
    is_over: bool = False
    """Its removal was acknowledged."""
    may_be_dead: bool = False
    """Somebody tried to reject it, or its queue gives up after few deliveries."""
    deliveries: int = 0


@dataclass
class Lease:
    """A message in a client's hands, until `ends_ms` at least and `ends_by_ms` at most."""

    told: Told
    seq: int
    token: str
    ends_ms: int
    ends_by_ms: int


@dataclass
class Ledger:
    """Everything that all clients were told."""

    messages: dict[Place, Told] = field(default_factory=dict)
    held: dict[int, Lease] = field(default_factory=dict)
    """By number; leases whose settlement is under way are not in here."""
    settled: list[wire.Request[Any]] = field(default_factory=list)
    """Settlements that were acknowledged."""
    lost_attempts: list[wire.ReceiveRequest] = field(default_factory=list)
    purged: Counter[str] = field(default_factory=Counter)
    """Messages that a purge said it deleted, by queue."""
    half_purged: set[str] = field(default_factory=set)
    """Queues where a purge was cancelled, and may have done a part."""
    redriven: set[str] = field(default_factory=set)
    heads: dict[tuple[str, str], int] = field(default_factory=dict)
    """The highest number ever delivered of a group."""
    faults: list[str] = field(default_factory=list)

    def intend(self, queue: str, body: bytes, group_id: str = "") -> Told:
        """A send is about to be asked for."""
        told = Told((queue, body), group_id, may_be_dead=queue == "poison")
        self.messages[told.place] = told
        return told

    def delivered(self, queue: str, message: wire.Message, now_ms: int) -> Lease:
        """A client got a message."""
        told = self.messages.get((queue, message.body))
        if told is None:
            self.fault(f"{queue} gave out {message.body!r}, which nobody sent")
            told = self.intend(queue, message.body)
        seq = message.seq_number
        before = self.held.get(seq)
        if before is not None and before.ends_ms > now_ms:
            self.fault(f"{queue} {seq}: given out while somebody holds it")
        if told.is_over:
            self.fault(f"{queue} {seq}: given out after its removal was acknowledged")
        told.deliveries += 1
        if self.knows_count(told) and message.delivery_count != told.deliveries:
            shown, true = message.delivery_count, told.deliveries
            self.fault(f"{queue} {seq}: delivery {true} calls itself number {shown}")
        if told.group_id and told.deliveries == 1:
            head = self.heads.get((queue, told.group_id), 0)
            # What was removed left its line at the commit, before its taker's turn came.
            if seq < head and message.lock_token:
                self.fault(f"{queue} {seq}: delivered for the first time after {head} of its group")
            self.heads[queue, told.group_id] = max(head, seq)
        return Lease(
            told, seq, message.lock_token, message.locked_until_ms, message.locked_until_ms
        )

    def knows_count(self, told: Told) -> bool:
        """Whether every delivery of it is known; a redrive counts anew, a lost claim is unseen."""
        queue = told.place[0]
        return queue != "attempts" and not (told.may_be_dead and queue in self.redriven)

    def fault(self, what: str) -> None:
        self.faults.append(what)
