"""A client that leaves takes no message with it (faults B24, B64; design.md ruling R42).

The engine's clock stands still and no pass runs, so that a message which nobody holds can only be
active because its claim was not made, or was handed back.
"""

from __future__ import annotations

import json
import select
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import pytest
import trio

from mqlite_actor.engine.engine import Engine
from tests.services.broker_scene import Scene, path, raw, served
from tests.services.door_client import PATIENCE, Client, until

TURNS_MAX = 500
"""Turns of the event loop within which a call is answered; it takes about fifty."""

WINDOW_TURNS = 4
"""Turns between the last look at a connection and the first write to it; two were seen."""

Leave = Callable[[Client], None]


@pytest.fixture(params=["on", "off"], ids=["lane", "hypercorn"])
async def scene(request: pytest.FixtureRequest, engine: Engine) -> AsyncIterator[Scene]:
    async with served(engine, MQLITE_LANE=request.param) as scene:
        await scene.ok("AdminService/CreateQueue", {"name": "q"})
        yield scene


def receive(queue: str = "q", **fields: object) -> bytes:
    """A poll of 20 s, or what `fields` make of it."""
    request = {"queue": queue, "wait_time_ms": 20_000, **fields}
    return raw(path("Receive"), json.dumps(request).encode())


def send(queue: str = "q") -> bytes:
    return raw(path("Send"), b'{"queue":"%s","messages":[{"body":"eA=="}]}' % queue.encode())


def waiting(scene: Scene) -> int:
    """How many polls wait in the engine."""
    counts: dict[str, int] = scene.engine.statistics()["waiters"]
    return sum(counts.values())


async def poll(scene: Scene, *requests: bytes) -> Client:
    """A connection whose first request waits in the engine; the others are in the same packet."""
    before = waiting(scene)
    client = await scene.connect()
    await client.send(b"".join(requests))
    await until(lambda: waiting(scene) > before)
    return client


@contextmanager
def plain(client: Client) -> Iterator[socket.socket]:
    """The connection as a socket whose methods do not let other tasks run."""
    sock = socket.socket(fileno=client.stream.socket.fileno())
    try:
        yield sock
    finally:
        sock.detach()


def put(client: Client, data: bytes) -> None:
    """Send without giving the broker, which runs in this very thread, a turn."""
    with plain(client) as sock:
        assert sock.send(data) == len(data)


async def messages(scene: Scene, queue: str = "q") -> list[tuple[str, int]]:
    """State and delivery count of each message, as Peek has them."""
    found = (await scene.ok("Peek", {"queue": queue}))["messages"]
    return [(each["state"], each.get("delivery_count", 0)) for each in found]


UNTOUCHED = [("active", 0)]


async def soon_untouched(scene: Scene, queue: str = "q") -> None:
    """Wait until the one message is active and counts no delivery; bounded."""
    with trio.fail_after(PATIENCE):
        while await messages(scene, queue) != UNTOUCHED:
            await trio.lowlevel.checkpoint()


async def take(scene: Scene, queue: str = "q") -> list[int]:
    """Remove what can be received; the delivery counts."""
    reply = await scene.ok("Receive", {"queue": queue, "max_messages": 9, "receive_mode": 1})
    return [message["delivery_count"] for message in reply["messages"]]


def close(client: Client) -> None:
    client.stream.socket.close()


def reset(client: Client) -> None:
    client.reset()


def close_half(client: Client) -> None:
    client.stream.socket.shutdown(socket.SHUT_WR)


LEAVING = [close, reset, close_half]


@pytest.mark.promise("W99")
@pytest.mark.parametrize("leave", LEAVING)
async def test_a_message_sent_after_the_client_left_stays_active(
    scene: Scene, leave: Leave
) -> None:
    async with await poll(scene, receive()) as client:
        leave(client)
        await until(lambda: not waiting(scene))
        await scene.ok("Send", {"queue": "q", "messages": [{"body": "eA=="}]})
        assert await messages(scene) == UNTOUCHED
        assert await take(scene) == [1]


