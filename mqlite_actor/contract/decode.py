"""Request bytes to request struct: strict first, then the contract's leniencies.

Called by every door of the broker. The fast path is msgspec's strict decoder. Only when it refuses
does the slow path run: it reads the JSON by hand, applies what spec/wire.md 1.3 and 1.4 grant (null
is absent, keys in any letter case, wrapped base64 or integer lists for bytes, bad UTF-8 replaced)
and then lets msgspec judge the rest, so that both paths share one set of rules and the slow one
explains the 400. Nothing here raises anything but InvalidArgument, however hostile the bytes.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import itertools
import json
import re
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from mqlite_actor.contract import limits
from mqlite_actor.contract.calls import Call
from mqlite_actor.contract.errors import QUOTED_CHARACTERS, InvalidArgument, quoted
from mqlite_actor.contract.wire import DeleteQueueRequest, Request

ALIASES: dict[type, dict[str, str]] = {DeleteQueueRequest: {"queue": "name"}}
"""Other names that a field of one request goes by (decision 2)."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_SPACE = b" \t\r\n"
_NULL_ITEM = re.compile(rb"[\[,][ \t\r\n]*null")
# Texts in long runs, the last perhaps without an end, or a mark between them; never goes back.
_MARK = re.compile(rb'(?:"[^"]*+"?+[^"\0]*+){1,500}+|(\0)')

T = TypeVar("T")


def decode_request(call: Call, body: bytes) -> Request[Any]:
    """The request that `body` holds; InvalidArgument names what is wrong with it."""
    if not call.reads_body:
        return call.request()
    if len(body) > limits.REQUEST_UNCOUNTED_BYTES:
        _check_parts(body)
    try:
        request: Request[Any] = call.decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The strict decoder's words name no mend; the slow path decides and explains.
        return decode_leniently(call.request, body)
    return request


def decode_leniently(kind: type[T], body: bytes) -> T:
    """Read `body` as a `kind` with every leniency of the contract."""
    value = _parse(body)
    if value is None:
        value = {}
    shaped = _shape(value, inspect.type_info(kind), "")
    try:
        return msgspec.convert(shaped, kind)
    except msgspec.ValidationError as error:
        raise InvalidArgument(_worded(str(error))) from error


def _check_parts(body: bytes) -> None:
    """A decoder works for a microsecond or three per value, and nobody else is served meanwhile:
    counting two bytes first costs a thousandth of that. A null in a list becomes an object too;
    one that a field has costs as little as any value."""
    maximum, objects = limits.REQUEST_OBJECTS_MAX, body.count(b"{")
    if body.count(b",") > limits.REQUEST_VALUES_MAX:
        raise _too_many(limits.REQUEST_VALUES_MAX, "values")
    if objects <= maximum < objects + body.count(b"null"):
        items = _NULL_ITEM.finditer(body)
        if sum(1 for _ in itertools.islice(items, maximum - objects + 1)) > maximum - objects:
            objects += _nulls_in_lists(body, at_most=maximum - objects + 1)
    if objects > maximum:
        raise _too_many(maximum, "objects, nulls in lists among them")


def _nulls_in_lists(body: bytes, *, at_most: int) -> int:
    """How many there are outside of texts, counted up to `at_most`: a row of a table may hold as
    many as it likes. Linear, also in what is no JSON: that may count as too many, never as too few
    up to where a decoder stops."""
    # Without escapes a text goes from one quotation mark to the next.
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, _SPACE)
    found = _MARK.finditer(bare.replace(b",null", b"\0").replace(b"[null", b"\0"))
    return sum(1 for _ in itertools.islice((each for each in found if each[1]), at_most))


def _too_many(maximum: int, what: str) -> InvalidArgument:
    return InvalidArgument(
        f"the request has more than {maximum} {what}; split it, and write bodies in base64"
    )


# -- reading JSON ----------------------------------------------------------------------------------


def _parse(body: bytes) -> Any:
    text = body.decode("utf-8", errors="replace")
    if not text.strip(" \t\r\n"):
        raise InvalidArgument("EOF: the body is empty; send one JSON object")
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_int=_bounded_int)
    except RecursionError as error:
        raise InvalidArgument(f"JSON nested deeper than {limits.NESTING_MAX} levels") from error
    except json.JSONDecodeError as error:
        at_end = error.pos >= len(text.rstrip(" \t\r\n")) and error.msg != "Extra data"
        reason = "unexpected EOF" if at_end else error.msg
        raise InvalidArgument(
            f"not one JSON object: {reason} (line {error.lineno}, column {error.colno})"
        ) from error
    return value


