"""SendResult: a send that is answered for each message, and can be repeated under a request id.

Called through the operations table. With a `request_id` the whole reply is kept for thirty minutes
in the transaction of the send, and given again to whoever sends the identical request under that id
(ruling R46): so a lost answer costs neither a message nor a second copy, whatever the queue's
duplicate detection is. A refused request leaves nothing behind and is judged anew.
"""

from __future__ import annotations

import hashlib

import msgspec

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import DedupConflict, InvalidArgument, quoted
from mqlite_actor.contract.ext import (
    SendResultRequest,
    SendResultResponse,
    SendSlot,
    SlotOutcome,
)
from mqlite_actor.semantics import send
from mqlite_actor.semantics.lifecycle import instant
from mqlite_actor.semantics.routing import Undecided, Verdicts
from mqlite_actor.semantics.send import Slot
from mqlite_actor.storage import memory, queues
from mqlite_actor.storage.database import Transaction


class Kept(msgspec.Struct, frozen=True):
    """What is remembered of a request: its digest, and how it was answered."""

    digest: bytes
    reply: SendResultResponse


_encode = msgspec.msgpack.Encoder().encode
_encode_sorted = msgspec.msgpack.Encoder(order="deterministic").encode
_decode = msgspec.msgpack.Decoder(Kept).decode


def send_result(
    tx: Transaction,
    request: SendResultRequest,
    now_ms: int,
    *,
    message_bytes_max: int,
    known: Verdicts = send.UNASKED,
) -> SendResultResponse | Undecided:
    """Store as `send` does. A conflict is an outcome here, also of a single message.

    Undecided as for a send. DedupConflict for a request id that was used with another request.
    """
    key, digest = "", b""
    if request.request_id:
        key, digest = _key(tx, request), _digest(request)
        kept = tx.run([memory.find_attempt(memory.SENDS, key, now_ms)])[0]
        if kept:
            return _repeated(request, _decode(kept[0][0]), digest)
    slots = send.judged(tx, request, now_ms, message_bytes_max=message_bytes_max, known=known)
    if isinstance(slots, Undecided):
        return slots
    copies = [slot.copies for slot in slots]
    send.store(tx, request, slots, now_ms)
    results = [_shown(slot, number) for slot, number in zip(slots, copies, strict=True)]
    reply = SendResultResponse(results=results)
    if key:
        expires_at = instant(now_ms, limits.REQUEST_ID_MS)
        kept_reply = _encode(Kept(digest, reply))
        tx.write([memory.remember_attempt(memory.SENDS, key, expires_at, kept_reply)])
    return reply


def _shown(slot: Slot, copies: int) -> SendSlot:
    if copies:
        outcome = SlotOutcome.INSERTED
    elif not slot.deliveries:
        outcome = SlotOutcome.UNMATCHED
    else:
        outcome = SlotOutcome.CONFLICT if slot.is_refused else SlotOutcome.DUPLICATE
    return SendSlot(outcome=outcome, seq_number=slot.seq, copies=copies)


# -- the request id --------------------------------------------------------------------------------


def _key(tx: Transaction, request: SendResultRequest) -> str:
    """Where the reply is kept: by target and id, a queue made anew being another target.

    Hashed, so that its length is fixed whatever a caller chose.
    """
    size = len(request.request_id.encode())
    if size > limits.REQUEST_ID_BYTES_MAX:
        raise InvalidArgument(
            f"request_id has {size} bytes; the limit is {limits.REQUEST_ID_BYTES_MAX}"
        )
    queue = queues.lookup(tx, request.queue)
    parts = (request.queue, "" if queue is None else queue.generation, request.request_id)
    return hashlib.sha256(_encode(parts)).hexdigest()


def _digest(request: SendResultRequest) -> bytes:
    """Of all that the request says; message by message, since together they may be 32 MiB."""
    digest = hashlib.sha256(
        _encode_sorted((request.scheduled_enqueue_time_ms, request.ttl_ms, len(request.messages)))
    )
    for message in request.messages:
        digest.update(_encode_sorted(message))
    return digest.digest()


def _repeated(request: SendResultRequest, kept: Kept, digest: bytes) -> SendResultResponse:
    if kept.digest != digest:
        raise DedupConflict(
            f"request_id {quoted(request.request_id)} was used with another request; take a new id"
        )
    return kept.reply
