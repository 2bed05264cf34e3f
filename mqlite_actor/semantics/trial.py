"""TestFilter: try a filter without storing anything.

Called by the engine outside of any transaction, in a worker thread. Compiles and evaluates with the
very functions that a publish uses, so that both agree on every message (spec/engine.md E149).
"""

from __future__ import annotations

import msgspec

from mqlite_actor.contract.errors import InvalidFilter
from mqlite_actor.contract.wire import TestFilterRequest, TestFilterResponse
from mqlite_actor.filters import Facts, FilterFailed
from mqlite_actor.semantics import routing


def test_filter(request: TestFilterRequest, now_ms: int) -> TestFilterResponse:
    """Compile, and evaluate if a sample is given. Faults of the filter are answers, not errors."""
    found = routing.compiled(request.expr)
    if isinstance(found, InvalidFilter):
        return TestFilterResponse(valid=False, error=found.message, ran=False, matched=False)
    sample = request.message
    if sample is None:
        return TestFilterResponse(valid=True, error=msgspec.UNSET, ran=False, matched=False)
    enqueued_at_ms = sample.enqueued_at_ms or now_ms
    facts = Facts(
        sample,
        enqueued_at_ms=enqueued_at_ms,
        visible_at_ms=sample.visible_at_ms or enqueued_at_ms,
        now_ms=now_ms,
    )
    verdict = routing.judge(found, facts)
    if isinstance(verdict, FilterFailed):
        return TestFilterResponse(valid=True, error=str(verdict), ran=True, matched=False)
    return TestFilterResponse(valid=True, error=msgspec.UNSET, ran=True, matched=verdict)
