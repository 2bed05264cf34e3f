"""What can be done with dead letters: redrive, purge, and retention by age, count and bytes.

One chunk each, called by the engine's commands of the same names; pacing, repetition and stopping
are the engine's business (`engine/chores.py`). A chunk looks again at what it touches, so that a
purge between two chunks of a redrive neither resurrects nor double-counts anything (spec/engine.md
3.17, W-10).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mqlite_actor.contract import limits
from mqlite_actor.semantics import lifecycle
from mqlite_actor.semantics.lifecycle import Event, check_step, instant
from mqlite_actor.semantics.sweep import Swept
from mqlite_actor.storage import dead_letters, messages, queues, rows
from mqlite_actor.storage.database import Stored, Transaction, WriteSet
from mqlite_actor.storage.queues import Queue
from mqlite_actor.storage.rows import Held

Chunk = tuple[int, int]
"""How many were moved or deleted, and the number up to which the chunk has looked."""

EVERYTHING: Final = limits.INT64_MAX


def last_dead_letter(tx: Transaction, queue_name: str, target_name: str) -> int:
    """Where a redrive or purge ends that begins now: later dead letters are not its business.

    Raises QueueNotFound for either queue.
    """
    if target_name and target_name != queue_name:
        queues.find(tx, target_name)
    found = tx.run([dead_letters.last(queues.find(tx, queue_name).id)])[0]
    return int(found[0][0]) if found else 0


def redrive_chunk(
    tx: Transaction,
    queue_name: str,
    target_name: str,
    now_ms: int,
    *,
    after: int,
    last: int,
    enqueued_before: int,
    limit: int,
) -> Chunk:
    """Make up to `limit` dead letters active again, here or in the target.

    A move ends early with the one that reaches the bytes of a group, because bodies move along.
    """
    queue = queues.find(tx, queue_name)
    rows_found = tx.run([dead_letters.choose(queue.id, after, last, enqueued_before, limit)])[0]
    found = list(map(rows.held, rows_found))
    writes = tx.writes()
    is_in_place = target_name in ("", queue_name)
    target = queue if is_in_place else queues.find(tx, target_name)
    if not is_in_place:
        found = _first_that_move(found)
    for held in found:
        if is_in_place:
            revive(tx, writes, queue, held, now_ms)
        else:
            move(tx, writes, queue, held, target, now_ms)
    writes.run()
    tx.happened(queue.name, "redriven", len(found))
    return len(found), found[-1].id if found else last


def purge_chunk(
    tx: Transaction,
    queue_name: str,
    *,
    after: int,
    last: int,
    enqueued_before: int,
    limit: int,
) -> Chunk:
    """Delete up to `limit` dead letters."""
    queue = queues.find(tx, queue_name)
    found = tx.run([dead_letters.choose(queue.id, after, last, enqueued_before, limit)])[0]
    _delete(tx, queue, list(map(rows.held, found)), "purged")
    return len(found), found[-1][0] if found else last


def retain(
    tx: Transaction, limit: int, now_ms: int, *, max_age_ms: int, max_count: int, max_bytes: int
) -> Swept:
    """Delete what is beyond each queue's bounds, oldest first; the most deleted in one queue.

    The arguments are the engine's bounds (0: none); a queue's own replace them, a negative one is
    unbounded. In the order age, count, bytes; each at most `limit` rows a slice.
    """
    most = 0
    for queue in queues.list_all(tx):
        if not tx.dead_letters(queue)[0]:
            continue
        deleted = _beyond_age(tx, queue, limit, now_ms, _bound(queue.dlq_max_age_ms, max_age_ms))
        deleted += _beyond_count(tx, queue, limit, _bound(queue.dlq_max_count, max_count))
        deleted += _beyond_bytes(tx, queue, limit, _bound(queue.dlq_max_bytes, max_bytes))
        most = max(most, deleted)
    return Swept(most)


def _first_that_move(found: Sequence[Held]) -> list[Held]:
    """Those of them whose bodies one transaction may write anew: up to the one with which they
    reach GROUP_BYTES_MAX."""
    total = 0
    for number, held in enumerate(found, start=1):
        total += held.body_bytes
        if total >= limits.GROUP_BYTES_MAX:
            return list(found[:number])
    return list(found)


# -- one message -----------------------------------------------------------------------------------


def revive(tx: Transaction, writes: WriteSet, queue: Queue, held: Held, now_ms: int) -> None:
    """Back to its old number. One whose time is over gets a fresh one (decision 7)."""
    check_step(Event.REDRIVE, lifecycle.DEAD, lifecycle.ACTIVE)
    expires_at = held.expires_at
    if 0 < expires_at <= now_ms:
        ttl_ms = queue.default_ttl_ms
        expires_at = instant(now_ms, ttl_ms) if ttl_ms > 0 else 0
    lane = lifecycle.lane_of(queue, held.group_id)
    writes.place(dead_letters.revive(held.id, queue.id, lane, expires_at), queue)
    if lane is not None:
        writes.add(dead_letters.stand_back(held.id, queue.id, lane))
    tx.moved(queue, before=Stored.DEAD, after=Stored.READY, dead_bytes=-held.body_bytes)
    tx.due("ttl", expires_at)


def move(
    tx: Transaction, writes: WriteSet, queue: Queue, held: Held, target: Queue, now_ms: int
) -> int:
    """A new message in the target, the old one gone; no expiry, no duplicate detection. Its
    number."""
    check_step(Event.REDRIVE, lifecycle.DEAD, lifecycle.NONE)
    seq = tx.next_seq()
    lane = lifecycle.lane_of(target, held.group_id)
    writes.place(dead_letters.move(held.id, seq, target.id, lane, now_ms), target)
    if held.is_body_apart:
        writes.add(dead_letters.move_body(held.id, seq))
    writes.add(*messages.delete(held.id, has_body_apart=False))
    tx.moved(queue, before=Stored.DEAD, dead_bytes=-held.body_bytes)
    tx.moved(target, after=Stored.READY)
    return seq


def _delete(tx: Transaction, queue: Queue, found: list[Held], event: str) -> int:
    writes = tx.writes()
    for held in found:
        lifecycle.remove(tx, writes, queue, held, Event.PURGE)
    writes.run()
    tx.happened(queue.name, event, len(found))
    return len(found)


# -- retention -------------------------------------------------------------------------------------


def _bound(own: int, inherited: int) -> int:
    """0 for unbounded."""
    return max(own or inherited, 0)


def _beyond_age(tx: Transaction, queue: Queue, limit: int, now_ms: int, bound: int) -> int:
    if not bound:
        return 0
    found = tx.run([dead_letters.aged(queue.id, now_ms - bound, limit)])[0]
    return _delete(tx, queue, list(map(rows.held, found)), "retention_deleted")


def _beyond_count(tx: Transaction, queue: Queue, limit: int, bound: int) -> int:
    surplus = tx.dead_letters(queue)[0] - bound
    if not bound or surplus <= 0:
        return 0
    found = tx.run([dead_letters.oldest(queue.id, min(surplus, limit))])[0]
    return _delete(tx, queue, list(map(rows.held, found)), "retention_deleted")


def _beyond_bytes(tx: Transaction, queue: Queue, limit: int, bound: int) -> int:
    """What is left is the longest run of the newest whose bodies fit."""
    surplus = tx.dead_letters(queue)[1] - bound
    if not bound or surplus <= 0:
        return 0
    doomed: list[Held] = []
    for held in map(rows.held, tx.run([dead_letters.oldest(queue.id, limit)])[0]):
        if surplus <= 0:
            break
        doomed.append(held)
        surplus -= held.body_bytes
    return _delete(tx, queue, doomed, "retention_deleted")
