"""Rates, histories and hints: what the monitor makes of one answer after the other."""

from __future__ import annotations

import pytest

from mqlite_actor.contract.observe import QueueDepth
from mqlite_monitor.diagnosis import Signs, diagnose
from mqlite_monitor.sampling import HISTORY_TICKS, Sampler, percentiles
from mqlite_monitor.snapshot import QueueRow, Snapshot
from tests.services.monitor_scene import START_MS, answer, busy, depth


def row(snapshot: Snapshot, name: str) -> QueueRow:
    assert snapshot.queues is not None
    return next(each for each in snapshot.queues if each.name == name)


def test_the_first_answer_has_counts_and_no_rates() -> None:
    first = row(Sampler().take(answer(1, [depth("q", active=5)], {"q": {"enqueued": 9}})), "q")
    assert (first.depth.active, first.in_rate, first.out_rate, first.growth) == (
        5,
        None,
        None,
        None,
    )
    assert first.dead_growth is None


def test_rates_are_those_of_the_last_ticks() -> None:
    orders = row(busy(), "orders")
    assert (orders.in_rate, orders.out_rate) == (50.0, 50.0)
    audit = row(busy(), "audit")
    assert (audit.in_rate, audit.out_rate, audit.growth) == (20.0, 0.0, 20.0)
    assert audit.backlog == (20, 40, 60, 80, 100, 120, 140)
    assert row(busy(), "mail").dead_growth == 6


def test_counters_of_another_start_are_not_subtracted() -> None:
    sampler = Sampler()
    sampler.take(answer(10, [depth("q")], {"q": {"enqueued": 1000}}))
    again = answer(12, [depth("q")], {"q": {"enqueued": 3}}, started_at_ms=START_MS + 11_000)
    assert row(sampler.take(again), "q").in_rate is None


def test_a_clock_that_does_not_go_forward_gives_no_rates() -> None:
    sampler = Sampler()
    sampler.take(answer(10, [depth("q")], {"q": {"enqueued": 10}}))
    assert row(sampler.take(answer(10, [depth("q")])), "q").in_rate is None
    assert row(sampler.take(answer(9, [depth("q")])), "q").in_rate is None


def test_a_queue_that_was_deleted_leaves_nothing_behind() -> None:
    sampler = Sampler()
    for tick in range(HISTORY_TICKS + 5):
        sampler.take(answer(tick, [depth("q", active=tick)]))
    assert len(sampler._series["q"].active) == HISTORY_TICKS
    sampler.take(answer(100, []))
    assert sampler._series == {}


def test_a_file_without_counters_has_growth_and_no_rates() -> None:
    sampler = Sampler()
    sampler.take(answer(1, [depth("q", active=1)], started_at_ms=None))
    found = row(sampler.take(answer(2, [depth("q", active=4)], started_at_ms=None)), "q")
    assert (found.in_rate, found.out_rate, found.growth) == (None, None, 3.0)
    assert found.why == "▲ more in than out"


def test_percentiles_are_of_what_came_in_between() -> None:
    bounds = (0.001, 0.01, 0.1)
    assert percentiles(bounds, (0, 0, 0, 0), ()) is None
    assert percentiles(bounds, (90, 98, 100, 100), ()) == (0.001, 0.01, 0.1)
    assert percentiles(bounds, (90, 98, 199, 200), (90, 98, 100, 100)) == (0.1, 0.1, 0.1)
    assert percentiles(bounds, (0, 0, 0, 5), (0, 0, 0, 5)) == (float("inf"),) * 3


LOADED = depth("q", active=100, age_ms=120_000)


@pytest.mark.parametrize(
    ("counts", "rates", "growth", "waiters", "why"),
    [
        (LOADED, {"enqueued": 5.0}, 5.0, 0, "▲ nobody receives"),
        (LOADED, {"delivered": 5.0, "dead_lettered": 1.0}, 5.0, 0, "dead-lettering"),
        (LOADED, {"delivered": 5.0, "lock_expired": 2.0}, 5.0, 0, "▲ leases run out"),
        (LOADED, {"delivered": 5.0, "abandoned": 2.0}, 5.0, 0, "▲ handlers give back"),
        (LOADED, {"delivered": 5.0}, 5.0, 0, "▲ nothing is completed"),
        (LOADED, {"delivered": 5.0, "completed": 4.0}, 5.0, 0, "▲ more in than out"),
        (
            LOADED,
            {"delivered": 50.0, "completed": 40.0, "abandoned": 5.0, "lock_expired": 1.0},
            5.0,
            0,
            "▲ more in than out",
        ),  # what comes back is not what makes it grow
        (LOADED, {"delivered": 5.0, "completed": 5.0}, -5.0, 0, "catching up"),
        (LOADED, {}, 0.0, 0, "stuck: nobody receives"),
        (LOADED, {}, 0.0, 2, "stuck: waiters get nothing"),
        (LOADED, None, 0.0, None, ""),
        (depth("q", active=3, age_ms=50), {"delivered": 9.0, "completed": 9.0}, 0.0, 1, ""),
        (depth("q", unexpected=1), {}, 0.0, 0, "rows of an unknown state"),
    ],
)
def test_a_queue_says_why_it_falls_behind(
    counts: QueueDepth,
    rates: dict[str, float] | None,
    growth: float,
    waiters: int | None,
    why: str,
) -> None:
    signs = Signs(depth=counts, rates=rates, growth=growth, waiters=waiters)
    assert diagnose(signs)[1] == why


def test_what_is_wrong_with_the_broker_is_told() -> None:
    assert busy().troubles == []
    assert busy(failing="ttl").troubles == ["maintenance ttl fails: io"]
    assert Sampler().take(answer(1, None)).troubles == ["queues cannot be read: busy"]
