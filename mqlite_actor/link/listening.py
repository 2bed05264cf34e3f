"""The link's Unix socket: made private, never stolen from a living owner, gone at the end.

The broker calls `bound` and `serve_links`; each program that connects becomes a `ServedLink`.
Rules: the socket file is 0600 before anybody can connect; a path where somebody answers is refused,
one that a dead process left behind is replaced; anything else at that path is left alone. Programs
of other users are sent away whatever its mode has become. An error of one link ends neither the
others nor the listener.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import stat
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import trio

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument, OpenError, Unsupported
from mqlite_actor.engine.engine import Engine
from mqlite_actor.link import peers
from mqlite_actor.link.server import Completed, ServedLink
from mqlite_actor.logs import logger

_log = logger("mqlite.link")

PATH_BYTES_MAX: Final = 90
"""Of a socket's path: the kernel takes 107, and it is made beside its place under a longer name."""

BACKLOG: Final = 128
"""Programs that may wait to be accepted; the kernel's usual bound is no lower."""

ACCEPT_PAUSE_SECONDS: Final = 0.1
"""After the process ran out of descriptors: others must close some first."""

Serve = Callable[[socket.socket, trio.Semaphore], Awaitable[None]]

_FULL: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)


@contextmanager
@trio.lowlevel.enable_ki_protection
def bound(path: str) -> Iterator[socket.socket]:
    """A listening socket at `path` for the length of a block; only its owner may connect.

    OpenError when somebody answers there, when something else than a socket is there, or when it
    cannot be made; then nothing was changed. The file is removed at the end if it is still ours.
    """
    if not hasattr(socket, "AF_UNIX"):
        raise Unsupported("this system has no Unix sockets, so the link socket cannot be used")
    if not path or len(os.fsencode(path)) > PATH_BYTES_MAX or "\0" in path:
        raise InvalidArgument(f"the link socket's path must have 1 to {PATH_BYTES_MAX} bytes")
    _check_free(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        ours = _place(listener, path)
        try:
            yield listener
        finally:
            _remove(path, ours)
    finally:
        listener.close()


@trio.lowlevel.enable_ki_protection
async def serve_links(
    listener: socket.socket,
    engine: Engine,
    *,
    stopping: trio.Event,
    grace_seconds: float,
    completed: Completed | None = None,
) -> None:
    """Accept programs until `stopping`; then nobody new, and `grace_seconds` for what runs.

    Cancelled, all links end at once. Claims that no reader saw are given back either way.
    """
    listener.setblocking(False)
    async with trio.open_nursery() as links:
        async with trio.open_nursery() as accepting:
            serve = partial(_serve, engine=engine, stopping=stopping, completed=completed)
            accepting.start_soon(_accept, listener, serve, links)
            await stopping.wait()
            accepting.cancel_scope.cancel()
        links.cancel_scope.deadline = trio.current_time() + grace_seconds


@trio.lowlevel.enable_ki_protection
async def _accept(listener: socket.socket, serve: Serve, links: trio.Nursery) -> None:
    room = trio.Semaphore(limits.LINKS_MAX)
    while True:
        await room.acquire()
        sock = await _next(listener)
        if _may_come(sock):
            links.start_soon(serve, sock, room)
        else:
            sock.close()
            room.release()


async def _next(listener: socket.socket) -> socket.socket:
    while True:
        try:
            return listener.accept()[0]
        except BlockingIOError:
            await trio.lowlevel.wait_readable(listener)
        except OSError as error:
            if error.errno in _FULL:
                _log.warning("a program cannot be accepted: %s", error.strerror)
                await trio.sleep(ACCEPT_PAUSE_SECONDS)
            elif error.errno not in (errno.ECONNABORTED, errno.EPERM):
                raise


def _may_come(sock: socket.socket) -> bool:
    user = peers.user_of(sock)
    if peers.may_come(user, os.geteuid()):
        return True
    _log.warning("a program of user %s was sent away from the link: it is another user's", user)
    return False


@trio.lowlevel.enable_ki_protection
async def _serve(
    sock: socket.socket,
    room: trio.Semaphore,
    *,
    engine: Engine,
    stopping: trio.Event,
    completed: Completed | None,
) -> None:
    try:
        await ServedLink(sock, engine, stopping=stopping, completed=completed).run()
    except Exception:  # noqa: BLE001  # logged, and the other links stay open (faults B96)
        _log.exception("an error ended a link")
    finally:
        sock.close()
        room.release()


# -- the file --------------------------------------------------------------------------------------


def _check_free(path: str) -> None:
    try:
        is_socket = stat.S_ISSOCK(Path(path).lstat().st_mode)
    except FileNotFoundError:
        return
    except OSError as error:
        raise OpenError(f"the link socket {path}: {error.strerror}") from error
    if not is_socket:
        raise OpenError(f"the link socket {path}: something else has this name; choose another")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return  # left behind by a process that is gone
        except BlockingIOError:
            pass  # so busy that it cannot even queue us
        except OSError as error:
            raise OpenError(f"the link socket {path}: {error.strerror}") from error
    raise OpenError(f"the link socket {path} belongs to a running program; choose another path")


def _place(listener: socket.socket, path: str) -> os.stat_result:
    """Bind under a name of its own, make it private, listen, and only then move it to `path`."""
    draft = f"{path}.{secrets.token_hex(6)}"
    try:
        listener.bind(draft)
        try:
            Path(draft).chmod(0o600)
            listener.listen(BACKLOG)
            Path(draft).replace(path)
        except OSError:
            with suppress(OSError):  # the first error is the one to tell
                Path(draft).unlink()
            raise
        return Path(path).lstat()
    except OSError as error:
        raise OpenError(f"the link socket {path}: {error.strerror}") from error


def _remove(path: str, ours: os.stat_result) -> None:
    with suppress(OSError):  # gone already, or the folder is
        there = Path(path).lstat()
        if (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino):
            Path(path).unlink()
