"""The three standard streams as they were handed over, and the only ways to write to them.

`main` makes one `Streams` before anything else runs; every other module writes through it, and
reads with `read_some`. It stands on `os` and little else, so that `mqlite version` stays cheap.
Rules: a descriptor that was closed is occupied by the null device at once, because the next socket
or database file would get its number and a stray write would land inside (spec/tools.md 1.5);
nothing is printed through `sys.stdout`, whose failures surface too late, when the interpreter ends;
one that does not block is waited for.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from _thread import allocate_lock

from mqlite_cli.escaping import visible

STDIN, STDOUT, STDERR = 0, 1, 2

_COLOURS = {"error": "1;31", "warning": "33"}

BUFFER_BYTES = 64 * 1024
"""Output gathered before it is written: the size of a pipe."""


class OutputFailed(Exception):
    """Standard output did not take what was written; the message says why."""


class Streams:
    """Standard input, output and error of this process. Call `flush` before you rely on any
    output."""

    __slots__ = (
        "_fault", "_is_frozen", "_lock", "_offered", "_pending", "accepted", "is_stdin_closed",
        "is_stdout_null",
    )  # fmt: skip

    def __init__(self) -> None:
        closed = [number for number in (STDIN, STDOUT, STDERR) if _is_closed(number)]
        # The null device gets the lowest free number, which is the first of these, then the next.
        for number in closed:
            descriptor = os.open(os.devnull, os.O_RDWR)
            assert descriptor == number, "nothing else may open files before this"
            os.set_inheritable(descriptor, True)  # a command of `consume --exec` is a child
        self.is_stdin_closed = STDIN in closed
        self._fault = "it is closed" if STDOUT in closed else _write_fault(STDOUT)
        self.is_stdout_null = not self._fault and _is_null_device(STDOUT)
        self._pending = bytearray()
        self.accepted = 0  # bytes that `write` was given
        self._offered = 0  # bytes of which the system was told, whether it took them or not
        self._is_frozen = False
        self._lock = allocate_lock()

    @property
    def undeliverable(self) -> str:
        """Why nobody can read standard output, or "". Pipes, terminals and files can be read."""
        return self._fault or ("it is the null device" if self.is_stdout_null else "")

    def write(self, text: str | bytes) -> None:
        """Hand text to standard output, now or at the next flush. Raises OutputFailed."""
        data = text.encode("utf-8", "backslashreplace") if isinstance(text, str) else text
        self.accepted += len(data)
        self._pending += data
        if len(self._pending) >= BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered. Raises OutputFailed; what was not written is dropped then."""
        pending, self._pending = self._pending, bytearray()
        if not pending:
            return
        if self._fault:
            raise OutputFailed(self._fault)
        try:
            for at in range(0, len(pending), BUFFER_BYTES):
                part = pending[at : at + BUFFER_BYTES]
                self._offer(len(part))
                _write_all(STDOUT, part)
        except OSError as error:
            self._fault = error.strerror or "it cannot be written"
            raise OutputFailed(self._fault) from error

    def freeze(self) -> int:
        """Let nothing more out, from any thread; how many bytes may have been seen until now."""
        with self._lock:
            self._is_frozen = True
            return self._offered

    def _offer(self, size: int) -> None:
        with self._lock:
            if self._is_frozen:
                raise OutputFailed("the command was interrupted")
            self._offered += size

    def is_terminal(self, number: int) -> bool:
        """Whether one of the three is a terminal."""
        return os.isatty(number)

    def complain(self, line: str) -> None:
        """One line on standard error, whatever `line` holds; on a terminal the word in front of it
        is coloured."""
        shown = visible(line)
        word, colon, rest = shown.partition(": ")
        if word in _COLOURS and self.is_terminal(STDERR) and _has_colours():
            shown = f"\x1b[{_COLOURS[word]}m{word}{colon}\x1b[0m{rest}"
        try:
            _write_all(STDERR, shown.encode("utf-8") + b"\n")
        except OSError:
            # There is nowhere left to say it; the exit code still tells.
            return


def _has_colours() -> bool:
    return os.environ.get("TERM", "") not in ("", "dumb") and not os.environ.get("NO_COLOR")


def _is_closed(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return True
    return False


if sys.platform == "win32":  # pragma: no cover - no Windows machine in CI

    def _write_fault(_number: int) -> str:
        return ""  # the first write finds out

else:
    import fcntl

    def _write_fault(number: int) -> str:
        """Told from the mode it was opened with: a trial write would upset special files."""
        mode = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE
        return "it was opened for reading only" if mode == os.O_RDONLY else ""


def _is_null_device(number: int) -> bool:
    """By device number: a copy of /dev/null elsewhere counts, a plain file named so does not."""
    mine = os.fstat(number)
    null = os.stat(os.devnull)  # noqa: PTH116 - pathlib would double what `version` costs
    if not (stat.S_ISCHR(mine.st_mode) and stat.S_ISCHR(null.st_mode)):
        return False
    return mine.st_rdev == null.st_rdev


def read_some(number: int, size: int) -> bytes:
    """What is there, up to `size` bytes, as soon as there is something; nothing at the end."""
    while True:
        try:
            return os.read(number, size)
        except BlockingIOError:  # as below, by whoever has the other end of a socket or terminal
            select.select([number], [], [])


def _write_all(number: int, data: bytes | bytearray) -> None:
    rest = memoryview(data)
    while rest:
        try:
            written = os.write(number, rest)
        except BlockingIOError:
            # Somebody set the shared pipe or terminal to non-blocking; a slow reader is no failure.
            select.select([], [number], [])
            continue
        rest = rest[written:]
