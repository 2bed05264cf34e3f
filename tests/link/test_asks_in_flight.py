"""How much an engine's end of a link reads before it has answered what it read."""

from __future__ import annotations

import pytest
import trio

from mqlite_actor.contract import limits
from mqlite_actor.engine.engine import Engine
from mqlite_actor.link import frames
from mqlite_actor.link.frames import Ask
from tests.engine.gate import Gate, bodies, create, sending, settled, until
from tests.link.peer import linked

REQUEST = sending("q", bytes(1000))


def weight() -> int:
    """Of the body of that ask, in bytes."""
    (ask,) = frames.Frames(is_upward=True).feed(frames.frame([frames.encoded_ask(1, REQUEST)]))
    assert isinstance(ask, Ask)
    return memoryview(ask.body).nbytes


@pytest.mark.parametrize(("room", "read"), [(0, 2), (-1, 1)])
async def test_a_link_is_not_read_while_more_than_its_bytes_are_in_flight(
    engine: Engine,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
    room: int,
    read: int,
) -> None:
    monkeypatch.setattr(limits, "LINK_ASKS_BYTES_MAX", weight() + room)
    await create(engine, "q")
    gate = Gate(engine, nursery)
    async with linked(engine) as peer:
        await peer.greet()
        stop = await gate.stop()
        await peer.ask(1, REQUEST)
        await until(lambda: engine.statistics()["mailbox_commands"] == 1)
        await peer.ask(2, REQUEST)
        await settled()
        assert engine.statistics()["mailbox_commands"] == read
        stop.release()
        assert {getattr(await peer.hear(), "id", 0) for _ in range(2)} == {1, 2}
        await peer.ask(3, REQUEST)
        await peer.reply(3)
    assert len(await bodies(engine, "q")) == 3
