"""What the door counts: requests by call and code, and how long calls take.

Filled by `rpc.py`, shown in Observe and /metrics. Only registered calls become rows, and a code
outside the vocabulary folds to `ok` or `internal`, so that no client can make the tables grow
(faults B87). The contract's calls have rows from the start, our own from their first request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mqlite_actor.contract.calls import CONTRACT
from mqlite_actor.contract.observe import (
    BOUNDS_SECONDS,
    HttpAuthentication,
    HttpInfo,
    HttpLatency,
    HttpRequests,
    LatencyBucket,
)
from mqlite_actor.engine.meters import Meter

CODES: Final = (
    "already_exists", "canceled", "generation_conflict", "group_required", "internal",
    "invalid_argument", "key_conflict", "lock_lost", "message_too_large", "name_conflict",
    "not_found", "ok", "outcome_unknown", "permission_denied", "queue_not_empty", "storage_full",
    "unauthenticated", "unavailable", "unimplemented",
)  # fmt: skip
"""The contract's request codes and our surplus ones (decision 19), sorted: every one of the
contract's calls is shown with each from the start."""

SEEN: Final = frozenset({*CODES, "unsupported"})
"""Those that are shown once there are some; `unsupported` is no failure of ours, as a backup of a
remote store. Others count as internal, or as ok where nothing failed."""

HTTP_FAILURE: Final = 400


class Traffic:
    """Counters of one broker."""

    __slots__ = ("_latency", "_requests")

    def __init__(self) -> None:
        self._requests = {(call.name, code): [0, 0.0] for call in CONTRACT for code in CODES}
        self._latency: dict[str, Meter] = {}

    def count(self, rpc: str, code: str, status: int, seconds: float) -> None:
        """One finished request of a registered call."""
        row = self._requests.get((rpc, code))
        if row is None:
            known = code if code in SEEN else ("internal" if status >= HTTP_FAILURE else "ok")
            row = self._requests.setdefault((rpc, known), [0, 0.0])
        row[0] += 1
        row[1] += seconds

    def took(self, rpc: str, seconds: float) -> None:
        """Time of a call behind the credential check."""
        meter = self._latency.get(rpc)
        if meter is None:
            meter = self._latency[rpc] = Meter()
        meter.add(seconds)

    def shown(self, authentication: Iterable[tuple[str, int]]) -> HttpInfo:
        """As Observe shows it."""
        return HttpInfo(
            state="available",
            requests=[
                HttpRequests(rpc=rpc, code=code, count=int(count), duration_seconds=seconds)
                for (rpc, code), (count, seconds) in sorted(self._requests.items())
            ],
            authentication=[
                HttpAuthentication(outcome=outcome, count=count)
                for outcome, count in authentication
            ],
            handler_latency=[
                HttpLatency(
                    rpc=rpc,
                    buckets=[
                        LatencyBucket(upper_bound_seconds=bound, count=count)
                        for bound, count in zip(BOUNDS_SECONDS, meter.cumulative(), strict=True)
                    ],
                    count=meter.count,
                    sum_seconds=meter.sum_seconds,
                )
                for rpc, meter in sorted(self._latency.items())
            ],
        )
