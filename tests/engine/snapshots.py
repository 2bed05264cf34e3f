"""What every Observe snapshot must be: keys in order, whole vocabularies, numbers that agree.

Used by the suites of Observe and /metrics with the JSON document of a snapshot. The vocabularies
stand here once more, as the contract has them, and not as the program has them; `check` is what a
strict client does before it believes a reply.
"""

from __future__ import annotations

import json
from itertools import pairwise, product
from typing import Any

import msgspec

from mqlite_actor.contract.observe import ObserveRequest, ObserveResponse
from mqlite_actor.engine.engine import Engine

Document = dict[str, Any]

EVENTS = sorted([
    "enqueued", "scheduled", "deduplicated", "dedup_conflict", "delivered", "redelivered",
    "completed", "receive_deleted", "abandoned", "deferred", "rejected", "dead_lettered",
    "ttl_discarded", "retention_deleted", "purged", "canceled", "redriven", "lock_expired",
    "recovered", "activated",
])  # fmt: skip
TASKS = ["locks", "scheduled", "ttl", "dedup", "receipts", "retention", "reclaim"]
AUTHENTICATION = [
    "success", "missing", "invalid", "expired", "revoked", "permission_denied", "backend_error",
]  # fmt: skip
STORAGE_ERRORS = ["canceled", "closed", "busy", "connection", "full", "corrupt", "io", "other"]
STORAGE = sorted(
    (operation, outcome, code)
    for operation, (outcome, code) in product(
        ("read", "write", "transaction"),
        [
            ("ok", ""),
            ("rejected", "application"),
            ("outcome_unknown", "outcome_unknown"),
            *(("error", code) for code in STORAGE_ERRORS),
        ],
    )
)
BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20]
STATES = ("active", "locked", "deferred", "scheduled", "dead_lettered")
HEALTH = {"ok", "failing", "recovered", "unknown"}

KEYS = {
    "": """sampled_at_ms started_at_ms backend runtime collection queue_count subscription_count
        queues messages storage maintenance filters version access http diagnostics
        mailbox_depth receive_waiters process""",
    "runtime": """schema_version ping_seconds read_available db_size_bytes db_size_available
        wal_bytes free_bytes disk_free_bytes""",
    "collection": "state last_success_at_ms duration_seconds error_code",
    "queues": """queue active locked deferred scheduled dead_lettered total oldest_message_age_ms
        kind unexpected""",
    "messages": "queue event count",
    "storage": "operations pool",
    "storage.operations": "operation outcome error_code duration retries",
    "storage.pool": "max_open open in_use idle wait_count wait_duration_seconds",
    "maintenance": """enabled task runs interrupted failures last_success_at_ms duration
        last_failure_at_ms last_error_code consecutive_failures recovered_at_ms health""",
    "filters": "stage count",
    "http": "state requests authentication handler_latency",
    "http.requests": "rpc code count duration_seconds",
    "http.authentication": "outcome count",
    "http.handler_latency": "rpc buckets count sum_seconds",
    "http.handler_latency.buckets": "upper_bound_seconds count",
    "diagnostics": "state boot_id earlier_boots",
    "diagnostics.earlier_boots": """boot_id first_at_ms last_at_ms failures last_task last_code
        last_detail stopped""",
    "receive_waiters": "queue count",
    "process": """cpu_seconds start_time_seconds resident_bytes virtual_bytes open_descriptors
        max_descriptors""",
}
"""Keys in the order of the contract, by the place of the object; ours behind them."""

DURATION = ["bounds_seconds", "bucket_counts", "count", "sum_seconds"]


async def observe(engine: Engine) -> Document:
    """A snapshot as the document that a client would get, checked."""
    reply: ObserveResponse = await engine.call(ObserveRequest())
    document: Document = json.loads(msgspec.json.encode(reply))
    check(document)
    return document


def events(document: Document) -> dict[tuple[str, str], int]:
    """What happened, by queue and event; zeros left out."""
    return {
        (row["queue"], row["event"]): row["count"] for row in document["messages"] if row["count"]
    }


def depth(document: Document, queue: str) -> Document:
    """A queue's row."""
    (row,) = [each for each in document["queues"] if each["queue"] == queue]
    assert isinstance(row, dict)
    return row


def task(document: Document, name: str) -> Document:
    """A maintenance task's row."""
    (row,) = [each for each in document["maintenance"] if each["task"] == name]
    assert isinstance(row, dict)
    return row


def storage(document: Document) -> dict[tuple[str, str, str], int]:
    """Finished storage calls by operation, outcome and error code; zeros left out."""
    return {
        (row["operation"], row["outcome"], row["error_code"]): row["duration"]["count"]
        for row in document["storage"]["operations"]
        if row["duration"]["count"]
    }


