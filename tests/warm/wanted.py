"""What a warm start is asked for, and how the words travel between the two sides.

Written by process.py, read by __main__.py: one pickled `Wanted` behind its length, the three
standard descriptors beside it, and after them those that the program is handed. Rule: this file
imports little, both sides read it at their start.
"""

from __future__ import annotations

import pickle
import socket
import struct
from dataclasses import dataclass
from typing import Final

HEAD: Final = struct.Struct("!I")
STREAMS: Final = 3
"""Standard input, output and error."""

DESCRIPTORS_MAX: Final = 16
"""The streams with what is handed over: a broker's worker gets its link and the listeners."""


@dataclass(frozen=True)
class Wanted:
    """`python -m MODULE WORDS`, with all that a process is given at its start."""

    module: str
    words: tuple[bytes, ...]
    folder: bytes
    environ: dict[bytes, bytes]
    new_session: bool
    process_group: int
    handed: tuple[int, ...] = ()
    """The numbers that further descriptors have in the program."""


def send(connection: socket.socket, wanted: Wanted, streams: list[int]) -> None:
    """Ask; the descriptors stay the caller's to close."""
    body = pickle.dumps(wanted)
    socket.send_fds(connection, [HEAD.pack(len(body))], streams)
    connection.sendall(body)


def receive(connection: socket.socket) -> tuple[Wanted, list[int]] | None:
    """The next request with descriptors of its own; None at the end."""
    head, streams, _, _ = socket.recv_fds(connection, HEAD.size, DESCRIPTORS_MAX)
    if not head:
        return None
    (length,) = HEAD.unpack(head)
    wanted = pickle.loads(read(connection, length))
    assert isinstance(wanted, Wanted)
    assert len(streams) == STREAMS + len(wanted.handed)
    return wanted, streams


def read(connection: socket.socket, length: int) -> bytes:
    """Exactly so many bytes; EOFError if the other side ends before."""
    parts = bytearray()
    while len(parts) < length:
        part = connection.recv(length - len(parts))
        if not part:
            raise EOFError("the other side of a warm start ended")
        parts += part
    return bytes(parts)
