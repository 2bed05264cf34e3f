"""Counters and histograms that Observe shows: storage calls by outcome, and the time of passes.

Filled by the actor and the sweeper in the trio thread, read by `engine/observing.py`. Bounds are
the contract's; a bucket counts what took at most its bound, as the wire has it (cumulative).
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import Final

from mqlite_actor.contract.errors import (
    CallerError,
    Closed,
    MqliteError,
    OutcomeUnknown,
    StorageDamaged,
    StorageFailed,
    StorageFull,
    Unavailable,
)
from mqlite_actor.contract.observe import (
    BOUNDS_SECONDS,
    MESSAGE_EVENTS,
    Histogram,
    StorageOperation,
)

OPERATIONS: Final = ("read", "transaction", "write")
ERRORS: Final = ("busy", "canceled", "closed", "connection", "corrupt", "full", "io", "other")

OUTCOMES: Final = (
    *(("error", code) for code in ERRORS),
    ("ok", ""),
    ("outcome_unknown", "outcome_unknown"),
    ("rejected", "application"),
)
"""Outcome and error code of a storage call, in the order of Observe."""

_CODE_OF: Final[tuple[tuple[type[MqliteError], tuple[str, str]], ...]] = (
    (CallerError, ("rejected", "application")),
    (OutcomeUnknown, ("outcome_unknown", "outcome_unknown")),
    (StorageFull, ("error", "full")),
    (Unavailable, ("error", "busy")),
    (StorageDamaged, ("error", "corrupt")),
    (StorageFailed, ("error", "io")),
    (Closed, ("error", "closed")),
)


class Meter:
    """A histogram that can be added to."""

    __slots__ = ("_counts", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_SECONDS) + 1)
        self._sum = 0.0

    @property
    def count(self) -> int:
        """How many samples."""
        return sum(self._counts)

    @property
    def sum_seconds(self) -> float:
        """All samples together."""
        return self._sum

    def add(self, seconds: float, number: int = 1) -> None:
        """A sample, or `number` of the same."""
        self._counts[bisect_left(BOUNDS_SECONDS, seconds)] += number
        self._sum += seconds * number

    def cumulative(self) -> list[int]:
        """Samples at most each bound."""
        return list(accumulate(self._counts[:-1]))

    def shown(self) -> Histogram:
        """As Observe shows it."""
        return Histogram(
            bounds_seconds=list(BOUNDS_SECONDS),
            bucket_counts=self.cumulative(),
            count=self.count,
            sum_seconds=self._sum,
        )


class StorageMeter:
    """Storage calls by operation and outcome."""

    __slots__ = ("_meters", "_ok")

    def __init__(self) -> None:
        self._meters = {
            (operation, *outcome): Meter() for operation in OPERATIONS for outcome in OUTCOMES
        }
        self._ok = {operation: self._meters[operation, "ok", ""] for operation in OPERATIONS}

    def add(
        self, operation: str, error: BaseException | None, seconds: float, number: int = 1
    ) -> None:
        """Finished calls that ended alike; `error` None is a success."""
        if error is None:
            self._ok[operation].add(seconds, number)
        else:
            self._meters[operation, *outcome_of(error)].add(seconds, number)

    def note(self, operation: str, outcome: str, code: str, seconds: float) -> None:
        """A finished call of another process, in Observe's words; none of those is dropped."""
        meter = self._meters.get((operation, outcome, code))
        if meter is not None:
            meter.add(seconds)

    def shown(self) -> list[StorageOperation]:
        """As Observe shows it: every combination, zeros included."""
        return [
            StorageOperation(
                operation=operation,
                outcome=outcome,
                error_code=code,
                duration=meter.shown(),
                retries=0,
            )
            for (operation, outcome, code), meter in sorted(self._meters.items())
        ]


def outcome_of(error: BaseException | None) -> tuple[str, str]:
    """Outcome and error code in Observe's words."""
    if error is None:
        return "ok", ""
    for cls, words in _CODE_OF:
        if isinstance(error, cls):
            return words
    return "error", "other"


def error_code_of(error: BaseException) -> str:
    """The storage error code of a failed pass; what was refused is `other` there."""
    outcome, code = outcome_of(error)
    return code if outcome == "error" else "other"


GONE: Final = ""
"""Stands for every deleted queue where a total has to keep what they counted; no queue is called
that."""

FILTER_STAGES: Final = ("compile", "evaluate")


def forget_queue(
    name: str, events: dict[tuple[str, str], int], filter_failures: dict[tuple[str, str], int]
) -> None:
    """Drop the counters of a deleted queue, so that queues which come and go leave nothing behind
    (faults B87).

    Its series end; one of a later queue of that name begins at zero. Filter failures are shown as
    sums over all queues, which must not fall, so they move to GONE.
    """
    for event in MESSAGE_EVENTS:
        events.pop((name, event), None)
    for stage in FILTER_STAGES:
        number = filter_failures.pop((name, stage), 0)
        if number:
            filter_failures[GONE, stage] = filter_failures.get((GONE, stage), 0) + number
