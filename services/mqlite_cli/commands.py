"""COMMANDS: every command as a row. The parser, the help pages, dispatch, the reference page and
the tests read this table.

A new command is a row in one of the `table_*` modules and a handler in the module of its noun;
nothing else lists commands. `version` and `help` are words of `main`, because they must not cost an
import.
"""

from __future__ import annotations

from mqlite_cli import flags
from mqlite_cli.flags import GLOBAL
from mqlite_cli.grammar import Command
from mqlite_cli.table_admin import KEYS, QUEUES, STORE
from mqlite_cli.table_care import CARE
from mqlite_cli.table_messages import MESSAGES, TRIAL
from mqlite_cli.table_more import MORE
from mqlite_cli.table_topology import TOPOLOGY
from mqlite_cli.table_work import WORK

SERVE = Command(
    "serve",
    flags=(
        flags.text("addr", "HOST:PORT", "where to listen (default :6754, or MQLITE_ADDR)"),
        flags.switch("insecure-allow-remote", "serve without authentication beyond this machine"),
        flags.switch("metrics", "serve /metrics for Prometheus"),
        flags.file("token-file", "administrator token; made with a new one if it is missing"),
        flags.file("tls-cert", "serve HTTPS with this certificate chain (PEM)"),
        flags.file("tls-key", "and its key (PEM, without a password)"),
        flags.text("max-connections", "N", "connections at a time (default 960)"),
        flags.text("docs-url", "URL", "what the discovery card names as documentation"),
        flags.file("diagnostics-dir", "keep a private log of failures in this folder"),
        flags.file("backup-dir", "where backups may be written (default: beside the database)"),
        flags.text("checkpoints", "WORD", "own, or external: left to a program that replicates"),
        flags.text("workers", "N", "front-end processes (0: all in one; default: by the cores)"),
        flags.text("link-socket", "PATH", "Unix socket for programs of this machine"),
        flags.switch("no-lane", "serve calls through hypercorn too, slowly"),
    ),
    summary="Serve a store as an HTTP broker",
    handler="mqlite_cli.launch:serve",
    details="Of the store of MQLITE_DB, until SIGTERM or SIGINT. Without a list of tokens one is "
    "made and printed, or written to --token-file.",
    examples=("mqlite serve --addr 127.0.0.1:6754 --token-file admin.token --metrics",),
)

TOP = Command(
    "top",
    flags=(
        *GLOBAL,
        flags.text("db", "PATH", "look at this file, which a broker or a program has open"),
        flags.duration("interval", "time between two looks (default 1s)"),
        flags.switch("once", "print one look as text and end; with --interval two, for rates"),
        flags.text("sort", "WORD", "concern, name, active, growth, age, dead, in or out"),
        flags.text("filter", "TEXT", "only queues with this in their name"),
        flags.file("record", "keep every look in this new file"),
        flags.file("replay", "show a recording instead"),
    ),
    summary="Watch a broker or a store live in the terminal",
    handler="mqlite_cli.launch:top",
    is_reader=True,
    details="`?` shows the keys. Without a terminal it prints a plain page each time.",
    examples=("mqlite top --once",),
)

OPENAPI = Command(
    "openapi",
    summary="Print the OpenAPI 3.1 description of the HTTP calls",
    handler="mqlite_cli.launch:openapi",
    examples=("mqlite openapi",),
)

COMPLETION = Command(
    "completion",
    "SHELL",
    summary="Print a script that completes commands in bash, zsh or fish",
    handler="mqlite_cli.completion:completion",
    details="Load it with `source <(mqlite completion bash)`. Names of queues and contexts are "
    "asked for as you type; one with a mark that means something to a shell is not offered.",
    examples=("mqlite completion bash",),
)

COMMANDS: tuple[Command, ...] = (
    SERVE, *QUEUES, *MESSAGES, TRIAL, *STORE, TOP, *KEYS, *MORE, *WORK, *TOPOLOGY, *CARE,
    OPENAPI, COMPLETION,
)  # fmt: skip
"""All commands, in the order of the help page."""

BY_NAME: dict[str, Command] = {command.name: command for command in COMMANDS}

ALIASES: dict[str, str] = {"create-subscription": "subscribe"}
"""Second names: what is typed → the row's name."""

GROUPS: dict[str, tuple[str, ...]] = {
    group: tuple(name.partition(" ")[2] for name in BY_NAME if name.startswith(f"{group} "))
    for group in dict.fromkeys(name.partition(" ")[0] for name in BY_NAME if " " in name)
}
"""First word of the commands of two words → their second words."""
