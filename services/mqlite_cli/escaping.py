"""Texts that a broker, a sender or a shell controls, made fit for a terminal and for one line.

Called wherever such a text is shown. Rules: what is not printable (C0, C1, DEL, bidirectional and
other format characters, line separators) is written as an escape, always, whether or not anybody's
terminal is on the other side; text in JSON stays the same JSON value. The escapes are those of C
and Go strings.
"""

from __future__ import annotations

_SHORT = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r"}
_DEL = 0x7F
_ESCAPED_BYTES = range(0xDC80, 0xDD00)
"""Where Python's surrogateescape puts a byte that is not UTF-8."""


class _Visible(dict[int, str]):
    """Code point to what is shown for it, filled on first use."""

    def __missing__(self, code: int) -> str:
        shown = self[code] = self._escape(code)
        return shown

    def _escape(self, code: int) -> str:
        if code in _ESCAPED_BYTES:
            return f"\\x{code - 0xDC00:02x}"
        if code in _SHORT:
            return _SHORT[code]
        if chr(code).isprintable():
            return chr(code)
        if code < 0x20 or code == _DEL:
            return f"\\x{code:02x}"
        return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


class _VisibleInJson(dict[int, str]):
    """The same inside a JSON document, whose own escapes and layout are ASCII and stay."""

    def __missing__(self, code: int) -> str:
        shown = self[code] = self._escape(code)
        return shown

    def _escape(self, code: int) -> str:
        if code < _DEL or chr(code).isprintable():
            return chr(code)
        units = chr(code).encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


_VISIBLE = _Visible()
_QUOTED = _Visible({ord('"'): '\\"', ord("\\"): "\\\\"})
_IN_JSON = _VisibleInJson()

_MARKS = frozenset(' "\\')
"""Printable, but a value with one of them could be read as two values or as an escape."""


def visible(text: str) -> str:
    """`text` on one line, nothing in it that a terminal obeys."""
    return text.translate(_VISIBLE)


def quoted(value: str | bytes) -> str:
    """`value` in double quotes; bytes that are not UTF-8 appear as `\\xff`."""
    text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
    return f'"{text.translate(_QUOTED)}"'


def field(text: str) -> str:
    """`text` as the value of a `key=value` pair: as it is, or quoted where it could mislead."""
    if text and text.isprintable() and _MARKS.isdisjoint(text):
        return text
    return quoted(text)


def json_text(document: bytes) -> str:
    """An encoded JSON document, its unprintable characters as `\\u` escapes."""
    if document.isascii() and _DEL not in document:
        return document.decode("ascii")
    return document.decode("utf-8").translate(_IN_JSON)
