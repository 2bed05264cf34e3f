"""The settlement verbs: complete, abandon, reject, defer, and complete for a batch.

Called through the operations table. A verb takes effect only under the fence: this row, this queue,
this token, and the lease still runs (a lease that ends now has ended). What took effect leaves a
receipt in the same transaction, so that exactly the same request can be repeated for thirty
minutes; everything else is LockLost, and no caller can tell from it which part was wrong
(spec/engine.md 3.6).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Final

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import LockLost
from mqlite_actor.contract.wire import (
    AbandonRequest,
    CompleteBatchRequest,
    CompleteBatchResponse,
    CompleteRequest,
    DeferRequest,
    OkResponse,
    RejectRequest,
    SettleItemResult,
    SettleRequest,
)
from mqlite_actor.semantics import lifecycle
from mqlite_actor.semantics.lifecycle import Event, check_step, instant
from mqlite_actor.storage import messages, queues, receipts, rows
from mqlite_actor.storage.database import Row, Statement, Stored, Transaction
from mqlite_actor.storage.queues import Queue
from mqlite_actor.storage.receipts import Verb
from mqlite_actor.storage.rows import Held

DONE: Final = OkResponse()

Lease = tuple[int, bytes]
"""A message's number and the token that it was given out under."""

_TOKEN: Final = re.compile("[0-9a-f]{32}")


def complete(tx: Transaction, request: CompleteRequest, now_ms: int) -> OkResponse:
    """Remove the message."""
    queue, token = _addressed(tx, request)
    seq = request.seq_number
    gone = tx.run([messages.complete(seq, queue.id, token, now_ms)])[0]
    if not gone:
        return _replayed(tx, queue, seq, token, Verb.COMPLETED, now_ms)
    _note_completed(tx, queue, gone, now_ms)
    return DONE


def abandon(tx: Transaction, request: AbandonRequest, now_ms: int) -> OkResponse:
    """End the delivery without success: retry now, retry after the delay, or bury at the limit."""
    queue, token = _addressed(tx, request)
    seq, args = request.seq_number, _digest(str(request.delay_ms))
    held = _under_fence(tx, queue, seq, token, now_ms)
    if held is None:
        return _replayed(tx, queue, seq, token, Verb.ABANDONED, now_ms, args)
    writes = tx.writes()
    if request.delay_ms > 0 and held.delivery_count < queue.max_delivery_count:
        due = instant(now_ms, request.delay_ms)
        lifecycle.postpone(tx, writes, queue, held, Event.ABANDON, due)
    else:
        lifecycle.end_delivery(
            tx, writes, queue, held, Event.ABANDON, max(0, now_ms + min(request.delay_ms, 0))
        )
    tx.happened(queue.name, "abandoned")
    writes.add(_receipt(queue, seq, token, Verb.ABANDONED, now_ms, args))
    writes.run()
    return DONE


def reject(tx: Transaction, request: RejectRequest, now_ms: int) -> OkResponse:
    """Bury the message with the caller's reason."""
    queue, token = _addressed(tx, request)
    reason = request.dead_letter_reason or lifecycle.APP_REQUESTED
    description = request.dead_letter_description
    seq, args = request.seq_number, _digest(reason, description)
    held = _under_fence(tx, queue, seq, token, now_ms)
    if held is None:
        return _replayed(tx, queue, seq, token, Verb.DEAD_LETTERED, now_ms, args)
    writes = tx.writes()
    lifecycle.bury(tx, writes, queue, held, Event.REJECT, reason=reason, description=description)
    tx.happened(queue.name, "rejected")
    writes.add(_receipt(queue, seq, token, Verb.DEAD_LETTERED, now_ms, args))
    writes.run()
    return DONE


def defer(tx: Transaction, request: DeferRequest, now_ms: int) -> OkResponse:
    """Set the message aside, to be fetched by number."""
    queue, token = _addressed(tx, request)
    seq = request.seq_number
    held = _under_fence(tx, queue, seq, token, now_ms)
    if held is None:
        return _replayed(tx, queue, seq, token, Verb.DEFERRED, now_ms)
    writes = tx.writes()
    lifecycle.set_aside(tx, writes, queue, held)
    tx.happened(queue.name, "deferred")
    writes.add(_receipt(queue, seq, token, Verb.DEFERRED, now_ms))
    writes.run()
    return DONE


def complete_batch(
    tx: Transaction, request: CompleteBatchRequest, now_ms: int
) -> CompleteBatchResponse:
    """Complete each pair for itself; never refuses.

    Receipts are looked up before this call writes its own, so that a pair made of another message's
    number and a token completed here is not vouched for by it (spec/engine.md 3.7).
    """
    queue = queues.lookup(tx, request.queue)
    pairs = [(item.seq_number, parse_token(item.lock_token)) for item in request.messages]
    done: set[Lease] = set()
    if queue is not None:
        leases = [(seq, token) for seq, token in pairs if token is not None]
        done = complete_all(tx, queue, leases, now_ms)
    return CompleteBatchResponse(
        results=[
            SettleItemResult(seq_number=seq, ok=token is not None and (seq, token) in done)
            for seq, token in pairs
        ]
    )


