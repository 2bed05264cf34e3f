"""Makes docs/reference/cli.md from the command table, which also makes `mqlite help`.

Called by make.py alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from mqlite_cli.commands import COMMANDS
from mqlite_cli.flags import GLOBAL
from mqlite_cli.grammar import Flag

Table = Callable[[Iterable[str], Iterable[Iterable[str]]], Iterator[str]]
"""Head and rows to the lines of a Markdown table."""


def page(table: Table) -> Iterator[str]:
    """The lines of the page; `table` is how make.py writes one."""
    yield "# Command line"
    yield ""
    yield (
        "`mqlite COMMAND [flags] [arguments]`. Flags follow the command and may stand before, "
        "between and behind the arguments; one dash is as good as two, a value follows behind `=` "
        "or as the next word, and `--` ends the flags. `mqlite COMMAND -h` shows what stands here."
    )
    yield ""
    yield (
        "A command talks to the broker of `--endpoint` or `MQLITE_ENDPOINT`; without one it opens "
        "the store of `MQLITE_DB` itself ([settings](settings.md)). Results are on standard output "
        "as text, one line each, as JSON, or as one JSON object a line (`ndjson`); errors and "
        "warnings are lines on standard error. Exit "
        "codes: 0 done, 1 refused or failed, 2 not understood, 130 and 143 interrupted. "
        "Durations: `250ms`, `30s`, `1h30m`, `14d`, `2w`."
    )
    yield ""
    yield from table(
        ("command", "what it does"),
        ((f"[{each.name}](#{each.name.replace(' ', '-')})", each.summary) for each in COMMANDS),
    )
    yield ""
    yield (
        "Commands that ask a broker or a store have these flags; those that work on this machine's "
        "files alone have `--output` of them:"
    )
    yield ""
    yield from _flags(table, GLOBAL)
    for command in COMMANDS:
        yield ""
        yield f"## {command.name}"
        yield ""
        yield f"`{command.usage}`"
        yield ""
        yield f"{command.summary}. {command.details}".rstrip()
        own = [flag for flag in command.flags.values() if flag not in GLOBAL]
        if own:
            yield ""
            yield from _flags(table, own)
        if command.examples:
            yield ""
            yield "```sh"
            yield from command.examples
            yield "```"


def _flags(table: Table, flags: Iterable[Flag]) -> Iterator[str]:
    rows = ((f"`--{flag.name} {flag.metavar}`".replace(" `", "`"), flag.meaning) for flag in flags)
    yield from table(("flag", "meaning"), rows)
