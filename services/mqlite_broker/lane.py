"""The lane: a fast door in front of hypercorn, on the same sockets, for plain calls only.

`Door` makes one when it is given the broker's `Rpc`, and passes it every accepted stream. A request
that `lane_head` recognises is answered here, by one task per connection straight on the socket;
the first one that it does not is handed over with its bytes, and the connection stays with the door
for the rest of its life. Both doors ask the same `Rpc`, share the cap on connections, the byte
budget, the limits and the stop; the answers are the same but for the order of header fields.
Rules: bounds are the door's (`DoorLimits`); deadlines are absolute and kept by one sweeper, which
may be late by SWEEP_SECONDS.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from email.utils import formatdate
from http.client import responses
from typing import TYPE_CHECKING, Final

import trio

from mqlite_actor.clock import SystemClock
from mqlite_broker.door_app import log
from mqlite_broker.door_state import Doorway, Guests
from mqlite_broker.lane_connection import LaneConnection
from mqlite_broker.lane_head import Plans
from mqlite_broker.lane_poll import BusyPoll
from mqlite_broker.lane_watch import Watch

if TYPE_CHECKING:
    from mqlite_broker.rpc import Reply, Rpc

SWEEP_SECONDS: Final = 0.25
"""A deadline may be passed by so much: one look at a thousand connections takes 0.1 ms, a timer
for each request would cost more than its parsing."""

CLOCK: Final = SystemClock()

Handle = Callable[[trio.SocketStream, bytes], Awaitable[None]]


class Lane:
    """What the connections of the lane share."""

    __slots__ = (
        "_doorway", "_guests", "_handle", "_heads", "_second", "ingress", "limits", "now", "plans",
        "poll", "rpc", "stirred", "stopping", "watch",
    )  # fmt: skip

    def __init__(self, rpc: Rpc, doorway: Doorway, guests: Guests, handle: Handle) -> None:
        self.rpc = rpc
        self.limits = doorway.limits
        self.ingress = doorway.ingress
        self.stopping = doorway.stopping
        self.stirred = doorway.stirred
        self.watch = Watch()
        self.poll = BusyPoll(doorway.limits.poll_seconds)
        self.now = trio.current_time
        self._guests = guests
        self._handle = handle
        self.plans = Plans()
        self._heads: dict[tuple[object, ...], bytes] = {}
        self._second = 0

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection to its end, by the lane or from some point on by the door.

        Whatever goes wrong is logged and stays here. Cancelled, its call is cancelled and the
        socket closed.
        """
        connection = LaneConnection(self, stream)
        self._guests[connection] = connection
        handed_over = None
        try:
            if self.stopping.is_set():
                connection.close()
            else:
                handed_over = await connection.run()
        except* Exception:  # noqa: BLE001  # the wall of B96: logged, and the door stays open
            log.exception("an error ended a connection")
            connection.close()
        finally:
            del self._guests[connection]
            self.stirred()
        if handed_over is not None:
            await self._handle(connection.given_up(), handed_over)

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Watch and sweep; runs until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.watch.run)
            nursery.start_soon(self._sweep)

    def close(self) -> None:
        """Once only, after the last connection has ended."""
        self.watch.close()

    @trio.lowlevel.enable_ki_protection
    async def _sweep(self) -> None:
        while True:
            await trio.sleep(SWEEP_SECONDS)
            now = self.now()
            for guest in list(self._guests.values()):
                if not isinstance(guest, LaneConnection):
                    continue
                guest.look_ahead()
                if guest.is_overdue(now):
                    guest.close()

    # -- what connections ask ----------------------------------------------------------------------

    def head(self, reply: Reply, *, is_last: bool) -> bytes:
        """The header block of an answer, with Date and, if it is the last one, a farewell."""
        second = CLOCK.now_ms() // 1000
        if second != self._second:
            self._second = second
            self._heads.clear()  # each holds the date
        key = (reply.status, reply.content_type, reply.fields, is_last)
        beginning = self._heads.get(key)
        if beginning is None:
            beginning = self._heads[key] = _beginning(reply, second, is_last=is_last)
        return b"%b%d\r\n\r\n" % (beginning, len(reply.body))


def _beginning(reply: Reply, second: int, *, is_last: bool) -> bytes:
    """Everything up to the length of the body."""
    fields = [
        f"HTTP/1.1 {int(reply.status)} {responses.get(reply.status, '')}",
        f"content-type: {reply.content_type}",
        *(f"{name.lower()}: {value}" for name, value in reply.fields),
        f"date: {formatdate(second, usegmt=True)}",
    ]
    if is_last:
        fields.append("connection: close")
    return "\r\n".join([*fields, "content-length: "]).encode("latin-1")
