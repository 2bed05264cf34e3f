"""The depth of every queue, from the kept counts: what Observe and the metrics show.

Called as a command of the engine. One transaction, so the numbers belong together.
"""

from __future__ import annotations

from typing import NamedTuple

from mqlite_actor.contract.observe import QueueDepth
from mqlite_actor.storage import counts, queues
from mqlite_actor.storage.database import Transaction


class Sample(NamedTuple):
    """What one look at the file tells."""

    rows: list[QueueDepth]
    free_bytes: int


def collect(tx: Transaction, now_ms: int) -> Sample:
    """A row per queue, by name, and what of the file holds nothing."""
    found = queues.list_all(tx)
    kept, oldest, free = [], [], 0
    if found:
        *read, (free_row,) = tx.run(
            [
                *(counts.read(queue.id) for queue in found),
                *(counts.oldest(queue.id) for queue in found),
                counts.free_bytes(),
            ]
        )
        kept, oldest, free = read[: len(found)], read[len(found) :], free_row[0]
    else:
        free = tx.run([counts.free_bytes()])[0][0][0]
    rows: list[QueueDepth] = []
    for queue, kept_row, oldest_row in zip(found, kept, oldest, strict=True):
        active, locked, scheduled, deferred, dead, _ = counts.six(kept_row[0])
        enqueued_at = oldest_row[0][0]
        rows.append(
            QueueDepth(
                queue=queue.name,
                active=active,
                locked=locked,
                deferred=deferred,
                scheduled=scheduled,
                dead_lettered=dead,
                total=active + locked + deferred + scheduled + dead,
                oldest_message_age_ms=0 if enqueued_at is None else max(0, now_ms - enqueued_at),
                kind=queue.kind,
                unexpected=0,  # the table's CHECK admits no other state
            )
        )
    return Sample(rows, free)
