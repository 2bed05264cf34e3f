"""Cancel: delete a scheduled message before its first delivery.

Called through the operations table. A delayed retry is scheduled too, but was delivered before, and
is not the sender's to take back; everything that cannot be cancelled is NotFound (spec/wire.md
2.8).
"""

from __future__ import annotations

from mqlite_actor.contract.errors import NotFound, quoted
from mqlite_actor.contract.wire import CancelRequest, OkResponse
from mqlite_actor.semantics import lifecycle
from mqlite_actor.semantics.lifecycle import Event
from mqlite_actor.semantics.settle import DONE
from mqlite_actor.storage import messages, queues, rows
from mqlite_actor.storage.database import Stored, Transaction


def cancel(tx: Transaction, request: CancelRequest, now_ms: int) -> OkResponse:
    """Remove it; its duplicate-detection key stays taken."""
    queue = queues.lookup(tx, request.queue)
    row = messages.first(tx.run([messages.held(request.seq_number)])[0])
    held = None if row is None else rows.held(row)
    if (
        queue is None
        or held is None
        or held.queue_id != queue.id
        or held.state != Stored.SCHEDULED
        or held.delivery_count
    ):
        raise NotFound(
            f"message {request.seq_number} is not scheduled in {quoted(request.queue)}, or was"
            " delivered before"
        )
    writes = tx.writes()
    lifecycle.remove(tx, writes, queue, held, Event.CANCEL)
    writes.run()
    tx.happened(queue.name, "canceled")
    return DONE
