"""Complete, abandon, reject, defer: what each does to a message under a live lease, and to nobody
else's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import NotFound
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.handles import Sweep

Settle = Callable[[Handle, str, Message], Awaitable[None]]

VERBS: dict[str, Settle] = {
    "complete": asking.complete,
    "abandon": asking.abandon,
    "reject": asking.reject,
    "defer": asking.defer,
}
FENCED = {**VERBS, "renew": asking.renew}
each_verb = pytest.mark.parametrize("verb", VERBS)
each_fenced = pytest.mark.parametrize("verb", FENCED)

HOUR_MS = 3_600_000


@pytest.mark.promise("E81", "W103")
async def test_complete_removes_the_message(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue)
    message = await asking.take_one(handle, queue)
    await asking.complete(handle, queue, message)
    assert (await asking.stats(handle, queue)).total == 0


@pytest.mark.promise("E92", "W109")
async def test_abandon_makes_the_message_claimable_at_once(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    seq = await asking.send_one(handle, queue)
    first = await asking.take_one(handle, queue)
    await asking.abandon(handle, queue, first)
    second = await asking.take_one(handle, queue)
    assert (second.seq_number, second.delivery_count) == (seq, 2)
    assert second.lock_token != first.lock_token


@pytest.mark.promise("E92", "W110")
@pytest.mark.needs_clock
async def test_a_delayed_abandon_is_scheduled_until_its_time_and_no_longer(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep
) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue)
    await asking.abandon(handle, queue, await asking.take_one(handle, queue), delay_ms=1500)
    (waiting,) = await asking.look(handle, queue)
    assert (waiting.state, waiting.visible_at_ms) == ("scheduled", clock.now_ms() + 1500)
    assert (waiting.delivery_count, waiting.locked_until_ms) == (1, 0)
    clock.advance(1499)
    await sweep()
    assert await asking.take(handle, queue) == []
    clock.advance(1)
    await sweep()
    assert (await asking.take_one(handle, queue)).delivery_count == 2


@pytest.mark.promise("E92")
async def test_a_delayed_retry_cannot_be_cancelled(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    seq = await asking.send_one(handle, queue)
    await asking.abandon(handle, queue, await asking.take_one(handle, queue), delay_ms=HOUR_MS)
    with pytest.raises(NotFound):
        await asking.cancel(handle, queue, seq)
    assert await asking.states(handle, queue) == {seq: "scheduled"}


async def test_a_negative_delay_is_no_delay(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue)
    await asking.abandon(handle, queue, await asking.take_one(handle, queue), delay_ms=-7)
    assert (await asking.take_one(handle, queue)).delivery_count == 2


@pytest.mark.promise("E91", "W109")
@pytest.mark.parametrize("delay_ms", [-1, 0, HOUR_MS])
async def test_abandon_at_the_limit_dead_letters_whatever_the_delay(
    handle: Handle, queue: str, delay_ms: int
) -> None:
    await asking.make(handle, queue, QueueConfig(max_delivery_count=1))
    await asking.send_one(handle, queue)
    message = await asking.take_one(handle, queue)
    await asking.abandon(handle, queue, message, delay_ms=delay_ms)
    (dead,) = await asking.look(handle, queue)
    assert (dead.state, dead.dead_letter_reason) == ("dead_lettered", "MaxDeliveryCountExceeded")
    assert dead.dead_letter_description == ""


@pytest.mark.promise("E93", "W111")
@pytest.mark.parametrize(
    ("reason", "description", "shown"),
    [
        ("", "", ("AppRequested", "")),
        ("", "détails", ("AppRequested", "détails")),
        ("no such order", "order 7", ("no such order", "order 7")),
    ],
)
async def test_reject_dead_letters_with_the_reason(
    handle: Handle, queue: str, reason: str, description: str, shown: tuple[str, str]
) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue)
    message = await asking.take_one(handle, queue)
    await asking.reject(handle, queue, message, reason=reason, description=description)
    (dead,) = await asking.look(handle, queue)
    assert (dead.dead_letter_reason, dead.dead_letter_description) == shown
    assert (dead.state, dead.delivery_count) == ("dead_lettered", 1)


@each_verb
async def test_complete_reject_and_defer_work_at_the_last_delivery(
    handle: Handle, queue: str, verb: str
) -> None:
    await asking.make(handle, queue, QueueConfig(max_delivery_count=1))
    seq = await asking.send_one(handle, queue)
    await VERBS[verb](handle, queue, await asking.take_one(handle, queue))
    after = {"complete": {}, "defer": {seq: "deferred"}}.get(verb, {seq: "dead_lettered"})
    assert await asking.states(handle, queue) == after


@pytest.mark.promise("E94", "W112")
async def test_a_deferred_message_is_received_by_number_only(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    seq = await asking.send_one(handle, queue)
    first = await asking.take_one(handle, queue)
    await asking.defer(handle, queue, first)
    assert await asking.states(handle, queue) == {seq: "deferred"}
    assert await asking.take(handle, queue) == []
    (again,) = await asking.take_deferred(handle, queue, seq)
    assert (again.delivery_count, again.lock_token != first.lock_token) == (2, True)
    await asking.complete(handle, queue, again)
    assert await asking.states(handle, queue) == {}


@pytest.mark.promise("E99")
async def test_only_real_completions_are_counted(engine: Engine) -> None:
    await asking.make(engine, "q")
    await asking.send_bodies(engine, "q", b"a", b"b")
    first, second = await asking.take(engine, "q", 2)
    for _ in range(3):
        await asking.complete(engine, "q", first)
    assert await asking.complete_batch(engine, "q", [asking.item(second)] * 3) == [True] * 3
    assert engine.statistics()["events"]["q", "completed"] == 2


async def test_a_verb_ignores_the_fields_of_the_others(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue)
    message = await asking.take_one(handle, queue)
    request = wire.CompleteRequest(
        **asking.lease(queue, message), dead_letter_reason="r", delay_ms=HOUR_MS
    )
    assert (await handle.call(request)).ok
    await asking.complete(handle, queue, message)  # the same request as far as complete looks
