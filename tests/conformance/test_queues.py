"""Queues: creating, reconfiguring, listing; what is refused, and what is left alone."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import InvalidArgument, NameConflict
from mqlite_actor.contract.wire import QueueConfig, QueueInfo
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.handles import Sweep

TUNED = QueueConfig(
    lock_duration_ms=5000,
    max_delivery_count=3,
    default_ttl_ms=7000,
    dead_letter_on_expire=False,
    dedup_window_ms=9000,
    ordering_mode="strict_fifo",
    dlq_max_age_ms=11_000,
    dlq_max_count=12,
    dlq_max_bytes=13,
)


def shown(info: QueueInfo) -> tuple[str, int, int, int, int]:
    return (
        info.kind,
        info.lock_duration_ms,
        info.max_delivery_count,
        info.default_ttl_ms,
        info.dedup_window_ms,
    )


async def exists(handle: Handle, queue: str) -> bool:
    return await asking.refusal(handle, wire.StatsRequest(queue=queue)) == "ok"


def stored(path: Path, queue: str) -> dict[str, object]:
    """A queue's row as it lies in the file; for what no call shows."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        cursor = connection.execute("SELECT * FROM queues WHERE name = ?", (queue,))
        names = [column[0] for column in cursor.get_description()]
        return dict(zip(names, cursor.fetchall()[0], strict=True))
    finally:
        connection.close()


@pytest.mark.promise("E2", "W59", "W62")
async def test_what_is_left_out_gets_the_default_also_when_it_was_set_before(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    assert shown(await asking.info(handle, queue)) == ("queue", 30_000, 10, 0, 0)
    await asking.make(handle, queue, TUNED)
    assert shown(await asking.info(handle, queue)) == ("queue", 5000, 3, 7000, 9000)
    await asking.make(handle, queue, QueueConfig(max_delivery_count=4))
    assert shown(await asking.info(handle, queue)) == ("queue", 30_000, 4, 0, 0)


@pytest.mark.promise("E1", "E2")
async def test_reconfiguring_keeps_identity_and_replaces_every_setting(
    engine: Engine, store: Path, clock: ManualClock
) -> None:
    await asking.make(engine, "q")
    fresh = stored(store, "q")
    clock.advance(10)
    await asking.make(engine, "q", TUNED)
    tuned = stored(store, "q")
    clock.advance(10)
    await asking.make(engine, "q")
    again = stored(store, "q")
    kept = ("id", "name", "kind", "created_at", "generation")
    assert [fresh[name] for name in kept] == [tuned[name] for name in kept]
    assert {name for name in fresh if fresh[name] == tuned[name]} == set(kept)
    assert again == {**fresh, "updated_at": clock.now_ms()}
    assert fresh["dead_letter_on_expire"] == 1
    assert (fresh["dlq_max_age_ms"], fresh["dlq_max_count"], fresh["dlq_max_bytes"]) == (0, 0, 0)
    assert fresh["ordering_mode"] == "standard"


@pytest.mark.promise("E2")
@pytest.mark.needs_clock
async def test_by_default_an_expired_message_is_a_dead_letter(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep
) -> None:
    await asking.make(handle, queue, TUNED)
    await asking.make(handle, queue)
    seq = await asking.send_one(handle, queue, ttl_ms=1)
    clock.advance(1)
    await sweep()
    assert await asking.states(handle, queue) == {seq: "dead_lettered"}


@pytest.mark.promise("E1", "W59")
async def test_creating_a_queue_again_is_a_success_and_keeps_its_generation(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue, TUNED)
    first = await asking.info(handle, queue)
    await asking.make(handle, queue, TUNED)
    assert await asking.info(handle, queue) == first
    assert first.generation


async def test_every_queue_has_a_generation_of_its_own(handle: Handle, queue: str) -> None:
    names = [f"{queue}-{number}" for number in range(3)]
    for name in names:
        await asking.make(handle, name)
    assert len({(await asking.info(handle, name)).generation for name in names}) == 3


@pytest.mark.promise("W62")
@pytest.mark.parametrize("value", [0, -1, limits.INT64_MIN])
async def test_values_that_are_not_positive_mean_the_default(
    handle: Handle, queue: str, value: int
) -> None:
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=value, max_delivery_count=value))
    assert shown(await asking.info(handle, queue))[1:3] == (30_000, 10)


