"""/metrics: the Observe snapshot as Prometheus text, family by family.

Called by `app.py` with the very snapshot that Observe would answer, so the two show the same
numbers. Order, names and labels are the contract's (spec/wire.md 4.11), and then ours (ruling R9);
a family whose values are not available has its head and no sample. The text itself is made by
prometheus_client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from mqlite_actor.contract.observe import (
    Histogram,
    ObserveResponse,
    ProcessInfo,
    QueueDepth,
)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_STATES: Final = ("active", "locked", "deferred", "scheduled", "dead_lettered")
_POOL: Final = ("max_open", "open", "in_use", "idle")

Labels = tuple[str, ...]
Sample = tuple[Labels, float]


class _Snapshot:
    """A collector over one snapshot."""

    def __init__(self, seen: ObserveResponse) -> None:
        self._seen = seen

    def collect(self) -> Iterator[Metric]:
        """All families, in order."""
        yield from _store(self._seen)
        yield from _collection(self._seen)
        yield from _queues(self._seen.queues)
        yield from _messages(self._seen)
        yield from _storage(self._seen)
        yield from _maintenance(self._seen)
        yield from _http(self._seen)
        yield from _room(self._seen)
        yield from _waiting(self._seen)
        yield from _process(self._seen.process)


def text(seen: ObserveResponse) -> bytes:
    """The exposition of a snapshot."""
    registry = CollectorRegistry()
    registry.register(_Snapshot(seen))
    return generate_latest(registry)


# -- families --------------------------------------------------------------------------------------


def _gauge(name: str, help_text: str, labels: Labels, samples: Iterable[Sample]) -> Metric:
    return _filled(GaugeMetricFamily(f"mqlite_{name}", help_text, labels=labels), samples)


def _filled(family: GaugeMetricFamily, samples: Iterable[Sample]) -> Metric:
    for values, number in samples:
        family.add_metric(values, number)
    return family


def _one(name: str, help_text: str, number: float | None) -> Metric:
    return _gauge(name, help_text, (), [] if number is None else [((), number)])


def _counter(name: str, help_text: str, labels: Labels, samples: Iterable[Sample]) -> Metric:
    family = CounterMetricFamily(f"mqlite_{name}", help_text, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def _histogram(
    name: str, help_text: str, labels: Labels, samples: Iterable[tuple[Labels, Histogram]]
) -> Metric:
    family = HistogramMetricFamily(f"mqlite_{name}", help_text, labels=labels)
    for values, histogram in samples:
        buckets = [
            (_bound(bound), float(count))
            for bound, count in zip(histogram.bounds_seconds, histogram.bucket_counts, strict=True)
        ]
        family.add_metric(values, [*buckets, ("+Inf", histogram.count)], histogram.sum_seconds)
    return family


def _bound(seconds: float) -> str:
    return f"{seconds:g}"


def _store(seen: ObserveResponse) -> Iterator[Metric]:
    runtime = seen.runtime
    is_up, has_size = runtime.read_available, runtime.db_size_available
    labels = (seen.version, seen.backend, runtime.schema_version)
    yield _gauge("info", "What runs here", ("version", "backend", "schema_version"), [(labels, 1)])
    yield _one("storage_read_available", "Whether the last trivial read worked", float(is_up))
    yield _one("storage_ping_seconds", "Time of that read", runtime.ping_seconds if is_up else None)
    yield _one("storage_size_available", "Whether file sizes could be read", float(has_size))
    yield _one(
        "storage_size_bytes",
        "Database, log and index on disk",
        runtime.db_size_bytes if has_size else None,
    )


def _collection(seen: ObserveResponse) -> Iterator[Metric]:
    found = seen.collection
    is_good = found.state == "available"
    started_at_ms = seen.started_at_ms
    yield _one(
        "start_time_seconds",
        "When the engine started",
        None if started_at_ms is None else started_at_ms / 1000,
    )
    yield _one("sample_timestamp_seconds", "When this was sampled", seen.sampled_at_ms / 1000)
    yield _one(
        "collection_last_success_timestamp_seconds",
        "When queue rows were last read",
        found.last_success_at_ms / 1000,
    )
    yield _one("collection_duration_seconds", "Cost of this sample", found.duration_seconds)
    yield _one("collection_success", "Whether queue rows were read", float(is_good))
    yield _gauge(
        "collection_status",
        "How reading queue rows went",
        ("state", "error_code"),
        [((found.state, found.error_code), 1)],
    )
    kinds = (("queue", seen.queue_count), ("subscription", seen.subscription_count))
    yield _gauge(
        "entities",
        "Queues and subscriptions",
        ("kind",),
        [((kind,), number) for kind, number in kinds] if is_good else [],
    )


def _queues(rows: list[QueueDepth] | None) -> Iterator[Metric]:
    found = rows or []
    yield _gauge(
        "queue_messages",
        "Messages by state",
        ("queue", "state"),
        [((row.queue, state), getattr(row, state)) for row in found for state in _STATES],
    )

    def per_queue(name: str, help_text: str, field: str, scale: float = 1) -> Metric:
        samples = [((row.queue,), getattr(row, field) * scale) for row in found]
        return _gauge(name, help_text, ("queue",), samples)

    age = "oldest_message_age_ms"
    yield per_queue("queue_retained_messages", "All messages of a queue", "total")
    yield per_queue("queue_unexpected_messages", "Messages in no known state", "unexpected")
    yield per_queue(
        "queue_oldest_message_age_seconds", "Age of the oldest active or locked one", age, 0.001
    )
    yield per_queue("queue_total", "As queue_retained_messages, for old dashboards", "total")
    yield per_queue("queue_oldest_message_age_ms", "The age in ms, for old dashboards", age)


def _messages(seen: ObserveResponse) -> Iterator[Metric]:
    yield _counter(
        "message_events_total",
        "What happened to messages since the start",
        ("queue", "event"),
        [((row.queue, row.event), row.count) for row in seen.messages],
    )
    yield _counter(
        "messages_completed_total",
        "Completed messages since the start",
        ("queue",),
        [((row.queue,), row.count) for row in seen.messages if row.event == "completed"],
    )


def _storage(seen: ObserveResponse) -> Iterator[Metric]:
    labels = ("operation", "outcome", "error_code")
    rows = [((row.operation, row.outcome, row.error_code), row) for row in seen.storage.operations]
    yield _counter(
        "storage_operations_total",
        "Finished storage calls",
        labels,
        [(values, row.duration.count) for values, row in rows],
    )
    yield _histogram(
        "storage_operation_duration_seconds",
        "Time of storage calls",
        labels,
        [(values, row.duration) for values, row in rows],
    )
    yield _counter(
        "storage_retries_total",
        "Internal repetitions",
        labels,
        [(values, row.retries) for values, row in rows],
    )
    pool = seen.storage.pool
    yield _gauge(
        "storage_pool_connections",
        "Connections",
        ("state",),
        [((state,), getattr(pool, state)) for state in _POOL],
    )
    yield _counter("storage_pool_waits_total", "Waits for one", (), [((), pool.wait_count)])
    yield _counter(
        "storage_pool_wait_duration_seconds_total",
        "Time waited for one",
        (),
        [((), pool.wait_duration_seconds)],
    )


def _maintenance(seen: ObserveResponse) -> Iterator[Metric]:
    rows = seen.maintenance
    runs: list[Sample] = []
    for row in rows:
        good = row.runs - row.failures - row.interrupted
        runs += [
            ((row.task, "success"), good),
            ((row.task, "error"), row.failures),
            ((row.task, "interrupted"), row.interrupted),
        ]
    yield _counter("maintenance_runs_total", "Finished passes", ("task", "outcome"), runs)
    task = ("task",)
    yield _gauge(
        "maintenance_enabled",
        "Whether the task runs here",
        task,
        [((row.task,), float(row.enabled)) for row in rows],
    )
    yield _histogram(
        "maintenance_duration_seconds",
        "Time of passes",
        task,
        [((row.task,), row.duration) for row in rows],
    )
    yield _gauge(
        "maintenance_last_success_timestamp_seconds",
        "When a pass last ended well",
        task,
        [((row.task,), row.last_success_at_ms / 1000) for row in rows],
    )
    yield _counter(
        "filter_failures_total",
        "Filters that failed while routing",
        ("stage",),
        [((row.stage,), row.count) for row in seen.filters],
    )


def _http(seen: ObserveResponse) -> Iterator[Metric]:
    http = seen.http
    rpc_code = ("rpc", "code")
    yield _counter(
        "rpc_requests_total",
        "Requests by call and code",
        rpc_code,
        [((row.rpc, row.code), row.count) for row in http.requests],
    )
    yield _counter(
        "rpc_request_duration_seconds_total",
        "Their time, credential check included",
        rpc_code,
        [((row.rpc, row.code), row.duration_seconds) for row in http.requests],
    )
    yield _counter(
        "authentication_total",
        "Credential checks by outcome",
        ("outcome",),
        [((row.outcome,), row.count) for row in http.authentication],
    )
    family = HistogramMetricFamily(
        "mqlite_rpc_duration_seconds", "Time of calls behind the credential check", labels=("rpc",)
    )
    for row in http.handler_latency:
        buckets = [(_bound(each.upper_bound_seconds), float(each.count)) for each in row.buckets]
        family.add_metric((row.rpc,), [*buckets, ("+Inf", row.count)], row.sum_seconds)
    yield family
    yield _gauge(
        "maintenance_consecutive_failures",
        "Failures since a pass last ended well",
        ("task",),
        [((row.task,), row.consecutive_failures) for row in seen.maintenance],
    )


# -- beyond the contract's -------------------------------------------------------------------------


def _room(seen: ObserveResponse) -> Iterator[Metric]:
    runtime = seen.runtime
    yield _one("storage_wal_bytes", "The write-ahead log on disk", runtime.wal_bytes)
    yield _one("storage_free_bytes", "Room inside the database file", runtime.free_bytes)
    yield _one("disk_free_bytes", "Room on the disk of the database", runtime.disk_free_bytes)


def _waiting(seen: ObserveResponse) -> Iterator[Metric]:
    yield _gauge(
        "receive_waiters",
        "Receives that wait for a message",
        ("queue",),
        [((row.queue,), row.count) for row in seen.receive_waiters or ()],
    )
    yield _one("mailbox_depth", "Commands that wait for the writer", seen.mailbox_depth)


_PROCESS: Final = (
    ("virtual_memory_bytes", "Address space", "virtual_bytes"),
    ("resident_memory_bytes", "Memory in use", "resident_bytes"),
    ("start_time_seconds", "When the process started", "start_time_seconds"),
    ("open_fds", "File descriptors in use", "open_descriptors"),
    ("max_fds", "File descriptors that it may have", "max_descriptors"),
)
"""Name, help and field; the names that every Prometheus client gives them."""


def _process(found: ProcessInfo | None) -> Iterator[Metric]:
    cpu_seconds = None if found is None else found.cpu_seconds
    cpu = CounterMetricFamily("process_cpu_seconds_total", "Processor time since the start")
    if cpu_seconds is not None:
        cpu.add_metric((), cpu_seconds)
    yield cpu
    for name, help_text, field in _PROCESS:
        number: float | None = None if found is None else getattr(found, field)
        yield _filled(
            GaugeMetricFamily(f"process_{name}", help_text),
            [] if number is None else [((), number)],
        )
