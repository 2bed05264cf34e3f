"""The pages beside the queues: calls, maintenance, help; pure.

Called by `view`. Rules: a call that was never made and an error that never happened take no line;
words of the broker are escaped as everything that comes over a wire.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from mqlite_actor.contract.observe import MaintenanceInfo
from mqlite_monitor.cells import DASH, count, rate, shown, size
from mqlite_monitor.frame import (
    ALARM,
    BOLD,
    DIM,
    WARN,
    Column,
    Scene,
    fitting,
    head_row,
    line,
    page,
    pieces,
    row,
    widths_of,
)
from mqlite_monitor.snapshot import CallRow, Snapshot
from mqlite_monitor.steering import HELP
from mqlite_monitor.view_detail import percentile_text


def _failures(call: CallRow) -> str:
    worst = sorted(call.failures.items(), key=lambda item: (-item[1], item[0]))
    return " ".join(f"{shown(code)} {count(number)}" for code, number in worst)


def _mean(task: MaintenanceInfo) -> str:
    if not task.duration.count:
        return DASH
    return f"{task.duration.sum_seconds / task.duration.count * 1000:.1f}ms"


CALL_COLUMNS: tuple[Column[CallRow], ...] = (
    Column("call", 16, lambda c: shown(c.rpc.removesuffix("Service")), is_right=False),
    Column("calls", 6, lambda c: count(c.count)),
    Column("/s", 5, lambda c: rate(c.rate)),
    Column("p50/p95/p99", 18, percentile_text, rank=2),
    Column("failures", 10, _failures, is_right=False, rank=1, style=lambda _: WARN),
)  # fmt: skip

TASK_COLUMNS: tuple[Column[MaintenanceInfo], ...] = (
    Column("task", 10, lambda t: shown(t.task), is_right=False),
    Column("health", 9, lambda t: shown(t.health) if t.enabled else "off", is_right=False,
           style=lambda t: ALARM if t.health == "failing" else ""),
    Column("runs", 6, lambda t: count(t.runs)),
    Column("failed", 6, lambda t: count(t.failures)),
    Column("in a row", 8, lambda t: count(t.consecutive_failures), rank=3),
    Column("mean", 7, _mean, rank=2),
    Column("last error", 10, lambda t: shown(t.last_error_code), is_right=False, rank=1),
)  # fmt: skip


def calls_lines(scene: Scene, width: int, height: int) -> list[Text]:
    """Every call that was used, the most used first."""
    calls = scene.snapshot.calls if scene.snapshot else None
    if calls is None:
        return [line(f"{DASH} there is no HTTP door to count calls", width, DIM)]
    columns = fitting(CALL_COLUMNS, width)
    sizes = widths_of(columns, width, spare="failures" if len(columns) > 4 else "call")
    if len(columns) > 4:
        wish = min(24, max(0, sizes[-1] - 10))  # the longest call has 38 cells
        sizes[0], sizes[-1] = sizes[0] + wish, sizes[-1] - wish
    ordered = sorted(calls, key=lambda each: (-(each.rate or 0.0), -each.count, each.rpc))
    lines = [row(columns, sizes, each, width=width) for each in ordered]
    body = page(lines, height=height - 2, scroll=scene.state.scroll)
    assert scene.snapshot is not None
    return [_authentication(scene.snapshot, width), head_row(columns, sizes, width), *body]


def _authentication(snapshot: Snapshot, width: int) -> Text:
    checks = snapshot.observed.http.authentication
    parts = [
        (f"{shown(each.outcome)} {count(each.count)}", "" if each.outcome == "success" else WARN)
        for each in checks
        if each.count
    ]
    return pieces([("credentials", DIM), *(parts or [(DASH, "")])], width)


def maintenance_lines(scene: Scene, width: int, height: int) -> list[Text]:
    """The background tasks, the store and the earlier starts."""
    if scene.snapshot is None:
        return [line(DASH, width)]
    columns = fitting(TASK_COLUMNS, width)
    sizes = widths_of(columns, width, spare="last error" if len(columns) > 4 else "task")
    observed = scene.snapshot.observed
    tasks = [row(columns, sizes, each, width=width) for each in observed.maintenance]
    lines = [head_row(columns, sizes, width), *tasks, *_store(scene.snapshot, width)]
    return page(lines, height=height, scroll=scene.state.scroll)


def _store(snapshot: Snapshot, width: int) -> Iterator[Text]:
    observed = snapshot.observed
    pool, runtime = observed.storage.pool, observed.runtime
    yield line("store", width, DIM)
    yield pieces(
        [(f"schema {shown(runtime.schema_version)}", ""), (f"WAL {size(runtime.wal_bytes)}", ""),
         (f"free inside {size(runtime.free_bytes)}", ""),
         (f"connections {pool.in_use}/{pool.open}/{pool.max_open}", "")],
        width,
    )  # fmt: skip
    for each in observed.storage.operations:
        if each.outcome == "error" and each.duration.count:
            text = f"{shown(each.operation)} error {shown(each.error_code)}: {each.duration.count}"
            yield line(text, width, ALARM)
    for stage in observed.filters:
        if stage.count:
            text = f"filters that failed, {shown(stage.stage)}: {stage.count}"
            yield line(text, width, WARN)
    yield pieces([("diagnostic log", DIM), (shown(observed.diagnostics.state), "")], width)
    for boot in observed.diagnostics.earlier_boots:
        end = "stopped in order" if boot.stopped else "not stopped in order"
        text = f"earlier start: {end}, {boot.failures} failures {shown(boot.last_detail)}"
        yield line(text, width, "" if boot.stopped else WARN)


def help_lines(scene: Scene, width: int, height: int) -> list[Text]:
    """Keys and what they do."""
    lines = [line("keys", width, BOLD)]
    lines += [line(f"{keys:8} {meaning}", width) for keys, meaning in HELP]
    lines.append(line("▲ is a queue that grows: more comes than is handled", width, DIM))
    lines.append(line(f"{DASH} is a number that is not known, never a zero", width, DIM))
    return page(lines, height=height, scroll=scene.state.scroll)
