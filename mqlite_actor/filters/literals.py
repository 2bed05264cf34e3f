r"""Values of number and string literals.

Called by the lexer for each literal that it meets. Escapes give code points in a string and single
bytes in a byte string; anything that is not an escape of the language is refused, `\d` above all,
which was meant for a raw string. Results are run-time values: int, float, bytes, Octets.
"""

from __future__ import annotations

import re
from typing import Final

from mqlite_actor.filters.faults import Refused
from mqlite_actor.filters.values import INT_MAX, Byte, Octets, Value

_ESCAPE: Final = re.compile(
    r"\\(?:(?P<simple>[abfnrtv\\'\"])|(?P<octal>[0-3][0-7]{2})|x(?P<hex>[0-9a-fA-F]{2})"
    r"|u\{(?P<braced>[0-9a-fA-F]{1,6})\}|u(?P<four>[0-9a-fA-F]{4})|U(?P<eight>[0-9a-fA-F]{8}))"
)
_SIMPLE: Final = {
    "a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, "'": 39, '"': 34
}  # fmt: skip
_PLAIN: Final = {quote: re.compile(rf"[^\\\n{quote}]+") for quote in "'\""}
_BASES: Final = {"x": 16, "b": 2, "o": 8}

CODE_POINT_MAX: Final = 0x10FFFF
REPLACEMENT: Final = "�"


def number(text: str, at: int) -> Value:
    """An int or a float. Raises Refused for what is neither or does not fit."""
    digits = text.replace("_", "")
    base = _BASES.get(digits[1:2].lower(), 10) if digits[0] == "0" else 10
    try:
        if base == 10 and re.search(r"[.eE]", digits):
            value: int | float = float(digits)
        else:
            value = int(digits[2:] if base != 10 else digits.lstrip("0") or "0", base)
    except ValueError:
        raise Refused(at, f"bad number `{text[:40]}`") from None
    if isinstance(value, float):
        if value == float("inf"):
            raise Refused(at, f"bad number `{text[:40]}`: no float is so large")
        return value
    if value > INT_MAX:
        raise Refused(at, f"bad number `{text[:40]}`: an int has 64 bits")
    return value


def raw(source: str, at: int) -> tuple[bytes, int]:
    """A string in backticks that begins at `at`, and its end."""
    match = re.compile(r"`((?:[^`]|``)*)`").match(source, at)
    if match is None:
        raise Refused(at, "unterminated string: its closing ` is missing")
    return match[1].replace("``", "`").encode(), match.end()


def quoted(source: str, at: int, *, is_bytes: bool) -> tuple[Value, int]:
    """A string or byte string whose opening quote is at `at`, and its end."""
    quote = source[at]
    parts: list[bytes] = []
    here = at + 1
    while here < len(source):
        character = source[here]
        if character == quote:
            content = b"".join(parts)
            return (Octets(map(Byte, content)) if is_bytes else content), here + 1
        if character == "\n":
            raise Refused(at, "unterminated string: a line ends inside it (use backticks for that)")
        if character == "\\":
            part, here = _escape(source, here, quote, is_bytes=is_bytes)
        else:
            match = _PLAIN[quote].match(source, here)
            assert match is not None, "neither quote, line feed nor backslash"
            text, here = match[0], match.end()
            if text[-1] == "\r" and source[here : here + 1] == "\n":
                here += 1
            part = text.replace("\r", "\n").encode()
        parts.append(part)
    raise Refused(at, f"unterminated string: its closing {quote} is missing")


def _escape(source: str, at: int, quote: str, *, is_bytes: bool) -> tuple[bytes, int]:
    """The bytes of one escape and its end."""
    match = _ESCAPE.match(source, at)
    if match is None or (match["simple"] in ("'", '"') and match["simple"] != quote):
        shown = source[at : at + 2]
        raise Refused(at, f"bad escape {shown} (write \\{shown}, or use backticks)")
    if match["simple"]:
        return bytes([_SIMPLE[match["simple"]]]), match.end()
    if match["octal"] or match["hex"]:
        code = int(match["octal"], 8) if match["octal"] else int(match["hex"], 16)
        return bytes([code]) if is_bytes else chr(code).encode(), match.end()
    if is_bytes:
        raise Refused(at, "bad escape: a byte string has no code points (write \\xHH)")
    code = int(match["braced"] or match["four"] or match["eight"], 16)
    if code > CODE_POINT_MAX:
        raise Refused(at, "bad escape: the last code point is 10FFFF")
    is_surrogate = 0xD800 <= code <= 0xDFFF
    return (REPLACEMENT if is_surrogate else chr(code)).encode(), match.end()
