"""Queue rows: find, list, create, update.

Called by the entity verbs and by every verb that names a queue. Rows are kept in the writer's
ledger, so that naming a queue costs a dictionary look-up; whoever writes a queue row keeps the
ledger true to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from mqlite_actor.contract.errors import QueueNotFound, quoted
from mqlite_actor.storage import counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mqlite_actor.storage.database import Ledger, Row, Statement, Transaction, Value


class Queue(msgspec.Struct, frozen=True):
    """A row of `queues`, in column order."""

    id: int
    name: str
    kind: str
    lock_duration_ms: int
    max_delivery_count: int
    default_ttl_ms: int
    dead_letter_on_expire: int
    dedup_window_ms: int
    ordering_mode: str
    dlq_max_age_ms: int
    dlq_max_count: int
    dlq_max_bytes: int
    created_at: int
    updated_at: int
    generation: str

    @property
    def is_strict(self) -> bool:
        """One message of the whole queue in flight at a time."""
        return self.ordering_mode == "strict_fifo"


_COLUMNS: Final = ", ".join(Queue.__struct_fields__)

FIND: Final = f"SELECT {_COLUMNS} FROM queues WHERE name = ?"
BY_ID: Final = f"SELECT {_COLUMNS} FROM queues WHERE id = ?"
LIST: Final = f"SELECT {_COLUMNS} FROM queues ORDER BY name"
INSERT: Final = f"""
INSERT INTO queues ({_COLUMNS}) VALUES (NULL, {", ".join("?" * (len(Queue.__struct_fields__) - 1))})
RETURNING id"""
# Everything but identity: id, name, kind, created_at and generation outlive an update.
_SETTINGS: Final = (
    "lock_duration_ms", "max_delivery_count", "default_ttl_ms", "dead_letter_on_expire",
    "dedup_window_ms", "ordering_mode", "dlq_max_age_ms", "dlq_max_count", "dlq_max_bytes",
    "updated_at",
)  # fmt: skip
UPDATE: Final = f"UPDATE queues SET {', '.join(f'{name} = ?' for name in _SETTINGS)} WHERE id = ?"
# What is remembered past the life of a message names its queue by id, and ids are never reused; it
# goes all the same, since nobody can ask for it any more. Receipts go with their time.
DELETE_ALL_OF: Final = (
    "DELETE FROM dedup WHERE queue_id = ?",
    "DELETE FROM attempts WHERE queue_id = ?",
    "DELETE FROM counts WHERE queue_id = ?",
    "DELETE FROM subscriptions WHERE queue_id = ?",
    "DELETE FROM queues WHERE id = ?",
)
BURY: Final = """
INSERT INTO tombstones (name, generation, deleted_at) VALUES (?, ?, ?)
ON CONFLICT (name, generation) DO UPDATE SET deleted_at = excluded.deleted_at"""
FIND_TOMBSTONE: Final = "SELECT 1 FROM tombstones WHERE name = ? AND generation = ?"
PRUNE_TOMBSTONES: Final = """
DELETE FROM tombstones WHERE rowid IN (
  SELECT rowid FROM tombstones WHERE deleted_at < ? LIMIT ?)
RETURNING rowid"""
BUMP_EPOCH: Final = "UPDATE meta SET value = value + 1 WHERE key = 'epoch'"


def lookup(tx: Transaction, name: str) -> Queue | None:
    """The queue of this name, or None."""
    ledger = tx.ledger
    queue = ledger.queues.get(name)
    if queue is None:
        if ledger.knows_all:
            return None
        rows = tx.run([(FIND, (name,))])[0]
        if not rows:
            return None
        queue = ledger.queues[name] = _queue(rows[0])
    return queue


def find(tx: Transaction, name: str) -> Queue:
    """The queue of this name; QueueNotFound says which was asked for."""
    queue = lookup(tx, name)
    if queue is None:
        raise QueueNotFound(f"queue {quoted(name)} does not exist")
    return queue


def by_id(tx: Transaction, queue_id: int) -> Queue:
    """The queue with this id; a message's queue always exists."""
    for queue in tx.ledger.queues.values():
        if queue.id == queue_id:
            return queue
    rows = tx.run([(BY_ID, (queue_id,))])[0]
    assert rows, "a message outlived its queue"
    queue = _queue(rows[0])
    tx.ledger.queues[queue.name] = queue
    return queue


def list_all(tx: Transaction) -> list[Queue]:
    """All queues by name, bytewise."""
    return [_queue(row) for row in tx.run([(LIST, ())])[0]]


def everything() -> Statement:
    """All rows, for `fill`."""
    return LIST, ()


def fill(ledger: Ledger, found: Sequence[Row]) -> None:
    """Know all queues from now on."""
    ledger.queues = {queue.name: queue for queue in map(_queue, found)}
    ledger.knows_all = True


def insert(tx: Transaction, queue: Queue) -> None:
    """Store a new queue (its `id` is ignored) with zero counts."""
    values = _values(queue)[1:]
    queue_id = tx.run([(INSERT, values)])[0][0][0]
    tx.write([counts.start(queue_id), (BUMP_EPOCH, ())])
    tx.ledger.queues[queue.name] = msgspec.structs.replace(queue, id=queue_id)


def update(tx: Transaction, queue: Queue) -> None:
    """Replace the settings of an existing queue."""
    settings: tuple[Value, ...] = tuple(getattr(queue, name) for name in _SETTINGS)
    statements: list[Statement] = [(UPDATE, (*settings, queue.id)), (BUMP_EPOCH, ())]
    tx.write(statements)
    tx.ledger.queues[queue.name] = queue


def delete(tx: Transaction, queue: Queue, now_ms: int) -> None:
    """Remove an empty queue and everything remembered about it, and leave a tombstone."""
    statements: list[Statement] = [(sql, (queue.id,)) for sql in DELETE_ALL_OF]
    statements.append((BURY, (queue.name, queue.generation, now_ms)))
    statements.append((BUMP_EPOCH, ()))
    tx.write(statements)
    tx.drop_counts(queue)
    tx.ledger.queues.pop(queue.name, None)


def was_deleted(tx: Transaction, name: str, generation: str) -> bool:
    """Whether exactly this queue was deleted within the last day."""
    return bool(tx.run([(FIND_TOMBSTONE, (name, generation))])[0])


def prune_tombstones(deleted_before: int, limit: int) -> Statement:
    """Forget deletions made before an instant; returns them."""
    return PRUNE_TOMBSTONES, (deleted_before, limit)


def _queue(row: Row) -> Queue:
    return Queue(*row)


def _values(queue: Queue) -> tuple[Value, ...]:
    return msgspec.structs.astuple(queue)
