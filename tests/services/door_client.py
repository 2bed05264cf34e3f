"""A raw HTTP client and a running door, for the tests of the door.

The client writes exactly the bytes it is given and parses answers by hand, so that it shares
nothing with the parser under test. Every wait is bounded by PATIENCE; no wait is for time to pass.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import trio

from mqlite_broker.door import Door, DoorApp, DoorLimits, Ingress, serve_door
from mqlite_broker.door_state import Phase
from mqlite_broker.lane_connection import LaneConnection
from mqlite_broker.rpc import Rpc

PATIENCE = 15.0
"""Seconds until a test gives up; none of them comes near unless something is wrong."""

RESET_AT_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing sends RST instead of FIN."""

NEVER = 3600.0
"""A limit that a test must not reach."""

Address = tuple[str, int]


@dataclass
class Answer:
    """One response as it came; names of fields in lower case."""

    line: str
    status: int
    headers: dict[str, str]
    body: bytes
    interim: list[int] = field(default_factory=list)


class Client:
    """One connection. Use it with `async with`, or close it some other way."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.buffer = bytearray()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await trio.aclose_forcefully(self.stream)

    async def send(self, data: bytes) -> None:
        with trio.fail_after(PATIENCE):
            await self.stream.send_all(data)

    async def send_eof(self) -> None:
        await self.stream.send_eof()

    async def close(self) -> None:
        await self.stream.aclose()

    def reset(self) -> None:
        """Close with RST instead of FIN."""
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
        self.stream.socket.close()

    async def answer(self, method: str = "GET") -> Answer:
        """The next response. Raises EOFError when the connection ends before it is whole."""
        interim: list[int] = []
        while True:
            head = (await self.until(b"\r\n\r\n")).decode("latin1")
            line, *fields = head.rstrip().split("\r\n")
            status = int(line.split(" ")[1])
            if status >= 200:
                break
            interim.append(status)
        headers = {
            name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)
        }
        return Answer(line, status, headers, await self._body(method, status, headers), interim)

    async def ask(self, data: bytes) -> Answer:
        """Send a whole request and return its response."""
        await self.send(data)
        return await self.answer(data.split(b" ", 1)[0].decode("latin1"))

    async def ended(self) -> bytes:
        """What still comes until the end of the connection; a reset counts as an end."""
        try:
            while await self._more():
                pass
        except trio.BrokenResourceError:
            pass
        return bytes(self.buffer)

    async def until(self, mark: bytes) -> bytes:
        """The bytes up to `mark`, with it."""
        while mark not in self.buffer:
            if not await self._more():
                raise EOFError(bytes(self.buffer))
        return self._take(self.buffer.index(mark) + len(mark))

    async def exactly(self, size: int) -> bytes:
        while len(self.buffer) < size:
            if not await self._more():
                raise EOFError(bytes(self.buffer))
        return self._take(size)

    def _take(self, size: int) -> bytes:
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    async def _body(self, method: str, status: int, headers: dict[str, str]) -> bytes:
        if method == "HEAD" or status in (204, 304):
            return b""
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int((await self.until(b"\r\n")), 16):
                body += await self.exactly(size)
                await self.until(b"\r\n")
            await self.until(b"\r\n")
            return body
        if "content-length" in headers:
            return await self.exactly(int(headers["content-length"]))
        await self.ended()
        return self._take(len(self.buffer))

    async def _more(self) -> bool:
        with trio.fail_after(PATIENCE):
            data = bytes(await self.stream.receive_some(65536))
        self.buffer += data
        return bool(data)


async def connect(address: Address, *, receive_buffer: int | None = None) -> Client:
    """Connect; `receive_buffer` is about what the kernel takes before the client reads."""
    sock = trio.socket.socket()
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    with trio.fail_after(PATIENCE):
        try:
            await sock.connect(address)
        except BaseException:
            sock.close()
            raise
    return Client(trio.SocketStream(sock))


@dataclass
class RunningDoor:
    """A door that serves; `stop` ends it and returns what serve_door returned."""

    address: Address
    door: Door
    stopping: trio.Event
    _ended: trio.Event
    _result: list[int]

    async def connect(self, *, receive_buffer: int | None = None) -> Client:
        return await connect(self.address, receive_buffer=receive_buffer)

    def phases(self) -> list[Phase]:
        """Where each connection stands, oldest first."""
        found = []
        for guest in self.door._connections.values():
            talk = guest if isinstance(guest, LaneConnection) else getattr(guest, "talk", None)
            if talk is not None:
                found.append(talk.phase)
        return found

    async def stop(self) -> int:
        self.stopping.set()
        return await self.result()

    async def result(self) -> int:
        with trio.fail_after(PATIENCE):
            await self._ended.wait()
        return self._result[0]


async def listen() -> tuple[trio.SocketListener, Address]:
    """A listener on an ephemeral port of the loopback, as serve.py binds it."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    host, port = listener.socket.getsockname()
    return listener, (host, port)


@asynccontextmanager
async def open_door(
    app: DoorApp,
    limits: DoorLimits | None = None,
    *,
    ingress: Ingress | None = None,
    tls: ssl.SSLContext | None = None,
    rpc: Rpc | None = None,
) -> AsyncIterator[RunningDoor]:
    """Serve `app` in this process while the block runs; at its end the door is cancelled.

    With `rpc` there is a lane in front.
    """
    listener, address = await listen()
    stopping, ended, result = trio.Event(), trio.Event(), list[int]()

    async def serve(task_status: trio.TaskStatus[Door]) -> None:
        result.append(
            await serve_door(
                app,
                [listener],
                stopping=stopping,
                limits=limits,
                ingress=ingress,
                tls=tls,
                rpc=rpc,
                task_status=task_status,
            )
        )
        ended.set()

    async with trio.open_nursery() as nursery:
        door = await nursery.start(serve)
        yield RunningDoor(address, door, stopping, ended, result)
        nursery.cancel_scope.cancel()


async def until(claim: Callable[[], bool]) -> None:
    """Let the other tasks run until `claim` holds."""
    with trio.fail_after(PATIENCE):
        while not claim():
            await trio.lowlevel.checkpoint()


async def wait(event: trio.Event) -> None:
    """Wait for an event, with patience."""
    with trio.fail_after(PATIENCE):
        await event.wait()


def open_files() -> dict[str, str]:
    """Open descriptors of this process, and what each is: sockets, pipes and what watches them.

    Files are not a door's: a store opens another connection when two look at once.
    """
    listing = Path("/proc/self/fd")
    found = {}
    for each in listing.iterdir() if listing.exists() else ():
        with suppress(FileNotFoundError):  # the listing's own
            found[each.name] = str(each.readlink())
    return {number: what for number, what in found.items() if not what.startswith("/")}


def descriptors() -> int:
    """How many there are."""
    return len(open_files())


def request(
    target: str = "/", *, method: str = "GET", body: bytes = b"", fields: str = ""
) -> bytes:
    """An HTTP/1.1 request. `fields` are whole lines, each ending in CRLF."""
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} {target} HTTP/1.1\r\nHost: door\r\n{fields}{length}\r\n".encode() + body
