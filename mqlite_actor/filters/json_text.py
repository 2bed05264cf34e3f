"""JSON into values and back.

`decoded` is fromJSON and, through environment.py, `body_json`: every number a float, strings as
bytes with U+FFFD for what is no code point, the last of repeated keys. msgspec reads what it can;
the standard library reads what msgspec refuses but the language accepts (lone surrogates, stray
bytes, a negative zero), and a reader of our own what nests deeper than either goes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from mqlite_actor.filters.faults import FilterFailed
from mqlite_actor.filters.run import Run
from mqlite_actor.filters.utf8 import repaired
from mqlite_actor.filters.values import Value, word

LEVELS_MAX: Final = 10_000
DEEP_BYTES_MAX: Final = 128 * 1024
"""Longest text that our own reader takes: some 50 ms. Few need it: those of 900 levels or more."""

_TOKEN: Final = re.compile(
    rb"[ \t\n\r]*(?:(?P<mark>[{}\[\],:])"
    rb'|(?P<string>"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*")'
    rb"|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)|(?P<word>true|false|null))"
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_WORDS: Final = {b"true": True, b"false": False, b"null": None}


class NotJson(Exception):
    """The text is not one JSON value of the language."""


def decoded(text: bytes) -> Value:
    """The value of a JSON text. Raises NotJson."""
    try:
        if b"-0" in text:
            return adopted(_by_library(text), _bytes)
        return adopted(msgspec.json.decode(text))
    except (msgspec.ValidationError, OverflowError):
        raise NotJson from None  # a number outside float64
    except msgspec.DecodeError:
        pass
    except RecursionError:
        return _by_hand(text)
    if text.isascii() and b"\\u" not in text:
        raise NotJson
    try:
        return adopted(_by_library(text), _bytes)
    except RecursionError:
        return _by_hand(text)


def from_json(run: Run, text: Value) -> Value:
    """fromJSON(text). Raises FilterFailed."""
    if type(text) is not bytes:
        raise FilterFailed("type", f"fromJSON takes a string, not {word(text)}")
    run.spend((len(text) >> 3) + 10)
    try:
        return decoded(text)
    except NotJson:
        raise FilterFailed("value", "fromJSON: the text is not JSON") from None


def _refuse(_: str) -> Any:  # noqa: ANN401 - the library's hook: it must return something
    raise NotJson


def _finite(number: str | bytes) -> float:
    """A number as it is written. Raises NotJson for one that no float holds."""
    value = float(number)
    if math.isinf(value):
        raise NotJson
    return value


def _by_library(text: bytes) -> Any:  # noqa: ANN401 - JSON as it comes
    try:
        return json.loads(
            repaired(text).decode(),
            parse_int=_finite,
            parse_float=_finite,
            parse_constant=_refuse,
        )
    except ValueError:
        raise NotJson from None


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("�", text).encode()


def adopted(root: Value, encode: Callable[[str], bytes] = str.encode) -> Value:
    """What a JSON library made, in the language's own values.

    One loop with its cases written out: a body of a megabyte holds a quarter of a million values.
    """
    top: list[Value] = [root]
    pending: list[Value] = [top]
    while pending:
        box = pending.pop()
        for place, value in box.items() if type(box) is dict else enumerate(box):
            kind = type(value)
            if kind is str:
                box[place] = encode(value)
            elif kind is int:
                box[place] = float(value)
            elif kind is dict:
                box[place] = inner = {encode(key): held for key, held in value.items()}
                pending.append(inner)
            elif kind is list:
                pending.append(value)
    return top[0]


def _by_hand(text: bytes) -> Value:
    """A JSON text that nests deeply, read on a stack of our own."""
    if len(text) > DEEP_BYTES_MAX:
        raise NotJson
    text = repaired(text)
    boxes: list[Value] = [[]]
    keys: list[bytes | None] = [None]
    at, state = 0, "value"
    while True:
        match = _TOKEN.match(text, at)
        if match is None:
            break
        at = match.end()
        mark = match["mark"]
        if mark is None:
            state = _place(boxes, keys, _scalar(match), state)
        elif mark in b"[{":
            if state not in ("value", "item", "first"):
                raise NotJson
            box: Value = [] if mark == b"[" else {}
            _put(boxes, keys, box)
            boxes.append(box)
            keys.append(None)
            if len(boxes) > LEVELS_MAX + 1:
                raise NotJson
            state = "first" if mark == b"[" else "first key"
        else:
            state = _marked(boxes, keys, mark, state)
    if state != "after" or len(boxes) != 1 or text[at:].strip(b" \t\n\r"):
        raise NotJson
    return boxes[0][0]


def _scalar(match: re.Match[bytes]) -> Value:
    if match["string"] is not None:
        return _bytes(json.loads(match["string"]))
    if match["number"] is not None:
        return _finite(match["number"])
    return _WORDS[match["word"]]


def _put(boxes: list[Value], keys: list[bytes | None], value: Value) -> None:
    if type(boxes[-1]) is list:
        boxes[-1].append(value)
    else:
        boxes[-1][keys[-1]] = value


def _place(boxes: list[Value], keys: list[bytes | None], value: Value, state: str) -> str:
    """A scalar: a value, or a key where one is due."""
    if state in ("key", "first key") and type(value) is bytes:
        keys[-1] = value
        return "colon"
    if state not in ("value", "item", "first"):
        raise NotJson
    _put(boxes, keys, value)
    return "after"


def _marked(boxes: list[Value], keys: list[bytes | None], mark: bytes, state: str) -> str:
    """A closing bracket, a comma or a colon."""
    is_list = type(boxes[-1]) is list
    if mark == b":" and state == "colon":
        return "value"
    if mark == b"," and state == "after" and len(boxes) > 1:
        return "item" if is_list else "key"
    closes = {b"]": ("after", "first"), b"}": ("after", "first key")}.get(mark, ())
    if state in closes and len(boxes) > 1 and is_list == (mark == b"]"):
        boxes.pop()
        keys.pop()
        return "after"
    raise NotJson
