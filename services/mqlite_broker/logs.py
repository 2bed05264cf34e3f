"""Log lines on stderr: `HH:MM:SS.mmm LEVEL text key=value`, or the same as JSON.

Set up by `serve.py`; `access_log.py` writes one line per request through `access_line`. Whatever
came from a client is quoted when it holds anything but plain characters, so that no name can forge
a line or drive a terminal. Bodies and properties never get here, and no token but one that is
made to be shown: one that somebody put where a path is wanted is masked, in every text and field.
While `Lines.gather` runs, access lines leave together every few milliseconds, because a system call
for each costs as much as a request's SQL; any other line leaves at once, and takes with it what
came before. No line is lost when the gathering ends. Nothing waits for a reader that does not read:
its lines wait, and what is too much for that is counted.
"""

from __future__ import annotations

import json
import logging
import math
import re
import select
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import trio

from mqlite_actor.clock import SystemClock
from mqlite_actor.logs import Harmless, logger
from mqlite_actor.sdk.address import without_tokens
from mqlite_broker.log_room import Room

Field = tuple[str, str | int]

LEVEL_WORDS: Final = {"debug": 10, "info": 20, "warn": 30, "error": 40}
_WORD_OF: Final = {10: "DEBUG", 20: "INFO", 30: "WARN", 40: "ERROR", 50: "ERROR"}
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:/@%+,*<>=~-]+")

TEXT_CHARACTERS: Final = 200
"""How much of a client's text a line repeats."""

GATHER_SECONDS: Final = 0.02
"""How long an access line may wait for others."""

GATHER_LINES: Final = 1000
"""More of them do not wait: some hundred kilobytes."""

BACKLOG_BYTES: Final = 1024 * 1024
"""What waits for a reader that has stopped to read: a terminal that is held, a stuck collector."""

STALLED_SECONDS: Final = 0.5
"""Between two looks whether it reads again."""

LAST_SECONDS: Final = 1.0
"""For a slow reader to take the last lines of a broker that ends."""

LOST: Final = (logging.WARNING, "log lines lost, because nobody read them", ("n",))

PIPE_BYTES: Final[int] = getattr(select, "PIPE_BUF", 512)
"""What a pipe takes in one piece; 512 where the system does not tell."""

STDERR: Final = 2

CLOCK: Final = SystemClock()


access = logger("mqlite.access")
_root = logging.getLogger("mqlite")

Names = tuple[str, ...]
Values = Sequence[str | int | float]
"""A float is a time in seconds, and shown in milliseconds."""

Form = Callable[[int, int, str, Names, Values, str], str]
"""Instant in ms, level, text, fields and traceback ("" for none) to a line."""

Gathered = str | tuple[int, int, str, Names, Values, str]
"""A line, or what its form makes it of."""


class _Said:
    """A line as a record's message. A handler of the program's own, where `q.serve` serves, gets it
    as a text with all its fields."""

    __slots__ = ("names", "text", "values")

    def __init__(self, text: str, names: Names, values: Values) -> None:
        self.text = text
        self.names = names
        self.values = values

    def __str__(self) -> str:
        fields = zip(self.names, self.values, strict=True)
        return printable(self.text) + "".join(f" {name}={_text_of(each)}" for name, each in fields)


