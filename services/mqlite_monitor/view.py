"""A scene and a size to a frame; pure.

Called by `app`. Header, banner and footer are drawn here, the body by the view that is open. At
40 × 10 the header is one line and tables keep their most telling columns; smaller screens show what
fits of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.text import Text

from mqlite_actor.contract.observe import ObserveResponse
from mqlite_monitor.cells import DASH, clock, count, rate, shown, size, span
from mqlite_monitor.frame import (
    ALARM,
    BOLD,
    DIM,
    GOOD,
    WARN,
    Scene,
    line,
    pieces,
)
from mqlite_monitor.snapshot import Snapshot
from mqlite_monitor.steering import View
from mqlite_monitor.view_detail import detail_lines
from mqlite_monitor.view_more import calls_lines, help_lines, maintenance_lines
from mqlite_monitor.view_queues import queue_lines

TALL_LINES = 16
"""From here on the header has three lines instead of one."""

BODIES: dict[View, Callable[[Scene, int, int], list[Text]]] = {
    View.QUEUES: queue_lines,
    View.QUEUE: detail_lines,
    View.CALLS: calls_lines,
    View.MAINTENANCE: maintenance_lines,
    View.HELP: help_lines,
}


def frame(scene: Scene, *, width: int, height: int) -> list[Text]:
    """Exactly `height` lines of at most `width` cells."""
    top = list(_header(scene, width, is_tall=height >= TALL_LINES))
    if scene.stale:
        top.append(line(f"STALE {shown(scene.stale)}", width, ALARM))
    room = height - len(top) - 1
    body = BODIES[scene.state.view](scene, width, room) if room > 0 else []
    lines = (top + body)[: max(0, height - 1)]
    lines += [Text(end="")] * (height - 1 - len(lines))
    return [*lines, _footer(scene, width)][:height]


def plain(scene: Scene, *, width: int) -> list[Text]:
    """Header and every queue, as long as it is: for scripts, pipes and dumb terminals."""
    top = list(_header(scene, width, is_tall=True))
    if scene.stale:
        top.append(line(f"STALE {shown(scene.stale)}", width, ALARM))
    queues = scene.snapshot.queues if scene.snapshot else None
    return top + queue_lines(scene, width, len(queues or ()) + 2)


def _header(scene: Scene, width: int, *, is_tall: bool) -> Iterator[Text]:
    snapshot = scene.snapshot
    if snapshot is None:
        yield pieces([("mqlite", BOLD), (f"asking {shown(scene.source)}", DIM)], width)
        return
    observed = snapshot.observed
    health = (shown(snapshot.troubles[0]), ALARM) if snapshot.troubles else ("ok", GOOD)
    more = [(f"(+{len(snapshot.troubles) - 1})", ALARM)] if len(snapshot.troubles) > 1 else []
    yield pieces(
        [(f"mqlite {shown(observed.version)}", BOLD), health, *more,
         (f"up {_uptime(observed)}", ""), (clock(observed.sampled_at_ms), ""),
         (f"every {span(scene.state.interval_ms)}", DIM), (shown(scene.source), DIM)],
        width,
    )  # fmt: skip
    if is_tall:
        yield _storage(snapshot, width)
        yield _totals(snapshot, width)


def _uptime(observed: ObserveResponse) -> str:
    if observed.started_at_ms is None:
        return DASH
    return span(max(0, observed.sampled_at_ms - observed.started_at_ms))


def _storage(snapshot: Snapshot, width: int) -> Text:
    observed = snapshot.observed
    runtime, process = observed.runtime, observed.process
    file_bytes = runtime.db_size_bytes if runtime.db_size_available else None
    cpu = DASH if snapshot.cpu is None else f"{snapshot.cpu * 100:.0f}%"
    return pieces(
        [(f"{shown(observed.backend)} {size(file_bytes)}", ""),
         (f"WAL {size(runtime.wal_bytes)}", ""),
         (f"disk free {size(runtime.disk_free_bytes)}", ""),
         (f"mailbox {count(observed.mailbox_depth)}", ""),
         (f"cpu {cpu}", ""),
         (f"memory {size(process.resident_bytes if process else None)}", ""),
         (f"ping {runtime.ping_seconds * 1000:.1f}ms", ""),
         (f"access {shown(observed.access)}", DIM)],
        width,
    )  # fmt: skip


def _totals(snapshot: Snapshot, width: int) -> Text:
    rows, tasks = snapshot.queues, snapshot.observed.maintenance
    parts = [("queues " + (DASH if rows is None else str(len(rows))), "")]
    if rows is not None:
        dead = sum(row.depth.dead_lettered for row in rows)
        rates_in = [row.in_rate for row in rows if row.in_rate is not None]
        rates_out = [row.out_rate for row in rows if row.out_rate is not None]
        parts += [
            (f"active {count(sum(row.depth.active for row in rows))}", ""),
            (f"locked {count(sum(row.depth.locked for row in rows))}", ""),
            (f"dead {count(dead)}", WARN if dead else ""),
            (f"in {rate(sum(rates_in) if rates_in else None)}/s", ""),
            (f"out {rate(sum(rates_out) if rates_out else None)}/s", ""),
        ]
    failing = sum(task.health == "failing" for task in tasks)
    known = [task for task in tasks if task.enabled]
    words = "failing" if failing else "ok" if known else DASH
    return pieces([*parts, (f"maintenance {words}", ALARM if failing else "")], width)


def _footer(scene: Scene, width: int) -> Text:
    state = scene.state
    if state.is_typing:
        return line(f"/{shown(state.search)}▏", width, BOLD)
    parts = [("PAUSED", WARN)] if state.is_paused else []
    if scene.note:
        parts.append((shown(scene.note), DIM))
    if state.search and state.view is View.QUEUES:
        parts.append((f"/{shown(state.search)}", BOLD))
    if state.view is View.QUEUES:
        parts += [("q quit", DIM), ("? help", DIM), (f"s sort: {_order(scene)}", DIM),
                  ("Enter look", DIM), ("/ search", DIM), ("c calls", DIM), ("m maintenance", DIM),
                  ("p pause", DIM)]  # fmt: skip
    else:
        parts += [("q quit", DIM), ("Esc back", DIM), ("? help", DIM), ("↑↓ scroll", DIM)]
    return pieces(parts, width)


def _order(scene: Scene) -> str:
    return scene.state.sort + (" (reversed)" if scene.state.is_reversed else "")