def complete_all(tx: Transaction, queue: Queue, leases: Iterable[Lease], now_ms: int) -> set[Lease]:
    """Which of these leases are complete now: by this call, or by an earlier receipt."""
    asked = list(dict.fromkeys(leases))
    if not asked:
        return set()
    fences = [(seq, queue.id, token, now_ms) for seq, token in asked]
    gone = tx.run_many(messages.COMPLETE, fences)
    done = {(row[0], row[1]) for row in gone}
    missed = [lease for lease in asked if lease not in done]
    if missed:
        find = [
            receipts.find(seq, queue.id, Verb.COMPLETED, token, None, now_ms)
            for seq, token in missed
        ]
        known = tx.run(find)
        done.update(lease for lease, found in zip(missed, known, strict=True) if found)
    _note_completed(tx, queue, gone, now_ms)
    return done


# -- the fence -------------------------------------------------------------------------------------


def parse_token(text: str) -> bytes | None:
    """The stored form of a lock token; None for a text that no token ever looked like."""
    return bytes.fromhex(text) if _TOKEN.fullmatch(text) else None


def lost(seq: int) -> LockLost:
    """The one answer to every failed fence."""
    return LockLost(
        f"message {seq} is not held under this lock_token: the lease ended, it was settled,"
        " or never was"
    )


def _addressed(tx: Transaction, request: SettleRequest) -> tuple[Queue, bytes]:
    """An unknown queue or an impossible token cannot hold a lease."""
    queue = queues.lookup(tx, request.queue)
    token = parse_token(request.lock_token)
    if queue is None or token is None:
        raise lost(request.seq_number)
    return queue, token


def is_held(held: Held, queue: Queue, token: bytes, now_ms: int) -> bool:
    """The fence: this queue, this token, and the lease still runs."""
    return (
        held.queue_id == queue.id
        and held.state == Stored.LOCKED
        and held.lock_token == token
        and held.locked_until > now_ms
    )


def _under_fence(tx: Transaction, queue: Queue, seq: int, token: bytes, now_ms: int) -> Held | None:
    row = messages.first(tx.run([messages.held(seq)])[0])
    held = None if row is None else rows.held(row)
    return held if held is not None and is_held(held, queue, token, now_ms) else None


def _note_completed(tx: Transaction, queue: Queue, gone: Sequence[Row], now_ms: int) -> None:
    """What follows from rows deleted under their fences (`messages.complete`): their receipts too,
    in one statement."""
    if not gone:
        return
    check_step(Event.COMPLETE, lifecycle.LOCKED, lifecycle.NONE)
    writes = tx.writes()
    for seq, _, group_id, is_apart in gone:
        if is_apart:
            writes.add(messages.delete_body(seq))
        if group_id is not None or queue.is_strict:
            lifecycle.let_next_come(writes, queue, group_id)
    writes.run()
    expires_at = instant(now_ms, limits.RECEIPT_MS)
    done = Verb.COMPLETED
    tx.write_many(
        receipts.INSERT,
        [receipts.values(seq, queue.id, done, token, None, expires_at) for seq, token, *_ in gone],
    )
    tx.moved(queue, before=Stored.LOCKED, number=len(gone))
    tx.happened(queue.name, "completed", len(gone))


# -- receipts --------------------------------------------------------------------------------------


def _receipt(
    queue: Queue, seq: int, token: bytes, verb: Verb, now_ms: int, args: bytes | None = None
) -> Statement:
    return receipts.insert(seq, queue.id, verb, token, args, instant(now_ms, limits.RECEIPT_MS))


def _replayed(
    tx: Transaction,
    queue: Queue,
    seq: int,
    token: bytes,
    verb: Verb,
    now_ms: int,
    args: bytes | None = None,
) -> OkResponse:
    """Success if exactly this was done before, else LockLost."""
    outcome = replayed(tx, queue, seq, token, verb, now_ms, args)
    if isinstance(outcome, LockLost):
        raise outcome
    return outcome


def replayed(
    tx: Transaction,
    queue: Queue,
    seq: int,
    token: bytes,
    verb: Verb,
    now_ms: int,
    args: bytes | None = None,
) -> OkResponse | LockLost:
    """Success if exactly this was done before, else the refusal."""
    known = tx.run([receipts.find(seq, queue.id, verb, token, args, now_ms)])[0]
    return DONE if known else lost(seq)


def _digest(*parts: str) -> bytes:
    """One digest of several texts; lengths in front keep ("a", "bc") and ("ab", "c") apart."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", errors="surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()
