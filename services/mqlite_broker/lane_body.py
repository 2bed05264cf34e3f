"""A body in the lane that was not there with its head: read when the call asks for it, or skipped.

Made by `LaneConnection` for one request. Most bodies come in one packet with their head and never
get here.
Rules: a large body has room in the doors' byte budget before it is read; its deadline is absolute;
bytes that follow it go back to the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from mqlite_broker.door_intake import Intake
from mqlite_broker.door_limits import BODY_LATE, NO_ROOM
from mqlite_broker.rpc import BodyRefused

if TYPE_CHECKING:
    from mqlite_broker.lane import Lane
    from mqlite_broker.lane_connection import LaneConnection


class LateBody:
    """One such body; `data` is what came of it with its head."""

    __slots__ = ("_connection", "_intake", "_lane", "_length", "_pieces", "has_failed", "missing")

    def __init__(self, connection: LaneConnection, length: int, data: bytes, lane: Lane) -> None:
        self._connection = connection
        self._lane = lane
        self._length = length
        self._pieces = [data]
        self._intake = Intake(length, None, lane.ingress)
        self.missing = length - len(data)
        self.has_failed = False

    async def read(self) -> bytes:
        """The whole body; BodyRefused when it does not come in time, or finds no room.

        When the client leaves, the caller is cancelled.
        """
        connection = self._connection
        if not await self._intake.admit(connection.due):
            self._refuse(503, NO_ROOM)
        with trio.CancelScope(deadline=connection.due):
            while self.missing > 0:
                data = await connection.receive_body()
                self._pieces.append(data)
                self.missing -= len(data)
        if self.missing > 0:
            self._refuse(408, BODY_LATE)
        self.missing = 0
        whole = b"".join(self._pieces)
        self._pieces.clear()
        connection.has_all(whole[self._length :])
        return whole[: self._length] if len(whole) > self._length else whole

    async def skip(self) -> bool:
        """Read past what is missing after an early answer; false when it does not come."""
        while self.missing > 0:
            data = await self._connection.receive()
            if not data:
                return False
            self._connection.comes_behind(data[self.missing :])
            self.missing -= len(data)
        return True

    def end(self) -> None:
        """Give the room back."""
        self._intake.end()

    def _refuse(self, status: int, reason: str) -> None:
        self.has_failed = True
        self._connection.is_late()
        raise BodyRefused(status, reason)
