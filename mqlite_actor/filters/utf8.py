"""Strings of the language as code points.

A string is bytes that need not be UTF-8; every byte that belongs to no code point counts as one of
its own. Pure functions, used by text.py, patterns.py and json_text.py.
"""

from __future__ import annotations

from typing import Final

_STRAY: Final = dict.fromkeys(range(0xDC80, 0xDD00), "�")


def points(text: bytes) -> str:
    """Code points; a stray byte becomes a lone surrogate that `octets` turns back."""
    return text.decode("utf-8", "surrogateescape")


def octets(text: str) -> bytes:
    """The bytes of `points`."""
    return text.encode("utf-8", "surrogateescape")


def length(text: bytes) -> int:
    """Code points, a stray byte counted as one."""
    return len(text) if text.isascii() else len(points(text))


def pieces(text: bytes) -> list[bytes]:
    """One string for each code point."""
    if text.isascii():
        return [text[at : at + 1] for at in range(len(text))]
    return [octets(each) for each in points(text)]


def repaired(text: bytes) -> bytes:
    """Valid UTF-8: stray bytes become U+FFFD."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return points(text).translate(_STRAY).encode()
    return text
