"""The other end of a link in a test's own hands: says any item or byte, hears what comes back.

`linked` puts a `ServedLink` before an engine and gives its bare other end; `Rogue` listens as an
engine would and does what the test tells it to.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import trio

from mqlite_actor.contract import limits, wire
from mqlite_actor.engine.engine import Engine
from mqlite_actor.link import frames
from mqlite_actor.link.frames import Begun, Cancel, Frames, Hello, Item, Refusal, Reply
from mqlite_actor.link.server import Noted, ServedLink
from tests.engine.gate import bounded


class Peer:
    """A caller's end. `gone` is set when the engine's end has let go of everything."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = trio.socket.from_stdlib_socket(sock)
        self.gone = trio.Event()
        self.asked: dict[int, wire.Request[Any]] = {}
        self._frames = Frames(is_upward=False)
        self._heard: list[Item] = []

    async def say_bytes(self, data: bytes) -> None:
        view = memoryview(data)
        with bounded():
            while view:
                view = view[await self.sock.send(view) :]

    async def say(self, *items: bytes) -> None:
        await self.say_bytes(frames.frame(list(items)))

    async def greet(self) -> None:
        await self.say(frames.hello())
        assert isinstance(await self.hear(), Hello)

    async def ask(self, number: int, request: wire.Request[Any]) -> None:
        self.asked[number] = request
        await self.say(frames.encoded_ask(number, request))

    async def cancel(self, number: int) -> None:
        await self.say(frames.encoded(Cancel(number)))

    async def begin(self, number: int) -> None:
        await self.say(frames.encoded(Begun(number)))

    async def hear(self) -> Item:
        """The next item; EOFError at the end of the link."""
        with bounded():
            while not self._heard:
                data = await self._some_bytes()
                if not data:
                    raise EOFError
                self._heard += self._frames.feed(data)
        return self._heard.pop(0)

    async def reply(self, number: int) -> object:
        """The response to an ask, which must be the next item."""
        item = await self.hear()
        assert isinstance(item, Reply), item
        assert item.id == number
        return frames.decoded_reply(self.asked[number], item.body)

    async def taken(self, number: int) -> list[wire.Message]:
        """The messages that a receive got."""
        reply = await self.reply(number)
        assert isinstance(reply, wire.MessagesResponse)
        return reply.messages

    async def refusal(self, number: int) -> str:
        """The code of the error of an ask, which must be the next item."""
        item = await self.hear()
        assert isinstance(item, Refusal), item
        assert item.id == number
        return item.code

    async def ended(self) -> None:
        """The engine's end has let go; whatever it had still said is thrown away."""
        with bounded():
            await self.gone.wait()

    async def leave(self) -> None:
        """Close without a word, and wait until the engine's end is done with it."""
        self.sock.close()
        await self.ended()

    async def _some_bytes(self) -> bytes:
        try:
            return await self.sock.recv(65536)
        except ConnectionResetError:
            return b""


@asynccontextmanager
async def linked(
    engine: Engine,
    *,
    stopping: trio.Event | None = None,
    noted: Noted | None = None,
    hello_seconds: float = limits.LINK_HELLO_SECONDS,
) -> AsyncIterator[Peer]:
    """The bare other end of a link to an engine."""
    ours, theirs = socket.socketpair()
    peer = Peer(ours)

    stop = trio.Event() if stopping is None else stopping

    async def serve() -> None:
        link = ServedLink(theirs, engine, stopping=stop, noted=noted, hello_seconds=hello_seconds)
        await link.run()
        peer.gone.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        try:
            yield peer
        finally:
            peer.sock.close()
            with bounded():
                await peer.gone.wait()


class Rogue:
    """Something that listens as an engine would; a test says how it answers."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = trio.socket.from_stdlib_socket(listener)
        self.accepted: list[trio.socket.SocketType] = []

    async def accept(self) -> trio.socket.SocketType:
        with bounded():
            sock, _ = await self._listener.accept()
        self.accepted.append(sock)
        return sock

    async def accept_and_greet(self) -> trio.socket.SocketType:
        sock = await self.accept()
        await sock.send(frames.frame([frames.hello()]))
        return sock

    async def heard(self, sock: trio.socket.SocketType, number: int) -> list[Item]:
        """Read until so many items came whole, or the end."""
        reader = Frames(is_upward=True)
        items: list[Item] = []
        with bounded():
            while len(items) < number and (data := await sock.recv(65536)):
                items += reader.feed(data)
        return items


@contextmanager
def short_path(name: str = "link") -> Iterator[str]:
    """A path for a socket; tmp_path may be too long for one."""
    with TemporaryDirectory(prefix="mqlite-") as folder:
        yield str(Path(folder) / name)


@contextmanager
def rogue(path: str) -> Iterator[Rogue]:
    """A rogue at a path; the path is free again afterwards."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen()
        listener.setblocking(False)
        rogue = Rogue(listener)
        try:
            yield rogue
        finally:
            for sock in rogue.accepted:
                sock.close()
    Path(path).unlink()
