"""The mailbox has bounds; whoever comes when it is full waits in order, for so long, or leaves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import Closed, Unavailable
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from tests.engine.gate import (
    Call,
    Gate,
    bodies,
    bounded,
    create,
    parked,
    sending,
    settled,
    taking,
    until,
)

ROOM = 4


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for four commands, which all fit one group."""
    monkeypatch.setattr(limits, "MAILBOX_COMMANDS_MAX", ROOM)


@pytest.fixture
async def full(
    engine: Engine, small: None, nursery: trio.Nursery
) -> AsyncIterator[tuple[Engine, Gate]]:
    """An engine whose writer stands still and whose mailbox is full."""
    assert small is None
    await create(engine, "q")
    gate = Gate(engine, nursery)
    stop = await gate.stop()
    for number in range(ROOM):
        nursery.start_soon(engine.call, sending("q", b"%d" % number))
        await settled()
    assert engine.statistics()["mailbox_commands"] == ROOM
    yield engine, gate
    stop.release()


async def ask(engine: Engine, nursery: trio.Nursery, *names: bytes) -> list[Call]:
    """Senders that have come to the mailbox in this order."""
    asked = [Call(engine, sending("q", name)) for name in names]
    for each in asked:
        nursery.start_soon(each.run)
        await settled()
    return asked


async def test_beyond_the_bound_a_caller_waits_and_is_served_when_there_is_room(
    full: tuple[Engine, Gate], nursery: trio.Nursery
) -> None:
    engine, gate = full
    waits = engine.statistics()["mailbox_waits"]
    late = (await ask(engine, nursery, b"late"))[0]
    assert engine.statistics()["mailbox_commands"] == ROOM
    assert engine.statistics()["mailbox_waits"] == waits + 1
    assert not late.ended.is_set()
    gate.release_all()
    with bounded():
        await late.ended.wait()
    assert await bodies(engine, "q") == [b"0", b"1", b"2", b"3", b"late"]


@pytest.mark.parametrize("number", range(10, 16))
async def test_room_is_given_in_order_of_arrival(
    full: tuple[Engine, Gate], nursery: trio.Nursery, number: int
) -> None:
    """Several times, since trio lets tasks that become ready together run in any order."""
    engine, gate = full
    names = [b"late %d" % each for each in range(number)]
    late = await ask(engine, nursery, *names)
    gate.release_all()
    with bounded():
        for each in late:
            await each.ended.wait()
    assert (await bodies(engine, "q"))[ROOM:] == names


