"""What one tick shows: the answer of Observe with rates, made by `sampling`, drawn by `view_*`.

Rules: None is "not known" and is drawn as a dash, never as a zero; a snapshot holds everything that
the views need, so that they ask nobody and remember nothing.
"""

from __future__ import annotations

import msgspec

from mqlite_actor.contract.observe import ObserveResponse, QueueDepth


class QueueRow(msgspec.Struct, frozen=True):
    """One queue: its counts, and what they did over the last ticks."""

    depth: QueueDepth
    in_rate: float | None
    """Messages sent into it, a second."""
    out_rate: float | None
    """Messages completed, or taken at most once, a second."""
    growth: float | None
    """Of its active messages, a second."""
    dead_growth: int | None
    """Of its dead letters, since the oldest tick that is kept."""
    backlog: tuple[int, ...]
    """Its active messages at each of the last ticks, the newest last."""
    waiters: int | None
    events: dict[str, int]
    """What happened to its messages since the broker started; only what did."""
    event_rates: dict[str, float]
    why: str
    """What is wrong with it, in a few words, or ""."""
    concern: int
    """How bad that is: 0 is nothing."""

    @property
    def name(self) -> str:
        """The queue's name, as it is."""
        return self.depth.queue


class CallRow(msgspec.Struct, frozen=True):
    """One call of the HTTP door that was used."""

    rpc: str
    count: int
    rate: float | None
    failures: dict[str, int]
    """By code; only what happened."""
    percentiles: tuple[float, float, float] | None
    """p50, p95 and p99 as upper bounds in seconds, of the last ticks if anything was called."""


class Snapshot(msgspec.Struct, frozen=True):
    """One tick."""

    observed: ObserveResponse
    queues: list[QueueRow] | None
    calls: list[CallRow] | None
    cpu: float | None
    """Part of a core that the process used over the last ticks."""
    troubles: list[str]
    """What is wrong with the broker itself, in a few words each."""


class Letter(msgspec.Struct, frozen=True):
    """A dead letter, without its body."""

    seq_number: int
    enqueued_at_ms: int
    delivery_count: int
    reason: str
    description: str


class Blocked(msgspec.Struct, frozen=True):
    """A line that stands still behind its first message."""

    group_id: str
    seq_number: int
    explanation: str
    waiting: int


class Detail(msgspec.Struct, frozen=True):
    """What Peek and Explain say about one queue; a text instead where they could not be had."""

    queue: str
    letters: list[Letter] | str
    blocked: list[Blocked] | str
    explanation: str
    """Why nothing of the queue is delivered, or ""."""
