"""The building blocks of the command table: flags by the kind of their value, and the flags that
many commands share.

Used by the `table_*` modules alone. A flag is one word with one meaning on every command that has
it.
"""

from __future__ import annotations

from mqlite_cli import grammar
from mqlite_cli.grammar import Flag


def text(name: str, metavar: str, meaning: str) -> Flag:
    """Any text."""
    return Flag(name, metavar, meaning, read=grammar.read_text)


def texts(name: str, metavar: str, meaning: str) -> Flag:
    """Texts; every repetition counts."""
    return Flag(name, metavar, meaning, read=grammar.read_text, repeats=True)


def file(name: str, meaning: str) -> Flag:
    """The name of a file."""
    return Flag(name, "PATH", meaning, read=grammar.read_path)


def integer(name: str, metavar: str, meaning: str) -> Flag:
    """An int64."""
    return Flag(name, metavar, meaning, read=grammar.read_integer)


def duration(name: str, meaning: str) -> Flag:
    """A duration, kept in nanoseconds."""
    return Flag(name, "DURATION", meaning, read=grammar.read_duration)


def switch(name: str, meaning: str) -> Flag:
    """On or off."""
    return Flag(name, "", meaning, read=grammar.read_switch)


TLS_FILES: tuple[Flag, ...] = (
    file("ca-file", "trust the certificates of this file (PEM), and no others"),
    file("client-cert", "show the broker this certificate (PEM)"),
    file("client-key", "and its key, if it is not in the same file"),
)

TARGET: tuple[Flag, ...] = (
    text(
        "endpoint", "URL", "broker to call; empty: the local store, whatever MQLITE_ENDPOINT says"
    ),
    text("context", "NAME", "the broker that `mqlite context add` gave this name"),
    text("token", "TOKEN", "credential to send; empty: none"),
    file("token-file", "read the credential from this file"),
    duration("timeout", "give up a call after this long, beyond its own --wait (default 30s)"),
    integer("retries", "N", "repeat a call that did nothing, or is safe to repeat (default 0)"),
    *TLS_FILES,
)
"""Where a command goes, and with which credential."""

OUTPUT = text("output", "text|json|ndjson", "how results are printed (default text)")

GLOBAL: tuple[Flag, ...] = (*TARGET, OUTPUT)
"""Flags of every command that talks to a queue."""

PROPERTIES = Flag(
    "prop",
    "KEY=VALUE",
    "property of the message, for filters; repeats, or several joined by commas (\\, is a comma)",
    read=grammar.read_pairs,
    repeats=True,
)

METADATA: tuple[Flag, ...] = (
    text("message-id", "ID", "id of the message, for duplicate detection"),
    text("group", "ID", "ordering group"),
    text("subject", "TEXT", "subject, for filters"),
    text("correlation-id", "ID", "id of the message or task that this one belongs to"),
    text("reply-to", "NAME", "where an answer should go"),
    text("content-type", "TYPE", "what the body is, such as application/json"),
    PROPERTIES,
)
"""What a message says about itself."""

SOUGHT: tuple[Flag, ...] = (
    text("message-id", "ID", "with this id"),
    text("group", "ID", "of this ordering group"),
    text("correlation-id", "ID", "with this correlation id"),
    text("subject", "TEXT", "with this subject"),
    Flag(
        "prop",
        "KEY=VALUE",
        "with this property; repeats, or several joined by commas (\\, is a comma)",
        read=grammar.read_pairs,
        repeats=True,
    ),
    text("body", "TEXT", "whose body holds this text"),
    text("filter", "EXPR", "that this filter is true of, as those of subscriptions"),
    text("reason", "TEXT", "that died of exactly this"),
    text("since", "WHEN", "sent then or later: 2030-01-31T08:00:00Z, or 30m for so long ago"),
    text("until", "WHEN", "sent before then"),
)
"""Which messages: those that are all of what is given."""

NEWEST_FIRST = switch("newest-first", "from the highest number downwards")

VIEWS: tuple[Flag, ...] = (
    switch("pretty", "each message over several lines, JSON laid out; in JSON, bodies as text"),
    switch("body-only", "only the bodies, a line each; in JSON with their numbers"),
    switch("raw", "only the bodies, byte for byte, a line feed between two; not to a terminal"),
)
"""How messages are shown that are looked at."""

BODY_FILE = file("file", "take the body from this file")

FAIL_EMPTY = switch("fail-empty", "exit 1 when there is no message")

DRY_RUN = switch("dry-run", "say what would happen, and do nothing")
