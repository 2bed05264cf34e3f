"""What every page of the reference is written with. Used by make.py and the pages beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# References to the papers behind the program mean nothing on a page for its users.
SOURCE_NOTE = re.compile(r"\s*\((?:spec/|design\.md|rulings? |decision )[^)]*\)")


def plain(text: str) -> str:
    """A docstring as one line of prose."""
    return re.sub(r"\s+", " ", SOURCE_NOTE.sub("", text)).strip()


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A Markdown table; bars inside cells are escaped."""
    columns = list(head)
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        cells = [cell.replace("|", "\\|") for cell in row]
        yield f"| {' | '.join(cells)} |"
