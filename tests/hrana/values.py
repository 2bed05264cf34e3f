"""Values and errors as they travel: what both ends of a test agree on.

Integers are decimal strings of 64 bits, blobs base64 without padding (accepted with it too), floats
finite numbers. `ProtocolError` fails a whole request with HTTP 400 and costs its stream;
`SqlFailure` is told in band.
"""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any, Final

Json = Any
"""A value out of JSON, or on its way there."""

Value = int | float | str | bytes | None

INT64: Final = range(-(1 << 63), 1 << 63)


class ProtocolError(Exception):
    """The request breaks the protocol."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code
        """With one, the answer is JSON that names it."""


class SqlFailure(Exception):
    """A statement, or what it was to run in, failed."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    def told(self) -> Json:
        """As it stands in an answer."""
        return {"message": str(self), "code": self.code}


def encoded(value: Value) -> Json:
    """A value as JSON."""
    if value is None:
        return {"type": "null"}
    if isinstance(value, int):
        return {"type": "integer", "value": str(int(value))}
    if isinstance(value, float):
        return {"type": "float", "value": value if math.isfinite(value) else None}
    if isinstance(value, str):
        return {"type": "text", "value": value}
    return {"type": "blob", "base64": base64.b64encode(value).decode().rstrip("=")}


def decoded(item: Json) -> Value:
    """The value of a JSON item; ProtocolError for anything else."""
    kind = item.get("type") if isinstance(item, dict) else None
    reader = _READERS.get(kind or "")
    if reader is None:
        raise ProtocolError(f"unknown type of value {kind!r}")
    try:
        return reader(item)
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"invalid {kind} value: {error!r}") from error


def _integer(item: Json) -> int:
    text = item["value"]
    if not isinstance(text, str):
        raise TypeError("an integer travels as a string")
    number = int(text)
    if number not in INT64:
        raise ValueError("more than 64 bits")
    return number


def _float(item: Json) -> float:
    number = item["value"]
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError("a float travels as a number")
    return float(number)


def _text(item: Json) -> str:
    text = item["value"]
    if not isinstance(text, str):
        raise TypeError("a text travels as a string")
    return text


def _blob(item: Json) -> bytes:
    text = str(item["base64"]).rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


_READERS: Final = {
    "null": lambda _: None, "integer": _integer, "float": _float, "text": _text, "blob": _blob,
}  # fmt: skip
