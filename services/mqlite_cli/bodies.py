"""Where a message body comes from: words, standard input or a file (spec/tools.md 1.4).

Called by the sending commands before any connection exists, so that a bad file never touches a
broker; `read_file` also serves other small files. Rules: exactly one source; bytes stay what they
are; nothing is ever truncated: standard input has a cap of its own, a file that of a whole request.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from mqlite_actor.contract.limits import REQUEST_BYTES_MAX
from mqlite_cli.refusals import Refusal
from mqlite_cli.streams import STDIN, Streams, read_some

STDIN_BYTES_MAX = 16 * 1024 * 1024
"""The contract's number; far over any broker's cap on a message, and small enough to hold."""

_CHUNK_BYTES = 64 * 1024


def read_body(words: Sequence[str], *, file: str, streams: Streams) -> bytes:
    """The body that `words` or `file` (a path, or "") hold. Refusal names what is wrong."""
    if file and words:
        raise Refusal("the body is given twice; use either arguments or --file")
    if file:
        return read_file(file, bytes_max=REQUEST_BYTES_MAX)
    if not words:
        raise Refusal("no body; give one as arguments, as `-` for standard input, or with --file")
    if words[0] == "-":
        if len(words) > 1:
            raise Refusal("`-` reads the whole body from standard input; drop the words behind it")
        return _read_stdin(streams)
    # The shell's bytes as they were typed, UTF-8 or not.
    return b" ".join(os.fsencode(word) for word in words)


def read_file(path: str, *, bytes_max: int) -> bytes:
    """The whole file, or Refusal if it cannot be read or is larger."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return _read_whole(descriptor, name=path, bytes_max=bytes_max)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise Refusal(f"cannot read {path}: {error.strerror}") from error


def _read_stdin(streams: Streams) -> bytes:
    if streams.is_stdin_closed:
        raise Refusal("standard input is closed; there is no body to read")
    try:
        return _read_whole(STDIN, name="standard input", bytes_max=STDIN_BYTES_MAX)
    except OSError as error:
        raise Refusal(f"cannot read standard input: {error.strerror}") from error


def _read_whole(descriptor: int, *, name: str, bytes_max: int) -> bytes:
    content = bytearray()
    while chunk := read_some(descriptor, _CHUNK_BYTES):
        content += chunk
        if len(content) > bytes_max:
            raise Refusal(f"{name} holds more than {bytes_max} bytes; nothing was sent")
    return bytes(content)
