"""One connection of the lane: its requests one after another, in one task.

Made by `Lane` for each accepted stream. `run` serves plain calls until either side ends, or returns
the bytes of the first request that is not plain: the door serves that one and all later ones.
Rules: no task, scope or timer is made per request; the lane's sweeper closes what is overdue, its
watch cancels the call of a client that has left. A claim that nobody got goes back (design.md R42):
uncounted before a byte was offered to the socket, counted after. What follows a request stays in
the kernel until the request is answered, so pipelining costs no memory; only behind a request that
takes long it is read ahead, within a bound, since a full window would keep back the news that the
client has left (faults.md B64).
"""

from __future__ import annotations

import math
import socket
from typing import TYPE_CHECKING, Final

import trio

from mqlite_broker.door_app import hand_back
from mqlite_broker.door_limits import (
    BODY_REST_BYTES,
    LINGER_BYTES,
    RECEIVE_BYTES,
)
from mqlite_broker.door_state import RUNNING, Phase, idle_until
from mqlite_broker.lane_body import LateBody
from mqlite_broker.lane_head import HEAD_END, Plan, may_become_ours
from mqlite_broker.rpc import Log, Reply

if TYPE_CHECKING:
    from mqlite_broker.door_answers import Room
    from mqlite_broker.lane import Lane

TURN_REQUESTS: Final = 16
"""Pipelined requests served before other tasks get a turn; a refused one waits for nobody."""


WAITING: Final = frozenset({Phase.HEAD, Phase.IDLE, Phase.REST, Phase.OVER})
"""Phases whose deadline the sweeper keeps; the others wait for the call, or keep their own."""


