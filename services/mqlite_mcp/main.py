"""The script `mqlite-mcp`: its words, its variables, its exit code.

Decides what to talk to (a broker, or with `--db` a file of its own) and hands over to `serving`.
Rules: whatever cannot be, a bad address, a locked file, a missing package, is one line on stderr
and exit 1 before anything is read from stdin; the credential comes from the environment or from the
file that it names, since everybody on the machine can read the words of a command.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from mqlite_actor.contract.errors import InvalidArgument, MqliteError
from mqlite_actor.sdk.address import Destination, classify, parse_endpoint, without_tokens
from mqlite_actor.sdk.connect import ConnectOptions
from mqlite_actor.sdk.token_file import environ_token
from mqlite_actor.version import __version__

ENDPOINT_DEFAULT = "mqlite://127.0.0.1:6754"
"""Where `mqlite serve` listens on this machine when nobody says else."""


@dataclass(frozen=True, slots=True)
class Target:
    """What the tools talk to."""

    dsn: str
    options: ConnectOptions
    is_embedded: bool


def run() -> int:
    """Serve MCP on this process's stdin and stdout until they end; the exit code."""
    _hold_standard()
    words = _parser().parse_args(sys.argv[1:])
    try:
        from mqlite_mcp import serving  # noqa: PLC0415 - --help and --version need no SDK
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0].startswith("mqlite_"):
            raise
        return _fail(f"install mqlite-actor[mcp]: the package {error.name} is missing")
    try:
        target = target_of(words.db, os.environ)
        serving.serve(
            target.dsn,
            target.options,
            is_embedded=target.is_embedded,
            is_extended=words.extended,
            keeps_leases=words.keep_leases,
        )
    except (MqliteError, OSError) as error:
        return _fail(str(error))
    return 0


def target_of(db: str | None, environ: Mapping[str, str]) -> Target:
    """The store that `--db` names, else the broker of the environment with its credential;
    InvalidArgument."""
    if db is not None:
        dsn = db if db.startswith("file:") or db == ":memory:" else f"file:{db}"
        return Target(dsn, {}, is_embedded=True)
    endpoint = environ.get("MQLITE_ENDPOINT") or ENDPOINT_DEFAULT
    try:
        kind = classify(endpoint)
    except InvalidArgument:
        parse_endpoint(endpoint)  # says what a broker's address looks like
        raise
    if kind is Destination.STORE:
        raise InvalidArgument(
            "MQLITE_ENDPOINT names a store, not a broker; use --db to open a file"
        )
    token = environ_token(environ) if kind is Destination.BROKER else ""
    options: ConnectOptions = {"token": token} if token else {}
    return Target(endpoint, options, is_embedded=False)


def _hold_standard() -> None:
    """Put the null device where a standard stream is closed: a socket or the file of `--db` would
    get its number otherwise. `sys.stderr` is there afterwards; `sys.stdin` and `sys.stdout` still
    tell what was closed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, this one
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", errors="backslashreplace", closefd=False)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(without_tokens(message))  # as `_fail`


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mqlite-mcp",
        allow_abbrev=False,
        description="An MCP server over stdin and stdout. It talks to the broker of "
        f"MQLITE_ENDPOINT (default {ENDPOINT_DEFAULT}; credential: MQLITE_TOKEN, or the "
        "file that MQLITE_TOKEN_FILE names).",
    )
    parser.add_argument("--db", metavar="FILE", help="open this file instead of calling a broker")
    parser.add_argument("--extended", action="store_true", help="offer the further tools as well")
    parser.add_argument(
        "--keep-leases",
        action="store_true",
        help="at the end, leave received messages locked instead of giving them back",
    )
    parser.add_argument("--version", action="version", version=f"mqlite-mcp {__version__}")
    return parser


def _fail(text: str) -> int:
    first = without_tokens(" ".join(text.split()))
    sys.stderr.write(f"error: {first}\n")
    return 1
