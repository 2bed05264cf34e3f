"""Commands that only the engine sends: the passes of time, and the return of undelivered claims.

Frozen structs like the wire's requests, served by the same table; they never cross a wire (the link
and the door decode only rows of CALLS). Sent by the sweeper and by `Engine.hand_back`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mqlite_actor.contract import limits
from mqlite_actor.contract.ext import (
    DeleteSubscriptionRequest,
    PurgeActiveRequest,
    RedriveResult,
    SearchRequest,
    SendResultRequest,
)
from mqlite_actor.contract.wire import ReceiveRequest
from mqlite_actor.semantics import (
    clearing,
    dead_letters,
    depths,
    far_claims,
    keys,
    neighbours,
    operations,
    peek,
    search,
    selected,
    send,
    send_result,
    sweep,
)
from mqlite_actor.semantics.operations import Operation
from mqlite_actor.semantics.routing import Verdicts
from mqlite_actor.semantics.send import Sending
from mqlite_actor.storage.database import Transaction
from mqlite_actor.storage.store import Store


class Slice(msgspec.Struct, frozen=True):
    """One slice of a pass; the reply is what it found (`sweep.Swept`)."""

    limit: int = limits.MAINTENANCE_ROWS


class Reap(Slice, frozen=True):
    """End leases that are over."""


class Recover(Slice, frozen=True):
    """End all leases; only before the engine serves."""


class Activate(Slice, frozen=True):
    """Make due scheduled messages active."""


class Expire(Slice, frozen=True):
    """Take messages past their time to live."""


class PruneReceipts(Slice, frozen=True):
    """Forget receipts, attempts and tombstones that expired."""


class PruneDuplicates(Slice, frozen=True):
    """Forget duplicate keys outside their window."""


class Retain(Slice, frozen=True):
    """Delete dead letters beyond the bounds; 0 is unbounded."""

    max_age_ms: int = 0
    max_count: int = 0
    max_bytes: int = 0


class Release(msgspec.Struct, frozen=True):
    """Give back claims whose answer reached nobody; `is_counted` keeps the delivery."""

    queue: str
    leases: tuple[tuple[int, bytes], ...]
    is_counted: bool = False


class JudgedSend(msgspec.Struct, frozen=True):
    """A send whose slow filters were asked before; `known` is what they said."""

    request: Sending
    known: Verdicts


class Authenticate(msgspec.Struct, frozen=True):
    """Whose token has this digest; the reply is an outcome and the rights behind it."""

    token_hash: bytes


class Gather(msgspec.Struct, frozen=True):
    """A page of a search before its filter was asked; the reply is `sifting.Gathered`."""

    request: SearchRequest
    needs_body: bool


class LastDeadLetter(msgspec.Struct, frozen=True):
    """Where a redrive or purge that begins now will end; checks both queues."""

    queue: str
    target: str = ""


class RedriveChunk(msgspec.Struct, frozen=True):
    """Revive the next dead letters; the reply is (number, up to which number)."""

    queue: str
    target: str
    after: int
    last: int
    enqueued_before: int
    limit: int


class PurgeChunk(msgspec.Struct, frozen=True):
    """Delete the next dead letters; the reply is (number, up to which number)."""

    queue: str
    after: int
    last: int
    enqueued_before: int
    limit: int


class RedriveSelectedChunk(msgspec.Struct, frozen=True):
    """Revive these dead letters; the reply answers each number."""

    queue: str
    target: str
    numbers: tuple[int, ...]


class LastActive(msgspec.Struct, frozen=True):
    """Check the guard of a purge of active messages; the reply is where it ends, and the
    generation."""

    request: PurgeActiveRequest


class PurgeActiveChunk(msgspec.Struct, frozen=True):
    """Delete the next active messages; the reply is (number, up to which number)."""

    queue: str
    generation: str
    after: int
    last: int
    enqueued_before: int
    limit: int


class EndSubscription(msgspec.Struct, frozen=True):
    """Stop a subscription's routing, discard its first messages if asked to, and delete its queue
    if that is empty then; the reply is (generation of the queue that is still to be emptied, or "",
    number of messages)."""

    request: DeleteSubscriptionRequest
    limit: int = limits.CHORE_ROWS


class DiscardChunk(msgspec.Struct, frozen=True):
    """Delete the next messages of a queue, and then the queue; the reply is (number, is gone)."""

    queue: str
    generation: str
    limit: int


class TruncateLog(msgspec.Struct, frozen=True):
    """Move the whole log into the file and begin it anew; the reply says whether it could be done.

    `keeps_room`: its file stays as long as it is, to be written over."""

    keeps_room: bool = False


class Reclaim(msgspec.Struct, frozen=True):
    """Give free pages back to the disk, at most `limit`; the reply is how many are left."""

    limit: int


class CountFreePages(msgspec.Struct, frozen=True):
    """How many pages of the file are free."""


class Vacuum(msgspec.Struct, frozen=True):
    """Write the whole file anew without its free pages."""


class Stay(msgspec.Struct, frozen=True):
    """Tell others that the owner of a remote database is still there."""


class CopyPages(msgspec.Struct, frozen=True):
    """A step of a backup of a database in memory; the reply is the step's."""

    step: Callable[[], Any]


class Collect(msgspec.Struct, frozen=True):
    """The depth of every queue and the free room in the file, for Observe."""


