"""Ctrl-C in a trio program with `q.serve` in it: it lands in the program's own code, no request
swallows it, and broker and engine close in order."""

from __future__ import annotations

import json
import signal
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import trio

from mqlite_actor.sdk.embedded import open_embedded
from mqlite_actor.sdk.serve import ServeInfo
from mqlite_broker import embedding
from tests.conformance.broker import BOUND_SECONDS
from tests.engine.test_interrupts import watching
from tests.services.broker_scene import path, raw
from tests.services.door_client import connect

DOORS = (str(Path(embedding.__file__).parent),)
TOKEN = "mqk_interrupts"

MOMENTS = range(300, 6_000, 950)
"""Calls of the doors before the interrupt: from the opening to the middle of the traffic."""


def asking(call: str, request: dict[str, Any], *, fields: tuple[str, ...] = ()) -> bytes:
    body = json.dumps(request).encode()
    return raw(path(call), body, fields=(f"Authorization: Bearer {TOKEN}", *fields))


BY_THE_DOOR = ("Expect: 100-continue",)
"""A field of requests that the lane leaves to the application."""


async def client(info: ServeInfo, fields: tuple[str, ...], rounds: int) -> None:
    """Calls, pages, a poll whose client leaves, and what is no HTTP."""
    host, _, port = info.address.rpartition(":")
    address = (host, int(port))

    async def ask(request: bytes) -> None:
        async with await connect(address) as at:
            assert (await at.ask(request)).status == 200

    for _ in range(rounds):
        sent = {"queue": "q", "messages": [{"body": "eA=="}]}
        await ask(asking("Send", sent, fields=fields))
        await ask(asking("Receive", {"queue": "q"}, fields=fields))
        await ask(raw("/healthz", method="GET"))
        await ask(raw("/ui/", method="GET"))
        async with await connect(address) as at:
            poll = {"queue": "empty", "wait_time_ms": 5000}
            await at.send(asking("Receive", poll, fields=fields))
        async with await connect(address) as at:
            await at.send(b"no HTTP\r\n\r\n")
            await at.ended()


async def scene(rounds: int) -> None:
    """A program with a broker in it, and clients at the lane and at the application."""
    async with open_embedded(":memory:") as q:
        for name in ("q", "empty"):
            await q.create_queue(name)
        async with trio.open_nursery() as nursery:
            serve = partial(q.serve, "127.0.0.1:0", tokens=[TOKEN])
            info = await nursery.start(serve)
            async with trio.open_nursery() as clients:
                for fields in ((), BY_THE_DOOR):
                    clients.start_soon(client, info, fields, rounds)
            nursery.cancel_scope.cancel()


def test_no_moment_of_the_doors_is_open_to_an_interrupt() -> None:
    open_to_it: set[str] = set()
    seen: set[str] = set()

    def look(frame: FrameType) -> None:
        seen.add(frame.f_code.co_qualname)
        if not trio.lowlevel.currently_ki_protected():
            open_to_it.add(frame.f_code.co_qualname)

    with watching(look, within=DOORS):
        trio.run(scene, 2)
    assert open_to_it == set()
    assert {"Connection._feed", "LaneConnection.run", "AppConnection.handle_request"} <= seen


def interrupts_in(error: BaseException) -> int:
    """How often the program was interrupted; beside that its clients may have been hung up on."""
    if isinstance(error, BaseExceptionGroup):
        return sum(interrupts_in(each) for each in error.exceptions)
    assert isinstance(error, KeyboardInterrupt | EOFError | OSError | trio.BrokenResourceError), (
        error
    )
    return isinstance(error, KeyboardInterrupt)


def test_an_interrupt_at_any_moment_of_the_doors_ends_the_program_in_order() -> None:
    for moment in MOMENTS:
        left = moment

        def look(_: FrameType) -> None:
            nonlocal left
            left -= 1
            if not left:
                signal.raise_signal(signal.SIGINT)

        async def bounded() -> None:
            with trio.fail_after(BOUND_SECONDS):
                await scene(1_000)

        with (
            watching(look, within=DOORS),
            pytest.raises((KeyboardInterrupt, BaseExceptionGroup)) as raised,
        ):
            trio.run(bounded)
        assert interrupts_in(raised.value) == 1, raised.value
