"""One accepted socket: hypercorn's TCPServer with its own reading, writing, waiting and closing.

`Door` runs one `Connection` per accepted stream. Three tasks share it: the reader takes bytes off
the socket and sees its end whatever else goes on, the feeder passes them to `DoorProtocol` and
keeps its deadlines, and the application's task writes.
Rules: nothing a client does or omits holds a write for ever (faults.md B63), hides its leaving
(B64) or keeps a connection past its deadline (B62, B68); `cut` ends all of it at once, shields
included.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.typing import (
    AppWrapper,
    ASGIReceiveEvent,
    ASGISendEvent,
    ConnectionState,
    LifespanState,
    Scope,
)
from hypercorn.utils import parse_socket_addr

from mqlite_broker.door_inbox import Inbox
from mqlite_broker.door_intake import HeadRoom
from mqlite_broker.door_limits import LINGER_BYTES, RECEIVE_BYTES
from mqlite_broker.door_pipe import Gone, Pipe
from mqlite_broker.door_protocol import DoorProtocol
from mqlite_broker.door_state import RUNNING, Doorway, Ends, Phase, idle_until


@trio.lowlevel.enable_ki_protection
async def _uninterrupted(function: Callable[..., Awaitable[None]], *args: object) -> None:
    await function(*args)


class Tasks(TaskGroup):
    """Hypercorn's group of a connection's tasks, into which Ctrl-C is not raised: an application's
    would log it as its own failure, and the program would never hear of it
    (engine/interrupts.py)."""

    def spawn(self, func: Callable[..., Awaitable[None]], *args: object) -> None:
        """As the parent's."""
        super().spawn(_uninterrupted, func, *args)

    async def spawn_app(
        self,
        app: AppWrapper,
        config: Config,
        scope: Scope,
        send: Callable[[ASGISendEvent | None], Awaitable[None]],
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """As the parent's; what it calls at the end, when the application has returned, too."""
        guarded = partial(_uninterrupted, app)
        return await super().spawn_app(guarded, config, scope, partial(_uninterrupted, send))


class Connection(TCPServer):
    """The life of one connection; `await connection.run()` lives it.

    `prelude` is what somebody else has read from the stream already.
    """

    def __init__(self, doorway: Doorway, stream: trio.SocketStream, prelude: bytes = b"") -> None:
        super().__init__(
            ASGIWrapper(doorway.app),
            doorway.config,
            doorway.context,
            ConnectionState(LifespanState({})),
            stream,  # type: ignore[arg-type]  # TCPServer names the TLS kind only
        )
        self.doorway = doorway
        self.pipe = Pipe(stream, doorway.tls)
        self._came = trio.current_time()
        self._stalled: float | None = None  # since when a part of an answer is not taken
        self.talk: DoorProtocol | None = None
        self._inbox = Inbox(prelude)
        self._head = HeadRoom(doorway.limits.header_bytes_max, doorway.heads)
        self._reading = trio.CancelScope()
        self._feeding = trio.CancelScope()
        self._ended = trio.Event()

    # -- what the door asks --------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether a request is being handled, or its body awaited."""
        return self.talk is not None and self.talk.phase in RUNNING

    @property
    def idle_until(self) -> float | None:
        """When it would be closed for idleness; None while there is work on it, or it has ended."""
        limits, now = self.doorway.limits, trio.current_time()
        if self.talk is None:
            return idle_until(Phase.HEAD, self._came, None, limits, now=now)
        if self.talk.is_cut:
            return None
        return idle_until(self.talk.phase, self.talk.since, self._stalled, limits, now=now)

    def dismiss(self) -> None:
        """Close it now, unless a request is running or an answer is still being taken."""
        if self.talk is None or self.talk.phase in (Phase.HEAD, Phase.IDLE, Phase.REST):
            self._hang_up()

    def cut(self) -> bool:
        """Close the socket under whatever runs; true if a request stays unanswered."""
        is_running = self.is_running
        self._hang_up()
        return is_running

    # -- its life ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve requests until either side ends the connection; the stream is closed then.

        Cancelled, the handler is cancelled and the stream closed; an answer being written is
        lost.
        """
        limits = self.doorway.limits
        try:
            ends = _addresses(self.pipe)
        except OSError:
            return  # it had left before it was looked at
        if not await self.pipe.shake(
            seconds=limits.header_seconds, linger_seconds=limits.linger_seconds
        ):
            return
        try:
            async with Tasks() as group:
                self.talk = DoorProtocol(
                    self.doorway,
                    group,
                    ends,
                    send=self.protocol_send,
                    stir=self._stir,
                    hang_up=self._hang_up,
                )
                group.spawn(self._feed)
                try:
                    await self._read_data()
                except BaseException:
                    self._hang_up()  # shielded writes have to end too
                    raise
                self._feeding.cancel()
        finally:
            self._hang_up()

    def _stir(self) -> None:
        """The phase has changed, or the parser has parked: both tasks look again."""
        if self.talk is not None and self.talk.phase not in (Phase.HEAD, Phase.IDLE):
            self._head.end()
        self._inbox.filled.ring()
        self._inbox.taken.ring()

    async def _feed(self) -> None:
        """Pass bytes on as they come; what is late is the protocol's to say."""
        talk = self._talk
        with self._feeding:
            while talk.phase is not Phase.OVER:
                if self._inbox.size:
                    await talk.handle(RawData(self._inbox.take()))
                    if not self._may_hold_head():
                        self._hang_up()  # as a block that does not end in time: without a word
                    continue
                with trio.CancelScope(deadline=talk.due) as patience:
                    await self._inbox.filled.wait()
                if patience.cancelled_caught and not await talk.overdue():
                    self._hang_up()

    def _may_hold_head(self) -> bool:
        """False if what the parser keeps is a part of a header block that there is no room for."""
        if self._talk.phase not in (Phase.HEAD, Phase.IDLE) or self._head.is_taken:
            return True  # without the copy that looking into a large block costs
        return self._head.hold(len(self._talk.wire.trailing_data[0]))

    async def _read_data(self) -> None:
        """Read until the connection ends, by either side; then nothing new is started for it."""
        drained = 0
        with self._reading:
            while data := await self._receive():
                if self._talk.phase is not Phase.OVER:
                    await self._take_in(data)
                    continue
                drained += len(data)
                if drained > LINGER_BYTES:
                    break
        if self._talk.phase is not Phase.OVER:
            await self._see_off()
        await self._talk.leave()

    async def _receive(self) -> bytes:
        """Some bytes; none at the end of the connection, however it came."""
        try:
            return await self.pipe.receive()
        except Gone:
            self._hang_up()
            return b""

    async def _take_in(self, data: bytes) -> None:
        """Queue bytes for the feeder; at the bound wait, or cut a client that pipelines more.

        Waiting is harmless before the request is complete, since nothing was done for it yet.
        """
        talk = self._talk
        self._inbox.put(data)
        while self._inbox.size > self.doorway.limits.pipeline_bytes_max:
            if talk.phase is Phase.OVER:
                return
            if talk.is_parked:
                self._hang_up()
                return
            await self._inbox.taken.wait()

    async def _see_off(self) -> None:
        """The client closed its half: let a GET finish, even one from the same packet."""
        talk = self._talk
        talk.expect_no_more()
        while self._inbox.size and not talk.is_parked and talk.phase is not Phase.OVER:
            await self._inbox.taken.wait()
        if talk.may_finish:
            with trio.move_on_after(self.doorway.limits.half_close_seconds):
                await self._ended.wait()

    # -- writing and closing -------------------------------------------------------------------

    async def protocol_send(self, event: Event) -> None:
        """Write bytes, or close; never raises for a client that has left."""
        if isinstance(event, RawData):
            await self._write(event.data)
        elif isinstance(event, Closed):
            await self._close()

    async def _write(self, data: bytes) -> None:
        """Write in slices, each within the stall bound; one not taken ends the connection.

        Shielded, because half an answer is worse than either: `cut` closes the socket instead.
        """
        view = memoryview(data)
        stall = self.doorway.limits.write_stall_seconds
        exchange = self._talk.exchange
        for start in range(0, len(view), RECEIVE_BYTES):
            if self._talk.is_cut:
                await trio.lowlevel.checkpoint()  # so that a streaming handler hears of it
                return
            self._stalled = trio.current_time()
            with trio.move_on_after(stall, shield=True) as patience:
                try:
                    await self.pipe.send(view[start : start + RECEIVE_BYTES])
                except Gone:
                    self._hang_up()
            if patience.cancelled_caught:
                self._hang_up()
            if exchange is not None and exchange.room is not None:
                exchange.room.taken += RECEIVE_BYTES
        self._stalled = None

    async def _close(self) -> None:
        """End the connection after its last answer: at once, or when the client has finished.

        Closing over unread bytes would reset the connection and could take the answer with it.
        """
        talk = self._talk
        may_be_sending = talk.has_unread or self._inbox.size > 0
        if talk.is_cut or not may_be_sending:
            if not talk.is_cut:
                await self.pipe.say_goodbye()
            self._hang_up()
            return
        talk.finish()
        self._ended.set()
        try:
            self.pipe.end_half()
        except OSError:
            self._hang_up()
        self._reading.deadline = trio.current_time() + self.doorway.limits.linger_seconds

    def _hang_up(self) -> None:
        """Close the socket under every task that uses it; each of them ends by itself."""
        self.pipe.close()
        self._ended.set()
        if self.talk is not None:
            self.talk.cut()

    @property
    def _talk(self) -> DoorProtocol:
        assert self.talk is not None, "run() makes it first"
        return self.talk


def _addresses(pipe: Pipe) -> Ends:
    """Both ends. Raises OSError if the client has left already."""
    family = pipe.socket.family
    return Ends(
        parse_socket_addr(family, pipe.socket.getpeername()),
        parse_socket_addr(family, pipe.socket.getsockname()),
    )
