"""The HTTP door of the broker: QuartTrio on hypercorn, on sockets that are bound already.

`serve.py` calls `serve_door` with a `DoorApp` and its listeners; each accepted stream becomes a
`Connection`, which parses by `DoorProtocol` and runs the application. If there is a lane, it sees
a stream first, and hands over what it does not serve with `Door.handle`. HTTP/1.1 and 1.0, in clear
text or over TLS, nothing else.
Rules: an error of one connection, or of the application, ends neither the door nor another
connection (faults.md B96). At the stop the listeners close before anything else happens (B71).
Above `connections_max` the connection that has been silent longest makes room; if there is work on
all of them, newcomers wait in the kernel.
"""

from __future__ import annotations

import math
import ssl
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

import trio
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext

from mqlite_broker.door_app import DoorApp, DoorResponse, log
from mqlite_broker.door_connection import Connection
from mqlite_broker.door_inbox import Bell, Ingress, IngressStatistics
from mqlite_broker.door_intake import HeadBudget
from mqlite_broker.door_limits import CROWDED_SECONDS, HEADS_BYTES, LIFESPAN_SECONDS, DoorLimits
from mqlite_broker.door_state import Doorway, Guests
from mqlite_broker.lane import Lane
from mqlite_broker.rpc import Rpc

__all__ = [
    "Door",
    "DoorApp",
    "DoorLimits",
    "DoorResponse",
    "DoorStatistics",
    "Ingress",
    "serve_door",
]


class DoorStatistics(NamedTuple):
    """A snapshot of the door."""

    connections: int
    connections_max: int
    running: int
    """Connections on which a request is being read or handled."""
    ingress: IngressStatistics


class Door:
    """All connections of one application; made by `serve_door`."""

    def __init__(
        self,
        app: DoorApp,
        *,
        limits: DoorLimits,
        stopping: trio.Event,
        ingress: Ingress | None = None,
        tls: ssl.SSLContext | None = None,
        rpc: Rpc | None = None,
    ) -> None:
        config = Config()
        config.accesslog = None  # the application writes its own (spec/wire.md 5.3)
        config.errorlog = log.logger
        config.include_server_header = False
        # Between connection and application: bounded by the body limit. A full queue of a handler
        # that has ended would hold the connection for ever.
        config.max_app_queue_size = sys.maxsize
        self._doorway = Doorway(
            app=app,
            config=config,
            context=WorkerContext(max_requests=None),
            limits=limits,
            ingress=ingress or Ingress(limits.ingress_bytes_max),
            stopping=stopping,
            stirred=self._stir,
            heads=HeadBudget(max(HEADS_BYTES, limits.header_bytes_max)),
            tls=tls,
            has_lane=rpc is not None,
        )
        self._connections: Guests = {}
        self.lane = Lane(rpc, self._doorway, self._connections, self.handle) if rpc else None
        self._evicted: object = None
        self._admitted = 0
        self._bell = Bell()
        self._may_enter = trio.Lock()
        self._is_crowded = False

    def statistics(self) -> DoorStatistics:
        """How full the door is."""
        return DoorStatistics(
            connections=self._admitted,
            connections_max=self._doorway.limits.connections_max,
            running=sum(each.is_running for each in self._connections.values()),
            ingress=self._doorway.ingress.statistics(),
        )

    async def handle(self, stream: trio.SocketStream, prelude: bytes = b"") -> None:
        """Serve one connection to its end and close the stream; `prelude` was read from it
        before.

        Whatever goes wrong is logged and stays here. Cancelled, its handler is cancelled.
        """
        connection = Connection(self._doorway, stream, prelude)
        self._connections[stream] = connection
        try:
            if not self._doorway.stopping.is_set():
                await connection.run()
        except* Exception:  # noqa: BLE001  # the wall of B96: logged, and the door stays open
            log.exception("an error ended a connection")
        finally:
            del self._connections[stream]
            self._stir()
            await trio.aclose_forcefully(stream)

    @trio.lowlevel.enable_ki_protection
    async def enter(self, stream: trio.SocketStream) -> None:
        """Serve a stream that was counted by `admit`: the lane first, if there is one."""
        try:
            await (self.lane.serve(stream) if self.lane else self.handle(stream))
        finally:
            self._admitted -= 1
            self._stir()

    async def has_room(self) -> None:
        """Return when one more connection may be accepted. Cancelled, nothing has changed."""
        async with self._may_enter:
            while self.is_full:
                if not self._evict():
                    self._complain()
                with trio.move_on_after(CROWDED_SECONDS):
                    await self._bell.wait()
            self._is_crowded = False

    @property
    def is_full(self) -> bool:
        """Whether a newcomer needs somebody to go."""
        return self._admitted >= self._doorway.limits.connections_max

    def admit(self) -> None:
        """Count a connection that was accepted, before its task starts."""
        self._admitted += 1

    def dismiss(self) -> None:
        """Close every connection on which nothing runs; the others close with their answer."""
        for connection in list(self._connections.values()):
            connection.dismiss()

    async def emptied(self) -> None:
        """Return when the last connection has ended."""
        while self._connections:
            await self._bell.wait()

    def cut(self) -> int:
        """Close all connections; returns how many had a request that stays unanswered."""
        return sum([connection.cut() for connection in list(self._connections.values())])

    @asynccontextmanager
    async def background(self) -> AsyncIterator[None]:
        """What the lane needs beside its connections; it ends after the last of them."""
        if self.lane is None:
            yield
            return
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.lane.run)
                yield
                nursery.cancel_scope.cancel()
        finally:
            self.lane.close()

    def _stir(self) -> None:
        self._bell.ring()

    def _evict(self) -> bool:
        """Close the connection that has been silent longest; one at a time is enough."""
        if self._evicted in self._connections:
            return True
        idle = [key for key, each in self._connections.items() if each.idle_until is not None]
        if not idle:
            return False
        self._evicted = min(idle, key=lambda key: self._connections[key].idle_until or math.inf)
        self._connections[self._evicted].cut()
        return True

    def _complain(self) -> None:
        if not self._is_crowded:
            self._is_crowded = True
            log.warning("all %d connections are in use; newcomers wait", self._admitted)


