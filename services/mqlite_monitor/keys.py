"""Bytes of a terminal to names of keys.

`Keyboard` is fed by `app` with what was read; pure, no terminal is touched here. Rules: a sequence
that nobody knows is passed over whole, so that its letters are not taken for commands; an escape
that ends a read may be the beginning of a sequence, so it is `escape` only when `settle` says that
nothing followed.
"""

from __future__ import annotations

import codecs
import re

SEQUENCES: dict[str, str] = {
    "[A": "up", "[B": "down", "[C": "right", "[D": "left", "[H": "home", "[F": "end",
    "OA": "up", "OB": "down", "OC": "right", "OD": "left", "OH": "home", "OF": "end",
    "[1~": "home", "[4~": "end", "[5~": "pageup", "[6~": "pagedown", "[7~": "home", "[8~": "end",
}  # fmt: skip
"""Behind the escape → key, for the terminals that people have."""

_SEQUENCE = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|O[@-~])")
_UNFINISHED = re.compile(r"\x1b(\[[0-9;?]*[ -/]*|O)?\Z")
_NAMED = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace"}
SEQUENCE_CHARACTERS_MAX = 32
"""No key is longer; what is longer is not one."""


class Keyboard:
    """What was read and is not a whole key yet."""

    __slots__ = ("_decoder", "_rest")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    @property
    def is_waiting(self) -> bool:
        """Whether an escape stands at the end, alone or as the beginning of something."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[str]:
        """The keys that are whole now."""
        text = self._rest + self._decoder.decode(data)
        keys, at = [], 0
        while at < len(text):
            found = _SEQUENCE.match(text, at)
            if found:
                at = found.end()
                keys.append(SEQUENCES.get(found[1], ""))
            elif _UNFINISHED.match(text, at) and len(text) - at < SEQUENCE_CHARACTERS_MAX:
                break
            else:
                keys.append(_NAMED.get(text[at], "escape" if text[at] == "\x1b" else text[at]))
                at += 1
        self._rest = text[at:]
        return [key for key in keys if key]

    def settle(self) -> list[str]:
        """Nothing followed: the escape was the key itself."""
        rest, self._rest = self._rest, ""
        return ["escape"] if rest == "\x1b" else []
