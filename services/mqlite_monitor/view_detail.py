"""One queue in depth: states, rates, what happened, blocked lines, dead letters; pure.

Called by `view`. What Peek and Explain would say is in the scene's `detail`; where the credential
may not ask, it is a dash and the missing right.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from mqlite_monitor.cells import DASH, count, latency, rate, shown, signed, span, sparkline
from mqlite_monitor.frame import ALARM, BOLD, CONCERNS, DIM, WARN, Scene, line, page, pieces
from mqlite_monitor.snapshot import CallRow, Detail, QueueRow, Snapshot

CALLS = ("QueueService/Send", "QueueService/Receive", "QueueService/Complete")
"""Whose latency says most about a queue. The broker measures calls, not queues."""


def detail_lines(scene: Scene, width: int, height: int) -> list[Text]:
    """The part of the page that the screen shows."""
    snapshot = scene.snapshot
    rows = snapshot.queues if snapshot else None
    row = next((each for each in rows or () if each.name == scene.state.selected), None)
    title = pieces([("queue", DIM), (shown(scene.state.selected), BOLD)], width)
    if snapshot is None or row is None:
        reason = "the queues cannot be read" if rows is None else "there is no such queue any more"
        return [title, line(reason, width, ALARM)]
    lines = [title, *_numbers(row, width), *_latencies(snapshot, width)]
    detail = scene.detail
    if detail is not None and detail.queue != row.name:
        detail = None
    lines += [*_blocked(detail, width), *_letters(detail, snapshot, width), *_events(row, width)]
    return page(lines, height=height, scroll=scene.state.scroll)


def _numbers(row: QueueRow, width: int) -> Iterator[Text]:
    depth = row.depth
    if row.why:
        yield line(row.why, width, CONCERNS[row.concern])
    yield pieces(
        [(f"active {count(depth.active)}", ""), (f"locked {count(depth.locked)}", ""),
         (f"scheduled {count(depth.scheduled)}", ""), (f"deferred {count(depth.deferred)}", ""),
         (f"dead {count(depth.dead_lettered)}", WARN if depth.dead_lettered else ""),
         (f"unexpected {depth.unexpected}", ALARM if depth.unexpected else DIM)],
        width,
    )  # fmt: skip
    oldest = span(depth.oldest_message_age_ms) if depth.active + depth.locked else DASH
    yield pieces(
        [(f"in {rate(row.in_rate)}/s", ""), (f"out {rate(row.out_rate)}/s", ""),
         (f"growth {signed(row.growth) or '0'}/s", ""), (f"oldest {oldest}", ""),
         (f"waiting receives {count(row.waiters)}", ""), (f"kind {shown(depth.kind)}", DIM)],
        width,
    )  # fmt: skip
    cells = max(1, min(len(row.backlog), width - 8))
    yield line(f"backlog {sparkline(row.backlog, cells)}", width)


def _latencies(snapshot: Snapshot, width: int) -> Iterator[Text]:
    yield line("calls of all queues: p50 / p95 / p99, at most", width, DIM)
    rows = {row.rpc: row for row in snapshot.calls or ()}
    yield pieces(
        [(f"{rpc.partition('/')[2]} {percentile_text(rows.get(rpc))}", "") for rpc in CALLS], width
    )


def percentile_text(row: CallRow | None) -> str:
    """`1ms/5ms/10ms`, or a dash."""
    if row is None or row.percentiles is None:
        return DASH
    return "/".join(latency(each) for each in row.percentiles)


def _blocked(detail: Detail | None, width: int) -> Iterator[Text]:
    yield line("what holds it up", width, DIM)
    if detail is None:
        yield line(DASH, width)
        return
    if detail.explanation:
        yield line(shown(detail.explanation), width)
    if isinstance(detail.blocked, str):
        yield line(f"{DASH} {shown(detail.blocked)}", width)
        return
    for each in detail.blocked:
        group = f"group {shown(each.group_id)}" if each.group_id else "the queue"
        text = f"{group}: {each.waiting} behind #{each.seq_number}: {shown(each.explanation)}"
        yield line(text, width, WARN)


def _letters(detail: Detail | None, snapshot: Snapshot, width: int) -> Iterator[Text]:
    yield line("dead letters with the highest numbers", width, DIM)
    if detail is None:
        yield line(DASH, width)
    elif isinstance(detail.letters, str):
        yield line(f"{DASH} {shown(detail.letters)}", width)
    elif not detail.letters:
        yield line("none", width)
    else:
        for each in detail.letters:
            age = span(max(0, snapshot.observed.sampled_at_ms - each.enqueued_at_ms))
            text = f"#{each.seq_number} {each.delivery_count}x {age} {shown(each.reason)}"
            if each.description:
                text += f": {shown(each.description)}"
            yield line(text, width)


def _events(row: QueueRow, width: int) -> Iterator[Text]:
    yield line("since the broker started", width, DIM)
    if not row.events:
        yield line(DASH, width)
    for event, number in row.events.items():
        yield line(f"{event:18} {number:>12} {rate(row.event_rates.get(event, 0.0)):>6}/s", width)
