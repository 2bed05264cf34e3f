"""How a refusal is worded, with the mend where a slip is a frequent one.

Called by lexer, parser and checker at the moment they refuse; decides nothing itself. Slips that
have a hint: `=` for `==`, AND/OR/NOT, null/None, typographic quotes, method style, a comparison
after `??`, `not a in b`, and any name that is nearly a known one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mqlite_actor.filters.lexer import Token

SLIPS: Final = {
    "AND": "and", "OR": "or", "NOT": "not", "IN": "in", "LIKE": "matches", "like": "matches",
    "eq": "==", "is": "==", "equals": "==", "regex": "matches", "null": "nil", "NULL": "nil",
    "None": "nil", "none": "nil", "undefined": "nil", "True": "true", "False": "false",
    "TRUE": "true", "FALSE": "false", "startswith": "startsWith", "endswith": "endsWith",
    "beginsWith": "startsWith", "then": "{ … }", "has": "in", "xor": "!=", "where": "",
}  # fmt: skip
"""Words of other languages, and what they are called here."""

METHOD_STYLE: Final = frozenset({"contains", "startsWith", "endsWith", "matches", "in"})
_QUOTES: Final = "“”„‘’‚«»"


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean x?` for the most similar known name, or nothing."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean `{found[0]}`?" if found else ""


def unknown(name: str, known: Iterable[str]) -> str:
    """A name that nothing has."""
    known = list(known)
    if name in SLIPS and name != "none":
        return f"unknown name `{name}`; write `{SLIPS[name]}`"
    mend = nearest(name, known)
    if mend:
        return f"unknown name `{name[:40]}`{mend}"
    return f"unknown name `{name[:40]}` (known: {', '.join(sorted(known)[:20])})"


def bad_character(source: str, at: int) -> str:
    """A character that begins no token."""
    shown = source[at] if source[at].isprintable() else f"U+{ord(source[at]):04X}"
    if source[at] in _QUOTES:
        return f"unexpected {shown}: strings stand in plain quotes, \" or '"
    if source.startswith("/*", at):
        return "unterminated comment: its closing */ is missing"
    if source[at] == "&":
        return "unexpected &; write `and` or `&&`"
    return f"unexpected {shown}"


def unexpected(tokens: list[Token], at: int, wanted: str) -> str:
    """A token that the grammar has no place for here."""
    token = tokens[at]
    before = tokens[at - 1] if at else None
    text = f"unexpected {token}"
    if token.sort == "name" and token.text in SLIPS:
        return f"{text}; write `{SLIPS[token.text]}`"
    if token.text == "=" and token.sort == "op":
        return f"{text}; `==` compares"
    if before is not None and before.text in SLIPS and before.sort == "name":
        return f"unexpected `{before.text}`; write `{SLIPS[before.text]}`"
    if token.text in ("[", ".", "?.") and _after_pipe(tokens, at):
        return f"{text}; put the pipe in parentheses first: (a | f()){token.text}…"
    return f"{text}, expected {wanted}" if wanted else text


def _after_pipe(tokens: list[Token], at: int) -> bool:
    return any(token.text == "|" and token.sort == "op" for token in tokens[:at])


def after_coalesce(op: str) -> str:
    """Another operator behind `??`."""
    return f"`{op}` cannot follow `??`; put it in parentheses: (a ?? b) {op} …"


def operand(op: str, kind: object) -> str:
    """A type that a sign or `not` does not take."""
    text = f"operator `{op}` does not take {kind}"
    return f"{text}; it binds tightly: write not (a == b)" if op == "not" else text


def operands(op: str, left: object, right: object) -> str:
    """Two types that an operator does not take together."""
    kinds = {str(left), str(right)}
    text = f"operator `{op}` does not take {left} and {right}"
    if kinds in ({"string", "int"}, {"string", "float"}):
        return f"{text}; int(…) and float(…) read a number from text, such as a property"
    if op == "in" and str(right) == "string":
        return f"{text}; `contains` looks into a string"
    if "bool" in kinds and op not in ("and", "or"):
        return f"{text}; `not` binds tightly: write not (a {op} b)"
    if kinds == {"string", "time"}:
        return f"{text}; date(…) reads a time from text"
    if "duration" in kinds and kinds & {"int", "float", "string"}:
        return f"{text}; hours(…), seconds(…) and duration(…) make a duration"
    return text


def member(kind: str, name: str, known: Iterable[str]) -> str:
    """A member that a type does not have."""
    if name in METHOD_STYLE:
        return f"{kind} has no member `{name}`; it is an operator: a {name} b"
    return f"{kind} has no member `{name[:40]}`{nearest(name, known)}"
