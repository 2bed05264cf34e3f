"""The protocol's stream over descriptors of its own: lines in, lines out, and nothing else there.

Made by `serving` before anything can print. Rules: while a `Wire` lives, descriptor 1 is stderr and
descriptor 0 is empty, so no print, warning or child process can break the stream (fault B85); one
JSON object a line, in ASCII, so no character of a message can end a line; a line that is no request
is answered only if it names an id, since the protocol has no null id (ruling R5); no line is longer
than LINE_BYTES_MAX; and reading happens in a thread that a cancellation leaves behind.
"""

from __future__ import annotations

import json
import os
import re
import select
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial

import anyio
import anyio.to_thread
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

LINE_BYTES_MAX = 128 << 20
"""A request of 32 MiB, the broker's bound, whose every byte is escaped, fits twice over."""

CHUNK_BYTES = 1 << 16
"""What a pipe holds."""

LOOK_BYTES_MAX = 1 << 20
"""Of a line that no parser takes; its id is looked for piece by piece, while others wait."""

_TEXT = rb'"[^"\\]*(?:\\.[^"\\]*)*'
_PIECE = re.compile(_TEXT + rb'"?|[{\[]+|[}\]]+', re.DOTALL)
_VALUE = re.compile(rb"\s*:\s*(" + _TEXT + rb'"|-?[0-9]+)\s*[,}]', re.DOTALL)

REPLIES_MAX = 64
"""Answers that wait for a slow client; when there are more, calls wait to answer."""


class Wire:
    """The two descriptors, and which requests are still without an answer."""

    __slots__ = ("_in", "_is_idle", "_open", "_out")

    def __init__(self, reading: int, writing: int) -> None:
        self._in, self._out = reading, writing
        self._open: set[types.RequestId] = set()
        self._is_idle = anyio.Event()

    async def idle(self) -> None:
        """Return when every request that was read has its answer written."""
        while self._open:
            self._is_idle = anyio.Event()
            await self._is_idle.wait()

    async def read(
        self,
        received: MemoryObjectSendStream[SessionMessage | Exception],
        refused: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        """Hand on what comes until stdin ends; what is no request, and has an id, is refused."""
        async for line in self._lines():
            if not line.strip():
                continue
            try:
                message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValidationError:
                answer = refusal(line)
                if answer is None:
                    complain("a line on stdin is no message of the protocol; it was skipped")
                else:
                    await refused.send(SessionMessage(answer))
                continue
            self._note(message)
            await received.send(SessionMessage(message))

    async def write(self, replies: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write what there is until the sending side closes; OSError when nobody reads it."""
        async for each in replies:
            message = each.message
            value = message.model_dump(by_alias=True, exclude_unset=True, mode="json")
            line = json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"
            await anyio.to_thread.run_sync(
                partial(_write_all, self._out, line), abandon_on_cancel=True
            )
            if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
                self._close(message.id)

    def _note(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCRequest):
            self._open.add(message.id)
        elif (
            isinstance(message, types.JSONRPCNotification)
            and message.method == "notifications/cancelled"
        ):
            self._close((message.params or {}).get("requestId"))

    def _close(self, request_id: object) -> None:
        if isinstance(request_id, str | int):
            self._open.discard(request_id)
        if not self._open:
            self._is_idle.set()

    async def _lines(self) -> AsyncIterator[bytes]:
        rest = bytearray()
        is_too_long = False
        while chunk := await anyio.to_thread.run_sync(_read_some, self._in, abandon_on_cancel=True):
            head, *others = chunk.split(b"\n")
            rest += head
            for each in others:
                if not is_too_long:
                    yield bytes(rest)
                is_too_long = False
                rest = bytearray(each)
            if len(rest) > LINE_BYTES_MAX:
                complain(f"a line on stdin is longer than {LINE_BYTES_MAX} bytes; it was skipped")
                rest.clear()
                is_too_long = True
        if rest and not is_too_long:
            yield bytes(rest)


def refusal(line: bytes) -> types.JSONRPCError | None:
    """The answer to a line that is no message; None if it names no id to answer to."""
    message = "not a request of the protocol; a text may hold half a surrogate pair"
    try:
        value = json.loads(line)
        request_id = value.get("id") if isinstance(value, dict) else None
    except ValueError:
        return None
    except RecursionError:
        message = "not a request of the protocol; it is nested too deep"
        request_id = _outermost_id(line)
    if isinstance(request_id, bool) or not isinstance(request_id, str | int):
        return None
    if isinstance(request_id, str) and not request_id.isprintable():
        return None
    error = types.ErrorData(code=types.INVALID_REQUEST, message=message)
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def _outermost_id(line: bytes) -> object:
    """The id of an object that is nested too deep for a parser; None if it cannot be told."""
    if len(line) > LOOK_BYTES_MAX or not line.lstrip().startswith(b"{"):
        return None
    depth, found = 0, None
    for piece in _PIECE.finditer(line):
        text = piece[0]
        if text[:1] in b"{[":
            depth += len(text)
        elif text[:1] in b"}]":
            depth -= len(text)
        elif depth == 1 and text == b'"id"':
            found = _VALUE.match(line, piece.end()) or found
    try:
        return json.loads(found[1]) if found else None
    except ValueError:
        return None


def complain(text: str) -> None:
    """One line for whoever reads the server's log."""
    sys.stderr.write(f"mqlite-mcp: {text}\n")
    sys.stderr.flush()


@contextmanager
def guarded() -> Iterator[Wire]:
    """Take stdin and stdout away from everybody else for the length of a block.

    Afterwards they are where they were. OSError if one of them is closed.
    """
    for name, stream in (("input", sys.stdin), ("output", sys.stdout)):
        if stream is None:
            raise OSError(f"standard {name} is closed; the protocol needs both")
    sys.stdout.flush()
    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield Wire(reading, writing)
    finally:
        sys.stdout.flush()
        os.dup2(reading, 0)
        os.dup2(writing, 1)
        os.close(nothing)  # the copies stay open: a thread that was left behind may still read


def _read_some(descriptor: int) -> bytes:
    while True:
        try:
            return os.read(descriptor, CHUNK_BYTES)
        except BlockingIOError:
            # Whoever has the other end may have set both to non-blocking; a pause is no failure.
            select.select([descriptor], [], [])


def _write_all(descriptor: int, line: bytes) -> None:
    view = memoryview(line)
    while view:
        try:
            written = os.write(descriptor, view)
        except BlockingIOError:
            select.select([], [descriptor], [])  # as above; a slow reader is no failure either
            continue
        view = view[written:]