@pytest.mark.promise("W99")
@pytest.mark.parametrize("leave", LEAVING)
async def test_a_message_sent_in_the_moment_of_leaving_is_held_by_nobody(
    scene: Scene, leave: Leave
) -> None:
    """The kernel knows both before the broker runs again, in either order of arrival."""
    for number in range(20):
        async with await poll(scene, receive()) as client, await scene.connect() as producer:
            if number % 2:
                leave(client)
            put(producer, send())
            if not number % 2:
                leave(client)
            assert (await producer.answer("POST")).status == 200
            await soon_untouched(scene)
            assert await take(scene) == [1]


async def test_a_client_that_leaves_before_its_answer_leaves_the_message_free_but_for_a_write_begun(
    scene: Scene,
) -> None:
    """It leaves after 0, 1, 2, … turns of the event loop: before, in and after the claim.

    Ruling R42: until the end of the connection was seen or a write began, the claim goes back
    uncounted; once a write has begun it counts. In between lies what the kernel knows already and
    the door does not yet, a turn or two.
    """
    answered: list[bool] = []
    kept = 0
    while answered[-5:] != [True] * 5:
        assert len(answered) < TURNS_MAX, "no answer came"
        queue = f"q{len(answered)}"
        await scene.ok("AdminService/CreateQueue", {"name": queue})
        async with await poll(scene, receive(queue)) as client, await scene.connect() as producer:
            put(producer, send(queue))
            for _ in answered:
                await trio.lowlevel.checkpoint()
            answered.append(is_readable(client))
            close(client)
            assert (await producer.answer("POST")).status == 200
        await until(lambda: scene.door.door.statistics().connections == 0)
        found = await messages(scene, queue)
        if answered[-1]:
            assert found in ([("locked", 1)], [("active", 1)])
        else:
            kept += found != UNTOUCHED
    assert answered[0] is False
    assert kept <= WINDOW_TURNS


def is_readable(client: Client) -> bool:
    """Whether any byte of an answer has arrived."""
    return bool(select.select([client.stream.socket], [], [], 0)[0])


@pytest.mark.parametrize("second", [receive(wait_time_ms=0), receive(), send()])
@pytest.mark.parametrize("leave", LEAVING)
async def test_of_a_pipelined_pair_nothing_is_claimed_or_run_for_a_client_that_left(
    scene: Scene, second: bytes, leave: Leave
) -> None:
    for is_before in (True, False):
        async with await poll(scene, receive(), second) as client:
            async with await scene.connect() as producer:
                if is_before:
                    leave(client)
                    await until(lambda: not waiting(scene))
                    put(producer, send())
                else:
                    put(producer, send())
                    leave(client)
                assert (await producer.answer("POST")).status == 200
            await soon_untouched(scene)
            assert await take(scene) == [1]
            assert (await scene.ok("Stats", {"queue": "q"}))["total"] == 0
            assert waiting(scene) == 0


async def test_a_message_goes_to_the_next_client_in_line_when_the_first_has_left(
    scene: Scene,
) -> None:
    for leave in LEAVING:
        async with (
            await poll(scene, receive()) as first,
            await poll(scene, receive(receive_mode=1)) as second,
            await scene.connect() as producer,
        ):
            put(producer, send())
            leave(first)
            reply = json.loads((await second.answer("POST")).body)
            assert [message["delivery_count"] for message in reply["messages"]] == [1]
        await until(lambda: not waiting(scene))


async def test_a_claim_under_an_attempt_id_is_kept_for_whoever_repeats_the_id(
    scene: Scene,
) -> None:
    """Whether the claim was made before the client left or not, one message comes, and once."""
    for number in range(10):
        request = receive(receive_attempt_id=f"{number:032x}", max_messages=1)
        async with await poll(scene, request) as client, await scene.connect() as producer:
            put(producer, send())
            close(client)
            assert (await producer.answer("POST")).status == 200
        await until(lambda: not waiting(scene))
        async with await scene.connect() as again:
            reply = json.loads((await again.ask(request)).body)
        (message,) = reply["messages"]
        assert message["delivery_count"] == 1
        lease = {"queue": "q", "seq_number": message["seq_number"]}
        await scene.ok("Complete", {**lease, "lock_token": message["lock_token"]})
        assert await messages(scene) == []
