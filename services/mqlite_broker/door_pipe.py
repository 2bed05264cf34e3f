"""The bytes of one connection, in clear or through TLS, over one socket.

`Connection` reads, writes and closes through it and does not know which of the two it is. Two tasks
may use it, one that reads and one that writes. Rules: `close` is at once and never awaits, so that
whoever cuts a connection is never held; every other end says goodbye first, within a bound.
"""

from __future__ import annotations

import socket
import ssl
from typing import Final

import trio

from mqlite_broker.door_limits import LINGER_BYTES, RECEIVE_BYTES

GOODBYE_SECONDS: Final = 1.0
"""For the last record of a TLS connection: it fits every socket buffer that is read at all."""

HELLO: Final = b"\x16"
"""First byte of every TLS connection: a handshake record. No HTTP method begins with it."""

_TEXT: Final = b"400 Bad Request: this port speaks HTTPS\n"
PLAIN: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(_TEXT), _TEXT)
)

Gone = (trio.BrokenResourceError, trio.ClosedResourceError)
"""What every method but `close` raises when the connection is at its end."""


class Pipe:
    """One connection's stream. `shake` it before anything else."""

    __slots__ = ("_clear", "_tls")

    def __init__(self, stream: trio.SocketStream, tls: ssl.SSLContext | None) -> None:
        self._clear = stream
        self._tls = trio.SSLStream(stream, tls, server_side=True) if tls else None

    @property
    def socket(self) -> trio.socket.SocketType:
        """The socket below."""
        return self._clear.socket

    async def shake(self, *, seconds: float, linger_seconds: float) -> bool:
        """Agree on keys, if there is TLS; false if this did not happen within `seconds`.

        A client that speaks HTTP in clear is told so in its own tongue.
        """
        if self._tls is None:
            return True
        with trio.move_on_after(seconds):
            try:
                first = await self.socket.recv(1, socket.MSG_PEEK)
                if first == HELLO:
                    await self._tls.do_handshake()
                    return True
                if first:
                    await self._refuse_plain(linger_seconds)
            except (*Gone, OSError):
                return False
        return False

    async def _refuse_plain(self, linger_seconds: float) -> None:
        await self._clear.send_all(PLAIN)
        self.end_half()
        drained = 0
        with trio.move_on_after(linger_seconds):  # a reset could take the answer with it
            while data := await self._clear.receive_some(RECEIVE_BYTES):
                drained += len(data)
                if drained > LINGER_BYTES:
                    return

    async def receive(self) -> bytes:
        """Some bytes; none at the end. Raises what is in Gone."""
        return bytes(await (self._tls or self._clear).receive_some(RECEIVE_BYTES))

    async def send(self, data: bytes | memoryview) -> None:
        """All of it, or what is in Gone. Cancelled, the connection is of no use any more."""
        await (self._tls or self._clear).send_all(data)

    async def say_goodbye(self) -> None:
        """End a TLS connection in order, so that its client knows that nothing is missing."""
        if self._tls is None:
            return
        with trio.move_on_after(GOODBYE_SECONDS, shield=True):
            try:
                await self._tls.aclose()
            except Gone:
                return

    def end_half(self) -> None:
        """Send no more, but go on reading. Raises OSError when the client has left."""
        self.socket.shutdown(trio.socket.SHUT_WR)

    def close(self) -> None:
        """Close the socket under whatever uses it."""
        self.socket.close()
