"""Whether a descriptor takes a piece of a log now, without waiting for whoever reads it.

Asked by `logs.py` before each write of at most PIPE_BUF bytes. Rules: never O_NONBLOCK, which
whoever shares the descriptor would get too; a pipe counts as full when half of it is unread,
because other processes of the broker write to the same one: two that saw the last free place would
both write, and one of them wait.
"""

from __future__ import annotations

import fcntl
import os
import select
import stat
import sys
import termios
from typing import Final

CAPACITY_BYTES: Final = 65_536
"""Of a pipe whose system does not tell: what is usual."""


class Room:
    """The room of one descriptor."""

    __slots__ = ("_descriptor", "_half", "_poll")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._half = _half_of(descriptor)
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def is_there(self) -> bool:
        """True also where a write would fail: the write says why."""
        found = self._poll.poll(0)
        if not found:
            return False
        is_broken = bool(found[0][1] & ~select.POLLOUT)
        return is_broken or not self._half or _unread(self._descriptor) <= self._half


def _half_of(descriptor: int) -> int:
    """How much may be unread in a pipe that is written to; 0 for what is no pipe."""
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return 0
    ask = getattr(fcntl, "F_GETPIPE_SZ", None)
    return (CAPACITY_BYTES if ask is None else fcntl.fcntl(descriptor, ask)) // 2


def _unread(descriptor: int) -> int:
    number = fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4)
    return int.from_bytes(number, sys.byteorder)
