"""From the answers of Observe to snapshots with rates.

`Sampler` is fed by `app`, live, and by `record`, in a replay: the same answers make the same
snapshots. It keeps what rates need and no more: counts that are not zero, over a few ticks. Rules:
counters of another start of the broker are never subtracted from each other; time is the broker's,
`sampled_at_ms`, and where it does not move forward there are no rates.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from mqlite_actor.contract.observe import HttpLatency, ObserveResponse, QueueDepth
from mqlite_monitor.diagnosis import Signs, diagnose
from mqlite_monitor.snapshot import CallRow, QueueRow, Snapshot

WINDOW_TICKS = 6
"""Rates are over five intervals: one alone jumps, and ten seconds are to be enough to see it."""

HISTORY_TICKS = 60
"""Backlogs that are kept for the sparkline: a minute at one tick a second."""

AVAILABLE = "available"

Counts = Mapping[str, int]


class Counters(msgspec.Struct, frozen=True):
    """What one tick leaves for the rates of later ones."""

    at_ms: int
    started_at_ms: int | None
    events: dict[str, dict[str, int]]
    active: dict[str, int]
    calls: dict[str, int]
    latencies: dict[str, tuple[int, ...]]
    cpu_seconds: float | None


class Series(msgspec.Struct):
    """The last depths of one queue."""

    active: deque[int]
    dead: deque[int]


class Sampler:
    """Remembers the last ticks of one broker."""

    __slots__ = ("_kept", "_series")

    def __init__(self) -> None:
        self._kept: deque[Counters] = deque(maxlen=WINDOW_TICKS)
        self._series: dict[str, Series] = {}

    def take(self, observed: ObserveResponse) -> Snapshot:
        """The snapshot of this answer, in the light of those before it."""
        now = _counters(observed)
        if self._kept and _is_other(self._kept[-1], now):
            self._kept.clear()
        past = self._kept[0] if self._kept else None
        self._kept.append(now)
        seconds = (now.at_ms - past.at_ms) / 1000 if past else 0.0
        cpu = None
        if past and past.cpu_seconds is not None and now.cpu_seconds is not None and seconds:
            cpu = (now.cpu_seconds - past.cpu_seconds) / seconds
        return Snapshot(
            observed=observed,
            queues=self._rows(observed, now, past, seconds),
            calls=_calls(observed, now, past, seconds),
            cpu=cpu,
            troubles=list(_troubles(observed)),
        )

    def _rows(
        self, observed: ObserveResponse, now: Counters, past: Counters | None, seconds: float
    ) -> list[QueueRow] | None:
        if observed.queues is None:
            return None
        names = {depth.queue for depth in observed.queues}
        self._series = {name: each for name, each in self._series.items() if name in names}
        waiters = None
        if observed.receive_waiters is not None:
            waiters = {each.queue: each.count for each in observed.receive_waiters}
        has_counters = observed.started_at_ms is not None
        rows = []
        for depth in observed.queues:
            events = now.events.get(depth.queue, {})
            rates = None
            if past is not None and has_counters:
                rates = _rates(events, past.events.get(depth.queue, {}), seconds)
            growth = None
            if past is not None and depth.queue in past.active:
                growth = (depth.active - past.active[depth.queue]) / seconds
            waiting = None if waiters is None else waiters.get(depth.queue, 0)
            rows.append(self._row(depth, events, rates=rates, growth=growth, waiters=waiting))
        return rows

    def _row(
        self,
        depth: QueueDepth,
        events: dict[str, int],
        *,
        rates: dict[str, float] | None,
        growth: float | None,
        waiters: int | None,
    ) -> QueueRow:
        series = self._series.get(depth.queue)
        if series is None:
            series = Series(deque(maxlen=HISTORY_TICKS), deque(maxlen=HISTORY_TICKS))
            self._series[depth.queue] = series
        series.active.append(depth.active)
        series.dead.append(depth.dead_lettered)
        signs = Signs(depth=depth, rates=rates, growth=growth or 0.0, waiters=waiters)
        concern, why = diagnose(signs)
        return QueueRow(
            depth=depth,
            in_rate=None if rates is None else signs.rate("enqueued"),
            out_rate=None if rates is None else signs.out_rate,
            growth=growth,
            dead_growth=series.dead[-1] - series.dead[0] if len(series.dead) > 1 else None,
            backlog=tuple(series.active),
            waiters=waiters,
            events=events,
            event_rates=rates or {},
            why=why,
            concern=concern,
        )


def _counters(observed: ObserveResponse) -> Counters:
    events: dict[str, dict[str, int]] = {}
    for row in observed.messages:
        if row.count:
            events.setdefault(row.queue, {})[row.event] = row.count
    calls: dict[str, int] = {}
    for request in observed.http.requests:
        if request.count:
            calls[request.rpc] = calls.get(request.rpc, 0) + request.count
    return Counters(
        at_ms=observed.sampled_at_ms,
        started_at_ms=observed.started_at_ms,
        events=events,
        active={depth.queue: depth.active for depth in observed.queues or ()},
        calls=calls,
        latencies={each.rpc: _cumulative(each) for each in observed.http.handler_latency},
        cpu_seconds=observed.process.cpu_seconds if observed.process else None,
    )


def _is_other(before: Counters, now: Counters) -> bool:
    """Whether the two must not be compared: another start, or a clock that did not go forward."""
    return before.started_at_ms != now.started_at_ms or before.at_ms >= now.at_ms


def _rates(now: Counts, past: Counts, seconds: float) -> dict[str, float]:
    found = {event: (count - past.get(event, 0)) / seconds for event, count in now.items()}
    return {event: rate for event, rate in found.items() if rate > 0}


def _cumulative(latency: HttpLatency) -> tuple[int, ...]:
    return (*(bucket.count for bucket in latency.buckets), latency.count)


def _calls(
    observed: ObserveResponse, now: Counters, past: Counters | None, seconds: float
) -> list[CallRow] | None:
    if observed.http.state != AVAILABLE:
        return None
    failures: dict[str, dict[str, int]] = {}
    for request in observed.http.requests:
        if request.count and request.code != "ok":
            failures.setdefault(request.rpc, {})[request.code] = request.count
    bounds = {
        each.rpc: [bucket.upper_bound_seconds for bucket in each.buckets]
        for each in observed.http.handler_latency
    }
    rows = []
    for rpc, count in now.calls.items():
        reached = now.latencies.get(rpc, ())
        before = past.latencies.get(rpc, ()) if past else ()
        rows.append(
            CallRow(
                rpc=rpc,
                count=count,
                rate=None if past is None else (count - past.calls.get(rpc, 0)) / seconds,
                failures=failures.get(rpc, {}),
                percentiles=percentiles(bounds.get(rpc, ()), reached, before),
            )
        )
    return rows


def percentiles(
    bounds: Sequence[float], now: Sequence[int], past: Sequence[int]
) -> tuple[float, float, float] | None:
    """p50, p95, p99 of what came between two cumulative histograms, of all if nothing came.

    Each is the upper bound of its bucket, infinity behind the last; None without any call.
    """
    if not now or not now[-1]:
        return None
    if len(past) != len(now) or now[-1] == past[-1]:
        past = [0] * len(now)
    counts = [here - there for here, there in zip(now, past, strict=True)]
    p50, p95, p99 = (_percentile(bounds, counts, part) for part in (0.50, 0.95, 0.99))
    return p50, p95, p99


def _percentile(bounds: Sequence[float], counts: Sequence[int], part: float) -> float:
    wanted = part * counts[-1]
    for bound, count in zip(bounds, counts, strict=False):
        if count >= wanted:
            return bound
    return float("inf")


def _troubles(observed: ObserveResponse) -> Iterable[str]:
    if not observed.runtime.read_available:
        yield "the store cannot be read"
    elif observed.collection.state != AVAILABLE:
        yield f"queues cannot be read: {observed.collection.error_code or 'unknown'}"
    for task in observed.maintenance:
        if task.health == "failing":
            yield f"maintenance {task.task} fails: {task.last_error_code or 'unknown'}"
    if observed.diagnostics.state not in ("off", "on"):
        yield f"diagnostic log: {observed.diagnostics.state}"
