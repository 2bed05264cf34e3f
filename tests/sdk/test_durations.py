"""Durations in seconds or timedeltas become whole milliseconds by one rule (rulings R26, R27)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mqlite_actor as mq
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.limits import DURATION_MS_MAX
from mqlite_actor.sdk.durations import (
    Duration,
    bound_to_ms,
    duration_to_ms,
    nanoseconds_to_ms,
    wait_to_ms,
)


@pytest.mark.parametrize(
    ("duration", "ms"),
    [
        (1, 1000),
        (0.001, 1),
        (0.003, 3),
        (1.003, 1003),
        (0.0015, 2),
        (1.0000001, 1001),
        (timedelta(milliseconds=5), 5),
        (timedelta(microseconds=1001), 2),
        (2**53, DURATION_MS_MAX),
        (1e300, DURATION_MS_MAX),
        (timedelta.max, DURATION_MS_MAX),
    ],
)
def test_a_positive_duration_rounds_up_and_saturates(duration: Duration, ms: int) -> None:
    assert duration_to_ms(duration, field="ttl") == ms


@pytest.mark.parametrize(
    ("duration", "mend"),
    [
        (-1, "negative"),
        (-1e-12, "negative"),
        (timedelta(microseconds=-1), "negative"),
        (1e-12, "at least 1 ms"),
        (0.0009999, "at least 1 ms"),
        (timedelta(microseconds=999), "at least 1 ms"),
        (0, "longer than zero"),
        (float("nan"), "not a number"),
        (float("inf"), "finite"),
        (True, "not bool"),
        ("30", "not str"),
    ],
)
def test_a_duration_that_would_change_its_meaning_is_refused_by_name(
    duration: Duration, mend: str
) -> None:
    with pytest.raises(InvalidArgument, match=f"ttl: .*{mend}"):
        duration_to_ms(duration, field="ttl")


ENDLESS: dict[str, tuple[Callable[[mq.SyncHandle], object], str]] = {
    "ttl": (lambda q: q.send_one("q", "x", ttl=inf), "leave it out"),
    "default_ttl": (lambda q: q.create_queue("q", default_ttl=inf), "leave it out"),
    "dlq_max_age": (lambda q: q.create_queue("q", dlq_max_age=inf), '"unbounded"'),
    "wait": (lambda q: q.receive("q", wait=inf), "20 s is the most"),
    "lock_duration": (lambda q: q.create_queue("q", lock_duration=inf), "a number of seconds"),
    "dedup_window": (lambda q: q.create_queue("q", dedup_window=inf), "a number of seconds"),
    "stop_seconds": (lambda q: q.receiver("q", stop_seconds=inf), "a number of seconds"),
    "delay": (lambda _: mq.retry(delay=inf), "a number of seconds"),
}


@pytest.mark.parametrize("field", ENDLESS)
def test_leaving_a_duration_out_is_advised_only_where_that_is_no_end(field: str) -> None:
    ask, mend = ENDLESS[field]
    with mq.open_embedded_sync(":memory:") as q, pytest.raises(InvalidArgument) as refused:
        ask(q)
    assert refused.value.message.startswith(f"{field}: must be finite; ")
    assert mend in refused.value.message


def test_zero_is_a_value_only_where_that_is_said() -> None:
    assert duration_to_ms(0, field="lock", is_zero_allowed=True) == 0
    assert duration_to_ms(timedelta(0), field="lock", is_zero_allowed=True) == 0


@pytest.mark.parametrize(
    ("wait", "ms"), [(-5, 0), (0, 0), (1e-12, 1), (0.5, 500), (1e300, DURATION_MS_MAX)]
)
def test_a_wait_clamps(wait: float, ms: int) -> None:
    assert wait_to_ms(wait) == ms


@pytest.mark.parametrize(
    ("bound", "ms"), [("unbounded", -1), (-1, -1), (-1.0, -1), (0, 0), (60, 60_000)]
)
def test_an_age_bound_can_be_switched_off(bound: Duration, ms: int) -> None:
    assert bound_to_ms(bound, field="dlq_max_age") == ms


@pytest.mark.parametrize("bound", [-2, -0.5, timedelta(seconds=-1), 0.0001])
def test_an_age_bound_is_otherwise_a_duration(bound: Duration) -> None:
    with pytest.raises(InvalidArgument, match="dlq_max_age"):
        bound_to_ms(bound, field="dlq_max_age")


@given(st.integers(min_value=1_000_000, max_value=2**80))
def test_rounding_never_shortens_and_adds_less_than_a_millisecond(nanoseconds: int) -> None:
    ms = nanoseconds_to_ms(nanoseconds, field="x")
    if ms < DURATION_MS_MAX:
        assert 0 <= ms * 1_000_000 - nanoseconds < 1_000_000
    else:
        assert nanoseconds > (DURATION_MS_MAX - 1) * 1_000_000


@given(st.integers(min_value=1, max_value=10**9))
def test_a_number_of_milliseconds_written_in_seconds_is_that_number(ms: int) -> None:
    assert duration_to_ms(ms / 1000, field="x") == ms
