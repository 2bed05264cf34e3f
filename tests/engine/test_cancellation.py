"""A cancelled call did nothing, or did everything and says so; a cancelled receive gives back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import QueueNotFound
from mqlite_actor.engine.engine import Engine
from tests.engine.gate import (
    PATIENCE,
    Call,
    Gate,
    bodies,
    bounded,
    completing,
    create,
    sending,
    settled,
    take,
    taking,
)

ATTEMPT = wire.ReceiveRequest(queue="q", receive_attempt_id="once")
DRAIN = wire.ReceiveRequest(queue="q", receive_mode=1)


async def cancel_taken(engine: Engine, request: wire.Request[Any]) -> Call:
    """Cancel a call while the writer is inside its group; the call, when it has ended."""
    call = Call(engine, request)
    async with trio.open_nursery() as nursery:
        gate = Gate(engine, nursery)
        before = await gate.stop()
        nursery.start_soon(call.run)
        await settled()
        inside = gate.later()
        await settled()
        before.release()
        with bounded():
            await inside.entered.wait()
        call.scope.cancel()
        await settled()
        inside.release()
        with trio.move_on_after(PATIENCE):
            await call.ended.wait()
        if not call.ended.is_set():
            engine.stop_waiting()
            pytest.fail("a cancelled call did not end")
    return call


# -- never begun -----------------------------------------------------------------------------------

CALLS: dict[str, Callable[[wire.Message], wire.Request[Any]]] = {
    "send": lambda _: sending("q", b"new"),
    "receive": lambda _: taking("q"),
    "receive, waiting": lambda _: taking("q", wait_ms=20_000),
    "receive and delete": lambda _: DRAIN,
    "complete": lambda held: completing("q", held),
    "create": lambda _: wire.CreateQueueRequest(name="new"),
}
LOOKS: dict[str, Callable[[wire.Message], wire.Request[Any]]] = {
    "peek": lambda _: wire.PeekRequest(queue="q"),
    "status": lambda _: wire.StatusRequest(),
}


async def scene(engine: Engine) -> wire.Message:
    """A queue with a free message and a held one."""
    await create(engine, "q")
    await engine.call(sending("q", b"held", b"free"))
    return (await take(engine, "q"))[0]


async def unchanged(engine: Engine, held: wire.Message) -> None:
    """Nothing happened to the scene."""
    assert await bodies(engine, "q", "active") == [b"free"]
    assert await bodies(engine, "q", "locked") == [b"held"]
    free = (await engine.call(wire.PeekRequest(queue="q", state="active"))).messages[0]
    assert free.delivery_count == 0
    names = [queue.name for queue in (await engine.call(wire.ListQueuesRequest())).queues]
    assert names == ["q"]
    await engine.call(completing("q", held))


@pytest.mark.promise("E142")
@pytest.mark.parametrize("what", CALLS | LOOKS)
async def test_a_call_in_a_cancelled_scope_does_nothing(engine: Engine, what: str) -> None:
    held = await scene(engine)
    groups = engine.statistics()["groups"]
    with trio.CancelScope() as scope:
        scope.cancel()
        await engine.call((CALLS | LOOKS)[what](held))
    assert scope.cancelled_caught
    assert engine.statistics()["groups"] == groups
    await unchanged(engine, held)


@pytest.mark.promise("E142")
@pytest.mark.parametrize("what", CALLS)
async def test_a_call_that_is_cancelled_while_it_is_queued_does_nothing(
    engine: Engine, nursery: trio.Nursery, what: str
) -> None:
    held = await scene(engine)
    stop = await Gate(engine, nursery).stop()
    call = Call(engine, CALLS[what](held))
    nursery.start_soon(call.run)
    await settled()
    assert engine.statistics()["mailbox_commands"] == 1
    call.scope.cancel()
    with bounded():
        await call.ended.wait()  # at once: the writer still stands
    assert call.was_cancelled
    assert engine.statistics()["mailbox_commands"] == 0
    assert engine.statistics()["mailbox_bytes"] == 0
    stop.release()
    await unchanged(engine, held)


# -- begun -----------------------------------------------------------------------------------------


async def test_a_send_that_was_taken_takes_effect_and_returns(engine: Engine) -> None:
    await create(engine, "q")
    call = await cancel_taken(engine, sending("q", b"stored"))
    assert not call.was_cancelled
    assert call.reply == wire.SendResponse(seq_numbers=[1])
    assert await bodies(engine, "q") == [b"stored"]


async def test_a_settle_that_was_taken_takes_effect_and_returns(engine: Engine) -> None:
    held = await scene(engine)
    call = await cancel_taken(engine, completing("q", held))
    assert call.reply == wire.OkResponse()
    assert await bodies(engine, "q") == [b"free"]


async def test_a_call_that_was_taken_and_refused_says_so(engine: Engine) -> None:
    call = await cancel_taken(engine, sending("nowhere", b"x"))
    assert isinstance(call.error, QueueNotFound)
    assert not call.was_cancelled


async def test_a_cancelled_receive_gives_its_messages_back_uncounted(engine: Engine) -> None:
    await create(engine, "q")
    await engine.call(sending("q", b"a", b"b"))
    call = await cancel_taken(engine, taking("q", 2))
    assert call.was_cancelled
    page = (await engine.call(wire.PeekRequest(queue="q"))).messages
    assert [(m.body, m.state, m.delivery_count) for m in page] == [
        (b"a", "active", 0),
        (b"b", "active", 0),
    ]
    assert [m.delivery_count for m in await take(engine, "q", 2)] == [1, 1]


async def test_what_a_cancelled_receive_gives_back_goes_to_whoever_waits(
    engine: Engine, nursery: trio.Nursery
) -> None:
    await create(engine, "q")
    await engine.call(sending("q", b"only"))
    waiting = Call(engine, taking("q", wait_ms=20_000))
    async with trio.open_nursery() as inner:
        gate = Gate(engine, inner)
        before = await gate.stop()
        first = Call(engine, taking("q", wait_ms=20_000))
        for each in (first, waiting):
            nursery.start_soon(each.run)
            await settled()
        inside = gate.later()
        await settled()
        before.release()
        with bounded():
            await inside.entered.wait()
        first.scope.cancel()
        inside.release()
        with bounded():
            await waiting.ended.wait()
    assert first.was_cancelled
    assert [m.body for m in waiting.reply.messages] == [b"only"]
    assert waiting.reply.messages[0].delivery_count == 1


async def test_a_deadline_that_passed_counts_as_cancelled(engine: Engine) -> None:
    """trio has not told the task yet, but it will at its next checkpoint."""
    await create(engine, "q")
    await engine.call(sending("q", b"kept"))
    call = Call(engine, taking("q"))
    async with trio.open_nursery() as nursery:
        gate = Gate(engine, nursery)
        before = await gate.stop()
        nursery.start_soon(call.run)
        await settled()
        inside = gate.later()
        await settled()
        before.release()
        with bounded():
            await inside.entered.wait()
        call.scope.deadline = trio.current_time()
        inside.release()
        with bounded():
            await call.ended.wait()
    assert call.was_cancelled
    assert (await take(engine, "q"))[0].delivery_count == 1


async def test_a_shielded_receive_keeps_its_messages(engine: Engine) -> None:
    await create(engine, "q")
    await engine.call(sending("q", b"mine"))
    with trio.CancelScope() as outer:
        outer.cancel()
        with trio.CancelScope(shield=True):
            reply = await engine.call(taking("q"))
    assert [m.body for m in reply.messages] == [b"mine"]
    await engine.call(completing("q", reply.messages[0]))


@pytest.mark.promise("E70")
async def test_a_waiting_receive_that_is_cancelled_in_its_round_ends(engine: Engine) -> None:
    """It was asked to leave while it could not; finding nothing, it must not lie down to wait."""
    await create(engine, "q")
    call = await cancel_taken(engine, taking("q", wait_ms=20_000))
    assert call.was_cancelled
    assert engine.statistics()["waiters"] == {}
    await engine.call(sending("q", b"later"))
    assert (await take(engine, "q"))[0].delivery_count == 1


async def test_a_cancelled_receive_with_an_attempt_id_keeps_its_claim(engine: Engine) -> None:
    await create(engine, "q")
    await engine.call(sending("q", b"claimed"))
    call = await cancel_taken(engine, ATTEMPT)
    assert await bodies(engine, "q", "locked") == [b"claimed"]
    again = (await engine.call(ATTEMPT)).messages
    assert [m.delivery_count for m in again] == [1]
    if not call.was_cancelled:
        assert call.reply.messages == again
    await engine.call(completing("q", again[0]))


async def test_a_cancelled_receive_and_delete_returns_what_it_removed(engine: Engine) -> None:
    await create(engine, "q")
    await engine.call(sending("q", b"gone"))
    call = await cancel_taken(engine, DRAIN)
    assert not call.was_cancelled
    assert [m.body for m in call.reply.messages] == [b"gone"]
    assert await bodies(engine, "q") == []
