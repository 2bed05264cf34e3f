"""Release: give leases back as if their messages had never been delivered.

Called through the operations table, for consumers that took more than they will handle (faults
B36); the engine's own hand-back of answers that reached nobody is `sweep.release`. The fence and
the receipts are those of the settlements. A message is active again at its old place in line, also
one that was fetched deferred, for nobody remembers that it was.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.ext import ReleaseRequest, ReleaseResponse
from mqlite_actor.contract.wire import SettleItemResult
from mqlite_actor.semantics import lifecycle, receive
from mqlite_actor.semantics.lifecycle import Event, instant
from mqlite_actor.semantics.settle import is_held, parse_token
from mqlite_actor.storage import memory, messages, queues, receipts, rows
from mqlite_actor.storage.database import Transaction, WriteSet
from mqlite_actor.storage.queues import Queue
from mqlite_actor.storage.receipts import Verb
from mqlite_actor.storage.rows import Held

Lease = tuple[int, bytes]
"""Sequence number and token."""


def release(tx: Transaction, request: ReleaseRequest, now_ms: int) -> ReleaseResponse:
    """Release each pair for itself; one whose lease is over, or of an unknown queue, is not ok."""
    if len(request.messages) > limits.RELEASE_BATCH_MAX:
        raise InvalidArgument(
            f"messages has {len(request.messages)} items; release at most"
            f" {limits.RELEASE_BATCH_MAX} a call"
        )
    queue = queues.lookup(tx, request.queue)
    pairs = [(item.seq_number, parse_token(item.lock_token)) for item in request.messages]
    wanted = {(seq, token): False for seq, token in pairs if token is not None}
    if queue is not None and wanted:
        _release_all(tx, queue, wanted, request.receive_attempt_id, now_ms)
    return ReleaseResponse(
        results=[
            SettleItemResult(
                seq_number=seq, ok=token is not None and wanted.get((seq, token), False)
            )
            for seq, token in pairs
        ]
    )


def _release_all(
    tx: Transaction, queue: Queue, wanted: dict[Lease, bool], attempt_id: str, now_ms: int
) -> None:
    """Set each lease to whether it is released now: by this call, or by an identical earlier one.

    Receipts are looked up before this call writes its own.
    """
    leases = list(wanted)
    if attempt_id:
        tx.expect([memory.find_attempt(queue.id, attempt_id, now_ms)])
    found = tx.run([messages.held(seq) for seq, _ in leases])
    released: dict[Lease, Held] = {}
    for (seq, token), row in zip(leases, found, strict=True):
        held = rows.held(row[0]) if row else None
        if held is not None and is_held(held, queue, token, now_ms):
            released[seq, token] = held
    missed = [lease for lease in leases if lease not in released]
    known = tx.run(
        [receipts.find(seq, queue.id, Verb.RELEASED, token, None, now_ms) for seq, token in missed]
    )
    wanted |= {lease: bool(receipt) for lease, receipt in zip(missed, known, strict=True)}
    writes = tx.writes()
    for (seq, token), held in released.items():
        lifecycle.give_back(tx, writes, queue, held, Event.RELEASE, None, uncount=1)
        kept_until = instant(now_ms, limits.RECEIPT_MS)
        writes.add(receipts.insert(seq, queue.id, Verb.RELEASED, token, None, kept_until))
        wanted[seq, token] = True
    if attempt_id and released:
        _forget_attempt(tx, writes, queue, attempt_id, released.keys(), now_ms)
    writes.run()


def _forget_attempt(
    tx: Transaction,
    writes: WriteSet,
    queue: Queue,
    attempt_id: str,
    released: AbstractSet[Lease],
    now_ms: int,
) -> None:
    """The record of these leases goes, so that a repetition claims anew (ruling R1); one of other
    leases under the same id stays."""
    recorded = receive.recorded(tx, queue, attempt_id, now_ms)
    if recorded is None:
        return
    given_out = {(each.seq_number, parse_token(each.lock_token)) for each in recorded.messages}
    if given_out & released:
        writes.add(memory.forget_attempt(queue.id, attempt_id))