def _refuse_constant(word: str) -> Any:
    raise InvalidArgument(f"{word} is not JSON")


def _bounded_int(digits: str) -> int:
    if len(digits) > limits.INTEGER_DIGITS_MAX:
        raise InvalidArgument("an integer is outside the range of int64")
    return int(digits)


# -- fitting it to the struct ----------------------------------------------------------------------


def _shape(value: Any, kind: inspect.Type, path: str, depth: int = 0) -> Any:
    """`value` with the leniencies undone, so that msgspec's strict conversion can judge it."""
    if depth > limits.NESTING_MAX:
        raise InvalidArgument(f"JSON nested deeper than {limits.NESTING_MAX} levels")
    if isinstance(value, str):
        value = _LONE_SURROGATE.sub("�", value)
    if isinstance(kind, inspect.UnionType):
        kind = next(t for t in kind.types if not isinstance(t, inspect.NoneType))
    if isinstance(kind, inspect.StructType) and isinstance(value, dict):
        return _shape_struct(value, kind, path, depth)
    if isinstance(kind, inspect.DictType) and isinstance(value, dict):
        return {
            _LONE_SURROGATE.sub("�", key): ""
            if item is None
            else _shape(item, kind.value_type, _join(path, key), depth + 1)
            for key, item in value.items()
        }
    if isinstance(kind, inspect.ListType) and isinstance(value, list):
        return [
            _shape(
                _zero(kind.item_type) if item is None else item,
                kind.item_type,
                f"{path}[{n}]",
                depth + 1,
            )
            for n, item in enumerate(value)
        ]
    if isinstance(kind, inspect.BytesType):
        return _shape_bytes(value, path)
    return value


def _shape_struct(
    value: dict[str, Any], kind: inspect.StructType, path: str, depth: int
) -> dict[str, Any]:
    fields, folded = _fields(kind.cls)
    shaped: dict[str, Any] = {}
    for key, item in value.items():
        name = key if key in fields else folded.get(key.lower())
        if name is None:
            name = ALIASES.get(kind.cls, {}).get(key.lower())
        if name is None:
            raise InvalidArgument(
                f"unknown field {quoted(_join(path, key))}{_did_you_mean(key, fields)}"
            )
        if item is None:
            shaped.pop(name, None)  # null is absent, also when it repeats a key
            continue
        if name != key and name in value:
            continue  # the exact spelling wins over another letter case
        shaped[name] = _shape(item, fields[name], _join(path, name), depth + 1)
    return shaped


def _shape_bytes(value: Any, path: str) -> Any:
    if isinstance(value, str):
        try:
            return base64.b64decode(value.replace("\r", "").replace("\n", ""), validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidArgument(
                f"{path}: not base64 in the standard alphabet with padding"
            ) from error
    if isinstance(value, list):
        if all(type(item) is int and 0 <= item <= 255 for item in value):
            return bytes(value)
        raise InvalidArgument(f"{path}: a list of bytes must hold integers from 0 to 255")
    return value


def _zero(kind: inspect.Type) -> Any:
    """What a null inside a list stands for."""
    if isinstance(kind, inspect.StructType):
        return {}
    return "" if isinstance(kind, inspect.StrType) else 0


@lru_cache(maxsize=256)  # one entry per struct of the contract, with room
def _fields(cls: type) -> tuple[dict[str, inspect.Type], dict[str, str]]:
    kind = inspect.type_info(cls)
    assert isinstance(kind, inspect.StructType)
    fields = {f.encode_name: f.type for f in kind.fields}
    return fields, {name.lower(): name for name in fields}


# -- words -----------------------------------------------------------------------------------------


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _did_you_mean(key: str, names: dict[str, inspect.Type]) -> str:
    if len(key) > QUOTED_CHARACTERS:
        return ""  # comparing costs the product of the lengths, and no name of ours is that long
    near = difflib.get_close_matches(key, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _worded(reason: str) -> str:
    """msgspec's reason with the path in front: `a.b: expected …`."""
    text, _, place = reason.partition(" - at `")
    place = place.rstrip("`").removeprefix("$").removeprefix(".")
    if "Expected `int` <= " in text or "Expected `int` >= " in text:
        text = "expected an integer inside the range of int64"
    text = text[:1].lower() + text[1:]
    return f"{place}: {text}" if place else f"the request: {text}"
