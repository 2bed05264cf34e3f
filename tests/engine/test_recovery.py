"""Opening after a death: every lease is over, everything acknowledged is there, nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import LockLost
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from tests.conformance.audit import audit_file
from tests.engine.gate import bodies, completing, create, sending, take
from tests.storage.writer import killed_copy

HOUR_MS = 3_600_000
LEASE = wire.QueueConfig(lock_duration_ms=HOUR_MS)
LAST = wire.QueueConfig(lock_duration_ms=HOUR_MS, max_delivery_count=1)


@pytest.fixture
def options(clock: ManualClock) -> EngineOptions:
    return EngineOptions(clock=clock, background=False)


async def lock_many(engine: Engine, queue: str, number: int) -> list[wire.Message]:
    """Send so many messages and take them all."""
    await engine.call(sending(queue, *[b"%d" % each for each in range(number)]))
    held: list[wire.Message] = []
    while len(held) < number:
        held += await take(engine, queue, limits.RECEIVE_MESSAGES_MAX)
    return held


@pytest.mark.promise("E141")
@pytest.mark.parametrize("number", [1, 49, 50, 51, 600])
async def test_every_lease_of_the_dead_is_over_whatever_its_end(
    engine: Engine,
    store: Path,
    tmp_path: Path,
    options: EngineOptions,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    monkeypatch.setattr(limits, "RECOVERY_ROWS", 50)  # several slices
    await create(engine, "again", config=LEASE)
    await create(engine, "last", config=LAST)
    held = await lock_many(engine, "again", number)
    await lock_many(engine, "last", number)
    copy = killed_copy(store, tmp_path / "killed")
    async with open_engine(str(copy), options) as opened:
        again = await opened.call(wire.StatsRequest(queue="again"))
        last = await opened.call(wire.StatsRequest(queue="last"))
        assert (again.active, again.locked, again.dead_lettered) == (number, 0, 0)
        assert (last.active, last.locked, last.dead_lettered) == (0, 0, number)
        dead = (await opened.call(wire.PeekRequest(queue="last"))).messages[0]
        assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
        with pytest.raises(LockLost):
            await opened.call(completing("again", held[0]))
        redelivered = await take(opened, "again", limits.RECEIVE_MESSAGES_MAX)
        assert {message.delivery_count for message in redelivered} == {2}
        assert [m.seq_number for m in redelivered] == [
            m.seq_number for m in held[: len(redelivered)]
        ]
        events = opened.statistics()["events"]
        assert events[("again", "delivered")] == len(redelivered)
        assert events[("again", "recovered")] == events[("last", "recovered")] == number
    assert not audit_file(copy)


@pytest.mark.promise("E141")
async def test_leases_end_at_a_clean_reopening_too(store: Path, options: EngineOptions) -> None:
    async with open_engine(str(store), options) as engine:
        await create(engine, "q", config=LEASE)
        held = await lock_many(engine, "q", 3)
    async with open_engine(str(store), options) as engine:
        assert len(await bodies(engine, "q", "active")) == 3
        with pytest.raises(LockLost):
            await engine.call(completing("q", held[0]))


@pytest.mark.promise("E141")
async def test_groups_and_strict_queues_go_on_at_their_head(
    engine: Engine, store: Path, tmp_path: Path, options: EngineOptions
) -> None:
    strict = wire.QueueConfig(ordering_mode="strict_fifo", lock_duration_ms=HOUR_MS)
    await create(engine, "groups", config=LEASE)
    await create(engine, "strict", config=strict)
    for queue in ("groups", "strict"):
        await engine.call(sending(queue, b"1", b"2", group_id="g"))
        await take(engine, queue)
    copy = killed_copy(store, tmp_path / "killed")
    async with open_engine(str(copy), options) as opened:
        for queue in ("groups", "strict"):
            first = await take(opened, queue, 2)
            assert [message.body for message in first] == [b"1"]
            await opened.call(completing(queue, first[0]))
            assert [message.body for message in await take(opened, queue, 2)] == [b"2"]
    assert not audit_file(copy)


@pytest.mark.promise("E79", "E88")
async def test_receipts_and_attempts_outlive_the_dead(
    engine: Engine, store: Path, tmp_path: Path, options: EngineOptions
) -> None:
    await create(engine, "q", config=LEASE)
    await engine.call(sending("q", b"done", b"attempted"))
    done = (await take(engine, "q"))[0]
    await engine.call(completing("q", done))
    attempt = wire.ReceiveRequest(queue="q", receive_attempt_id="a")
    claimed = (await engine.call(attempt)).messages
    copy = killed_copy(store, tmp_path / "killed")
    async with open_engine(str(copy), options) as opened:
        await opened.call(completing("q", done))
        assert (await opened.call(attempt)).messages == claimed
        with pytest.raises(LockLost):
            await opened.call(completing("q", claimed[0]))


async def test_what_was_not_leased_is_untouched(
    engine: Engine, store: Path, tmp_path: Path, clock: ManualClock, options: EngineOptions
) -> None:
    await create(engine, "q", config=LEASE)
    await engine.call(sending("q", b"deferred", b"dead", b"active"))
    deferred, dead = await take(engine, "q", 2)
    for message, verb in ((deferred, wire.DeferRequest), (dead, wire.RejectRequest)):
        await engine.call(
            verb(queue="q", seq_number=message.seq_number, lock_token=message.lock_token)
        )
    due = clock.now_ms() + HOUR_MS
    await engine.call(
        wire.ScheduleRequest(
            queue="q", messages=[wire.Message(body=b"later")], scheduled_enqueue_time_ms=due
        )
    )
    before = (await engine.call(wire.PeekRequest(queue="q"))).messages
    copy = killed_copy(store, tmp_path / "killed")
    async with open_engine(str(copy), options) as opened:
        assert (await opened.call(wire.PeekRequest(queue="q"))).messages == before
        clock.advance(HOUR_MS)
        assert await take(opened, "q", 10) != []
        await opened.run_maintenance_once()
        assert [message.body for message in await take(opened, "q", 10)] == [b"later"]


@pytest.mark.promise("E44")
async def test_duplicates_are_known_after_a_death(
    engine: Engine, store: Path, tmp_path: Path, options: EngineOptions
) -> None:
    await create(engine, "q", config=wire.QueueConfig(dedup_window_ms=HOUR_MS))
    request = wire.SendRequest(queue="q", messages=[wire.Message(message_id="m", body=b"x")])
    first = await engine.call(request)
    copy = killed_copy(store, tmp_path / "killed")
    async with open_engine(str(copy), options) as opened:
        assert await opened.call(request) == first
        assert await bodies(opened, "q") == [b"x"]
