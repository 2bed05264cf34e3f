"""Filters as publishers and subscribers meet them: who gets what, and what a bad filter does."""

from __future__ import annotations

import pytest

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import GroupRequired, InvalidFilter
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking

PAYMENTS = 'subject startsWith "payment."'
FAILS = 'int(properties["number"]) > 0'
"""Compiles; fails at run time for a message without that property."""

BAD = (
    "subject ==",
    "subject",
    "body_size",
    "nobody == 1",
    "subject == 5",
    'subject matches "("',
    " " * 4093 + "true",
)


async def depths(handle: Handle, *queues: str) -> list[int]:
    return [(await asking.stats(handle, queue)).total for queue in queues]


@pytest.mark.promise("E23", "W67")
async def test_a_subscription_gets_what_its_filter_lets_through(handle: Handle, queue: str) -> None:
    topic, everything, payments = f"{queue}-topic", f"{queue}-all", f"{queue}-payments"
    await asking.subscribe(handle, topic, everything)
    await asking.subscribe(handle, topic, payments, PAYMENTS)
    numbers = [
        (await asking.send(handle, topic, Message(subject=subject)))[0]
        for subject in ("order.new", "payment.done")
    ]
    assert await depths(handle, everything, payments) == [2, 1]
    # The last accepting subscription by name names the number.
    assert [m.seq_number for m in await asking.look(handle, payments)] == [numbers[1]]
    assert (await asking.look(handle, everything))[0].seq_number == numbers[0]


@pytest.mark.promise("E24", "W68")
async def test_a_publish_that_nobody_wants_is_no_error(handle: Handle, queue: str) -> None:
    topic, payments = f"{queue}-topic", f"{queue}-payments"
    await asking.subscribe(handle, topic, payments, PAYMENTS)
    assert await asking.send(handle, topic, Message(subject="order")) == [0]
    subjects = ("order", "payment.a", "order")
    slots = await asking.send(handle, topic, *(Message(subject=each) for each in subjects))
    assert [slot > 0 for slot in slots] == [False, True, False]
    assert await depths(handle, payments) == [1]


@pytest.mark.promise("E25")
async def test_only_a_target_that_wants_the_message_asks_for_its_group(
    handle: Handle, queue: str
) -> None:
    topic, payments = f"{queue}-topic", f"{queue}-payments"
    config = QueueConfig(kind="subscription", ordering_mode="group_fifo")
    await asking.make(handle, payments, config)
    await asking.subscribe(handle, topic, payments, PAYMENTS)
    await asking.send(handle, topic, Message(subject="order"))
    with pytest.raises(GroupRequired):
        await asking.send(handle, topic, Message(subject="payment.a"))
    await asking.send(handle, topic, Message(subject="payment.a", group_id="g"))
    assert await depths(handle, payments) == [1]


@pytest.mark.promise("E26")
async def test_a_subscription_that_is_sent_to_does_not_ask_its_filter(
    handle: Handle, queue: str
) -> None:
    await asking.subscribe(handle, f"{queue}-topic", queue, "false")
    await asking.send_one(handle, queue)
    assert await depths(handle, queue) == [1]


@pytest.mark.promise("E9", "E10", "W66")
async def test_subscribing_again_replaces_the_filter_for_the_next_publish(
    handle: Handle, queue: str
) -> None:
    topic, sub = f"{queue}-topic", f"{queue}-sub"
    await asking.subscribe(handle, topic, sub, "false")
    await asking.make(handle, sub, QueueConfig(kind="subscription", lock_duration_ms=5000))
    before = await asking.info(handle, sub)
    for expr, depth in (("false", 0), (PAYMENTS, 1), ("", 2), ("false", 2)):
        await asking.subscribe(handle, topic, sub, expr)
        (row,) = await asking.subscriptions(handle, topic)
        assert row.expr == expr
        await asking.send(handle, topic, Message(subject="payment.a"))
        assert await depths(handle, sub) == [depth]
    assert await asking.info(handle, sub) == before


@pytest.mark.promise("E151", "W64")
@pytest.mark.parametrize("expr", BAD, ids=range(len(BAD)))
async def test_a_bad_filter_is_refused_and_nothing_is_made(
    handle: Handle, queue: str, expr: str
) -> None:
    topic, sub = f"{queue}-topic", f"{queue}-sub"
    with pytest.raises(InvalidFilter):
        await asking.subscribe(handle, topic, sub, expr)
    assert await asking.refusal(handle, wire.StatsRequest(queue=sub)) == "not_found"
    assert await asking.subscriptions(handle, topic) == []
    await asking.subscribe(handle, topic, sub, PAYMENTS)
    with pytest.raises(InvalidFilter):
        await asking.subscribe(handle, topic, sub, expr)
    assert [row.expr for row in await asking.subscriptions(handle, topic)] == [PAYMENTS]


@pytest.mark.promise("E150")
async def test_a_filter_that_fails_takes_nothing_from_the_others(
    handle: Handle, queue: str
) -> None:
    topic, broken, sound = f"{queue}-topic", f"{queue}-broken", f"{queue}-sound"
    await asking.subscribe(handle, topic, broken, FAILS)
    await asking.subscribe(handle, topic, sound)
    slots = await asking.send(handle, topic, Message(), Message(properties={"number": "7"}))
    assert all(slots)
    assert await depths(handle, broken, sound) == [1, 2]


@pytest.mark.promise("W70")
@pytest.mark.parametrize(
    ("expr", "sample", "said"),
    [
        (PAYMENTS, None, "valid"),
        (PAYMENTS, Message(subject="payment.a"), "valid ran matched"),
        (PAYMENTS, Message(subject="order"), "valid ran"),
        ("", Message(), "valid ran matched"),
        ("  ", Message(), "valid ran matched"),
        ("subject ==", None, "error"),
        ("subject ==", Message(), "error"),
        (FAILS, Message(), "valid error ran"),
    ],
)
async def test_a_filter_can_be_tried_without_storing_anything(
    handle: Handle, expr: str, sample: Message | None, said: str
) -> None:
    before = (await handle.call(wire.StatusRequest())).subscriptions
    reply = await handle.call(wire.TestFilterRequest(expr=expr, message=sample))
    found = {name: bool(getattr(reply, name)) for name in ("valid", "error", "ran", "matched")}
    assert " ".join(name for name in found if found[name]) == said
    assert (await handle.call(wire.StatusRequest())).subscriptions == before


async def test_a_filter_sees_the_times_of_the_message(engine: Engine) -> None:
    for name, expr in (
        ("delayed", "visible_at - enqueued_at > hours(1)"),
        ("now", "visible_at == enqueued_at"),
    ):
        await asking.subscribe(engine, "t", name, expr)
    await asking.send_one(engine, "t")
    await asking.send_one(engine, "t", at=4_000_000_000_000)
    assert (await asking.stats(engine, "now")).active == 1
    assert (await asking.stats(engine, "delayed")).scheduled == 1
