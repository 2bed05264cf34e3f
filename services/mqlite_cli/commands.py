"""COMMANDS: every command as a row. The parser, the help page, dispatch and the tests read this
table.

A new command is a row here and a handler in the module of its noun; nothing else lists commands.
`version` and `help` are words of `main`, because they must not cost an import.
"""

from __future__ import annotations

from mqlite_cli import grammar
from mqlite_cli.grammar import Command, Flag


def _text(name: str, metavar: str, meaning: str) -> Flag:
    return Flag(name, metavar, meaning, read=grammar.read_text)


def _file(name: str, meaning: str) -> Flag:
    return Flag(name, "PATH", meaning, read=grammar.read_path)


def _integer(name: str, metavar: str, meaning: str) -> Flag:
    return Flag(name, metavar, meaning, read=grammar.read_integer)


def _duration(name: str, meaning: str) -> Flag:
    return Flag(name, "DURATION", meaning, read=grammar.read_duration)


def _switch(name: str, meaning: str) -> Flag:
    return Flag(name, "", meaning, read=grammar.read_switch)


GLOBAL: tuple[Flag, ...] = (
    _text(
        "endpoint", "URL", "broker to call; empty: the local store, whatever MQLITE_ENDPOINT says"
    ),
    _text("token", "TOKEN", "credential to send; empty: none"),
    _file("token-file", "read the credential from this file"),
    _text("output", "text|json", "how results are printed (default text)"),
)
"""Flags of every command that talks to a queue."""

COMMANDS: tuple[Command, ...] = (
    Command(
        "serve",
        flags=(
            _text("addr", "HOST:PORT", "where to listen (default :6754, or MQLITE_ADDR)"),
            _switch("insecure-allow-remote", "serve without authentication beyond this machine"),
            _switch("metrics", "serve /metrics for Prometheus"),
            _file("token-file", "administrator token; made with a new one if it is missing"),
            _file("tls-cert", "serve HTTPS with this certificate chain (PEM)"),
            _file("tls-key", "and its key (PEM, without a password)"),
            _text("max-connections", "N", "connections at a time (default 960)"),
            _text("docs-url", "URL", "what the discovery card names as documentation"),
            _file("diagnostics-dir", "keep a private log of failures in this folder"),
            _switch("no-lane", "serve calls through hypercorn too, slowly"),
        ),
        summary="Serve a store as an HTTP broker",
        handler="mqlite_cli.launch:serve",
    ),
    Command(
        "create-queue",
        "NAME",
        flags=(
            *GLOBAL,
            _duration("lock", "how long a received message stays locked (0: 30s)"),
            _integer("max-delivery", "N", "deliveries before a message is dead-lettered (0: 10)"),
            _duration("ttl", "how long messages live (0: for ever)"),
            _duration("dedup", "how long a message id is remembered (0: off)"),
            _text("ordering", "MODE", "standard, group_fifo or strict_fifo (default standard)"),
            _text("on-expire", "WHAT", "dead-letter or discard (default dead-letter)"),
            Flag(
                "dlq-max-age",
                "DURATION|unbounded",
                "age at which dead letters go (0: the broker's bound)",
                read=grammar.read_age_bound,
            ),
            Flag(
                "dlq-max-count",
                "N|unbounded",
                "dead letters kept (0: the broker's bound)",
                read=grammar.read_count_bound,
            ),
            Flag(
                "dlq-max-bytes",
                "N|unbounded",
                "bytes of dead letters kept (0: the broker's bound)",
                read=grammar.read_count_bound,
            ),
        ),
        summary="Create a queue, or replace all settings of an existing one",
        handler="mqlite_cli.queues:create_queue",
    ),
    Command(
        "list",
        flags=GLOBAL,
        summary="List queues and subscription queues",
        handler="mqlite_cli.queues:list_queues",
        is_reader=True,
    ),
    Command(
        "send",
        "QUEUE",
        rest="BODY",
        flags=(
            *GLOBAL,
            _file("file", "take the body from this file"),
            _text("message-id", "ID", "id of the message, for duplicate detection"),
            _text("group", "ID", "ordering group"),
            _text("subject", "TEXT", "subject, for filters"),
            _text("reply-to", "NAME", "where an answer should go"),
            _duration(
                "ttl", "how long the message lives, at most the queue's own (0: the queue's)"
            ),
        ),
        summary="Store a message; BODY `-` reads standard input",
        handler="mqlite_cli.messages:send",
    ),
    Command(
        "receive",
        "QUEUE",
        flags=(
            *GLOBAL,
            _integer("max", "N", "messages to take, 1 to 256 (default 1)"),
            _duration("wait", "wait this long for the first one, at most 20s"),
            _switch("no-ack", "keep them locked and print their lock tokens"),
            _switch("delete", "remove them as they are read: at most once"),
        ),
        summary="Take messages, print them, then complete them",
        handler="mqlite_cli.receiving:receive",
    ),
    Command(
        "peek",
        "QUEUE",
        flags=(
            *GLOBAL,
            _text("state", "STATE", "active, locked, deferred, scheduled or dead_lettered"),
            _integer("from", "SEQ", "lowest sequence number"),
            _integer("max", "N", "messages to show, at most 1000 (default 16)"),
        ),
        summary="Look at messages without touching them",
        handler="mqlite_cli.messages:peek",
        is_reader=True,
    ),
    Command(
        "metrics",
        "QUEUE",
        flags=GLOBAL,
        summary="Count a queue's messages by state",
        handler="mqlite_cli.queues:metrics",
        is_reader=True,
    ),
)
"""All commands, in the order of the help page."""

BY_NAME: dict[str, Command] = {command.name: command for command in COMMANDS}
