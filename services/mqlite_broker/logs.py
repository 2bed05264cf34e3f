"""Log lines on stderr: `HH:MM:SS.mmm LEVEL text key=value`, or the same as JSON.

Set up by `serve.py`; `app.py` writes one access line per request through `access_line`. Whatever
came from a client is quoted when it holds anything but plain characters, so that no name can forge
a line or drive a terminal. Bodies, properties and tokens never get here.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Final

Field = tuple[str, str | int]

LEVEL_WORDS: Final = {"debug": 10, "info": 20, "warn": 30, "error": 40}
_WORD_OF: Final = {10: "DEBUG", 20: "INFO", 30: "WARN", 40: "ERROR", 50: "ERROR"}
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:/@%+,*<>=~-]+")

TEXT_CHARACTERS: Final = 200
"""How much of a client's text a line repeats."""

access = logging.getLogger("mqlite.access")


def set_up(level: str, form: str) -> None:
    """Send the loggers of mqlite to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    root = logging.getLogger("mqlite")
    root.handlers[:] = [handler]
    root.setLevel(LEVEL_WORDS[level])
    root.propagate = False


def line(log: logging.Logger, level: int, text: str, *fields: Field) -> None:
    """One line: a fixed text and its fields."""
    log.log(level, "%s", text, extra={"fields": fields})


def shown(value: str | int) -> str:
    """A value as it stands in a text line."""
    text = clipped(str(value))
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def clipped(text: str) -> str:
    """At most TEXT_CHARACTERS, with a sign that there was more."""
    return text if len(text) <= TEXT_CHARACTERS else text[:TEXT_CHARACTERS] + "…"


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        stamp = datetime.fromtimestamp(record.created, tz=UTC).astimezone()
        parts = [
            f"{stamp:%H:%M:%S}.{stamp.microsecond // 1000:03d}",
            _WORD_OF.get(record.levelno, "INFO"),
            printable(record.getMessage()),
        ]
        parts += [f"{name}={shown(value)}" for name, value in _fields(record)]
        text = " ".join(parts)
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        stamp = datetime.fromtimestamp(record.created, tz=UTC)
        entry: dict[str, str | int] = {
            "at": stamp.isoformat(timespec="milliseconds"),
            "level": _WORD_OF.get(record.levelno, "INFO").lower(),
            "text": record.getMessage(),
            **{name: clipped(v) if isinstance(v, str) else v for name, v in _fields(record)},
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def _fields(record: logging.LogRecord) -> tuple[Field, ...]:
    found: tuple[Field, ...] = getattr(record, "fields", ())
    return found


def printable(text: str) -> str:
    """Control characters and line breaks as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
