"""A file system in which a process dies at a place of its own choice, by SIGKILL.

Nothing happens until MARK is written to the log; the death belongs to the transaction that wrote
it. Used by fatal_worker.py, in a process of its own. POINTS tells the places and whether what the
transaction did is there for the next process: the kernel keeps what was written, synced or not.
"""

from __future__ import annotations

import os
import signal
import socket
from typing import Final, NoReturn

import apsw

from tests.storage.fault_vfs import spelled

MARK: Final = "the marked one"
_MARK: Final = MARK.encode()

POINTS: Final = {
    "first write": False,
    "half of the commit": False,
    "commit": True,
    "sync of the log": True,  # FULL alone has one
    "answer": True,
    "write of a checkpoint": True,
    "sync of a checkpoint": True,
}
"""Place → whether the marked transaction stands."""

AFTER_CHECKPOINT: Final = ("write of a checkpoint", "sync of a checkpoint")

FRAME_HEAD: Final = 24
"""Bytes in front of each page of the log; from the fifth to the eighth tell the size of the
database, and are zero except in the frame that commits."""


def die() -> NoReturn:
    """Now, whatever is open."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


class FatalVfs(apsw.VFS):
    """The system's VFS, as the default of this process."""

    def __init__(self, point: str) -> None:
        self.point = point
        self.base = apsw.vfs_names()[0]
        self.is_marked = False
        self.commits = False
        """The page that comes next to the log is the last of its transaction."""
        self.has_committed = False
        super().__init__("mqlite-fatal", self.base, True)

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        return FatalFile(self, name, flags)

    def reached(self, point: str) -> None:
        """Die, if this is the place."""
        if self.is_marked and self.point == point:
            die()


class FatalFile(apsw.VFSFile):
    """A file that looks at what is written to it."""

    def __init__(
        self, vfs: FatalVfs, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        self._vfs = vfs
        self._is_log = spelled(name).endswith("-wal")
        super().__init__(vfs.base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        vfs = self._vfs
        if not self._is_log:
            super().xWrite(data, offset)
            vfs.reached("write of a checkpoint")
            return
        if len(data) == FRAME_HEAD:
            vfs.commits = any(data[4:8])
            super().xWrite(data, offset)
            return
        vfs.is_marked = vfs.is_marked or _MARK in data
        vfs.reached("first write")
        if vfs.commits and vfs.is_marked and vfs.point == "half of the commit":
            super().xWrite(data[: len(data) // 2], offset)
            die()
        super().xWrite(data, offset)
        if vfs.commits and vfs.is_marked:
            vfs.has_committed = True
            vfs.reached("commit")

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        self._vfs.reached("sync of the log" if self._is_log else "sync of a checkpoint")
        super().xSync(flags)


def install(point: str) -> FatalVfs:
    """Make this the process's file system; for `answer`, look at what it sends as well."""
    vfs = FatalVfs(point)
    send = socket.socket.send

    def send_or_die(self: socket.socket, data: bytes, *flags: int) -> int:
        if vfs.has_committed and len(data) > 1:  # one byte is a thread that wakes trio
            vfs.reached("answer")
        return send(self, data, *flags)

    socket.socket.send = send_or_die  # type: ignore[method-assign,assignment]  # for good
    return vfs
