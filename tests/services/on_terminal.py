"""The command line at a real terminal: a pseudo-terminal of a chosen width as standard output and
error, read to its end."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Sequence

from tests.services.cli_process import BOUND_SECONDS, PYTHON, Shell, clean_environ
from tests.warm.process import Popen


def at_terminal(
    shell: Shell,
    *words: str,
    columns: int = 100,
    stdout: int | None = None,
    stdin: bytes | None = None,
    typed: bytes | None = None,
    command: Sequence[str] = PYTHON,
) -> tuple[int, str]:
    """Exit code, and all that the terminal was sent. `stdout` replaces the terminal as one of the
    two, `stdin` is piped in, `typed` is what somebody types."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    piped = subprocess.DEVNULL if stdin is None else subprocess.PIPE
    process = Popen[bytes](
        [*command, *words],
        stdin=piped if typed is None else theirs,
        stdout=theirs if stdout is None else stdout,
        stderr=theirs,
        cwd=shell.folder,
        env=clean_environ({"TERM": "xterm", **shell.environ}),
    )
    os.close(theirs)
    if typed is not None:
        os.write(ours, typed)
    if process.stdin is not None:
        process.stdin.write(stdin or b"")
        process.stdin.close()
    shown = bytearray()
    try:
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError as error:
                if error.errno != errno.EIO:  # how Linux says that the last program has left
                    raise
                break
            if not part:
                break
            shown += part
        code = process.wait(BOUND_SECONDS)
    finally:
        os.close(ours)
        process.kill()
        process.wait()
    return code, shown.decode().replace("\r\n", "\n")
