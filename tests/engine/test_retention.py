"""Dead letters beyond their bounds go, oldest first; nothing else does, and nothing more."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.engine.sweeper import Retention
from tests.conformance.audit import audit_file
from tests.engine.gate import bodies, create, sending, take

Opened = Callable[..., AbstractAsyncContextManager[Engine]]


@pytest.fixture
def opened(store: Path, clock: ManualClock) -> Opened:
    """Opens an engine with these bounds on dead letters."""

    @asynccontextmanager
    async def with_bounds(**bounds: int) -> AsyncIterator[Engine]:
        options = EngineOptions(clock=clock, background=False, retention=Retention(**bounds))
        async with open_engine(str(store), options) as engine:
            yield engine
        assert audit_file(store) == []

    return with_bounds


async def bury(engine: Engine, *names: bytes, queue: str = "q") -> None:
    """Make dead letters of these bodies, in this order."""
    await engine.call(sending(queue, *names))
    for _ in names:
        for message in await take(engine, queue):
            await engine.call(
                wire.RejectRequest(
                    queue=queue, seq_number=message.seq_number, lock_token=message.lock_token
                )
            )


async def kept(engine: Engine, queue: str = "q") -> list[bytes]:
    """What is left after one run of all passes."""
    await engine.run_maintenance_once()
    return await bodies(engine, queue, "dead_lettered")


@pytest.mark.promise("E113")
async def test_age_is_measured_from_the_sending_and_its_bound_is_strict(
    opened: Opened, clock: ManualClock
) -> None:
    async with opened(max_age_ms=1000) as engine:
        await create(engine, "q")
        await bury(engine, b"older")
        clock.advance(1)
        await bury(engine, b"exactly")
        await engine.call(sending("q", b"active"))
        clock.advance(1000)
        await bury(engine, b"new")
        assert await kept(engine) == [b"exactly", b"active"]
        assert await bodies(engine, "q") == [b"exactly", b"active", b"new"]


@pytest.mark.promise("E113")
async def test_no_other_state_is_touched_however_old(opened: Opened, clock: ManualClock) -> None:
    async with opened(max_age_ms=1, max_count=1, max_bytes=1) as engine:
        await create(engine, "q", config=wire.QueueConfig(lock_duration_ms=limits.DURATION_MS_MAX))
        await engine.call(sending("q", b"locked", b"deferred", b"active"))
        _, deferred = await take(engine, "q", 2)
        await engine.call(
            wire.DeferRequest(
                queue="q", seq_number=deferred.seq_number, lock_token=deferred.lock_token
            )
        )
        later = clock.now_ms() + 10**9
        await engine.call(
            wire.ScheduleRequest(
                queue="q",
                messages=[wire.Message(body=b"scheduled")],
                scheduled_enqueue_time_ms=later,
            )
        )
        clock.advance(10**6)
        assert await kept(engine) == []
        assert await bodies(engine, "q") == [b"locked", b"deferred", b"active", b"scheduled"]


@pytest.mark.promise("E114")
@pytest.mark.parametrize(("number", "left"), [(2, 2), (3, 3), (4, 3), (9, 3)])
async def test_the_newest_of_the_counted_stay(
    opened: Opened, caplog: pytest.LogCaptureFixture, number: int, left: int
) -> None:
    async with opened(max_count=3) as engine:
        await create(engine, "q")
        names = [b"%d" % each for each in range(number)]
        await bury(engine, *names)
        with caplog.at_level(logging.WARNING):
            assert await kept(engine) == names[-left:]
        assert not caplog.records
        deleted = engine.statistics()["events"].get(("q", "retention_deleted"), 0)
        assert deleted == number - left


@pytest.mark.promise("E115")
@pytest.mark.parametrize(
    ("sizes", "bound", "left"),
    [
        ([1, 1, 1], 3, 3),  # exactly the bound
        ([1, 1, 1, 1], 3, 3),
        ([1, 10, 1], 5, 1),  # the row that crosses the bound goes, and the small older one too
        ([3, 3, 3], 8, 2),
        ([1, 9], 5, 0),  # the newest alone is over it
        ([0, 0, 5, 0], 5, 4),  # empty bodies weigh nothing
        ([0, 1, 5, 0], 5, 2),
        ([0, 0, 6, 0], 5, 1),
        ([5000, 5000], 5000, 1),  # bodies kept apart count as well
    ],
)
async def test_bytes_are_summed_from_the_newest(
    opened: Opened, sizes: list[int], bound: int, left: int
) -> None:
    async with opened(max_bytes=bound) as engine:
        await create(engine, "q")
        await bury(engine, *[bytes(size) for size in sizes])
        assert [len(body) for body in await kept(engine)] == sizes[len(sizes) - left :]


@pytest.mark.promise("E116")
@pytest.mark.parametrize(
    ("own", "left"),
    [
        (wire.QueueConfig(), 3),
        (wire.QueueConfig(dlq_max_count=2), 2),
        (wire.QueueConfig(dlq_max_count=4), 4),
        (wire.QueueConfig(dlq_max_count=-1), 5),
        (wire.QueueConfig(dlq_max_bytes=1), 1),
        (wire.QueueConfig(dlq_max_count=-1, dlq_max_bytes=-1), 5),
    ],
)
async def test_a_queues_own_bound_replaces_the_engines(
    opened: Opened, own: wire.QueueConfig, left: int
) -> None:
    async with opened(max_count=3) as engine:
        await create(engine, "q", config=own)
        await create(engine, "other")
        for queue in ("q", "other"):
            await bury(engine, *[b"x"] * 5, queue=queue)
        assert len(await kept(engine)) == left
        assert len(await kept(engine, "other")) == 3


@pytest.mark.promise("E116")
@pytest.mark.parametrize(("own", "left"), [(0, 0), (5000, 1), (-1, 1)])
async def test_a_queues_own_age_replaces_the_engines(
    opened: Opened, clock: ManualClock, own: int, left: int
) -> None:
    async with opened(max_age_ms=1000) as engine:
        await create(engine, "q", config=wire.QueueConfig(dlq_max_age_ms=own))
        await bury(engine, b"x")
        clock.advance(3000)
        assert len(await kept(engine)) == left


@pytest.mark.promise("E117")
async def test_an_engine_keeps_every_dead_letter_unless_it_is_told(
    opened: Opened, clock: ManualClock
) -> None:
    async with opened() as engine:
        await create(engine, "q")
        await bury(engine, *[b"x"] * 300)
        clock.advance(10**12)
        assert len(await kept(engine)) == 300


async def test_bounds_hold_together_and_in_order(opened: Opened, clock: ManualClock) -> None:
    async with opened(max_age_ms=1000, max_count=3, max_bytes=10) as engine:
        await create(engine, "q")
        await bury(engine, b"too old", b"too old too")
        clock.advance(2000)
        await bury(engine, b"one too many", b"123456", b"7890", b"")
        assert await kept(engine) == [b"123456", b"7890", b""]
        events = engine.statistics()["events"]
        assert events[("q", "retention_deleted")] == 3


async def test_more_than_a_slice_goes_in_one_run(opened: Opened, clock: ManualClock) -> None:
    number = 3 * limits.MAINTENANCE_ROWS + 7
    expiring = wire.QueueConfig(default_ttl_ms=1000)
    for bounds, left in (({"max_count": 5}, 5), ({"max_bytes": 5}, 5), ({"max_age_ms": 1}, 0)):
        async with opened(**bounds) as engine:
            await create(engine, "q", config=expiring)
            await engine.call(sending("q", *[b"x"] * number))
            clock.advance(1000)
            assert len(await kept(engine)) == left


async def test_a_revived_message_is_no_dead_letter_any_more(
    opened: Opened, clock: ManualClock
) -> None:
    async with opened(max_age_ms=1) as engine:
        await create(engine, "q")
        await bury(engine, b"x")
        await engine.call(wire.RedriveRequest(queue="q"))
        clock.advance(1000)
        assert await kept(engine) == []
        assert [message.body for message in await take(engine, "q")] == [b"x"]
