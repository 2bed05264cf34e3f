"""Tables and progress for somebody at a terminal. The one module that imports rich; called by
`terminal`, and only when there is somebody.

Rules: a cell holds a text that was escaped and is never read as markup; a table is as wide as the
terminal and folds what does not fit, so that a name can be copied whole; progress stands on
standard error and is gone when the work ends, however it ends.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
from rich import box
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from mqlite_cli.escaping import visible
from mqlite_cli.moments import shown_age, shown_duration, shown_moment
from mqlite_cli.terminal import Tick

_STYLES = {"dead_lettered": "red", "name": "bold"}


def table(
    rows: Sequence[msgspec.Struct],
    totals: Sequence[str],
    *,
    columns: int,
    is_coloured: bool,
) -> str:
    """Rows of one struct, a column for each field; `totals` below them."""
    fields = [field.name for field in msgspec.structs.fields(rows[0])]
    drawn = Table(box=box.SIMPLE_HEAD, show_footer=bool(totals), footer_style="bold")
    for at, name in enumerate(fields):
        is_number = all(type(getattr(row, name)) is int for row in rows)
        drawn.add_column(
            name.removesuffix("_ms").replace("_", " "),
            Text(visible(totals[at])) if totals else "",
            justify="right" if is_number else "left",
            style=_STYLES.get(name, ""),
            overflow="fold",
        )
    for row in rows:
        drawn.add_row(*(Text(visible(_cell(name, getattr(row, name)))) for name in fields))
    file = io.StringIO()
    console = Console(
        file=file, width=columns, force_terminal=True, color_system="standard",
        no_color=not is_coloured, highlight=False, legacy_windows=False,
    )  # fmt: skip
    console.print(drawn)
    text = file.getvalue()
    return text if is_coloured else _uncoloured(text)


@contextmanager
def status(what: str, *, is_coloured: bool) -> Iterator[Tick]:
    """A spinner with a line on standard error, as long as the block runs."""
    console = Console(file=sys.stderr, no_color=not is_coloured, highlight=False)
    shown = Status(Text(visible(what)), console=console)

    def tick(text: str) -> None:
        shown.update(Text(visible(f"{what}: {text}")))

    with shown:
        yield tick


def _cell(name: str, value: object) -> str:
    if value is None or value is msgspec.UNSET:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, int) and name.endswith("_ms"):
        if name.endswith("_at_ms"):
            return shown_moment(value) if value else ""
        return shown_age(value) if "age" in name else shown_duration(value)
    return str(value)


def _uncoloured(text: str) -> str:
    """rich leaves bold and italics where it leaves colour out."""
    parts = text.split("\x1b[")
    return parts[0] + "".join(part.partition("m")[2] for part in parts[1:])
