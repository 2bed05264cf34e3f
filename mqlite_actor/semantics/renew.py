"""Renew and RenewBatch: extend leases under the fence; never shorten, never revive.

Called through the operations table. No receipts: a repeated renewal simply renews again. Unlike the
settlement verbs an unknown queue is QueueNotFound (spec/wire.md 2.4, 2.6).
"""

from __future__ import annotations

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.wire import (
    OkResponse,
    RenewBatchRequest,
    RenewBatchResponse,
    RenewItemResult,
    RenewRequest,
)
from mqlite_actor.semantics.lifecycle import instant
from mqlite_actor.semantics.settle import DONE, lost, parse_token
from mqlite_actor.storage import messages, queues
from mqlite_actor.storage.database import Transaction


def renew(tx: Transaction, request: RenewRequest, now_ms: int) -> OkResponse:
    """Extend one lease to now plus the queue's present lock duration."""
    queue = queues.find(tx, request.queue)
    token = parse_token(request.lock_token)
    if token is None:
        raise lost(request.seq_number)
    until = instant(now_ms, queue.lock_duration_ms)
    if not tx.run([messages.renew(request.seq_number, queue.id, token, now_ms, until)])[0]:
        raise lost(request.seq_number)
    return DONE


def renew_batch(tx: Transaction, request: RenewBatchRequest, now_ms: int) -> RenewBatchResponse:
    """Extend each pair for itself, all judged by one clock reading."""
    if len(request.messages) > limits.RENEW_BATCH_MAX:
        raise InvalidArgument(
            f"messages has {len(request.messages)} items; renew at most"
            f" {limits.RENEW_BATCH_MAX} a call"
        )
    pairs = [(item.seq_number, parse_token(item.lock_token)) for item in request.messages]
    until_of: dict[tuple[int, bytes], int] = {}
    if any(item.lock_token for item in request.messages):
        queue = queues.find(tx, request.queue)
        until = instant(now_ms, queue.lock_duration_ms)
        once = list(dict.fromkeys((seq, token) for seq, token in pairs if token is not None))
        renewed = tx.run(
            [messages.renew(seq, queue.id, token, now_ms, until) for seq, token in once]
        )
        until_of = {
            pair: found[0][0] if found else 0 for pair, found in zip(once, renewed, strict=True)
        }
    deadlines = [0 if token is None else until_of.get((seq, token), 0) for seq, token in pairs]
    return RenewBatchResponse(
        results=[
            RenewItemResult(seq_number=seq, ok=deadline > now_ms, locked_until_ms=deadline)
            for (seq, _), deadline in zip(pairs, deadlines, strict=True)
        ]
    )
