"""What /metrics must say of a snapshot: the families in order, and every sample of a document.

Used by test_broker_metrics. Written from the contract (spec/wire.md 4.11) and the JSON of Observe,
apart from the program's own code, so that a mistake there shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.engine.snapshots import STATES, Document

Key = tuple[str, tuple[tuple[str, str], ...]]
"""Name of a sample, and its labels sorted by name."""

Samples = dict[Key, float]

_FAMILIES = """
    gauge info
    gauge storage_read_available
    gauge storage_ping_seconds
    gauge storage_size_available
    gauge storage_size_bytes
    gauge start_time_seconds
    gauge sample_timestamp_seconds
    gauge collection_last_success_timestamp_seconds
    gauge collection_duration_seconds
    gauge collection_success
    gauge collection_status
    gauge entities
    gauge queue_messages
    gauge queue_retained_messages
    gauge queue_unexpected_messages
    gauge queue_oldest_message_age_seconds
    gauge queue_total
    gauge queue_oldest_message_age_ms
    counter message_events_total
    counter messages_completed_total
    counter storage_operations_total
    histogram storage_operation_duration_seconds
    counter storage_retries_total
    gauge storage_pool_connections
    counter storage_pool_waits_total
    counter storage_pool_wait_duration_seconds_total
    counter maintenance_runs_total
    gauge maintenance_enabled
    histogram maintenance_duration_seconds
    gauge maintenance_last_success_timestamp_seconds
    counter filter_failures_total
    counter rpc_requests_total
    counter rpc_request_duration_seconds_total
    counter authentication_total
    histogram rpc_duration_seconds
    gauge maintenance_consecutive_failures
    gauge storage_wal_bytes
    gauge storage_free_bytes
    gauge disk_free_bytes
    gauge receive_waiters
    gauge mailbox_depth
"""

_PROCESS = """
    counter cpu_seconds_total
    gauge virtual_memory_bytes
    gauge resident_memory_bytes
    gauge start_time_seconds
    gauge open_fds
    gauge max_fds
"""

FAMILIES = [
    (f"{prefix}_{name}", kind)
    for prefix, families in (("mqlite", _FAMILIES), ("process", _PROCESS))
    for kind, name in (line.split() for line in families.split("\n")[1:-1])
]
"""Name and type; the contract's 35 in its order, then ours."""

Line = tuple[str, dict[str, str], float]


def samples_of(document: Document) -> Samples:
    """Every sample that the exposition of this snapshot must have, and no other."""
    sections = (
        _runtime, _collection, _queues, _messages, _storage, _maintenance, _http, _room, _waiting,
    )  # fmt: skip
    found: Samples = {}
    for section in sections:
        for name, labels, number in section(document):
            found[f"mqlite_{name}", tuple(sorted(labels.items()))] = float(number)
    for name, key in PROCESS_KEYS.items():
        if document["process"][key] is not None:
            found[f"process_{name}", ()] = float(document["process"][key])
    return found


PROCESS_KEYS = {
    "cpu_seconds_total": "cpu_seconds",
    "virtual_memory_bytes": "virtual_bytes",
    "resident_memory_bytes": "resident_bytes",
    "start_time_seconds": "start_time_seconds",
    "open_fds": "open_descriptors",
    "max_fds": "max_descriptors",
}


def _runtime(document: Document) -> Iterator[Line]:
    runtime = document["runtime"]
    words = {key: document[key] for key in ("version", "backend")}
    yield "info", {**words, "schema_version": runtime["schema_version"]}, 1
    yield "storage_read_available", {}, runtime["read_available"]
    yield "storage_size_available", {}, runtime["db_size_available"]
    if runtime["read_available"]:
        yield "storage_ping_seconds", {}, runtime["ping_seconds"]
    if runtime["db_size_available"]:
        yield "storage_size_bytes", {}, runtime["db_size_bytes"]


def _collection(document: Document) -> Iterator[Line]:
    found = document["collection"]
    is_good = found["state"] == "available"
    yield "start_time_seconds", {}, document["started_at_ms"] / 1000
    yield "sample_timestamp_seconds", {}, document["sampled_at_ms"] / 1000
    last = found["last_success_at_ms"] / 1000
    yield "collection_last_success_timestamp_seconds", {}, last
    yield "collection_duration_seconds", {}, found["duration_seconds"]
    yield "collection_success", {}, is_good
    yield "collection_status", {key: found[key] for key in ("state", "error_code")}, 1
    if is_good:
        yield "entities", {"kind": "queue"}, document["queue_count"]
        yield "entities", {"kind": "subscription"}, document["subscription_count"]