class CountEntities(msgspec.Struct, frozen=True):
    """How many queues and subscriptions there are, for Status."""


def _retain(tx: Transaction, command: Retain, now_ms: int) -> sweep.Swept:
    return dead_letters.retain(
        tx,
        command.limit,
        now_ms,
        max_age_ms=command.max_age_ms,
        max_count=command.max_count,
        max_bytes=command.max_bytes,
    )


def _redrive(tx: Transaction, command: RedriveChunk, now_ms: int) -> dead_letters.Chunk:
    return dead_letters.redrive_chunk(
        tx,
        command.queue,
        command.target,
        now_ms,
        after=command.after,
        last=command.last,
        enqueued_before=command.enqueued_before,
        limit=command.limit,
    )


def _purge(tx: Transaction, command: PurgeChunk, _: int) -> dead_letters.Chunk:
    return dead_letters.purge_chunk(
        tx,
        command.queue,
        after=command.after,
        last=command.last,
        enqueued_before=command.enqueued_before,
        limit=command.limit,
    )


def _redrive_selected(
    tx: Transaction, command: RedriveSelectedChunk, now_ms: int
) -> list[RedriveResult]:
    return selected.redrive_selected(tx, command.queue, command.target, command.numbers, now_ms)


def _purge_active(tx: Transaction, command: PurgeActiveChunk, _: int) -> dead_letters.Chunk:
    return clearing.purge_active_chunk(
        tx,
        command.queue,
        command.generation,
        after=command.after,
        last=command.last,
        enqueued_before=command.enqueued_before,
        limit=command.limit,
    )


INTERNAL: dict[type[Any], Operation] = {
    Reap: lambda tx, command, now_ms: sweep.reap(tx, command.limit, now_ms),
    Recover: lambda tx, command, now_ms: sweep.recover(tx, command.limit),
    Activate: lambda tx, command, now_ms: sweep.activate(tx, command.limit, now_ms),
    Expire: lambda tx, command, now_ms: sweep.expire(tx, command.limit, now_ms),
    PruneReceipts: lambda tx, command, now_ms: sweep.prune_receipts(tx, command.limit, now_ms),
    PruneDuplicates: lambda tx, command, now_ms: sweep.prune_duplicates(tx, command.limit, now_ms),
    Retain: _retain,
    Release: lambda tx, command, now_ms: sweep.release(
        tx, command.queue, command.leases, now_ms, is_counted=command.is_counted
    ),
    Authenticate: lambda tx, command, now_ms: keys.rights_of(tx, command.token_hash, now_ms),
    LastDeadLetter: lambda tx, command, now_ms: dead_letters.last_dead_letter(
        tx, command.queue, command.target
    ),
    RedriveChunk: _redrive,
    PurgeChunk: _purge,
    RedriveSelectedChunk: _redrive_selected,
    LastActive: lambda tx, command, now_ms: clearing.last_active(tx, command.request),
    PurgeActiveChunk: _purge_active,
    EndSubscription: lambda tx, command, now_ms: clearing.end_subscription(
        tx, command.request, command.limit, now_ms
    ),
    DiscardChunk: lambda tx, command, now_ms: clearing.discard_chunk(
        tx, command.queue, command.generation, command.limit, now_ms
    ),
    Collect: lambda tx, command, now_ms: depths.collect(tx, now_ms),
    Gather: lambda tx, command, now_ms: search.gather(
        tx, command.request, for_filter=True, needs_body=command.needs_body
    ),
    CountEntities: lambda tx, command, now_ms: peek.count_entities(tx),
}

ALONE: dict[type[Any], Callable[[Store, Any], Any]] = {
    TruncateLog: lambda store, command: store.truncate_log(keeps_room=command.keeps_room),
    CountFreePages: lambda store, command: store.free_pages(),
    Reclaim: lambda store, command: store.reclaim(command.limit),
    Vacuum: lambda store, command: store.vacuum(),
    Stay: lambda store, command: store.stay(),
    CopyPages: lambda store, command: command.step(),
}
"""What runs in the storage thread between two groups, outside of any transaction."""


class Table(dict[type[Any], Operation]):
    """Which function serves which command; `runs`: of which kinds neighbours go together, and
    `far_runs`: of which they do so without asking first, for a distant store."""

    __slots__ = ("far_runs", "runs")

    def __init__(
        self,
        operations: dict[type[Any], Operation],
        runs: dict[type[Any], neighbours.Run] | None = None,
    ) -> None:
        super().__init__(operations)
        self.runs = runs or {}
        self.far_runs: dict[type[Any], neighbours.Run] = (
            {ReceiveRequest: far_claims.receive_afar} if runs else {}
        )


def table(*, message_bytes_max: int) -> Table:
    """Every command that this engine can run."""

    def judged_send(tx: Transaction, command: JudgedSend, now_ms: int) -> object:
        request, known = command.request, command.known
        if isinstance(request, SendResultRequest):
            return send_result.send_result(
                tx, request, now_ms, message_bytes_max=message_bytes_max, known=known
            )
        return send.send(tx, request, now_ms, message_bytes_max=message_bytes_max, known=known)

    return Table(
        {
            **operations.operations(message_bytes_max=message_bytes_max),
            **INTERNAL,
            JudgedSend: judged_send,
        },
        neighbours.runs(message_bytes_max=message_bytes_max),
    )
