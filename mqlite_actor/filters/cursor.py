"""Where a parse stands: the token at hand, and the two counts that bound it.

The parser's base, so that its own file is grammar alone. Every token is taken once; what does not
fit becomes a Refused with the place and what was wanted there.
"""

from __future__ import annotations

from typing import Final

from mqlite_actor.filters import hints
from mqlite_actor.filters.faults import Refused
from mqlite_actor.filters.lexer import Token

NODES_MAX: Final = 1000
NESTING_MAX: Final = 200
"""Levels of brackets, calls, signs and conditionals; 150 must work."""


class Cursor:
    """A place in a list of tokens that ends with an `end`."""

    __slots__ = ("_at", "_depth", "_nodes", "_tokens")

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._nodes = 0
        self._depth = 0

    @property
    def _here(self) -> Token:
        return self._tokens[self._at]

    def _is(self, *texts: str) -> bool:
        return self._here.sort == "op" and self._here.text in texts

    def _take(self) -> Token:
        token = self._here
        if token.sort != "end":
            self._at += 1
        return token

    def _expect(self, text: str) -> Token:
        if not self._is(text):
            raise self._unexpected(text)
        return self._take()

    def _name(self) -> Token:
        if self._here.sort != "name":
            raise self._unexpected("a name")
        return self._take()

    def _unexpected(self, wanted: str = "") -> Refused:
        return Refused(self._here.at, hints.unexpected(self._tokens, self._at, wanted))

    def _count(self, number: int = 1) -> None:
        self._nodes += number
        if self._nodes > NODES_MAX:
            raise Refused(self._here.at, f"too many nodes: a filter may have {NODES_MAX}")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise Refused(self._here.at, f"nested too deeply: {NESTING_MAX} levels are allowed")
