"""DescribeQueue and UpdateQueue: all of a queue's configuration, and a change of some of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import ext, limits
from mqlite_actor.contract.errors import GenerationConflict, InvalidArgument, QueueNotFound
from mqlite_actor.contract.wire import QueueConfig
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking

FULL = QueueConfig(
    lock_duration_ms=5_000,
    max_delivery_count=3,
    default_ttl_ms=60_000,
    dead_letter_on_expire=False,
    dedup_window_ms=70_000,
    ordering_mode="group_fifo",
    dlq_max_age_ms=-1,
    dlq_max_count=9,
    dlq_max_bytes=10,
)
DEFAULTS = ext.QueueSettings(
    lock_duration_ms=30_000,
    max_delivery_count=10,
    default_ttl_ms=0,
    dead_letter_on_expire=True,
    dedup_window_ms=0,
    ordering_mode="standard",
    dlq_max_age_ms=0,
    dlq_max_count=0,
    dlq_max_bytes=0,
)


def as_settings(config: QueueConfig) -> ext.QueueSettings:
    fields = msgspec.structs.asdict(config)
    fields.pop("kind")
    return ext.QueueSettings(**fields)


async def test_every_setting_is_shown_as_it_holds(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    assert (await handle.describe_queue(queue)).config == DEFAULTS
    await asking.make(handle, queue, FULL)
    found = await handle.describe_queue(queue)
    assert found.config == as_settings(FULL)
    assert (found.name, found.kind, found.subscriptions) == (queue, "queue", [])
    assert found.generation == (await asking.info(handle, queue)).generation


@pytest.mark.needs_clock
async def test_the_counts_are_those_of_stats_and_dead_letters_have_depth_and_age(
    handle: Handle, queue: str, clock: ManualClock
) -> None:
    created = clock.now_ms()
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, b"12345", b"123")
    for message in await asking.take(handle, queue, 2):
        await asking.reject(handle, queue, message)
    clock.advance(500)
    await asking.send_bodies(handle, queue, b"l", b"d", b"a")
    _, deferred = await asking.take(handle, queue, 2)
    await asking.defer(handle, queue, deferred)
    await asking.send_one(handle, queue, at=clock.now_ms() + 1)
    clock.advance(7)
    found = await handle.describe_queue(queue)
    stats = await asking.stats(handle, queue)
    for name in stats.__struct_fields__:
        assert getattr(found, "name" if name == "queue" else name) == getattr(stats, name)
    assert (found.dead_letter_bytes, found.oldest_dead_letter_age_ms) == (8, 507)
    assert (found.created_at_ms, found.updated_at_ms) == (created, created)


async def test_a_subscription_says_what_it_listens_to(handle: Handle, queue: str) -> None:
    topic = f"{queue}-topic"
    await asking.subscribe(handle, topic, queue, 'subject == "x"')
    found = await handle.describe_queue(queue)
    (heard,) = found.subscriptions
    assert (found.kind, heard.topic, heard.name) == ("subscription", topic, queue)
    assert heard.expr == 'subject == "x"'
    with pytest.raises(QueueNotFound, match="is a topic"):
        await handle.describe_queue(topic)


PATCHES: dict[str, tuple[dict[str, Any], int | str | bool]] = {
    "lock_duration_ms": ({"lock_duration": 9}, 9_000),
    "max_delivery_count": ({"max_delivery_count": 4}, 4),
    "default_ttl_ms": ({"default_ttl": 8}, 8_000),
    "dead_letter_on_expire": ({"dead_letter_on_expire": True}, True),
    "dedup_window_ms": ({"dedup_window": 7}, 7_000),
    "ordering_mode": ({"ordering_mode": "strict_fifo"}, "strict_fifo"),
    "dlq_max_age_ms": ({"dlq_max_age": 6}, 6_000),
    "dlq_max_count": ({"dlq_max_count": -1}, -1),
    "dlq_max_bytes": ({"dlq_max_bytes": 5}, 5),
}


@pytest.mark.parametrize("name", PATCHES)
async def test_an_update_changes_what_it_names_and_nothing_else(
    handle: Handle, queue: str, name: str
) -> None:
    await asking.make(handle, queue, FULL)
    before = await handle.describe_queue(queue)
    given, value = PATCHES[name]
    shown = await handle.update_queue(queue, **given)
    expected = msgspec.structs.replace(as_settings(FULL), **{name: value})
    after = await handle.describe_queue(queue)
    assert shown == after.config == expected
    assert (after.generation, after.created_at_ms) == (before.generation, before.created_at_ms)


async def test_zero_is_the_default_and_absent_is_not(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue, FULL)
    shown = await handle.update_queue(
        queue, lock_duration=0, max_delivery_count=0, default_ttl=0, dlq_max_age=0
    )
    assert shown == msgspec.structs.replace(
        as_settings(FULL),
        lock_duration_ms=limits.LOCK_DURATION_MS_DEFAULT,
        max_delivery_count=limits.MAX_DELIVERY_COUNT_DEFAULT,
        default_ttl_ms=0,
        dlq_max_age_ms=0,
    )


async def test_an_empty_update_changes_nothing(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue, FULL)
    before = await handle.describe_queue(queue)
    assert await handle.update_queue(queue) == before.config
    assert await handle.describe_queue(queue) == before


async def test_the_generation_guards_an_update(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    generation = (await asking.info(handle, queue)).generation
    await handle.update_queue(queue, generation=generation, max_delivery_count=2)
    with pytest.raises(GenerationConflict):
        await handle.update_queue(queue, generation="0" * 32, max_delivery_count=3)
    assert (await handle.describe_queue(queue)).config.max_delivery_count == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lock_duration_ms", -1),
        ("max_delivery_count", -1),
        ("default_ttl_ms", -1),
        ("dedup_window_ms", -1),
        ("ordering_mode", "chaos"),
    ],
)
async def test_a_bad_value_is_refused_by_its_name_and_changes_nothing(
    handle: Handle, queue: str, name: str, value: int | str
) -> None:
    await asking.make(handle, queue, FULL)
    patch = msgspec.convert({name: value, "dlq_max_count": 77}, ext.QueuePatch)
    with pytest.raises(InvalidArgument, match=f"config.{name}"):
        await handle.call(ext.UpdateQueueRequest(queue, patch))
    assert (await handle.describe_queue(queue)).config == as_settings(FULL)


async def test_unknown_names_are_not_found(handle: Handle, queue: str) -> None:
    for call in (handle.describe_queue(queue), handle.update_queue(queue)):
        with pytest.raises(QueueNotFound):
            await call
    with pytest.raises(InvalidArgument, match="name"):
        await handle.describe_queue("")


async def test_a_new_ordering_holds_for_what_is_there(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, b"1", b"2", b"3")
    await handle.update_queue(queue, ordering_mode="strict_fifo")
    first = await asking.take_one(handle, queue)
    assert await asking.take(handle, queue, 9) == []
    await handle.update_queue(queue, ordering_mode="standard")
    assert [m.body for m in await asking.take(handle, queue, 9)] == [b"2", b"3"]
    await asking.complete(handle, queue, first)


async def test_a_queue_that_is_not_there_is_made_and_one_that_is_stays(
    handle: Handle, queue: str
) -> None:
    wanted = ext.UpdateQueueRequest(queue, create=FULL)
    first = await handle.call(wanted)
    assert (first.created, first.config) == (True, as_settings(FULL))
    await handle.update_queue(queue, max_delivery_count=7)
    again = await handle.call(wanted)
    assert (again.created, again.config.max_delivery_count) == (False, 7)
    assert again.generation == first.generation
    patched = ext.UpdateQueueRequest(queue, ext.QueuePatch(max_delivery_count=8), create=FULL)
    assert (await handle.call(patched)).config.max_delivery_count == 8
    for wrong in (
        ext.UpdateQueueRequest(queue, generation=first.generation, create=FULL),
        ext.UpdateQueueRequest("", create=FULL),
        ext.UpdateQueueRequest(f"{queue}2", create=QueueConfig(ordering_mode="fifo")),
    ):
        with pytest.raises(InvalidArgument):
            await handle.call(wrong)
