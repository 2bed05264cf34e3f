"""A receive that waits in a task of its own, for the suites about long polls.

Used by tests/conformance/test_long_poll*.py. Nothing here waits without a bound.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from mqlite_actor.contract import wire
from mqlite_actor.contract.wire import Message
from mqlite_actor.engine.engine import Engine
from tests.conformance import asking

BOUND_SECONDS = 15.0
"""Well below the 20 seconds after which a poll would find the message by its last look anyway."""


def poll(
    queue: str, *, wait_ms: int = 20_000, number: int = 1, mode: int = 0
) -> wire.ReceiveRequest:
    return wire.ReceiveRequest(
        queue=queue, max_messages=number, wait_time_ms=wait_ms, receive_mode=mode
    )


class Poll:
    """A receive that waits in a task of its own."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._done = trio.Event()

    async def run(self, handle: asking.Callee, request: wire.ReceiveRequest) -> None:
        self.messages = (await handle.call(request)).messages
        self._done.set()

    async def answer(self) -> list[Message]:
        """What it received, within the bound."""
        with trio.fail_after(BOUND_SECONDS):
            await self._done.wait()
        return self.messages


async def parked(engine: Engine, number: int) -> None:
    """Return when this many receives wait."""
    with trio.fail_after(BOUND_SECONDS):
        while sum(engine.statistics()["waiters"].values()) != number:
            await trio.lowlevel.checkpoint()


@asynccontextmanager
async def polling(engine: Engine, request: wire.ReceiveRequest) -> AsyncIterator[Poll]:
    """A parked receive for the length of a block."""
    async with trio.open_nursery() as nursery:
        one = Poll()
        nursery.start_soon(one.run, engine, request)
        await parked(engine, 1)
        yield one
        nursery.cancel_scope.cancel()
