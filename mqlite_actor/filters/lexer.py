"""Text to tokens, each with its place.

Called by compile.py, read by parser.py. Knows what a number, a name, a comment and an operator
look like; what stands between quotes is literals.py's. White space and letters are Unicode's.
Refuses any character that begins no token.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from mqlite_actor.filters import hints
from mqlite_actor.filters.faults import Refused
from mqlite_actor.filters.literals import number, quoted, raw
from mqlite_actor.filters.values import Value

Sort = Literal["name", "op", "number", "string", "bytes", "end"]


class Token(NamedTuple):
    """`text` as written, without quotes for a string; `value` of a number or string."""

    sort: Sort
    text: str
    at: int
    value: Value = None

    def __str__(self) -> str:
        return "end of the filter" if self.sort == "end" else f"`{self.text[:40]}`"


WORDS: Final = frozenset({
    "not", "in", "or", "and", "matches", "contains", "startsWith", "endsWith", "let", "if", "else",
})  # fmt: skip
"""Operators that are spelled like names and therefore are none."""

WHITE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_GAP: Final = re.compile(rf"(?:[{WHITE}]|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_NUMBER: Final = re.compile(
    r"0[xX][0-9a-fA-F_]*|0[bB][01_]*|0[oO][0-7_]*"
    r"|(?:[0-9][0-9_]*(?:\.(?!\.)[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9_]*)?"
)
_OPERATOR: Final = re.compile(
    r"\*\*|==|!=|<=|>=|&&|\|\||\?\?|\?\.|\.\.|::|[-+*/%^<>!|.?:;,#=()\[\]{}]"
)


def tokens(source: str) -> list[Token]:
    """All tokens, an `end` last. Raises Refused at the first character that begins none."""
    found: list[Token] = []
    at = 0
    while True:
        gap = _GAP.match(source, at)
        at = gap.end() if gap else at
        if at >= len(source):
            found.append(Token("end", "", len(source)))
            return found
        token, at = _next(source, at)
        found.append(token)


def _next(source: str, at: int) -> tuple[Token, int]:
    """The token that begins here, and where it ends."""
    first = source[at]
    following = source[at + 1 : at + 2]
    if first in "bB" and following in ("'", '"'):
        value, end = quoted(source, at + 1, is_bytes=True)
        return Token("bytes", source[at + 2 : end - 1], at, value), end
    if first in "'\"":
        value, end = quoted(source, at, is_bytes=False)
        return Token("string", value.decode(), at, value), end
    if first == "`":
        value, end = raw(source, at)
        return Token("string", value.decode(), at, value), end
    if first in "0123456789" or (first == "." and following.isdecimal() and following.isascii()):
        return _number(source, at)
    if _begins_name(first):
        return _word(source, at)
    match = _OPERATOR.match(source, at)
    if match is None or source.startswith("/*", at):
        raise Refused(at, hints.bad_character(source, at))
    return Token("op", match[0], at), match.end()


def _begins_name(character: str) -> bool:
    return character.isalpha() or character in "_$"


def _word(source: str, at: int) -> tuple[Token, int]:
    end = at + 1
    while end < len(source) and (_begins_name(source[end]) or source[end].isdecimal()):
        end += 1
    text = source[at:end]
    return Token("op" if text in WORDS else "name", text, at), end


def _number(source: str, at: int) -> tuple[Token, int]:
    match = _NUMBER.match(source, at)
    assert match is not None, "only called where a number begins"
    end = match.end()
    text = match[0]
    if end < len(source) and (_begins_name(source[end]) or source[end].isdecimal()):
        raise Refused(at, f"bad number `{text}{source[end]}…`")
    return Token("number", text, at, number(text, at)), end
