"""The help page and the flag table of one command, made from the command table.

Called by `main`; returns text and prints nothing.
"""

from __future__ import annotations

from mqlite_cli.commands import BY_NAME, COMMANDS, GROUPS
from mqlite_cli.grammar import Command, Flag

_WORDS = (("version", "Print the version"), ("help", "Print this page"))

_ABOUT = """\
mqlite: a durable message queue in one SQLite file

usage: mqlite COMMAND [flags] [arguments]
"""

STEPS = (
    ("mqlite create-queue orders --max-delivery 3", "make a queue"),
    ("mqlite send orders 'two coffees'", "feed it"),
    ("mqlite receive orders", "drain it, a message at a time"),
    ("mqlite consume orders --exec 'cat' --idle 100ms", "or let a command handle each message"),
    ("mqlite peek orders --state dead_lettered --pretty", "see what nobody could handle, and why"),
    ("mqlite redrive orders --dry-run", "try it again; `resubmit` mends a message first"),
    ("mqlite explain orders", "ask why nothing is delivered"),
    ("mqlite backup snapshot.db", "copy everything; `restore` puts it back"),
)
"""A first round, which the tests run: command lines and what they do."""

_NOTES = """\
Flags follow the command. `mqlite COMMAND -h` lists them.
Commands call the broker of --endpoint or MQLITE_ENDPOINT (credential: --token, MQLITE_TOKEN), or
that of a context; without one they open the store of MQLITE_DB (default file:./mq.db) themselves.
Durations: 250ms, 30s, 1h30m, 14d. Exit codes: 0 done, 1 refused or failed, 2 not understood.
"""


def page() -> str:
    """The general help page."""
    rows = [(command.name, command.summary) for command in COMMANDS]
    return f"{_ABOUT}\n{_table([*rows, *_WORDS])}\nA first round:\n{_table([*STEPS])}\n{_NOTES}"


def of(command: Command) -> str:
    """Usage, summary, details, flags and examples of one command."""
    parts = [f"usage: {command.usage}\n", f"{command.summary}.\n"]
    if command.details:
        from textwrap import fill  # noqa: PLC0415 - for who reads help alone

        parts.append(fill(command.details, 80, break_on_hyphens=False) + "\n")
    parts.append(flags(command))
    if command.examples:
        parts.append("examples:\n" + "".join(f"  {line}\n" for line in command.examples))
    return "\n".join(parts)


def of_group(group: str) -> str:
    """The commands that share this first word."""
    rows = [(name, command.summary) for name, command in BY_NAME.items() if _is_in(group, name)]
    return f"usage: mqlite {group} {'|'.join(GROUPS[group])} [flags] ...\n\n{_table(rows)}"


def _is_in(group: str, name: str) -> bool:
    return name.startswith(f"{group} ")


def flags(command: Command) -> str:
    """The flag table of one command."""
    return _table([(_spelled(flag), flag.meaning) for flag in command.flags.values()])


def _spelled(flag: Flag) -> str:
    return f"--{flag.name}" if flag.is_switch else f"--{flag.name} {flag.metavar}"


def _table(rows: list[tuple[str, str]]) -> str:
    width = max((len(left) for left, _ in rows), default=0)
    return "".join(f"  {left:<{width}}  {right}\n" for left, right in rows)
