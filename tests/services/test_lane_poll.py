"""Staying awake for a lone client: when the lane looks, what it finds, and that nobody is starved.

The clock is the test's: one that stands never lets a look end in vain, one that leaps lets each.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
import trio

from mqlite_actor.engine.engine import Engine
from mqlite_broker.door import DoorLimits
from mqlite_broker.door_limits import (
    POLL_AFTER,
    POLL_HITS,
    POLL_PAUSE_SECONDS,
    POLL_PAUSE_SECONDS_MAX,
    POLL_SECONDS,
)
from mqlite_broker.lane_poll import BusyPoll, fitting_seconds
from tests.services.broker_scene import Scene, served
from tests.services.door_client import PATIENCE
from tests.services.lane_scene import LIST, SEND, create


class Clock:
    """Seconds that pass only when told: by `advance`, or `step` at each look at it."""

    def __init__(self, step: float = 0.0) -> None:
        self.seconds = 100.0
        self.step = step

    def __call__(self) -> float:
        self.seconds += self.step
        return self.seconds


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with closing(ours), closing(theirs):
        yield ours, theirs


def test_a_look_finds_what_is_there_and_what_has_ended(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    poll = BusyPoll(POLL_SECONDS, Clock())
    theirs.send(b"more")
    assert poll.look(ours) == b"more"
    theirs.close()
    assert poll.look(ours) == b""
    ours.close()
    assert poll.look(ours) == b""


@pytest.mark.parametrize("step", [POLL_SECONDS / 10, 1.0])
def test_a_look_in_vain_ends_at_its_time_or_when_somebody_else_had_the_processor(
    pair: tuple[socket.socket, socket.socket], step: float
) -> None:
    poll = BusyPoll(POLL_SECONDS, Clock(step))
    assert poll.look(pair[0]) is None
    assert (poll.hits, poll.misses) == (0, 1)


def test_looks_begin_after_quick_returns_and_only_of_one_connection() -> None:
    poll = BusyPoll(POLL_SECONDS, Clock())
    due = []
    for seconds in (*[POLL_SECONDS] * POLL_AFTER, 1.0):  # at last its user thought about something
        poll.returned(seconds)
        due.append(poll.is_due)
    assert due == [*[False] * (POLL_AFTER - 1), True, False]
    for _ in range(POLL_AFTER):
        poll.returned(0.0)
    poll.hold(None)
    assert not poll.is_due


def test_the_pause_doubles_while_looks_are_in_vain_and_is_short_again_after_hits(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    clock = Clock()
    poll = BusyPoll(POLL_SECONDS, clock)
    for _ in range(POLL_AFTER):
        poll.returned(0.0)

    def pause_after_a_miss() -> float:
        clock.step = POLL_SECONDS
        assert poll.look(ours) is None
        clock.step = 0.0
        began = clock.seconds
        while not poll.is_due:
            clock.seconds += POLL_PAUSE_SECONDS / 2
        return clock.seconds - began

    pauses = [pause_after_a_miss() for _ in range(12)]
    assert pauses[:3] == pytest.approx([2 * POLL_PAUSE_SECONDS * 2**n for n in range(3)])
    assert pauses[-1] == pytest.approx(POLL_PAUSE_SECONDS_MAX)
    for _ in range(POLL_HITS):
        theirs.send(b"x")
        assert poll.look(ours) == b"x"
    assert pause_after_a_miss() == pytest.approx(POLL_PAUSE_SECONDS)


def test_only_a_process_with_two_processors_looks() -> None:
    assert fitting_seconds() == (POLL_SECONDS if len(os.sched_getaffinity(0)) > 1 else 0.0)
    assert DoorLimits().poll_seconds == 0.0, "whoever embeds the broker keeps the loop"


# -- over a socket ---------------------------------------------------------------------------------


def conversation(port: int, requests: list[bytes]) -> list[int]:
    """Statuses of requests, each sent when the one before was answered; a thread's work."""
    statuses = []
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as sock:
        file = sock.makefile("rb")
        for each in requests:
            sock.sendall(each)
            statuses.append(int(file.readline().split()[1]))
            length = 0
            while line := file.readline().strip():
                name, _, value = line.partition(b":")
                length = int(value) if name == b"content-length" else length
            file.read(length)
        file.close()
    return statuses


async def talk(scene: Scene, clock: Clock, number: int) -> BusyPoll:
    lane = scene.door.door.lane
    assert lane is not None
    poll = lane.poll = BusyPoll(POLL_SECONDS, clock)
    statuses = await trio.to_thread.run_sync(conversation, scene.port, [SEND, LIST] * number)
    assert statuses == [200] * 2 * number
    stats = await scene.ok("QueueService/Stats", {"queue": "q"})
    assert stats["active"] == number
    return poll


async def test_a_lone_client_is_looked_for_and_gets_every_answer(engine: Engine) -> None:
    async with served(engine) as scene:
        await create(scene)
        poll = await talk(scene, Clock(), 20)
        assert poll.hits == 40 - POLL_AFTER  # all but the first ones; its end is one
        assert poll.misses == 0


async def test_looks_in_vain_cost_no_answer(engine: Engine) -> None:
    async with served(engine) as scene:
        await create(scene)
        poll = await talk(scene, Clock(0.9 * POLL_SECONDS), 20)
        assert poll.hits + poll.misses > 0


async def test_the_lane_forgets_a_connection_that_has_ended(engine: Engine) -> None:
    async with served(engine) as scene:
        await create(scene)
        poll = await talk(scene, Clock(), 1)
        async with await scene.connect() as client:
            await client.ask(LIST)
            assert poll.holder is not None
        await scene.door.door.emptied()
        assert poll.holder is None


async def test_others_have_their_turn_while_the_lane_stays_awake(engine: Engine) -> None:
    async with served(engine) as scene:
        await create(scene)
        done: list[int] = []
        async with trio.open_nursery() as nursery:

            async def others() -> None:
                while len(done) < 10:
                    async with await scene.connect() as client:
                        done.append((await client.ask(LIST)).status)

            nursery.start_soon(others)
            await talk(scene, Clock(), 20)
        assert done == [200] * 10
