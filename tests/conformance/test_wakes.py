"""What wakes a waiting receive: every step after which something is claimable, and no other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine.engine import Engine
from tests.conformance import asking
from tests.conformance.polling import poll, polling

STRICT = QueueConfig(ordering_mode="strict_fifo")


@dataclass(frozen=True)
class Scene:
    """An engine whose queue "q" has a message under a lease, and somebody waiting for another."""

    engine: Engine
    clock: ManualClock
    head: Message


Wake = Callable[[Scene], Awaitable[None]]


async def _abandon(scene: Scene) -> None:
    await asking.abandon(scene.engine, "q", scene.head)


async def _lease_ends(scene: Scene) -> None:
    scene.clock.advance(limits.LOCK_DURATION_MS_DEFAULT)
    await scene.engine.run_maintenance_once()


async def _retry_is_due(scene: Scene) -> None:
    await asking.abandon(scene.engine, "q", scene.head, delay_ms=1000)
    scene.clock.advance(1000)
    await scene.engine.run_maintenance_once()


async def _hand_back(scene: Scene) -> None:
    request = wire.ReceiveRequest(queue="q")
    await scene.engine.hand_back(request, wire.MessagesResponse(messages=[scene.head]))


BACK: dict[str, Wake] = {
    "abandon": _abandon,
    "lease end": _lease_ends,
    "retry is due": _retry_is_due,
    "handed back": _hand_back,
}


@pytest.mark.promise("E68")
@pytest.mark.parametrize("event", BACK)
async def test_a_message_that_comes_back_wakes_a_waiting_receive(
    engine: Engine, clock: ManualClock, event: str
) -> None:
    await asking.make(engine, "q")
    await asking.send_one(engine, "q")
    held = await asking.take_one(engine, "q")
    async with polling(engine, poll("q")) as one:
        await BACK[event](Scene(engine, clock, held))
        (message,) = await one.answer()
    assert message.seq_number == held.seq_number


@pytest.mark.promise("E68")
async def test_a_due_schedule_wakes_a_waiting_receive(engine: Engine, clock: ManualClock) -> None:
    await asking.make(engine, "q")
    seq = await asking.send_one(engine, "q", at=clock.now_ms() + 1000)
    async with polling(engine, poll("q")) as one:
        clock.advance(1000)
        await engine.run_maintenance_once()
        (message,) = await one.answer()
    assert message.seq_number == seq


@pytest.mark.promise("E68")
@pytest.mark.parametrize("target", ["q", "other"])
async def test_a_redrive_wakes_who_waits_at_its_target(engine: Engine, target: str) -> None:
    for name in ("q", "other"):
        await asking.make(engine, name)
    await asking.kill(engine, "q")
    async with polling(engine, poll(target)) as one:
        assert await asking.redrive(engine, "q", target) == 1
        (message,) = await one.answer()
    assert message.body == b"0"


async def _complete(scene: Scene) -> None:
    await asking.complete(scene.engine, "q", scene.head)


async def _complete_batch(scene: Scene) -> None:
    assert await asking.complete_batch(scene.engine, "q", [asking.item(scene.head)]) == [True]


async def _reject(scene: Scene) -> None:
    await asking.reject(scene.engine, "q", scene.head)


async def _lock_ends_at_the_limit(scene: Scene) -> None:
    await asking.make(
        scene.engine, "q", QueueConfig(ordering_mode="strict_fifo", max_delivery_count=1)
    )
    await _lease_ends(scene)


async def _life_ends(scene: Scene) -> None:
    scene.clock.advance(1000)
    await scene.engine.run_maintenance_once()


async def _ordering_is_relaxed(scene: Scene) -> None:
    await asking.make(scene.engine, "q")


UNBLOCKING: dict[str, Wake] = {
    "complete": _complete,
    "complete batch": _complete_batch,
    "reject": _reject,
    "lock ends at the limit": _lock_ends_at_the_limit,
    "life ends": _life_ends,
    "ordering is relaxed": _ordering_is_relaxed,
}


@pytest.mark.promise("E69")
@pytest.mark.parametrize("event", UNBLOCKING)
async def test_a_head_that_goes_wakes_whoever_waits_for_its_successor(
    engine: Engine, clock: ManualClock, event: str
) -> None:
    await asking.make(engine, "q", STRICT)
    await asking.send_one(engine, "q", b"head", ttl_ms=1000)
    await asking.send_one(engine, "q", b"next")
    head = await asking.take_one(engine, "q")
    async with polling(engine, poll("q")) as one:
        await UNBLOCKING[event](Scene(engine, clock, head))
        (message,) = await one.answer()
    assert message.body == b"next"


@pytest.mark.promise("E69")
async def test_a_cancelled_head_wakes_whoever_waits_for_its_successor(engine: Engine) -> None:
    await asking.make(engine, "q", STRICT)
    head = await asking.send_one(engine, "q", at=4_000_000_000_000)
    await asking.send_one(engine, "q", b"next")
    async with polling(engine, poll("q")) as one:
        await asking.cancel(engine, "q", head)
        (message,) = await one.answer()
    assert message.body == b"next"


@pytest.mark.promise("E69")
async def test_a_deferred_head_that_is_settled_wakes_whoever_waits_for_its_group(
    engine: Engine,
) -> None:
    await asking.make(engine, "q")
    await asking.send_bodies(engine, "q", b"head", b"next", group_id="g")
    head = await asking.take_one(engine, "q")
    await asking.defer(engine, "q", head)
    async with polling(engine, poll("q")) as one:
        (again,) = await asking.take_deferred(engine, "q", head.seq_number)
        await asking.complete(engine, "q", again)
        (message,) = await one.answer()
    assert message.body == b"next"


async def _scheduled_send(scene: Scene) -> None:
    await asking.send_one(scene.engine, "q", at=scene.clock.now_ms() + 1000)


async def _send_elsewhere(scene: Scene) -> None:
    await asking.make(scene.engine, "other")
    await asking.send_one(scene.engine, "other")


async def _send_behind_the_head(scene: Scene) -> None:
    await asking.send_one(scene.engine, "q", group_id="g")


async def _defer(scene: Scene) -> None:
    await asking.defer(scene.engine, "q", scene.head)


async def _renew(scene: Scene) -> None:
    await asking.renew(scene.engine, "q", scene.head)


IDLE: dict[str, Wake] = {
    "scheduled send": _scheduled_send,
    "send elsewhere": _send_elsewhere,
    "send behind the head": _send_behind_the_head,
    "defer": _defer,
    "renew": _renew,
}


@pytest.mark.parametrize("event", IDLE)
async def test_a_step_that_makes_nothing_claimable_wakes_nobody(
    engine: Engine, clock: ManualClock, event: str
) -> None:
    await asking.make(engine, "q")
    await asking.send_one(engine, "q", group_id="g")
    head = await asking.take_one(engine, "q")
    async with polling(engine, poll("q")):
        await IDLE[event](Scene(engine, clock, head))
        assert engine.statistics()["waiters"] == {"q": 1}
