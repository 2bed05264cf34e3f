"""Commands that only the engine sends: the passes of time, and the return of undelivered claims.

Frozen structs like the wire's requests, served by the same table; they never cross a wire (the link
and the door decode only rows of CALLS). Sent by the sweeper and by `Engine.hand_back`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mqlite_actor.contract import limits
from mqlite_actor.semantics import operations, peek, sweep
from mqlite_actor.semantics.operations import Operation
from mqlite_actor.storage.sqlite import SqliteStore


class Slice(msgspec.Struct, frozen=True):
    """One slice of a pass; the reply is how many rows it found."""

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
    """Forget receipts and attempts that expired."""


class PruneDuplicates(Slice, frozen=True):
    """Forget duplicate keys outside their window."""


class Release(msgspec.Struct, frozen=True):
    """Give back claims whose answer reached nobody; `is_counted` keeps the delivery."""

    queue: str
    leases: tuple[tuple[int, bytes], ...]
    is_counted: bool = False


class TruncateLog(msgspec.Struct, frozen=True):
    """Move the whole log into the file and cut it; the reply says whether it could be done."""


class CountEntities(msgspec.Struct, frozen=True):
    """How many queues and subscriptions there are, for Status."""


INTERNAL: dict[type[Any], Operation] = {
    Reap: lambda tx, command, now_ms: sweep.reap(tx, command.limit, now_ms),
    Recover: lambda tx, command, now_ms: sweep.recover(tx, command.limit),
    Activate: lambda tx, command, now_ms: sweep.activate(tx, command.limit, now_ms),
    Expire: lambda tx, command, now_ms: sweep.expire(tx, command.limit, now_ms),
    PruneReceipts: lambda tx, command, now_ms: sweep.prune_receipts(tx, command.limit, now_ms),
    PruneDuplicates: lambda tx, command, now_ms: sweep.prune_duplicates(tx, command.limit, now_ms),
    Release: lambda tx, command, now_ms: sweep.release(
        tx, command.queue, command.leases, now_ms, is_counted=command.is_counted
    ),
    CountEntities: lambda tx, command, now_ms: peek.count_entities(tx),
}


ALONE: dict[type[Any], Callable[[SqliteStore], Any]] = {
    TruncateLog: SqliteStore.truncate_log,
}
"""What runs in the storage thread between two groups, outside of any transaction."""


def table(*, message_bytes_max: int) -> dict[type[Any], Operation]:
    """Every command that this engine can run."""
    return {**operations.operations(message_bytes_max=message_bytes_max), **INTERNAL}
