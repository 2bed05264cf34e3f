"""A socket under one absolute deadline for a whole round trip, as `http.client` takes it.

Called by the light client (`http_sync`) and, through it, by `http.client`; calls the socket. Rule:
no read or write begins without what is left of the deadline as its bound, so a server that drips
bytes cannot hold a caller. Importing it must stay cheap (ruling R48).
"""

from __future__ import annotations

import io
import socket
from typing import TYPE_CHECKING

from mqlite_actor.clock import Clock

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


class TimedSocket:
    """What http.client needs of a socket, under one absolute deadline for the whole round trip."""

    __slots__ = ("_clock", "_deadline", "_raw", "received")

    def __init__(self, raw: socket.socket, clock: Clock) -> None:
        self._raw = raw
        self._clock = clock
        self._deadline = 0.0
        self.received = 0

    def start(self, seconds: float) -> None:
        """A new round trip begins: nothing received yet, `seconds` to go."""
        self._deadline = self._clock.monotonic() + seconds
        self.received = 0

    def sendall(self, data: ReadableBuffer) -> None:
        self._set_timeout()
        self._raw.sendall(data)

    def receive_into(self, buffer: WriteableBuffer) -> int:
        self._set_timeout()
        count = self._raw.recv_into(buffer)
        self.received += count
        return count

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self))

    def close(self) -> None:
        """Nothing: http.client closes its side as soon as it knows that the reply ends the
        connection, while the reply is still to be read."""

    def _set_timeout(self) -> None:
        left = self._deadline - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError
        self._raw.settimeout(left)


class _Reader(io.RawIOBase):
    """The receiving half as a file."""

    def __init__(self, wire: TimedSocket) -> None:
        self._wire = wire

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        return self._wire.receive_into(buffer)
