"""Whether somebody watches, and what is done for them: tables, colour, progress.

Made by `dispatch` for a run; used by `output` and by commands that take long. Rules: what is not a
terminal gets the plain text, byte for byte, and so does a terminal that cannot do more (TERM=dumb)
or a system without rich, which is imported only here and only then; NO_COLOR takes colour away and
leaves tables; what is shown was escaped before, so a name can neither move the cursor nor colour
anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from mqlite_cli.streams import STDERR, STDOUT, Streams

_CODES = {"good": "32", "warn": "33", "bad": "1;31", "dim": "2"}

Tick = Callable[[str], None]
"""Say how far it is."""


class Terminal:
    """What the two output streams of a run can show."""

    __slots__ = ("_environ", "_is_capable", "_streams")

    def __init__(self, streams: Streams, environ: Mapping[str, str]) -> None:
        self._streams = streams
        self._environ = environ
        self._is_capable = environ.get("TERM", "") not in ("", "dumb")

    @property
    def is_watched(self) -> bool:
        """Whether standard output is a terminal that can show tables."""
        return self._is_capable and self._streams.is_terminal(STDOUT)

    @property
    def is_coloured(self) -> bool:
        """Whether standard output takes colour."""
        return self.is_watched and not self._environ.get("NO_COLOR")

    def styled(self, text: str, style: str) -> str:
        """`text` in a colour, where colours are shown."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.is_coloured else text

    def table(self, rows: Sequence[msgspec.Struct], totals: Sequence[str]) -> str | None:
        """The rows as a table, or None where lines have to do. `totals` is a last row of cells."""
        if not self.is_watched or not rows:
            return None
        try:
            from mqlite_cli.dressing import table  # noqa: PLC0415 - an extra, for terminals alone
        except ModuleNotFoundError:
            return None  # the lines say the same
        try:
            columns = os.get_terminal_size(STDOUT).columns or 80
        except OSError:
            columns = 80
        return table(rows, totals, columns=columns, is_coloured=self.is_coloured)

    @contextmanager
    def progress(self, what: str, *, beside: int | None = None) -> Iterator[Tick]:
        """Show on standard error that `what` goes on, and whatever the tick is told; nothing at all
        where nobody watches, or where `beside`, another of the three, is used in the same
        terminal."""
        is_free = beside is None or not self._streams.is_terminal(beside)
        if not (is_free and self._is_capable and self._streams.is_terminal(STDERR)):
            yield _untold
            return
        try:
            from mqlite_cli.dressing import status  # noqa: PLC0415 - see above
        except ModuleNotFoundError:
            yield _untold
            return
        with status(what, is_coloured=not self._environ.get("NO_COLOR")) as tick:
            yield tick


def _untold(_: str) -> None:
    """Nobody watches."""
