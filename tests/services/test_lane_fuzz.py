"""Lane against hypercorn: the same bytes get the same answers, and the same fate.

Each conversation is a pipeline of well- and ill-formed requests, cut at random points, sent to two
brokers on two equal stores: one with the lane, one without. MQLITE_LANE_FUZZ sets how many
conversations are held; a failure prints the seed that repeats it.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
import trio

from mqlite_actor.clock import ManualClock
from tests.conformance.handles import opened
from tests.figures import record
from tests.services import lane_requests
from tests.services.broker_scene import Scene, served
from tests.services.door_client import PATIENCE, Answer
from tests.services.lane_requests import ODDITIES, Made

CONVERSATIONS = int(os.environ.get("MQLITE_LANE_FUZZ", "150"))

PARTS = 2
"""Of the conversations; a long run has a core for each."""

FAREWELL = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
"""Ends every conversation that nothing else has ended."""

GENERATION = re.compile(rb'"generation":"[0-9a-f]{32}"')
"""The only thing in these answers that is drawn at random."""

Said = tuple[int, bytes, tuple[tuple[str, str], ...], bool]
"""Status, body, fields beside Date and Connection, and whether the connection was to end."""


@asynccontextmanager
async def both(folder: Path) -> AsyncIterator[tuple[Scene, Scene]]:
    """A broker with the lane and one without, on equal stores under standing clocks."""
    async with AsyncExitStack() as stack:
        scenes = []
        for lane in ("on", "off"):
            store = folder / lane / "mq.db"
            store.parent.mkdir()
            engine = await stack.enter_async_context(opened(store, ManualClock()))
            scene = await stack.enter_async_context(served(engine, MQLITE_LANE=lane))
            for name in ("q", "empty"):
                await scene.ok("AdminService/CreateQueue", {"name": name})
            scenes.append(scene)
        yield scenes[0], scenes[1]


async def talk(scene: Scene, pieces: Sequence[bytes]) -> list[Said]:
    """Send the pieces, and hear everything until the end of the connection."""
    client = await scene.connect()
    said: list[Said] = []

    async def send() -> None:
        try:
            for piece in pieces:
                await client.stream.send_all(piece)
                await trio.lowlevel.checkpoint()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # it was ended before it had heard everything

    with trio.fail_after(PATIENCE):
        async with client, trio.open_nursery() as nursery:
            nursery.start_soon(send)
            try:
                while True:
                    said.append(noted(await client.answer("POST")))
            except (EOFError, trio.BrokenResourceError):
                nursery.cancel_scope.cancel()
    assert not client.buffer, bytes(client.buffer)
    return said


def noted(answer: Answer) -> Said:
    fields = {k: v for k, v in answer.headers.items() if k not in ("date", "connection")}
    is_last = answer.headers.get("connection") == "close"
    body = GENERATION.sub(b'"generation":"-"', answer.body)
    return answer.status, body, tuple(sorted(fields.items())), is_last


def cut(random: Random, data: bytes) -> list[bytes]:
    """The bytes in pieces: whole, in a few, or in many."""
    number = random.choice([0, 0, 1, 3, 20])
    at = sorted({0, *(random.randrange(len(data)) for _ in range(number)), len(data)})
    return [data[start:end] for start, end in pairwise(at)]


def agree(requests: Sequence[Made], lane: list[Said], door: list[Said]) -> None:
    """The lane may end earlier, at the first call that it handed over (ruling R47); nothing else
    may differ."""
    first_odd = next((n for n, each in enumerate(requests) if not each.is_plain), len(requests))
    calls = (n for n, each in enumerate(requests) if n >= first_odd and each.is_call)
    ends_at = next(calls, len(requests))
    expected = door[: ends_at + 1]
    if len(door) > ends_at and expected:
        expected[-1] = (*expected[-1][:3], True)
    assert lane == expected, "\n".join(
        ["", *(f"asked {each.data!r}" for each in requests), *(f"lane {each}" for each in lane),
         *(f"hypercorn {each}" for each in door)]
    )  # fmt: skip


async def converse(scenes: tuple[Scene, Scene], random: Random, requests: Sequence[Made]) -> None:
    data = b"".join(each.data for each in requests) + FAREWELL
    lane = await talk(scenes[0], cut(random, data))
    door = await talk(scenes[1], cut(random, data))
    agree(requests, lane, door)
    for rest in requests[len(lane) : len(door)]:  # what only one has done would tell them apart
        await talk(scenes[0], [rest.data + FAREWELL])


@pytest.mark.parametrize("oddity", ODDITIES)
async def test_every_oddity_is_answered_as_hypercorn_answers_it(
    tmp_path: Path, oddity: str
) -> None:
    random = Random(oddity)
    async with both(tmp_path) as scenes:
        for _ in range(5):
            requests = [
                Made(lane_requests.plain(random).block(), is_plain=True, is_call=True),
                lane_requests.odd(random, oddity),
            ]
            await converse(scenes, random, requests)


@pytest.mark.parametrize("part", range(PARTS))
async def test_random_conversations_end_alike_through_both_doors(tmp_path: Path, part: int) -> None:
    seed = int(os.environ.get("MQLITE_LANE_SEED", "0")) or Random().getrandbits(32)
    numbers = range(part, CONVERSATIONS, PARTS)
    async with both(tmp_path) as scenes:
        for number in numbers:
            random = Random(seed + number)
            requests = [lane_requests.request(random) for _ in range(random.randint(1, 6))]
            try:
                await converse(scenes, random, requests)
            except BaseException as error:
                error.add_note(f"MQLITE_LANE_SEED={seed + number}")
                raise
    record("both doors", seed=seed, conversations=len(numbers))
