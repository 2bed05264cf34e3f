"""A bare link, and its other end in a test's hands: what a caller's end says, item by item.

Used by test_caller.py and test_caller_bounds.py. `Caller` is a call that a test can cancel.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.link import frames
from mqlite_actor.link.client import Link, LinkLost, connect
from mqlite_actor.link.frames import Item
from tests.engine.gate import bounded
from tests.link.peer import Rogue, rogue, short_path

MESSAGE = wire.Message(seq_number=1, lock_token="t", body=b"x")
TAKEN = wire.MessagesResponse(messages=[MESSAGE])


@dataclass
class Ends:
    """A link, and the socket of the engine that the test plays."""

    link: Link
    sock: trio.socket.SocketType
    other: Rogue
    reader: frames.Frames = field(default_factory=lambda: frames.Frames(is_upward=True))
    unread: list[Item] = field(default_factory=list)

    async def hear(self) -> Item:
        with bounded():
            while not self.unread:
                data = await self.sock.recv(1 << 20)
                assert data, "the link has ended"
                self.unread += self.reader.feed(data)
        return self.unread.pop(0)

    async def say(self, *items: bytes) -> None:
        await self.sock.send(frames.frame(list(items)))


@asynccontextmanager
async def ends() -> AsyncIterator[Ends]:
    with short_path() as path, rogue(path) as other:
        async with trio.open_nursery() as nursery:
            link = Link(await connect(path))
            nursery.start_soon(nursery.start, link.run)
            both = Ends(link, await other.accept_and_greet(), other)
            await both.hear()  # its hello
            yield both
            nursery.cancel_scope.cancel()


@dataclass
class Caller:
    """A call that can be cancelled, and how it ended."""

    work: Callable[[], Awaitable[object]]
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    result: object = None
    error: Exception | None = None
    ended: trio.Event = field(default_factory=trio.Event)

    async def run(self) -> None:
        with self.scope:
            try:
                self.result = await self.work()
            except (MqliteError, LinkLost) as error:
                self.error = error
        self.ended.set()

    async def over(self) -> None:
        with bounded():
            await self.ended.wait()
