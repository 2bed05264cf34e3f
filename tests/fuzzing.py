"""A test of many inputs: a few, always the same, with the other tests; as many as `make proof` asks
for, by chance, in a long run, whose number stands in its figures.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy

from tests.figures import record


def fuzzed(
    suite: str,
    few: int,
    *,
    unhealthy: Sequence[HealthCheck] = (),
    **inputs: SearchStrategy[Any],
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Make a test of a function of such inputs: `few`, or MQLITE_FUZZ_EXAMPLES, which are recorded
    when all have passed."""
    number = int(os.environ.get("MQLITE_FUZZ_EXAMPLES", few))
    profile = settings(
        max_examples=number,
        derandomize=number <= few,
        deadline=None,
        database=None,
        suppress_health_check=unhealthy,
    )

    def decorate(check: Callable[..., None]) -> Callable[[], None]:
        run = profile(given(**inputs)(check))

        def test() -> None:
            run()
            record(suite, inputs=number)

        test.__name__, test.__doc__, test.__module__ = (
            check.__name__, check.__doc__, check.__module__,
        )  # fmt: skip
        return test

    return decorate