async def test_a_heavy_command_is_not_overtaken_by_light_ones(
    engine: Engine, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAILBOX_BYTES_MAX", 100_000)
    monkeypatch.setattr(limits, "GROUP_COMMANDS_MAX", 1)
    await create(engine, "q")
    gate = Gate(engine, nursery)
    first = await gate.stop()
    stops = [gate.later() for _ in range(3)]
    await settled()
    await ask(engine, nursery, b"a" * 30_000, b"b" * 30_000, b"c" * 30_000)
    heavy, light = await ask(engine, nursery, b"h" * 90_000, b"l")
    for stop in (first, *stops):
        stop.release()
    with bounded():
        await heavy.ended.wait()
        await light.ended.wait()
    assert [body[:1] for body in await bodies(engine, "q")] == [b"a", b"b", b"c", b"h", b"l"]


async def test_the_bound_counts_bytes_too(
    engine: Engine, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAILBOX_BYTES_MAX", 10_000)
    await create(engine, "q")
    stop = await Gate(engine, nursery).stop()
    await ask(engine, nursery, b"a" * 6000)
    assert 6000 < engine.statistics()["mailbox_bytes"] < 10_000
    late = (await ask(engine, nursery, b"b" * 6000))[0]
    assert engine.statistics()["mailbox_bytes"] < 10_000
    stop.release()
    with bounded():
        await late.ended.wait()
    assert engine.statistics()["mailbox_bytes"] == 0


async def test_a_command_heavier_than_all_room_goes_alone(
    engine: Engine, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAILBOX_BYTES_MAX", 1000)
    await create(engine, "q")
    with bounded():
        await engine.call(sending("q", b"x" * 5000))
    stop = await Gate(engine, nursery).stop()
    asked = await ask(engine, nursery, b"y" * 5000, b"z" * 5000)
    assert engine.statistics()["mailbox_commands"] == 1
    stop.release()
    with bounded():
        for each in asked:
            await each.ended.wait()


@pytest.mark.promise("E142")
async def test_whoever_leaves_while_waiting_for_room_was_never_there(
    full: tuple[Engine, Gate], nursery: trio.Nursery
) -> None:
    engine, gate = full
    left, stayed = await ask(engine, nursery, b"left", b"stayed")
    left.scope.cancel()
    with bounded():
        await left.ended.wait()
    gate.release_all()
    with bounded():
        await stayed.ended.wait()
    assert (await bodies(engine, "q"))[ROOM:] == [b"stayed"]


async def test_whoever_leaves_the_mailbox_makes_room(
    engine: Engine, small: None, nursery: trio.Nursery
) -> None:
    assert small is None
    await create(engine, "q")
    stop = await Gate(engine, nursery).stop()
    inside = await ask(engine, nursery, *[b"in"] * ROOM)
    outside = await ask(engine, nursery, b"out 1", b"out 2")
    inside[0].scope.cancel()
    inside[1].scope.cancel()
    await until(lambda: engine.statistics()["mailbox_commands"] == ROOM)
    stop.release()
    with bounded():
        for each in (*inside, *outside):
            await each.ended.wait()
    assert await bodies(engine, "q") == [b"in", b"in", b"out 1", b"out 2"]


async def test_a_broker_says_unavailable_when_there_is_no_room_for_too_long(
    store: Path, clock: ManualClock, small: None
) -> None:
    assert small is None
    options = EngineOptions(clock=clock, background=False, room_seconds=0.01)
    async with open_engine(str(store), options) as engine, trio.open_nursery() as nursery:
        await create(engine, "q")
        stop = await Gate(engine, nursery).stop()
        await ask(engine, nursery, *[b"in"] * ROOM)
        refused = (await ask(engine, nursery, b"refused"))[0]
        with bounded():
            await refused.ended.wait()
        assert isinstance(refused.error, Unavailable)
        assert "repeat" in refused.error.message
        stop.release()
        await settled()
        await engine.call(sending("q", b"later"))
        assert await bodies(engine, "q") == [*[b"in"] * ROOM, b"later"]


@pytest.mark.promise("E145")
async def test_closing_refuses_whoever_waits_for_room_and_runs_what_is_inside(
    store: Path, clock: ManualClock, small: None
) -> None:
    assert small is None
    options = EngineOptions(clock=clock, background=False)
    async with open_engine(str(store), options) as engine, trio.open_nursery() as nursery:
        await create(engine, "q")
        stop = await Gate(engine, nursery).stop()
        inside = await ask(engine, nursery, *[b"in"] * ROOM)
        outside = await ask(engine, nursery, b"out", b"out")
        engine.close()
        with bounded():
            for each in outside:
                await each.ended.wait()
        with trio.move_on_after(2) as at_once, pytest.raises(Closed):
            await engine.call(sending("q", b"after"))
        stop.release()
        with bounded():
            for each in inside:
                await each.ended.wait()
        assert not at_once.cancelled_caught, "a full mailbox does not keep a closed engine's caller"
    assert [each.error for each in inside] == [None] * ROOM
    assert [type(each.error) for each in outside] == [Closed] * 2
    async with open_engine(str(store), options) as engine:
        assert await bodies(engine, "q") == [b"in"] * ROOM


async def test_woken_receives_come_in_whatever_the_bound(
    full: tuple[Engine, Gate], nursery: trio.Nursery
) -> None:
    """They were let in once; refusing them now would lose the wake-up."""
    engine, gate = full
    gate.release_all()
    with bounded():
        while await bodies(engine, "q") != [b"0", b"1", b"2", b"3"]:
            await settled()
        await engine.call(taking("q", ROOM))
    for _ in range(2 * ROOM):
        nursery.start_soon(engine.call, taking("q", wait_ms=20_000))
        await settled()
    await parked(engine, "q", 2 * ROOM)
    with bounded():
        await engine.call(sending("q", *[b"x"] * 2 * ROOM))
        await parked(engine, "q", 0)