class DoorListener(trio.abc.Listener[trio.SocketStream]):
    """A listener that accepts only when the door has room.

    Several of them look at the same room, so that the cap can be passed by one connection each.
    """

    def __init__(self, door: Door, listener: trio.SocketListener) -> None:
        self._door = door
        self._listener = listener

    @trio.lowlevel.enable_ki_protection
    async def accept(self) -> trio.SocketStream:
        """The next connection, counted. Raises what the socket raises; cancelled, none is lost."""
        if self._door.is_full:  # nobody goes before somebody comes
            await trio.lowlevel.wait_readable(self._listener.socket)
        await self._door.has_room()
        stream = await self._listener.accept()
        self._door.admit()
        return stream

    @trio.lowlevel.enable_ki_protection
    async def aclose(self) -> None:
        """Close the socket; connecting is refused from now on."""
        await self._listener.aclose()


@trio.lowlevel.enable_ki_protection
async def serve_door(
    app: DoorApp,
    listeners: Sequence[trio.SocketListener],
    *,
    stopping: trio.Event,
    limits: DoorLimits | None = None,
    ingress: Ingress | None = None,
    tls: ssl.SSLContext | None = None,
    rpc: Rpc | None = None,
    task_status: trio.TaskStatus[Door] = trio.TASK_STATUS_IGNORED,
) -> int:
    """Serve `app` on `listeners` until `stopping` is set; returns how many requests were cut off.

    With `rpc` there is a lane: plain calls are answered by it without the application.

    Started with the `Door` once connections are accepted. At the stop the listeners and all idle
    connections close at once, running requests have `grace_seconds` and are answered with
    `Connection: close`, then their sockets are closed and they count. Takes the listeners over:
    they are closed when it ends, however it ends. Errors (a listener that breaks, a
    before-serving function that fails) come out in an exception group. Cancelled, it closes
    everything at once; hand-backs have HANDBACK_SECONDS more.
    """
    limits = limits or DoorLimits()
    door = Door(app, limits=limits, stopping=stopping, ingress=ingress, tls=tls, rpc=rpc)
    unanswered = 0
    async with _lifespan(app), door.background(), trio.open_nursery() as connections:
        try:
            async with trio.open_nursery() as accepting:
                doors = [DoorListener(door, listener) for listener in listeners]
                accept = partial(trio.serve_listeners, handler_nursery=connections)
                await accepting.start(accept, door.enter, doors)
                task_status.started(door)
                await stopping.wait()
                accepting.cancel_scope.cancel()
            door.dismiss()
            with trio.move_on_after(limits.grace_seconds):
                await door.emptied()
        finally:
            unanswered = door.cut()
            connections.cancel_scope.cancel()
    return unanswered


@asynccontextmanager
async def _lifespan(app: DoorApp) -> AsyncIterator[None]:
    """Run the application's before- and after-serving functions, and give it its nursery.

    Quart-trio runs the latter inside the nursery that it has just cancelled; here they are
    shielded.
    """
    async with trio.open_nursery() as background:
        app.nursery = background
        await app.startup()
        try:
            yield
        finally:
            with trio.move_on_after(LIFESPAN_SECONDS, shield=True):
                await app.shutdown()
