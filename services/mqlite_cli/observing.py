"""`observe`: the snapshot of AdminService/Observe, once or again and again.

Called by `dispatch` through the command table. JSON is the contract's own document (spec/wire.md
2.19). Rule: what could not be had is `n/a` in text and null in JSON, never 0; and the exit code
tells whether the queues could be read.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator

import msgspec

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract.errors import QueueNotFound
from mqlite_actor.contract.observe import (
    MaintenanceInfo,
    ObserveRequest,
    ObserveResponse,
    QueueDepth,
)
from mqlite_actor.sdk.durations import nanoseconds_to_ms
from mqlite_cli.escaping import quoted
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.moments import shown_moment
from mqlite_cli.output import key_values
from mqlite_cli.refusals import Refusal

WATCH_MS_MIN = 1_000
"""A snapshot counts every queue: once a second is often enough for a person and cheap for all."""

_AVAILABLE = "available"


def observe(run: Invocation) -> int:
    """`observe`: 1 when the queues could not be collected."""
    every_ms = 0
    if run.arguments.has("watch"):
        every_ms = nanoseconds_to_ms(run.arguments.number("watch"), field="--watch")
        if every_ms < WATCH_MS_MIN:
            raise Refusal(f"--watch: at least {WATCH_MS_MIN // 1000}s")
    return run.session(lambda caller: _observe(run, caller, every_ms=every_ms))


def _observe(run: Invocation, caller: Caller, *, every_ms: int) -> int:
    names = frozenset(run.arguments.texts("queue"))
    while True:
        snapshot = caller.call(ObserveRequest())
        chosen = _choose(snapshot, names)
        text = "\n".join(_lines(chosen))
        run.output.document(chosen, line=text, is_stream=every_ms > 0)
        run.streams.flush()
        code = _judge(run, chosen, names)
        if not every_ms:
            return code
        time.sleep(every_ms / 1000)


def _choose(snapshot: ObserveResponse, names: Collection[str]) -> ObserveResponse:
    """The snapshot with these queues alone; with all if none is named."""
    if not names:
        return snapshot
    queues = snapshot.queues
    return msgspec.structs.replace(
        snapshot,
        queues=None if queues is None else [each for each in queues if each.queue in names],
        messages=[each for each in snapshot.messages if each.queue in names],
    )


def _judge(run: Invocation, shown: ObserveResponse, names: Collection[str]) -> int:
    """The exit code; warns of a part that is missing. QueueNotFound if a named queue is not
    there."""
    if shown.collection.state != _AVAILABLE or shown.queues is None:
        reason = shown.collection.error_code or "no reason given"
        run.streams.complain(f"error: the queues could not be read: {reason}")
        return 1
    missing = sorted(set(names) - {each.queue for each in shown.queues})
    if missing:
        raise QueueNotFound(f"queue {quoted(missing[0])} does not exist")
    if not _is_whole(shown):
        run.warn("the state of the store could not be read; its numbers are missing")
    return 0


def _is_whole(shown: ObserveResponse) -> bool:
    """Whether the store told all it has; only a file has a size."""
    has_size = shown.runtime.db_size_available or shown.backend in {"memory", "remote"}
    return shown.runtime.read_available and has_size


def _lines(shown: ObserveResponse) -> Iterator[str]:
    yield key_values(_head(shown))
    if shown.queues is None:
        yield "queues=n/a"
    for depth in shown.queues or ():
        yield key_values(_depth(depth))
    for task in shown.maintenance:
        yield key_values(_task(task))
    runtime = shown.runtime
    operations = shown.storage.operations
    failed = sum(each.duration.count for each in operations if each.outcome != "ok")
    yield key_values({
        "storage": shown.backend,
        "schema": runtime.schema_version or "n/a",
        "ping": f"{runtime.ping_seconds * 1000:.1f}ms" if runtime.read_available else "n/a",
        "size": str(runtime.db_size_bytes) if runtime.db_size_available else "n/a",
        "operations": sum(each.duration.count for each in operations),
        "not-ok": failed,
    })  # fmt: skip


def _head(shown: ObserveResponse) -> dict[str, str | int]:
    now_ms = SystemClock().now_ms()
    is_collected = shown.collection.state == _AVAILABLE and shown.queues is not None
    success = ("true" if _is_whole(shown) else "partial") if is_collected else "false"
    sampled, started = shown.sampled_at_ms, shown.started_at_ms
    return {
        "collected": shown_moment(sampled) if sampled else "n/a",
        "success": success,
        "age": f"{max(0, now_ms - sampled)}ms" if sampled else "n/a",
        "version": shown.version,
        "uptime": f"{max(0, now_ms - started) // 1000}s" if started else "n/a",
    }


def _depth(depth: QueueDepth) -> dict[str, str | int]:
    return {
        "queue": depth.queue,
        "kind": depth.kind,
        "active": depth.active,
        "locked": depth.locked,
        "deferred": depth.deferred,
        "scheduled": depth.scheduled,
        "dead": depth.dead_lettered,
        "total": depth.total,
        "oldest": f"{depth.oldest_message_age_ms}ms",
    }


def _task(task: MaintenanceInfo) -> dict[str, str | int]:
    last = task.last_success_at_ms
    return {
        "task": task.task,
        "health": task.health if task.enabled else "off",
        "runs": task.runs,
        "failures": task.failures,
        "last-success": shown_moment(last) if last else "n/a",
        **({"error": task.last_error_code} if task.last_error_code else {}),
    }
