"""An interpreter that has imported what programs of ours import, and becomes one on request.

Started by process.py as `python -m tests.warm DESCRIPTOR PACKAGE…`; ends when the other end of that
socket closes. Each request is a fork that goes on as `python -m MODULE WORDS` would: its streams,
its folder, its environment, its words, and the interpreter's own end with everything in it.
Rules: no thread, no event loop and no database is ever opened here, so that nothing but modules is
there twice; the child is a child of whoever asked (who is a subreaper just then), not of this one.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import os
import pkgutil
import runpy
import socket
import sys
import threading
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import IO, NoReturn

import trio._core._run as trio_run

from tests.warm.process import begin_from
from tests.warm.wanted import HEAD, STREAMS, Wanted, receive

FURTHER = ("h11", "httpcore", "prometheus_client", "rich.console", "rich.live", "rich.table")
"""What our modules import inside functions."""

UNWANTED = ("mqlite_actor.testing.plugin",)
"""pytest's own, which no program imports."""


def main() -> None:
    connection = socket.socket(fileno=int(sys.argv[1]))
    for package in sys.argv[2:]:
        warm_up(package)
    for name in FURTHER:
        with suppress(ModuleNotFoundError):
            importlib.import_module(name)
    assert threading.active_count() == 1, threading.enumerate()
    gc.collect()
    gc.freeze()  # what is shared with the children is not to be touched there
    offer(connection)


def offer(connection: socket.socket) -> None:
    """Serve, and in each child be what was asked for; returns at the end of the connection."""
    wanted = serve(connection)
    if wanted is not None:
        become(wanted)


def warm_up(package: str) -> None:
    """Import a package with its modules; those that run a program are left to the programs."""
    found = importlib.import_module(package)
    for module in pkgutil.walk_packages(found.__path__, f"{package}."):
        if not module.name.endswith(".__main__") and module.name not in UNWANTED:
            importlib.import_module(module.name)


def serve(connection: socket.socket) -> Wanted | None:
    """Fork for each request. Gives the request in each child, and None here at the end."""
    while (asked := receive(connection)) is not None:
        wanted, streams = asked
        pid = forked(streams, wanted.handed)
        if pid == 0:
            connection.detach()  # closed with everything else
            return wanted
        for stream in streams:
            os.close(stream)
        connection.sendall(HEAD.pack(pid))
    return None


def forked(descriptors: list[int], handed: tuple[int, ...]) -> int:
    """Fork twice, so that the grandchild is nobody's child here; its id, and 0 in itself, which has
    the descriptors, the first as its streams and the others under the numbers of `handed`.

    It goes on when the process between has ended, and its parent is the one that it will have.
    """
    said, says = os.pipe()
    goes, go = os.pipe()
    between = os.fork()
    if between == 0:
        pid = os.fork()
        if pid:
            os.write(says, HEAD.pack(pid))
            os._exit(0)
        os.close(go)
        os.read(goes, 1)
        place(descriptors, [*range(STREAMS), *handed])
        return 0
    os.waitpid(between, 0)
    (pid,) = HEAD.unpack(os.read(said, HEAD.size))
    for descriptor in (said, says, goes, go):
        os.close(descriptor)
    return int(pid)


def place(descriptors: list[int], numbers: list[int]) -> None:
    """Have the descriptors under these numbers, and no others."""
    beyond = max(*numbers, *descriptors) + 1
    for offset, each in enumerate(descriptors):  # out of the way of each other first
        os.dup2(each, beyond + offset)
    for offset, number in enumerate(numbers):
        os.dup2(beyond + offset, number)
    for first, last in pairwise([-1, *sorted(numbers), os.sysconf("SC_OPEN_MAX")]):
        if first + 1 < last:  # an empty range is all of them to the system
            os.closerange(first + 1, last)


def become(wanted: Wanted) -> None:
    """Be the program: this process ends as it ends."""
    if wanted.new_session:
        os.setsid()
    elif wanted.process_group >= 0:
        os.setpgid(0, wanted.process_group)
    os.chdir(wanted.folder)
    os.environb.clear()
    os.environb.update(wanted.environ)
    time.tzset()
    if has_workers(wanted):
        warm_workers()
    trio_run._r.seed()  # or every child would run its tasks in one order
    open_streams()
    sys.path[0] = str(Path.cwd())
    sys.argv[:] = [wanted.module, *map(os.fsdecode, wanted.words)]
    if not hasattr(sys.modules.get(wanted.module), "__path__"):
        sys.modules.pop(wanted.module, None)  # what runs is not what others import
    try:
        runpy.run_module(wanted.module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, int):
            leave(end.code)
        raise


def has_workers(wanted: Wanted) -> bool:
    """Whether this is a broker that starts processes of its own."""
    told = wanted.environ.get(b"MQLITE_WORKERS", b"0")
    return b"--workers" in wanted.words or told != b"0"


def warm_workers() -> None:
    """Have a child that is as new as this process still is, from which its workers begin."""
    ours, theirs = socket.socketpair()
    if os.fork():
        theirs.close()
        begin_from(ours)
        return
    os.setpgid(0, 0)  # what strikes the broker's group is not for the one that waits
    nothing = os.open(os.devnull, os.O_RDWR)
    place([nothing] * STREAMS + [theirs.detach()], [*range(STREAMS), STREAMS])
    ours.detach()
    offer(socket.socket(fileno=STREAMS))
    os._exit(0)


def leave(code: int) -> NoReturn:
    """End as the interpreter does, but leave its modules to the system: to take them apart costs
    more than all before, since nothing of them is this process's own yet."""
    vars(threading)["_shutdown"]()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


def open_streams() -> None:
    """The three standard streams, as an interpreter opens them when it starts."""
    errors = sys.stdin.errors
    opened = (
        stream(0, "rb", errors, is_by_lines=os.isatty(0)),
        stream(1, "wb", errors, is_by_lines=os.isatty(1)),
        stream(2, "wb", "backslashreplace", is_by_lines=True),
    )
    for name, value in zip(("stdin", "stdout", "stderr"), opened, strict=True):
        setattr(sys, name, value)
        setattr(sys, f"__{name}__", value)


def stream(number: int, mode: str, errors: str | None, *, is_by_lines: bool) -> io.TextIOWrapper:
    binary: IO[bytes] = open(number, mode, closefd=False)  # noqa: SIM115 - open to the very end
    newline = None if mode == "rb" else "\n"
    return io.TextIOWrapper(binary, sys.stdin.encoding, errors, newline, is_by_lines)


if __name__ == "__main__":
    main()
