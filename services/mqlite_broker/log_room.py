"""Writes pieces of a log to a descriptor, as far as whoever reads it has room, and never waits.

Used by `logs.py`, with pieces of at most PIPE_BUF bytes. Rules: never O_NONBLOCK on the descriptor
itself, which whoever shares it would get too: a terminal is opened once more, a socket is asked by
the call, a pipe is asked before. A pipe counts as full when half of it is unread, because other
processes of the broker write to the same one: two that saw the last free place would both write,
and one of them wait. A terminal that may not be opened again, because it is another user's, is
written to by a thread that alone may wait. Elsewhere (a file, Windows) a write waits for nobody's
reading.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import sys
import threading
from typing import Final

CAPACITY_BYTES: Final = 65_536
"""Of a pipe whose system does not tell: what is usual. As much waits for a thread."""

LAST_SECONDS: Final = 1.0
"""For a thread to write the last of it."""


class Room:
    """The room of one descriptor."""

    __slots__ = ("_descriptor", "_half", "_is_own", "_poll", "_socket", "_thread")

    def __init__(self, descriptor: int) -> None:
        mode = os.fstat(descriptor).st_mode
        self._half = _half_of(descriptor) if stat.S_ISFIFO(mode) else 0
        self._socket = socket.socket(fileno=os.dup(descriptor)) if stat.S_ISSOCK(mode) else None
        self._descriptor = _opened_anew(descriptor) if os.isatty(descriptor) else descriptor
        self._is_own = self._descriptor != descriptor
        self._thread = None
        if os.isatty(descriptor) and not self._is_own and sys.platform != "win32":
            self._thread = _Patient(descriptor)
        self._poll = None
        if sys.platform != "win32":
            self._poll = select.poll()
            self._poll.register(self._descriptor, select.POLLOUT)

    def write(self, data: bytes) -> int:
        """How much of it went out; 0 where the reader would have to be waited for. OSError where
        nobody can read it any more."""
        if self._thread is not None:
            return self._thread.write(data)
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
        if self._thread is not None:
            self._thread.close()
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


class _Patient:
    """A thread that writes what it is given, and waits where that takes long. It ends with the
    process, however long it waits then."""

    __slots__ = ("_changed", "_data", "_descriptor", "_failure", "_is_ending", "_runner")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._data = b""
        self._failure: OSError | None = None
        self._is_ending = False
        self._changed = threading.Condition()
        self._runner = threading.Thread(target=self._run, name="log", daemon=True)
        self._runner.start()

    def write(self, data: bytes) -> int:
        """Take all of it, or 0 where too much waits already. OSError if an earlier piece could not
        be written."""
        with self._changed:
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            if self._data and len(self._data) + len(data) > CAPACITY_BYTES:
                return 0
            self._data += data
            self._changed.notify()
            return len(data)

    def close(self) -> None:
        """Let it write what it has, if that does not take long."""
        with self._changed:
            self._is_ending = True
            self._changed.notify()
        self._runner.join(LAST_SECONDS)

    def _run(self) -> None:
        while piece := self._next():
            try:
                while piece:
                    piece = piece[os.write(self._descriptor, piece) :]
            except OSError as error:
                self._failure = error

    def _next(self) -> bytes:
        """What waits, taken; nothing at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._data or self._is_ending)
            piece, self._data = self._data, b""
            return piece


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