def _queues(document: Document) -> Iterator[Line]:
    for row in document["queues"] or []:
        labels = {"queue": row["queue"]}
        for state in STATES:
            yield "queue_messages", {**labels, "state": state}, row[state]
        yield "queue_retained_messages", labels, row["total"]
        yield "queue_total", labels, row["total"]
        yield "queue_unexpected_messages", labels, row["unexpected"]
        age_ms = row["oldest_message_age_ms"]
        yield "queue_oldest_message_age_seconds", labels, age_ms / 1000
        yield "queue_oldest_message_age_ms", labels, age_ms


def _messages(document: Document) -> Iterator[Line]:
    for row in document["messages"]:
        labels = {key: row[key] for key in ("queue", "event")}
        yield "message_events_total", labels, row["count"]
        if row["event"] == "completed":
            yield "messages_completed_total", {"queue": row["queue"]}, row["count"]


def _storage(document: Document) -> Iterator[Line]:
    for row in document["storage"]["operations"]:
        labels = {key: row[key] for key in ("operation", "outcome", "error_code")}
        yield "storage_operations_total", labels, row["duration"]["count"]
        yield "storage_retries_total", labels, row["retries"]
        yield from _duration("storage_operation_duration_seconds", labels, row["duration"])
    pool = document["storage"]["pool"]
    for state in ("max_open", "open", "in_use", "idle"):
        yield "storage_pool_connections", {"state": state}, pool[state]
    yield "storage_pool_waits_total", {}, pool["wait_count"]
    yield "storage_pool_wait_duration_seconds_total", {}, pool["wait_duration_seconds"]


def _maintenance(document: Document) -> Iterator[Line]:
    for row in document["maintenance"]:
        labels = {"task": row["task"]}
        failed, stopped = row["failures"], row["interrupted"]
        outcomes = {"success": row["runs"] - failed - stopped, "error": failed}
        for outcome, number in {**outcomes, "interrupted": stopped}.items():
            yield "maintenance_runs_total", {**labels, "outcome": outcome}, number
        yield "maintenance_enabled", labels, row["enabled"]
        last = row["last_success_at_ms"] / 1000
        yield "maintenance_last_success_timestamp_seconds", labels, last
        yield "maintenance_consecutive_failures", labels, row["consecutive_failures"]
        yield from _duration("maintenance_duration_seconds", labels, row["duration"])
    for row in document["filters"]:
        yield "filter_failures_total", {"stage": row["stage"]}, row["count"]


def _http(document: Document) -> Iterator[Line]:
    http = document["http"]
    for row in http["requests"]:
        labels = {key: row[key] for key in ("rpc", "code")}
        yield "rpc_requests_total", labels, row["count"]
        yield "rpc_request_duration_seconds_total", labels, row["duration_seconds"]
    for row in http["authentication"]:
        yield "authentication_total", {"outcome": row["outcome"]}, row["count"]
    for row in http["handler_latency"]:
        buckets = row["buckets"]
        duration = {
            "bounds_seconds": [each["upper_bound_seconds"] for each in buckets],
            "bucket_counts": [each["count"] for each in buckets],
            "count": row["count"],
            "sum_seconds": row["sum_seconds"],
        }
        yield from _duration("rpc_duration_seconds", {"rpc": row["rpc"]}, duration)


def _room(document: Document) -> Iterator[Line]:
    rooms = {
        "storage_wal_bytes": "wal_bytes",
        "storage_free_bytes": "free_bytes",
        "disk_free_bytes": "disk_free_bytes",
    }
    for name, key in rooms.items():
        if document["runtime"][key] is not None:
            yield name, {}, document["runtime"][key]


def _waiting(document: Document) -> Iterator[Line]:
    for row in document["receive_waiters"]:
        yield "receive_waiters", {"queue": row["queue"]}, row["count"]
    yield "mailbox_depth", {}, document["mailbox_depth"]


def _duration(name: str, labels: dict[str, str], duration: dict[str, Any]) -> Iterator[Line]:
    """A histogram: one bucket per bound, written in the shortest way, and one without."""
    bounds = [f"{bound:g}" for bound in duration["bounds_seconds"]]
    counts = [*duration["bucket_counts"], duration["count"]]
    for bound, number in zip([*bounds, "+Inf"], counts, strict=True):
        yield f"{name}_bucket", {**labels, "le": bound}, number
    yield f"{name}_count", labels, duration["count"]
    yield f"{name}_sum", labels, duration["sum_seconds"]
