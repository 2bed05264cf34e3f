"""What a frame is made of, and the columns of a table; pure.

Used by the views. A frame is exactly as many lines as the screen has, each a rich `Text` no wider
than it, so that drawing never scrolls or wraps. Rule: nothing here reads markup; styles are given
apart from the text (faults B82).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

import msgspec
from rich.cells import cell_len
from rich.text import Text

from mqlite_monitor.cells import fit
from mqlite_monitor.snapshot import Detail, Snapshot
from mqlite_monitor.steering import Steering

T = TypeVar("T")

DIM, BOLD, GOOD, WARN, ALARM = "dim", "bold", "green", "yellow", "bold red"
MARKED = "reverse"
CONCERNS = ("", DIM, WARN, WARN, ALARM)
"""Style by how bad it is."""


class Scene(msgspec.Struct, frozen=True):
    """Everything that a frame shows."""

    snapshot: Snapshot | None
    state: Steering
    source: str
    """Where the numbers come from."""
    stale: str = ""
    """Why there are no newer ones, or ""."""
    note: str = ""
    """Something about the program itself, such as a recording."""
    detail: Detail | None = None


class Column(msgspec.Struct, Generic[T], frozen=True):
    """One column; those with the highest `rank` go first when the screen is narrow."""

    head: str
    width: int
    cell: Callable[[T], str]
    rank: int = 0
    is_right: bool = True
    style: Callable[[T], str] = lambda _: ""


def line(text: str, width: int, style: str = "") -> Text:
    """One line, cut to the screen."""
    return Text(fit(text, width), style=style, no_wrap=True, end="")


def pieces(parts: Iterable[tuple[str, str]], width: int) -> Text:
    """Texts with a style each, two spaces between them; those that do not fit are left out."""
    text = Text(no_wrap=True, end="")
    for part, style in parts:
        gap = 2 if text.cell_len else 0
        room = width - text.cell_len - gap
        cells = cell_len(part)
        if not part or (room < cells and gap):
            continue
        text.append(" " * gap)
        text.append(fit(part, min(room, cells)), style=style)
    return text


def fitting(columns: Sequence[Column[T]], width: int) -> list[Column[T]]:
    """The columns for which there is room; those of rank 0 stay."""
    chosen = list(columns)
    while sum(each.width + 1 for each in chosen) - 1 > width:
        worst = max(chosen, key=lambda each: each.rank)
        if worst.rank == 0:
            break
        chosen.remove(worst)
    return chosen


def head_row(columns: Sequence[Column[T]], widths: Sequence[int], width: int) -> Text:
    """The heads of the columns."""
    cells = [
        fit(each.head, size, is_right=each.is_right)
        for each, size in zip(columns, widths, strict=True)
    ]
    return line(" ".join(cells), width, f"{BOLD} underline")


def row(
    columns: Sequence[Column[T]], widths: Sequence[int], value: T, *, width: int, style: str = ""
) -> Text:
    """One row."""
    text = Text(no_wrap=True, end="", style=style)
    for at, (each, size) in enumerate(zip(columns, widths, strict=True)):
        if at:
            text.append(" ")
        text.append(fit(each.cell(value), size, is_right=each.is_right), style=each.style(value))
    text.truncate(width)
    return text


def widths_of(columns: Sequence[Column[T]], width: int, *, spare: str) -> list[int]:
    """The widths of columns; that with the head `spare` gets what is left over, or gives what is
    lacking."""
    sizes = [each.width for each in columns]
    heads = [each.head for each in columns]
    at = heads.index(spare) if spare in heads else 0
    sizes[at] = max(1, sizes[at] + width - sum(sizes) - len(sizes) + 1)
    return sizes


def page(lines: Sequence[Text], *, height: int, scroll: int) -> list[Text]:
    """The part of a long page that the screen shows."""
    top = min(scroll, max(0, len(lines) - height))
    return list(lines[top : top + height])
