"""Work on dead letters that were picked: RedriveSelected, one chunk of it, and Resubmit.

The chunk is called by the engine's command of that name (`engine/chores.py` repeats it), Resubmit
through the operations table. What may be moved is looked up in the transaction that moves it, so
two people at the same letter, or a purge beside them, lose nothing and double nothing.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import GroupRequired, MessageTooLarge, NotFound, quoted
from mqlite_actor.contract.ext import (
    MessagePatch,
    RedriveOutcome,
    RedriveResult,
    ResubmitRequest,
    ResubmitResponse,
)
from mqlite_actor.contract.wire import Message
from mqlite_actor.contract.words import Ordering
from mqlite_actor.semantics.dead_letters import move, revive
from mqlite_actor.storage import dead_letters, looking, messages, queues, rows
from mqlite_actor.storage.database import Row, Stored, Transaction, WriteSet
from mqlite_actor.storage.queues import Queue
from mqlite_actor.storage.rows import Held


def redrive_selected(
    tx: Transaction, queue_name: str, target_name: str, numbers: tuple[int, ...], now_ms: int
) -> list[RedriveResult]:
    """Move those of these numbers that are dead letters of the queue; an answer for each.

    Elsewhere it ends with the one whose body reaches the bytes of a group, because bodies move
    along: then there are fewer answers than numbers, and the rest is to be asked again.
    """
    queue, target = _places(tx, queue_name, target_name)
    found = tx.run([messages.held(seq) for seq in numbers])
    writes = tx.writes()
    moved: dict[int, int] = {}
    results: list[RedriveResult] = []
    room = limits.GROUP_BYTES_MAX
    for seq, row in zip(numbers, found, strict=True):
        if room <= 0:
            break
        outcome = _outcome(row, queue)
        if seq in moved:  # named twice: by now it is what the first one made of it
            is_here = target is queue
            outcome = RedriveOutcome.NOT_DEAD_LETTERED if is_here else RedriveOutcome.NOT_FOUND
        if outcome is not RedriveOutcome.MOVED:
            results.append(RedriveResult(seq, outcome))
            continue
        held = rows.held(row[0])
        if target is not queue:
            room -= held.body_bytes
        moved[seq] = _put_back(tx, writes, queue, held, target, now_ms)
        results.append(RedriveResult(seq, outcome, moved[seq]))
    writes.run()
    tx.happened(queue.name, "redriven", len(moved))
    return results


def resubmit(
    tx: Transaction, request: ResubmitRequest, now_ms: int, *, message_bytes_max: int
) -> ResubmitResponse:
    """Edit one dead letter and put it back.

    Raises QueueNotFound for either queue, MessageTooLarge, NotFound if the number is no dead letter
    of the queue (any more), GroupRequired if the edited message has no group and the target needs
    one. As with a redrive, nobody asks for duplicates.
    """
    queue, target = _places(tx, request.queue, request.target)
    body = request.message.body
    if body is not UNSET and len(body) > message_bytes_max:
        raise MessageTooLarge(
            f"message.body has {len(body)} bytes; the limit is {message_bytes_max}"
        )
    seq = request.seq_number
    row, whole = tx.run([messages.held(seq), looking.envelope(seq)])
    if _outcome(row, queue) is not RedriveOutcome.MOVED:
        raise NotFound(f"message {seq} is not a dead letter of {quoted(queue.name)}")
    edited = _edited(rows.listed(rows.envelope(whole[0])), request.message)
    if target.ordering_mode == Ordering.GROUP_FIFO and not edited.group_id:
        raise GroupRequired(
            f"message.group_id is empty; queue {quoted(target.name)} orders by group (group_fifo)"
        )
    writes = tx.writes()
    held = _edit(writes, rows.held(row[0]), edited, is_body_new=body is not UNSET)
    new_seq = _put_back(tx, writes, queue, held, target, now_ms)
    writes.run()
    tx.happened(queue.name, "redriven")
    return ResubmitResponse(seq_number=new_seq)


# -- steps -----------------------------------------------------------------------------------------


def _places(tx: Transaction, queue_name: str, target_name: str) -> tuple[Queue, Queue]:
    """Source and target; the same object when the message is to stay."""
    queue = queues.find(tx, queue_name)
    return queue, queue if target_name in ("", queue_name) else queues.find(tx, target_name)


def _outcome(row: list[Row], queue: Queue) -> RedriveOutcome:
    held = rows.held(row[0]) if row else None
    if held is None or held.queue_id != queue.id:
        return RedriveOutcome.NOT_FOUND
    return RedriveOutcome.MOVED if held.state == Stored.DEAD else RedriveOutcome.NOT_DEAD_LETTERED


def _put_back(
    tx: Transaction, writes: WriteSet, queue: Queue, held: Held, target: Queue, now_ms: int
) -> int:
    """Active again, here or there; the number it has now."""
    if target is queue:
        revive(tx, writes, queue, held, now_ms)
        return held.id
    return move(tx, writes, queue, held, target, now_ms)


def _edited(message: Message, patch: MessagePatch) -> Message:
    changes = {
        name: value
        for name in patch.__struct_fields__
        if (value := getattr(patch, name)) is not UNSET
    }
    return msgspec.structs.replace(message, **changes)


def _edit(writes: WriteSet, held: Held, edited: Message, *, is_body_new: bool) -> Held:
    """Write the fields while the row is still dead, when it stands in no line yet.

    The result is what then is to be put back. Its `body_bytes` stay those that the dead letter is
    counted with.
    """
    writes.add(dead_letters.edit(held.id, rows.texts(edited)))
    is_apart = bool(held.is_body_apart)
    if is_body_new:
        was_apart, is_apart = is_apart, messages.is_apart(edited.body)
        writes.add(dead_letters.edit_body(held.id, None if is_apart else edited.body))
        if is_apart:
            writes.add(dead_letters.replace_body(held.id, edited.body))
        elif was_apart:
            writes.add(messages.delete_body(held.id))
    return msgspec.structs.replace(
        held, group_id=edited.group_id or None, is_body_apart=int(is_apart)
    )