class LaneConnection:
    """A guest of the door; `await connection.run()` is its life."""

    __slots__ = (
        "_descriptor", "_is_calling", "_is_closed", "_lane", "_number", "_rest", "_scope", "_seen",
        "_since", "_sock", "_stalled", "due", "is_leaving", "phase",
    )  # fmt: skip

    def __init__(self, lane: Lane, stream: trio.SocketStream) -> None:
        self._lane = lane
        theirs = stream.socket
        family, kind, protocol = theirs.family, theirs.type, theirs.proto
        self._sock = socket.socket(family, kind, protocol, fileno=theirs.detach())
        self._sock.setblocking(False)
        self._descriptor = self._sock.fileno()
        self._scope = trio.CancelScope()
        self._rest = b""  # what came behind a body
        self._number = 0  # of the request that is being served
        self._seen = 0
        self._stalled: float | None = None  # since when a part of an answer is not taken
        self._is_calling = False
        self._is_closed = False
        self.is_leaving = False
        self._enter(Phase.HEAD, lane.limits.header_seconds)
        lane.watch.add(self._descriptor, self)

    # -- what door and lane ask --------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether a request is being handled, or its body awaited."""
        return self.phase in RUNNING

    @property
    def idle_until(self) -> float | None:
        """When it would be closed for idleness; None while there is work on it, or it has ended."""
        if self._is_closed:
            return None
        lane = self._lane
        return idle_until(self.phase, self._since, self._stalled, lane.limits, now=lane.now())

    def is_overdue(self, now: float) -> bool:
        """Whether it is to be closed without a word."""
        return self.due <= now and self.phase in WAITING

    def dismiss(self) -> None:
        """Close it now, unless a request is running or an answer is still being taken."""
        if self.phase in (Phase.HEAD, Phase.IDLE, Phase.REST):
            self.close()

    def cut(self) -> bool:
        """Close the socket under whatever runs; true if a request stays unanswered."""
        is_running = self.is_running
        self.close()
        self._scope.cancel()
        return is_running

    def left(self) -> None:
        """The client has closed its half: nothing new is started, and a call is cancelled."""
        self.is_leaving = True
        if self._is_calling:
            self._scope.cancel()

    def look_ahead(self) -> None:
        """Called by the sweeper: read behind a request that was running at its last visit too."""
        if not self._is_calling or self._seen != self._number:
            self._seen = self._number
            return
        try:
            while len(self._rest) <= self._lane.limits.pipeline_bytes_max:
                data = self._sock.recv(RECEIVE_BYTES)
                if not data:
                    self.left()
                    return
                self._rest += data
        except BlockingIOError:
            return  # nothing more is there
        except OSError:
            self.left()
            return
        self.cut()  # unread bytes could hide the end, and read ones cost memory

    def close(self) -> None:
        """Close the socket; whoever waits on it learns that it ended."""
        if not self._is_closed:
            self._is_closed = True
            self.phase = Phase.OVER
            self._lane.watch.remove(self._descriptor)
            if self._lane.poll.holder is self:
                self._lane.poll.hold(None)
            trio.lowlevel.notify_closing(self._descriptor)
            self._sock.close()

    def given_up(self) -> trio.SocketStream:
        """The stream, for the door, after `run` returned bytes."""
        self._is_closed = True
        self._lane.watch.remove(self._descriptor)
        return trio.SocketStream(trio.socket.from_stdlib_socket(self._sock))

    # -- its life ----------------------------------------------------------------------------------

    async def run(self) -> bytes | None:
        """Serve until the connection ends (None), or until the door has to: the bytes for it.

        Cancelled, the call is cancelled and the socket closed. Raises what is a fault of ours.
        """
        found = None
        try:
            with self._scope:
                try:
                    found = await self._converse()
                except trio.ClosedResourceError:
                    return None  # closed by ourselves: overdue, dismissed or cut
        finally:
            if found is None:
                self.close()
        return None if self._is_closed else found

    async def _converse(self) -> bytes | None:
        buffer = b""
        poll = self._lane.poll
        while True:
            end = buffer.find(HEAD_END) + len(HEAD_END)
            if end < len(HEAD_END):
                if buffer:
                    if not may_become_ours(buffer):
                        return buffer
                    if self.phase is Phase.IDLE:
                        self._enter(Phase.HEAD, self._lane.limits.header_seconds)
                if poll.holder is self:
                    data = await self._receive_soon()
                else:
                    poll.hold(self)
                    data = await self.receive()
                if not data:
                    return None
                buffer = buffer + data if buffer else data
                continue
            plan = self._lane.plans.of(buffer[:end])
            if plan is None:
                return buffer
            self._number += 1
            if self.is_leaving or not await self._serve(plan, buffer[end:]):
                return None
            buffer = self._rest
            if buffer:
                await self._next_in_line()
            else:
                self._enter(Phase.IDLE, self._lane.limits.idle_seconds)
                self._lane.stirred()

    async def _next_in_line(self) -> None:
        """Another request, or its beginning, is here already."""
        self._enter(Phase.HEAD, self._lane.limits.header_seconds)
        if self._number % TURN_REQUESTS == 0:
            await trio.lowlevel.checkpoint()

    async def _serve(self, plan: Plan, data: bytes) -> bool:
        """Answer one request; `data` is what came behind its head. False ends the connection."""
        if len(data) < plan.length:
            return await self._serve_late_body(plan, data)
        if len(data) == plan.length:
            body, self._rest = data, b""
        else:
            body, self._rest = data[: plan.length], data[plan.length :]
        self.phase, self.due = Phase.ANSWER, math.inf
        self._is_calling = True
        reply, log = await self._lane.rpc.answer(plan.question, body)
        self._is_calling = False
        is_last = plan.is_last or self._lane.stopping.is_set()
        if not await self._reply(reply, log, is_last=is_last):
            return False
        if is_last:
            await self._finish(is_sending=bool(self._rest))
        return not is_last

    async def _serve_late_body(self, plan: Plan, data: bytes) -> bool:
        """The same while the body is still coming; it is read when the call asks for it."""
        self._rest = b""
        body = LateBody(self, plan.length, data, self._lane)
        self._enter(Phase.BODY, self._lane.limits.body_seconds)
        try:
            reply, log = await self._lane.rpc.answer(plan.question, body.read)
            self._is_calling = False
            is_last = (
                plan.is_last
                or self._lane.stopping.is_set()
                or body.has_failed
                or body.missing > BODY_REST_BYTES
            )
            if not await self._reply(reply, log, is_last=is_last):
                return False
        finally:
            body.end()
        if is_last:
            await self._finish(is_sending=body.missing > 0 or bool(self._rest))
            return False
        self.phase, self._since = Phase.REST, self._lane.now()  # keeping the body's deadline
        return await body.skip()

    async def receive(self) -> bytes:
        """Some bytes; none at the end. ClosedResourceError when we closed the socket."""
        if self._is_closed:  # its descriptor may be another connection's by now
            raise trio.ClosedResourceError
        while True:
            await trio.lowlevel.wait_readable(self._descriptor)
            try:
                return self._sock.recv(RECEIVE_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                return b""

    async def _receive_soon(self) -> bytes:
        """As `receive`, for a connection that was served last: perhaps by staying awake for it."""
        poll = self._lane.poll
        if poll.is_due:
            await trio.lowlevel.checkpoint()  # whoever else has work comes first
            if poll.holder is self:
                data = poll.look(self._sock)
                if data is not None:
                    return data
        if not poll.seconds:
            return await self.receive()
        began = poll.now()
        data = await self.receive()
        poll.returned(poll.now() - began)
        return data

    def has_all(self, rest: bytes) -> None:
        """The body is complete; `rest` came behind it. From now on the call can be cancelled."""
        self._rest = rest
        self.phase, self.due = Phase.ANSWER, math.inf
        self._is_calling = True
        if self.is_leaving:
            self._scope.cancel()

    async def receive_body(self) -> bytes:
        """Some bytes of a body. When the connection ends inside it, the caller is cancelled."""
        try:
            data = await self.receive()
        except trio.ClosedResourceError:
            data = b""
        if not data:
            self._scope.cancel()
            await trio.lowlevel.checkpoint()
        return data

    def is_late(self) -> None:
        """The body will not be whole; what is left is to say so."""
        self.phase, self.due = Phase.ANSWER, math.inf

    def comes_behind(self, rest: bytes) -> None:
        """What was read past the end of a skipped body."""
        self._rest = rest

    def _enter(self, phase: Phase, seconds: float) -> None:
        self.phase = phase
        self._since = self._lane.now()
        self.due = self._since + seconds

    # -- answers -----------------------------------------------------------------------------------

    async def _reply(self, reply: Reply, log: Log, *, is_last: bool) -> bool:
        """Write an answer, or take back what it held; false when it was not wholly written."""
        if reply.room is None:
            return await self._offer(reply, log, is_last=is_last)
        reply.room.cut = self.close
        try:
            return await self._offer(reply, log, is_last=is_last)
        finally:
            reply.room.end()

    async def _offer(self, reply: Reply, log: Log, *, is_last: bool) -> bool:
        """The same. Its line in the log is made while the client already reads."""
        if reply.undelivered is not None:
            self._lane.watch.look()
            if self.is_leaving or self._is_closed:
                log()
                await hand_back(reply.undelivered, begun=False)
                return False
        # A large body is not copied to be written with its head.
        first = reply.body if reply.room is None else reply.body[:RECEIVE_BYTES]
        data = self._lane.head(reply, is_last=is_last) + first
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = -1
        log()
        if sent == len(data) or (sent >= 0 and await self._write(memoryview(data)[sent:], None)):
            if len(first) == len(reply.body):
                return True
            if await self._write(memoryview(reply.body)[RECEIVE_BYTES:], reply.room):
                return True
        if reply.undelivered is not None:
            await hand_back(reply.undelivered, begun=True)
        return False

    async def _write(self, view: memoryview, room: Room | None) -> bool:
        """The rest of an answer in slices, each within the stall bound; false if it was not taken.

        Shielded, because half an answer is worse than either; `cut` closes the socket instead.
        """
        for start in range(0, len(view), RECEIVE_BYTES):
            self._stalled = self._lane.now()
            part = view[start : start + RECEIVE_BYTES]
            with trio.move_on_after(self._lane.limits.write_stall_seconds, shield=True):
                try:
                    while part and not self._is_closed:
                        await trio.lowlevel.wait_writable(self._descriptor)
                        try:
                            part = part[self._sock.send(part) :]
                        except BlockingIOError:
                            continue
                except (OSError, trio.ClosedResourceError):
                    return False
            if part:
                return False
            if room is not None:
                room.taken = min(start + RECEIVE_BYTES, len(view))
        self._stalled = None
        return True

    async def _finish(self, *, is_sending: bool) -> None:
        """End after the last answer: at once, or when the client has finished sending.

        Closing over unread bytes would reset the connection and could take the answer with it.
        """
        if not is_sending and not self._has_unread():
            return
        self._enter(Phase.OVER, self._lane.limits.linger_seconds)
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            return
        drained = 0
        while drained <= LINGER_BYTES and (data := await self.receive()):
            drained += len(data)

    def _has_unread(self) -> bool:
        try:
            return bool(self._sock.recv(1, socket.MSG_PEEK))
        except OSError:
            return False
