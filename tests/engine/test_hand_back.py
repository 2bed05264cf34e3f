"""Claims whose answer reached nobody: what may go back, goes back, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import LockLost
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from tests.engine.gate import bodies, completing, create, sending, take, taking


async def test_a_claim_that_was_begun_to_be_answered_is_handed_back_counted(
    engine: Engine,
) -> None:
    await create(engine, "q", config=wire.QueueConfig(max_delivery_count=2))
    await engine.call(sending("q", b"x"))
    for delivery in (1, 2):
        reply = await engine.call(taking("q"))
        assert reply.messages[0].delivery_count == delivery
        await engine.hand_back(taking("q"), reply, is_counted=True)
    assert await bodies(engine, "q", "dead_lettered") == [b"x"]


async def test_a_claim_under_an_attempt_stays_with_whoever_repeats_it(engine: Engine) -> None:
    await create(engine, "q")
    await engine.call(sending("q", b"x"))
    attempt = wire.ReceiveRequest(queue="q", receive_attempt_id="a")
    reply = await engine.call(attempt)
    await engine.hand_back(attempt, reply)
    assert await bodies(engine, "q", "locked") == [b"x"]
    assert await engine.call(attempt) == reply


async def test_handing_back_what_was_settled_or_redelivered_changes_nothing(
    engine: Engine, clock: ManualClock
) -> None:
    await create(engine, "q")
    await engine.call(sending("q", b"a", b"b", b"c"))
    reply = await engine.call(taking("q", 3))
    settled_one, expired, held = reply.messages
    await engine.call(completing("q", settled_one))
    await engine.call(
        wire.RejectRequest(queue="q", seq_number=held.seq_number, lock_token=held.lock_token)
    )
    clock.advance(60_000)
    await engine.run_maintenance_once()
    new = (await take(engine, "q"))[0]
    assert new.seq_number == expired.seq_number
    await engine.hand_back(taking("q"), reply)
    await engine.call(completing("q", new))
    assert await bodies(engine, "q") == [b"c"]
    assert await bodies(engine, "q", "dead_lettered") == [b"c"]


async def test_handing_back_to_a_closed_engine_is_left_to_the_next_opening(
    clock: ManualClock, store: Path
) -> None:
    options = EngineOptions(clock=clock, background=False)
    async with open_engine(str(store), options) as engine:
        await create(engine, "q")
        await engine.call(sending("q", b"x"))
        reply = await engine.call(taking("q"))
        engine.close()
        await engine.hand_back(taking("q"), reply)
    async with open_engine(str(store), options) as engine:
        assert await bodies(engine, "q", "active") == [b"x"]
        with pytest.raises(LockLost):
            await engine.call(completing("q", reply.messages[0]))