# -- the rules -------------------------------------------------------------------------------------


def check(document: Document) -> None:
    """AssertionError for whatever would make a strict client refuse this snapshot."""
    _check_keys(document, "")
    _check_collection(document)
    _check_vocabularies(document)
    _check_maintenance(document["maintenance"])
    _check_surplus(document)
    for row in document["storage"]["operations"]:
        check_duration(row["duration"])
    for row in document["http"]["handler_latency"]:
        counts = [each["count"] for each in row["buckets"]]
        assert [each["upper_bound_seconds"] for each in row["buckets"]] == BOUNDS
        assert all(low <= high for low, high in pairwise([*counts, row["count"]]))
        assert row["count"] > 0, "a call that was never made has no row"


def _check_keys(value: object, place: str) -> None:
    """Every object has exactly the keys of its place, in their order."""
    if isinstance(value, list):
        for each in value:
            _check_keys(each, place)
    elif isinstance(value, dict):
        expected = DURATION if place.endswith("duration") else KEYS[place].split()
        assert list(value) == expected, place
        for key, inner in value.items():
            _check_keys(inner, f"{place}.{key}".lstrip("."))


def _check_collection(document: Document) -> None:
    collection, queues = document["collection"], document["queues"]
    is_good = collection["state"] == "available"
    assert is_good or collection["state"] == "unavailable"
    assert is_good is (collection["error_code"] == "") is (queues is not None)
    assert is_good or collection["error_code"] in STORAGE_ERRORS
    assert is_good is document["runtime"]["read_available"]
    rows = queues or []
    kinds = [row["kind"] for row in rows]
    assert document["queue_count"] == kinds.count("queue")
    assert document["subscription_count"] == kinds.count("subscription")
    names = [row["queue"] for row in rows]
    assert names == sorted(set(names))
    for row in rows:
        assert row["total"] == sum(row[state] for state in (*STATES, "unexpected")), row
    named = sorted({row["queue"] for row in document["messages"]})
    assert set(names) <= set(named)
    found = [(row["queue"], row["event"]) for row in document["messages"]]
    assert found == list(product(named, EVENTS))


def _check_surplus(document: Document) -> None:
    """What nobody knows is null: never zero, never left out."""
    runtime = document["runtime"]
    is_memory = document["backend"] == "memory"
    assert (runtime["disk_free_bytes"] is None) is is_memory
    assert not is_memory or runtime["wal_bytes"] is None
    assert (runtime["free_bytes"] is not None) is runtime["read_available"]
    waiting = [row["queue"] for row in document["receive_waiters"]]
    assert waiting == sorted({row["queue"] for row in document["queues"] or []} | set(waiting))
    assert document["mailbox_depth"] >= 0
    for key, number in document["process"].items():
        assert number is None or number > 0, key


def _check_vocabularies(document: Document) -> None:
    assert document["backend"] in ("memory", "local", "remote")
    assert document["access"] in ("manage", "monitor", "anonymous", "embedded")
    assert document["version"]
    operations = document["storage"]["operations"]
    found = [(row["operation"], row["outcome"], row["error_code"]) for row in operations]
    assert found == STORAGE
    assert len(found) == 33
    assert [row["stage"] for row in document["filters"]] == ["compile", "evaluate"]
    http = document["http"]
    if http["state"] == "not_applicable":
        assert http["requests"] == http["authentication"] == http["handler_latency"] == []
        return
    assert http["state"] == "available"
    assert [row["outcome"] for row in http["authentication"]] == AUTHENTICATION
    rpcs = [row["rpc"] for row in http["handler_latency"]]
    assert rpcs == sorted(set(rpcs))


def _check_maintenance(rows: list[Document]) -> None:
    assert [row["task"] for row in rows] == TASKS
    for row in rows:
        assert row["duration"]["count"] == row["runs"], row
        assert row["failures"] + row["interrupted"] <= row["runs"], row
        assert row["consecutive_failures"] <= row["failures"], row
        assert row["last_error_code"] in ("", *STORAGE_ERRORS)
        assert row["health"] in HEALTH
        assert (row["health"] == "failing") is (row["consecutive_failures"] > 0), row
        check_duration(row["duration"])


def check_duration(duration: Document) -> None:
    """Cumulative buckets under the contract's bounds."""
    assert duration["bounds_seconds"] == BOUNDS
    counts = [*duration["bucket_counts"], duration["count"]]
    assert len(counts) == len(BOUNDS) + 1
    assert all(low <= high for low, high in pairwise(counts)), duration
