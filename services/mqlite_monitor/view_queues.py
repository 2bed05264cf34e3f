"""The table of queues; pure.

Called by `view`. Rules: only the lines that fit are made, so that a frame of 500 queues costs what
one of 50 does; the selected queue is always among them; names are escaped and never markup.
"""

from __future__ import annotations

from rich.text import Text

from mqlite_monitor.cells import count, rate, shown, signed, span, sparkline
from mqlite_monitor.frame import (
    ALARM,
    CONCERNS,
    DIM,
    MARKED,
    WARN,
    Column,
    Scene,
    fitting,
    head_row,
    line,
    row,
    widths_of,
)
from mqlite_monitor.snapshot import QueueRow
from mqlite_monitor.steering import choose, position

SPARK_CELLS = 16

COLUMNS: tuple[Column[QueueRow], ...] = (
    Column("queue", 12, lambda q: shown(q.name), is_right=False,
           style=lambda q: CONCERNS[q.concern]),
    Column("active", 6, lambda q: count(q.depth.active)),
    Column("locked", 6, lambda q: count(q.depth.locked), rank=4),
    Column("sched", 5, lambda q: count(q.depth.scheduled), rank=7),
    Column("defer", 5, lambda q: count(q.depth.deferred), rank=8),
    Column("dead", 5, lambda q: count(q.depth.dead_lettered), rank=1,
           style=lambda q: WARN if q.depth.dead_lettered else ""),
    Column("+dead", 6, lambda q: signed(q.dead_growth), rank=6,
           style=lambda q: ALARM if (q.dead_growth or 0) > 0 else ""),
    Column("in/s", 5, lambda q: rate(q.in_rate), rank=3),
    Column("out/s", 5, lambda q: rate(q.out_rate), rank=3),
    Column("grow/s", 6, lambda q: signed(q.growth), rank=5,
           style=lambda q: WARN if (q.growth or 0) > 0 else ""),
    Column("oldest", 6, lambda q: span(q.depth.oldest_message_age_ms)
           if q.depth.active + q.depth.locked else "", rank=4),
    Column("wait", 4, lambda q: count(q.waiters), rank=9),
    Column("backlog", SPARK_CELLS, lambda q: sparkline(q.backlog, SPARK_CELLS), rank=10),
    Column("why", 12, lambda q: q.why, is_right=False, rank=2,
           style=lambda q: CONCERNS[q.concern]),
)  # fmt: skip

WHY_CELLS = 26
"""The longest hint; a wide screen shows it whole before the names get the rest."""


def queue_lines(scene: Scene, width: int, height: int) -> list[Text]:
    """At most `height` lines, the selected queue among them."""
    rows = scene.snapshot.queues if scene.snapshot else None
    if rows is None:
        reason = "" if scene.snapshot is None else "the queues cannot be read"
        return [line(reason, width, ALARM)]
    columns = fitting(COLUMNS, width)
    sizes = _sizes(columns, width)
    found = choose(rows, scene.state)
    at = position(found, scene.state)
    lines = [head_row(columns, sizes, width)]
    room = max(1, height - 1)
    top = min(max(0, at - room + 1), max(0, len(found) - room))
    for here, each in enumerate(found[top : top + room], start=top):
        is_marked = here == at and bool(scene.state.selected)
        style = MARKED if is_marked else ""
        lines.append(row(columns, sizes, each, width=width, style=style))
    if not found:
        text = "no queue has this in its name" if rows else "there are no queues"
        lines.append(line(text, width, DIM))
    return lines


def _sizes(columns: list[Column[QueueRow]], width: int) -> list[int]:
    sizes = widths_of(columns, width, spare="queue")
    if columns[-1].head == "why":
        given = min(max(0, sizes[0] - columns[0].width), WHY_CELLS - sizes[-1])
        sizes[0] -= given
        sizes[-1] += given
    return sizes
