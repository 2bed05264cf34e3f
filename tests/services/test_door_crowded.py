"""A full door: who sends or takes nothing makes room, by whatever request it stays there."""

from __future__ import annotations

import base64
from contextlib import AsyncExitStack

import pytest

from mqlite_actor.contract.limits import MIB
from mqlite_actor.engine.engine import Engine
from mqlite_broker import door_state
from mqlite_broker.door import DoorLimits
from mqlite_broker.door_state import Phase, idle_until
from tests.services.broker_scene import LOOPBACK, Scene, path, raw, served
from tests.services.door_client import NEVER, connect, until
from tests.services.lane_scene import create

POLL = raw(path("Receive"), b'{"queue":"empty","wait_time_ms":20000}')
CALL = b"POST " + path("Send").encode() + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n"

STRANGERS = {
    "says nothing": (b"", 0),
    "half a head": (CALL, 0),
    "a small body that does not end": (CALL + b"Content-Length: 1000\r\n\r\n{", 401),
    "a large body that does not end": (CALL + b"Content-Length: 600000\r\n\r\n{", 401),
    "a wrong credential": (CALL + b"Authorization: Bearer no\r\nContent-Length: 9\r\n\r\n{", 401),
    "chunks that do not end": (CALL + b"Transfer-Encoding: chunked\r\n\r\n", 401),
    "a page with a body": (b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{", 200),
    "no path": (b"POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{", 401),
}
"""What nobody needs a credential for, and the status that is answered, if any."""

LIMITS = DoorLimits(
    connections_max=len(STRANGERS) + 1,
    header_seconds=NEVER,
    body_seconds=NEVER,
    idle_seconds=NEVER,
    linger_seconds=NEVER,
    write_stall_seconds=NEVER,
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_state, "SILENT_SECONDS", 0.01)
    monkeypatch.setattr(door_state, "ANSWER_SECONDS", 0.01)


async def more_than_a_socket_holds(scene: Scene) -> bytes:
    """A request whose answer is that."""
    body = base64.b64encode(bytes(MIB - 100)).decode()
    for _ in range(6):
        await scene.ok("Send", {"queue": "q", "messages": [{"body": body}]})
    return raw(path("Peek"), b'{"queue":"q","max":6}')


@pytest.mark.parametrize("lane", ["on", "off"])
async def test_who_sends_or_takes_nothing_makes_room_for_who_asks(
    engine: Engine, lane: str
) -> None:
    async def polls(number: int) -> None:
        await until(lambda: engine.statistics()["waiters"].get("empty", 0) == number)

    async with (
        served(engine, LOOPBACK, LIMITS, MQLITE_LANE=lane) as scene,
        AsyncExitStack() as stack,
    ):
        await create(scene)
        await scene.ok("AdminService/CreateQueue", {"name": "empty"})
        peek = await more_than_a_socket_holds(scene)
        await until(lambda: not scene.door.phases())
        stalled = await stack.enter_async_context(
            await connect(scene.door.address, receive_buffer=4096)
        )
        await stalled.send(peek)
        await stalled.exactly(1000)
        strangers = []
        for said, status in STRANGERS.values():
            stranger = await stack.enter_async_context(await scene.connect())
            await stranger.send(said)
            if status:
                assert (await stranger.answer()).status == status
            strangers.append(stranger)
        for number in range(1, len(STRANGERS) + 2):
            newcomer = await stack.enter_async_context(await scene.connect())
            await newcomer.send(POLL)
            await polls(number)
        for stranger in (*strangers, stalled):
            assert len(await stranger.ended()) < 8 * MIB
        assert scene.door.phases() == [Phase.ANSWER] * (len(STRANGERS) + 1)


def test_they_go_in_the_order_in_which_they_fell_silent_and_who_takes_an_answer_last() -> None:
    silent = [
        idle_until(phase, since, None, LIMITS, now=9.0)
        for since, phase in enumerate((Phase.REST, Phase.HEAD, Phase.IDLE, Phase.OVER))
    ]
    stalled = idle_until(Phase.ANSWER, 0.0, 1.0, LIMITS, now=9.0)
    assert None not in (*silent, stalled)
    assert [*silent, stalled] == sorted([*silent, stalled], key=lambda due: due or 0.0)


@pytest.mark.parametrize("phase", Phase)
def test_who_has_only_just_begun_stays(phase: Phase) -> None:
    due = idle_until(phase, 9.0, 9.0, LIMITS, now=9.0)
    assert (due is not None) == (phase is Phase.IDLE)
