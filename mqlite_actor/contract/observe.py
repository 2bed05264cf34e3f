"""Structs of the Observe snapshot (spec/wire.md 2.19): every key is always present.

Filled by the engine (storage, messages, maintenance) and the broker (http), read by /metrics, the
console, `mqlite observe` and `mqlite top`. Counters belong to this process and start at zero. What
is not known is null, and never zero. Keys beyond the contract's stand behind its own (ruling R9)
and have a default, so that the snapshot of a broker without them can be read.
"""

from __future__ import annotations

import msgspec

from mqlite_actor.contract.wire import Int, Request, Response

BOUNDS_SECONDS: tuple[float, ...] = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0,
)  # fmt: skip
"""Upper bounds of every histogram; the contract's numbers."""

MESSAGE_EVENTS: tuple[str, ...] = (
    "enqueued", "scheduled", "deduplicated", "dedup_conflict", "delivered", "redelivered",
    "completed", "receive_deleted",
    "abandoned", "deferred", "rejected", "dead_lettered", "ttl_discarded",
    "retention_deleted", "purged", "canceled", "redriven", "lock_expired", "recovered", "activated",
)  # fmt: skip
"""What can happen to a message; counted after commit, replays excluded."""

MAINTENANCE_TASKS: tuple[str, ...] = (
    "locks", "scheduled", "ttl", "dedup", "receipts", "retention", "reclaim",
)  # fmt: skip


class Histogram(msgspec.Struct, frozen=True):
    """Cumulative counts under each bound; `count` is the bucket without one."""

    bounds_seconds: list[float]
    bucket_counts: list[Int]
    count: Int
    sum_seconds: float


class RuntimeInfo(msgspec.Struct, frozen=True):
    """The store as a trivial read sees it."""

    schema_version: str
    ping_seconds: float
    read_available: bool
    db_size_bytes: Int
    db_size_available: bool
    wal_bytes: Int | None = None
    free_bytes: Int | None = None
    """Of the file, in pages that hold nothing."""
    disk_free_bytes: Int | None = None


class Collection(msgspec.Struct, frozen=True):
    """Whether the queue rows of this snapshot could be read."""

    state: str
    last_success_at_ms: Int
    duration_seconds: float
    error_code: str


class QueueDepth(msgspec.Struct, frozen=True):
    """One queue's counts."""

    queue: str
    active: Int
    locked: Int
    deferred: Int
    scheduled: Int
    dead_lettered: Int
    total: Int
    oldest_message_age_ms: Int
    kind: str
    unexpected: Int


class MessageEvents(msgspec.Struct, frozen=True):
    """How often one event happened in one queue."""

    queue: str
    event: str
    count: Int


class StorageOperation(msgspec.Struct, frozen=True):
    """Finished storage calls of one kind and outcome."""

    operation: str
    outcome: str
    error_code: str
    duration: Histogram
    retries: Int


class StoragePool(msgspec.Struct, frozen=True):
    """Connections, and how callers waited for one."""

    max_open: Int
    open: Int
    in_use: Int
    idle: Int
    wait_count: Int
    wait_duration_seconds: float


class StorageInfo(msgspec.Struct, frozen=True):
    """Storage calls and connections."""

    operations: list[StorageOperation]
    pool: StoragePool


class MaintenanceInfo(msgspec.Struct, frozen=True):
    """One background task. `failures` is history; `health` says how it is now."""

    enabled: bool
    task: str
    runs: Int
    interrupted: Int
    failures: Int
    last_success_at_ms: Int
    duration: Histogram
    last_failure_at_ms: Int
    last_error_code: str
    consecutive_failures: Int
    recovered_at_ms: Int
    health: str


class FilterFailures(msgspec.Struct, frozen=True):
    """Filters that failed while routing, by stage."""

    stage: str
    count: Int


class HttpRequests(msgspec.Struct, frozen=True):
    """Requests of one call that ended with one code."""

    rpc: str
    code: str
    count: Int
    duration_seconds: float


class HttpAuthentication(msgspec.Struct, frozen=True):
    """Credential checks by outcome."""

    outcome: str
    count: Int


class LatencyBucket(msgspec.Struct, frozen=True):
    """One bucket of a call's latency."""

    upper_bound_seconds: float
    count: Int


class HttpLatency(msgspec.Struct, frozen=True):
    """Time of one call behind the credential check."""

    rpc: str
    buckets: list[LatencyBucket]
    count: Int
    sum_seconds: float


class HttpInfo(msgspec.Struct, frozen=True):
    """What the HTTP door counted; `not_applicable` when there is none."""

    state: str
    requests: list[HttpRequests]
    authentication: list[HttpAuthentication]
    handler_latency: list[HttpLatency]


class ReceiveWaiters(msgspec.Struct, frozen=True):
    """Receives that wait for a message of one queue."""

    queue: str
    count: Int


class ProcessInfo(msgspec.Struct, frozen=True):
    """The process of the engine, as its system counts it."""

    cpu_seconds: float | None
    start_time_seconds: float | None
    resident_bytes: Int | None
    virtual_bytes: Int | None
    open_descriptors: Int | None
    max_descriptors: Int | None


class EarlierBoot(msgspec.Struct, frozen=True):
    """What the diagnostic log keeps of an earlier start: how often something began to fail, what
    did so last, and whether it was stopped in order."""

    boot_id: str
    first_at_ms: Int
    last_at_ms: Int
    failures: Int
    last_task: str
    last_code: str
    last_detail: str
    stopped: bool


class DiagnosticsInfo(msgspec.Struct, frozen=True):
    """The optional diagnostic log: off, on, or failing to be written; `boot_id` names this
    start."""

    state: str
    boot_id: str
    earlier_boots: list[EarlierBoot]


class ObserveResponse(Response, frozen=True):
    """One consistent snapshot. `queues` is null when they could not be read, never zeros.

    `started_at_ms`, and what stands behind `http`, is null where nobody knows it: in a look at the
    file of another process.
    """

    sampled_at_ms: Int
    started_at_ms: Int | None
    backend: str
    runtime: RuntimeInfo
    collection: Collection
    queue_count: Int
    subscription_count: Int
    queues: list[QueueDepth] | None
    messages: list[MessageEvents]
    storage: StorageInfo
    maintenance: list[MaintenanceInfo]
    filters: list[FilterFailures]
    version: str
    access: str
    http: HttpInfo
    diagnostics: DiagnosticsInfo
    mailbox_depth: Int | None = None
    receive_waiters: list[ReceiveWaiters] | None = None
    process: ProcessInfo | None = None


class ObserveRequest(Request[ObserveResponse], frozen=True):
    """Take a snapshot; `{}`."""
