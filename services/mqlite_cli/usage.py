"""The help page and the flag table of one command, made from the command table.

Called by `main`; returns text and prints nothing.
"""

from __future__ import annotations

from mqlite_cli.commands import COMMANDS
from mqlite_cli.grammar import Command, Flag

_WORDS = (("version", "Print the version"), ("help", "Print this page"))

_ABOUT = """\
mqlite: a durable message queue in one SQLite file

usage: mqlite COMMAND [flags] [arguments]
"""

_NOTES = """\
Flags follow the command. `mqlite COMMAND -h` lists them.
Commands call the broker of --endpoint or MQLITE_ENDPOINT (credential: --token, MQLITE_TOKEN);
without one they open the store of MQLITE_DB (default file:./mq.db) themselves.
Durations: 250ms, 30s, 1h30m, 14d. Exit codes: 0 done, 1 refused or failed, 2 not understood.
"""


def page() -> str:
    """The general help page."""
    rows = [(command.name, command.summary) for command in COMMANDS]
    return f"{_ABOUT}\n{_table([*rows, *_WORDS])}\n{_NOTES}"


def of(command: Command) -> str:
    """Usage, summary and flags of one command."""
    return f"usage: {command.usage}\n\n{command.summary}.\n\n{flags(command)}"


def flags(command: Command) -> str:
    """The flag table of one command."""
    return _table([(_spelled(flag), flag.meaning) for flag in command.flags.values()])


def _spelled(flag: Flag) -> str:
    return f"--{flag.name}" if flag.is_switch else f"--{flag.name} {flag.metavar}"


def _table(rows: list[tuple[str, str]]) -> str:
    width = max((len(left) for left, _ in rows), default=0)
    return "".join(f"  {left:<{width}}  {right}\n" for left, right in rows)
