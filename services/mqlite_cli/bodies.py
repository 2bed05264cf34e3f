"""Where a message body comes from: words, standard input or a file (spec/tools.md 1.4).

Called by the sending commands before any connection exists, so that a bad file never touches a
broker. Rules: exactly one source; bytes stay what they are; nothing is ever truncated: standard
input has a cap of its own, a file that of a whole request.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from mqlite_actor.contract.limits import REQUEST_BYTES_MAX
from mqlite_cli.refusals import Refusal
from mqlite_cli.streams import STDIN, Streams

STDIN_BYTES_MAX = 16 * 1024 * 1024
"""The contract's number; far over any broker's cap on a message, and small enough to hold."""

_CHUNK_BYTES = 64 * 1024


def read_body(words: Sequence[str], *, file: str, streams: Streams) -> bytes:
    """The body that `words` or `file` (a path, or "") hold. Refusal names what is wrong."""
    if file and words:
        raise Refusal("the body is given twice; use either arguments or --file")
    if file:
        return _read_file(file)
    if not words:
        raise Refusal("no body; give one as arguments, as `-` for standard input, or with --file")
    if words[0] == "-":
        if len(words) > 1:
            raise Refusal("`-` reads the whole body from standard input; drop the words behind it")
        return _read_stdin(streams)
    # The shell's bytes as they were typed, UTF-8 or not.
    return b" ".join(os.fsencode(word) for word in words)


def _read_file(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            body = file.read(REQUEST_BYTES_MAX + 1)
    except OSError as error:
        raise Refusal(f"cannot read {path}: {error.strerror}") from error
    if len(body) > REQUEST_BYTES_MAX:
        raise Refusal(f"{path} is larger than the {REQUEST_BYTES_MAX} bytes of a whole request")
    return body


def _read_stdin(streams: Streams) -> bytes:
    if streams.is_stdin_closed:
        raise Refusal("standard input is closed; there is no body to read")
    body = bytearray()
    while chunk := _read_chunk():
        body += chunk
        if len(body) > STDIN_BYTES_MAX:
            raise Refusal(
                f"standard input holds more than {STDIN_BYTES_MAX} bytes; nothing was sent"
            )
    return bytes(body)


def _read_chunk() -> bytes:
    try:
        return os.read(STDIN, _CHUNK_BYTES)
    except OSError as error:
        raise Refusal(f"cannot read standard input: {error.strerror}") from error
