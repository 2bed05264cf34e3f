"""Writes pieces of a log to a descriptor, as far as whoever reads it has room, and never waits.

Used by `logs.py`, with pieces of at most PIPE_BUF bytes. Rules: never O_NONBLOCK on the descriptor
itself, which whoever shares it would get too: a terminal is opened once more, a socket is asked by
the call, a pipe is asked before. A pipe counts as full when half of it is unread, because other
processes of the broker write to the same one: two that saw the last free place would both write,
and one of them wait. Elsewhere (a file, Windows) a write waits for nobody's reading.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import sys
from typing import Final

CAPACITY_BYTES: Final = 65_536
"""Of a pipe whose system does not tell: what is usual."""


class Room:
    """The room of one descriptor."""

    __slots__ = ("_descriptor", "_half", "_is_own", "_poll", "_socket")

    def __init__(self, descriptor: int) -> None:
        mode = os.fstat(descriptor).st_mode
        self._half = _half_of(descriptor) if stat.S_ISFIFO(mode) else 0
        self._socket = socket.socket(fileno=os.dup(descriptor)) if stat.S_ISSOCK(mode) else None
        self._descriptor = _opened_anew(descriptor) if os.isatty(descriptor) else descriptor
        self._is_own = self._descriptor != descriptor
        self._poll = None
        if sys.platform != "win32":
            self._poll = select.poll()
            self._poll.register(self._descriptor, select.POLLOUT)

    def write(self, data: bytes) -> int:
        """How much of it went out; 0 where the reader would have to be waited for. OSError where
        nobody can read it any more."""
        if not self._is_there():
            return 0
        try:
            if self._socket is not None and sys.platform != "win32":
                return self._socket.send(data, socket.MSG_DONTWAIT)
            return os.write(self._descriptor, data)
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Let go of what was opened here; the descriptor that was given stays open."""
        if self._socket is not None:
            self._socket.close()
        if self._is_own:
            os.close(self._descriptor)
            self._is_own = False

    def _is_there(self) -> bool:
        """True also where a write would fail: the write says why."""
        if self._poll is None:
            return True
        found = self._poll.poll(0)
        if not found:
            return False
        is_broken = bool(found[0][1] & ~select.POLLOUT)
        return is_broken or not self._half or _unread(self._descriptor) <= self._half


def _opened_anew(descriptor: int) -> int:
    """The same terminal, with a flag of our own: one with some room would keep a longer write. The
    descriptor itself where the terminal is somebody else's and may not be opened."""
    if sys.platform == "win32":
        return descriptor
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return descriptor


if sys.platform == "win32":

    def _half_of(_: int) -> int:
        return 0

    def _unread(_: int) -> int:
        return 0

else:
    import fcntl
    import termios

    def _half_of(descriptor: int) -> int:
        """How much may be unread in a pipe that is written to."""
        ask = getattr(fcntl, "F_GETPIPE_SZ", None)
        return (CAPACITY_BYTES if ask is None else fcntl.fcntl(descriptor, ask)) // 2

    def _unread(descriptor: int) -> int:
        number = fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4)
        return int.from_bytes(number, sys.byteorder)
