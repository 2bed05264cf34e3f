"""Regular expressions: RE2 with the edges of the original's syntax.

Called by the checker and the code generator for literal patterns, and while a filter runs for
others. RE2 takes time linear in the text; what its C++ library accepts beyond the language (`\\C`,
names that are not ASCII, very deep nesting) is refused here, and names of groups, which may repeat,
are dropped, for nothing reads them. Every pattern pays for its size, so that neither compiling nor
matching can take more than its share.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Protocol

import re2

from mqlite_actor.filters.faults import FilterFailed
from mqlite_actor.filters.run import Run
from mqlite_actor.filters.utf8 import repaired

PROGRAM_BYTES: Final = 2 << 20
"""Memory of one compiled pattern: some 87,000 instructions, 10 ms of compiling."""

PROGRAMS_MAX: Final = 100_000
"""Instructions of all literal patterns of a filter together."""

PROGRAM_BYTES_MIN: Final = PROGRAM_BYTES // 8
"""What a small pattern gets beside large ones: still enough to match in the fast way."""

PATTERN_BYTES_MAX: Final = 4096
"""A pattern that is made while the filter runs may be as long as a filter."""

NESTING_MAX: Final = 1000
LARGE: Final = 100
"""Instructions from which matching may cost more than a few milliseconds for each 64 KiB."""

_COMPILE_STEPS: Final = 500
"""What compiling a pattern at run time costs, beside its length and its instructions."""

_MATCH_STEPS: Final = 5
_MATCH_BITS: Final = 9
"""A step pays for 512 bytes times instructions. RE2 needs about 2 ms for a megabyte of text, but a
pattern with very many states can take 4 ns for each of these."""

_PART: Final = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\(?P<escape>.)|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]"
    r"|\((?:\?P?<(?P<name>[^>]*)>)?|(?P<close>\))|[^\\\[()]+|.",
    re.DOTALL,
)
_NAME: Final = re.compile(r"[A-Za-z0-9_]+")


class Regex(Protocol):
    """What this package uses of a compiled pattern."""

    programsize: int

    def search(self, text: bytes) -> object:
        """A match, or None."""


def _plain(pattern: str) -> str:
    """The pattern without names of groups. Raises FilterFailed for what only the library takes."""
    parts: list[str] = []
    depth = 0
    for match in _PART.finditer(pattern):
        part = match[0]
        if match["escape"] == "C":
            raise FilterFailed("value", "bad regular expression: \\C")
        if part[0] == "(":
            depth += 1
            if depth > NESTING_MAX:
                raise FilterFailed("value", "bad regular expression: nested too deeply")
            if match["name"] is not None:
                if not _NAME.fullmatch(match["name"]):
                    raise FilterFailed("value", "bad regular expression: bad name of a group")
                part = "("
        elif match["close"]:
            depth -= 1
        parts.append(part)
    return "".join(parts)


def _compiled(pattern: bytes, program_bytes: int = PROGRAM_BYTES) -> Regex:
    try:
        text = pattern.decode()
    except UnicodeDecodeError:
        raise FilterFailed("value", "bad regular expression: not UTF-8") from None
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = program_bytes
    try:
        compiled: Regex = re2.compile(_plain(text), options)
    except re2.error as error:
        reason = error.args[0]
        shown = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise FilterFailed("value", f"bad regular expression: {shown[:120]}") from None
    return compiled


_remembered = lru_cache(maxsize=32)(_compiled)
"""Patterns made at run time; few, for each may hold PROGRAM_BYTES."""


class Patterns:
    """The literal patterns of one filter, each compiled once."""

    __slots__ = ("_compiled", "instructions")

    def __init__(self) -> None:
        self._compiled: dict[bytes, Regex] = {}
        self.instructions = 0

    def literal(self, pattern: bytes) -> Regex:
        """Raises FilterFailed for a pattern that is none, or when all together are too large."""
        if pattern not in self._compiled:
            left = PROGRAM_BYTES * (PROGRAMS_MAX - self.instructions) // PROGRAMS_MAX
            compiled = _compiled(pattern, max(left, PROGRAM_BYTES_MIN))
            self.instructions += compiled.programsize
            if self.instructions > PROGRAMS_MAX:
                raise FilterFailed("value", "the regular expressions are too large")
            self._compiled[pattern] = compiled
        return self._compiled[pattern]


def search(run: Run, regex: Regex, text: bytes) -> bool:
    """Whether the pattern occurs in the text; stray bytes are matched as U+FFFD."""
    run.spend((len(text) * regex.programsize >> _MATCH_BITS) + _MATCH_STEPS)
    return regex.search(text if text.isascii() else repaired(text)) is not None


def dynamic(run: Run, pattern: bytes) -> Regex:
    """A pattern made at run time. Raises FilterFailed if it is none or too long."""
    if len(pattern) > PATTERN_BYTES_MAX:
        raise FilterFailed("value", "bad regular expression: too long")
    run.spend(_COMPILE_STEPS + len(pattern))
    compiled = _remembered(pattern)
    run.spend(compiled.programsize)
    return compiled