class Lines(logging.Handler):
    """Writes lines to a descriptor, in the order in which they came."""

    def __init__(self, descriptor: int, form: Form) -> None:
        super().__init__()
        self._form = form
        self._gathered: list[Gathered] = []
        self._left = b""  # what its reader has not taken yet
        self._lost = 0  # lines for which there was no room in it
        self._room = Room(descriptor)
        self._came = trio.Event()
        self._is_gathering = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record at once, behind what was gathered."""
        try:
            error = _traceback(record)
            said = record.msg
            if not isinstance(said, _Said):
                said = _Said(without_tokens(record.getMessage()), (), ())
            at_ms = round(record.created * 1000)
            text = self._form(at_ms, record.levelno, said.text, said.names, said.values, error)
        except Exception:  # noqa: BLE001  # logging's rule: a bad line does not hurt its caller
            self.handleError(record)
            return
        self._put(text, may_wait=False)

    def add(self, level: int, text: str, names: Names, values: Values) -> None:
        """A line that may wait for others; it is made when they leave, many at a time."""
        self._put((CLOCK.now_ms(), level, text, names, values, ""), may_wait=self._is_gathering)

    def flush(self) -> None:
        """Write what was gathered, as far as the reader takes it. A log that nobody can read stops
        nobody: what does not go out waits for the next time, up to BACKLOG_BYTES."""
        assert self.lock is not None
        with self.lock:
            lines = [each if type(each) is str else self._form(*each) for each in self._gathered]
            self._gathered.clear()
            data = self._left + "".join(lines).encode("utf-8", "backslashreplace")
            try:
                start = self._write(data)
                if start == len(data) and self._lost:
                    data = self._form(CLOCK.now_ms(), *LOST, [self._lost], "").encode()
                    self._lost, start = 0, self._write(data)
            except OSError:
                start = len(data)  # its reader has left, or its disk is full: nobody to tell it to
            self._left = self._bounded(data[start:])

    def close(self) -> None:
        """Write what waits, and let go of the descriptor."""
        self.flush()
        self._room.close()
        super().close()

    async def gather(self) -> None:
        """Let access lines wait for each other until this is cancelled; then write what waits."""
        self._is_gathering = True
        try:
            while True:
                with trio.move_on_after(STALLED_SECONDS if self._left else math.inf):
                    await self._came.wait()
                await trio.sleep(GATHER_SECONDS)
                self._came = trio.Event()
                self.flush()
        finally:
            self._is_gathering = False
            self.flush()
            with trio.move_on_after(LAST_SECONDS, shield=True):
                while self._left:
                    await trio.sleep(GATHER_SECONDS)
                    self.flush()

    def _write(self, data: bytes) -> int:
        """How much of it went out before the reader would have had to be waited for."""
        start = 0
        while start < len(data):
            written = self._room.write(data[start : _piece_end(data, start)])
            if not written:
                break
            start += written
        return start

    def _bounded(self, left: bytes) -> bytes:
        """What is kept of it: the oldest lines. The others are counted."""
        if len(left) <= BACKLOG_BYTES:
            return left
        end = left.rfind(b"\n", 0, BACKLOG_BYTES) + 1
        self._lost += left.count(b"\n", end)
        return left[:end]

    def _put(self, line: Gathered, *, may_wait: bool) -> None:
        assert self.lock is not None
        with self.lock:  # a worker thread may log
            self._gathered.append(line)
            number = len(self._gathered)
        if not may_wait or number >= GATHER_LINES:
            self.flush()
        elif number == 1:
            self._came.set()


def _piece_end(data: bytes, start: int) -> int:
    """Where to end the next write: behind whole lines that a pipe takes in one piece, so that the
    lines of several processes on one pipe do not get into each other; a longer one is cut."""
    most = start + PIPE_BYTES
    return len(data) if len(data) <= most else data.rfind(b"\n", start, most) + 1 or most


def set_up(level: str, form: str) -> Lines:
    """Send the loggers of mqlite to stderr, which is open (`standard_streams`)."""
    for each in _root.handlers:
        each.close()
    lines = Lines(STDERR, _json_line if form == "json" else _text_line)
    _root.handlers[:] = [lines]
    _root.setLevel(LEVEL_WORDS[level])
    _root.propagate = False
    return lines


def line(log: Harmless, level: int, text: str, *fields: Field) -> None:
    """One line: a fixed text and its fields."""
    names = tuple(name for name, _ in fields)
    values = [without_tokens(each) if isinstance(each, str) else each for _, each in fields]
    log.log(level, _Said(text, names, values))


def line_at_any_level(text: str, *fields: Field) -> None:
    """One INFO line that no MQLITE_LOG_LEVEL keeps out: nobody can use the broker without it."""
    names, values = tuple(name for name, _ in fields), [value for _, value in fields]
    access_line(logging.INFO, text, names, values)


def access_line(level: int, text: str, names: Names, values: Values) -> None:
    """A line of the access log. A plain one takes a short way past `logging`'s records."""
    if level < logging.WARNING:
        for handler in _root.handlers:
            if isinstance(handler, Lines):
                handler.add(level, text, names, values)
                return
    access.log(level, _Said(text, names, values))


def shown(value: str) -> str:
    """A text as it stands in a text line."""
    return _shown(value) if len(value) <= TEXT_CHARACTERS else _quoted(clipped(value))


def clipped(text: str) -> str:
    """At most TEXT_CHARACTERS, with a sign that there was more."""
    return text if len(text) <= TEXT_CHARACTERS else text[:TEXT_CHARACTERS] + "…"


@lru_cache(maxsize=256)  # queues and calls come again; at most 256 short texts
def _shown(text: str) -> str:
    return _quoted(text)


def _quoted(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def printable(text: str) -> str:
    """Control characters and line breaks as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _text_line(at_ms: int, level: int, text: str, names: Names, values: Values, error: str) -> str:
    second, rest = divmod(at_ms, 1000)
    made = [value if type(value) is int else _text_of(value) for value in values]
    found = _template(level, text, names) % (_local(second), rest, *made)
    return f"{found}{error}\n" if error else found


@lru_cache(maxsize=256)  # calls by how they end come again; at most 256 short texts
def _template(level: int, text: str, names: Names) -> str:
    beginning = f"{_WORD_OF.get(level, 'INFO')} {printable(text)}".replace("%", "%%")
    return f"%s.%03d {beginning}{''.join(f' {name}=%s' for name in names)}\n"


def _text_of(value: str | float) -> str:
    if isinstance(value, str):
        return shown(value)
    return str(int(value)) if isinstance(value, int) else _milliseconds(value)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}ms"


def _json_line(at_ms: int, level: int, text: str, names: Names, values: Values, error: str) -> str:
    stamp = datetime.fromtimestamp(at_ms / 1000, tz=UTC)
    entry: dict[str, str | int] = {
        "at": stamp.isoformat(timespec="milliseconds"),
        "level": _WORD_OF.get(level, "INFO").lower(),
        "text": text,
        **{name: _json_of(value) for name, value in zip(names, values, strict=True)},
    }
    if error:
        entry["error"] = error
    return json.dumps(entry) + "\n"


def _json_of(value: str | float) -> str | int:
    if isinstance(value, str):
        return clipped(value)
    return value if isinstance(value, int) else _milliseconds(value)


def _traceback(record: logging.LogRecord) -> str:
    if not record.exc_info:
        return ""
    return without_tokens(logging.Formatter().formatException(record.exc_info))


@lru_cache(maxsize=2)  # lines come in the order of time
def _local(second: int) -> str:
    return f"{datetime.fromtimestamp(second, tz=UTC).astimezone():%H:%M:%S}"
