"""The two ways in which a filter goes wrong: refused while compiling, failed on a message.

Raised by every module of this package and translated by compile.py alone. `Refused` carries an
offset into the source; the door turns it into the contract's InvalidFilter with line, column and
the text around. `FilterFailed` leaves the package as it is: the caller counts it and treats the
message as not matching. Neither ever holds a value of a message, only kinds of values.
"""

from __future__ import annotations

from typing import Final, Literal

Kind = Literal["type", "missing", "value", "arithmetic", "budget", "result", "fault"]
"""What went wrong at run time (spec/filters.md 12). `fault` is a mistake of ours."""

AROUND: Final = 24
"""Characters of the source that an error shows on either side of the place."""


class Refused(Exception):
    """The source is no filter. `at` is an offset in code points, -1 for the text as a whole."""

    def __init__(self, at: int, text: str) -> None:
        super().__init__(text)
        self.at = at
        self.text = text


class FilterFailed(Exception):
    """A filter raised an error on one message. It counts as no match.

    `kind` says what sort of error, `text` what happened, `line` and `column` where (1-based, in
    code points; 0 while unknown).
    """

    def __init__(self, kind: Kind, text: str) -> None:
        super().__init__(text)
        self.kind: Kind = kind
        self.text = text
        self.at = -1
        self.line = 0
        self.column = 0

    def locate(self, at: int) -> None:
        """Note the place of the operation; the innermost one stays."""
        if self.at < 0:
            self.at = at

    def __str__(self) -> str:
        if self.line:
            return f"{self.kind} error at line {self.line}, column {self.column}: {self.text}"
        return f"{self.kind} error: {self.text}"


def place(source: str, at: int) -> tuple[int, int]:
    """Line and column of an offset, both from 1, in code points."""
    line = source.count("\n", 0, at) + 1
    return line, at - source.rfind("\n", 0, at)


def around(source: str, at: int) -> str:
    """The text around an offset on one line, with a mark at the place."""
    before = source[max(0, at - AROUND) : at].rpartition("\n")[2]
    after = source[at : at + AROUND].partition("\n")[0]
    head = "…" if at > AROUND and len(before) == AROUND else ""
    tail = "…" if len(after) == AROUND and at + AROUND < len(source) else ""
    shown = f"{head}{before}⟶{after}{tail}"
    return "".join(each if each.isprintable() else " " for each in shown)