@pytest.mark.promise("E3", "W60")
@pytest.mark.parametrize(
    "config",
    [
        QueueConfig(kind="topic"),
        QueueConfig(kind="Queue"),
        QueueConfig(ordering_mode="fifo"),
        QueueConfig(ordering_mode="STANDARD"),
        QueueConfig(default_ttl_ms=-1),
        QueueConfig(dedup_window_ms=-1),
    ],
)
async def test_a_bad_configuration_is_refused_and_leaves_no_trace(
    handle: Handle, queue: str, config: QueueConfig
) -> None:
    with pytest.raises(InvalidArgument):
        await asking.make(handle, queue, config)
    assert not await exists(handle, queue)
    await asking.make(handle, queue)
    before = await asking.info(handle, queue)
    with pytest.raises(InvalidArgument):
        await asking.make(handle, queue, config)
    assert await asking.info(handle, queue) == before


@pytest.mark.promise("E3", "W60")
async def test_an_empty_name_is_refused(handle: Handle) -> None:
    with pytest.raises(InvalidArgument):
        await asking.make(handle, "")
    with pytest.raises(InvalidArgument):
        await asking.make(handle, "", QueueConfig(kind="subscription"))


@pytest.mark.promise("E5", "W61")
@pytest.mark.parametrize(("first", "second"), [("", "subscription"), ("subscription", "queue")])
async def test_a_queue_cannot_change_its_kind(
    handle: Handle, queue: str, first: str, second: str
) -> None:
    await asking.make(handle, queue, QueueConfig(kind=first, max_delivery_count=4))
    before = await asking.info(handle, queue)
    with pytest.raises(NameConflict):
        await asking.make(handle, queue, QueueConfig(kind=second))
    assert await asking.info(handle, queue) == before


@pytest.mark.promise("E6")
async def test_a_subscription_queue_is_reconfigured_under_its_kind(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue, QueueConfig(kind="subscription"))
    await asking.make(handle, queue, QueueConfig(kind="subscription", lock_duration_ms=5000))
    assert shown(await asking.info(handle, queue)) == ("subscription", 5000, 10, 0, 0)
    await asking.send_one(handle, queue)
    await asking.take_one(handle, queue)


@pytest.mark.promise("E13", "W62")
async def test_queues_are_listed_bytewise_and_completely(engine: Engine) -> None:
    assert (await engine.call(wire.ListQueuesRequest())).queues == []
    names = ["b", "a", "B", "é", "e", "a b", "a/b", "\0", "😀", "zz", "z", "\uffff"]
    for name in names:
        await asking.make(engine, name)
    await asking.make(engine, "s", QueueConfig(kind="subscription"))
    listed = [info.name for info in (await engine.call(wire.ListQueuesRequest())).queues]
    assert listed == sorted([*names, "s"], key=lambda name: name.encode())


ODD = ["a b", " padded ", "a/b", "..", "Ünïcode 😀", "\0", "a\nb", "'; --", "x" * 5000, "%41", "\\"]


@pytest.mark.parametrize("name", ODD, ids=range(len(ODD)))
async def test_any_text_is_a_name_and_is_compared_byte_by_byte(
    handle: Handle, queue: str, name: str
) -> None:
    odd = f"{name}{queue}{name}"
    await asking.make(handle, odd)
    seq = await asking.send_one(handle, odd)
    assert (await asking.take_one(handle, odd)).seq_number == seq
    assert not await exists(handle, odd.swapcase())
    assert not await exists(handle, f"{odd} ")


async def test_concurrent_creations_of_one_name_make_one_queue(handle: Handle, queue: str) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(asking.make, handle, queue)
    assert (await asking.info(handle, queue)).name == queue


async def test_messages_are_untouched_by_a_reconfiguration(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, b"a", b"b")
    held = await asking.take_one(handle, queue)
    before = await asking.look(handle, queue)
    await asking.make(handle, queue, TUNED)
    assert await asking.look(handle, queue) == before
    await asking.complete(handle, queue, held)


async def test_status_counts_queues_and_subscriptions_apart(engine: Engine) -> None:
    await asking.make(engine, "a")
    await asking.make(engine, "b")
    await asking.make(engine, "s", QueueConfig(kind="subscription"))
    status = await engine.call(wire.StatusRequest())
    assert (status.queues, status.subscriptions) == (2, 1)
    assert (status.backend, status.remote, status.schema_version) == ("local file", False, "5")
    assert status.db_size_bytes > 0
