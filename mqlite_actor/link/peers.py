"""Whose program is at the other end of a link: the kernel knows, and cannot be lied to.

`listening` asks it of each program that connects, `client.connect` of whoever listens. The socket's
mode 0600 keeps other users out as long as it stays that; this holds when somebody widened it, or
put a socket of their own at the path (design.md 8, decision 21). Rule: where the system has no
SO_PEERCRED there is nothing to ask, and the mode alone decides.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Final

ROOT: Final = 0
"""May do everything on this machine anyway."""

_CREDENTIALS: Final = struct.Struct("iII")
"""Linux's `struct ucred`: process, user, group (unix(7))."""


def user_of(sock: socket.socket) -> int | None:
    """Who is at the other end, as it connected or listened; None: the system cannot say."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    answer = sock.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    user: int = _CREDENTIALS.unpack(answer)[1]
    return user


def may_come(user: int | None, ours: int) -> bool:
    """Whether a program of `user` may use an engine of user `ours`: it can do everything there."""
    return user in (None, ROOT, ours)


def may_be_told(user: int | None, ours: int) -> bool:
    """Whether a program of user `ours` may tell its messages to a listener of `user`.

    Root connects to whatever it is pointed at, as it does to a broker that runs as somebody else.
    """
    return ours == ROOT or may_come(user, ours)


def check_listener(sock: socket.socket) -> None:
    """PermissionError when another user listens at the socket that `sock` has connected to."""
    user = user_of(sock)
    if not may_be_told(user, os.geteuid()):
        raise PermissionError(
            errno.EPERM, f"user {user} listens there, who is neither yours nor root"
        )
