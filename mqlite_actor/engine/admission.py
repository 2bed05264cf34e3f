"""What a command weighs, and whether its texts can be stored.

Called by `Engine.call` before a command enters the mailbox. Requests from a wire are clean already;
an embedded caller may hand over any Python string, and half a surrogate pair would fail only when
it is written (faults B58), and so would a number among the properties, or one of more than 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, Final, get_args

import msgspec
from msgspec import UNSET

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import InvalidArgument, quoted
from mqlite_actor.contract.ext import (
    MessagePatch,
    ResubmitRequest,
    SearchRequest,
    SendResultRequest,
)
from mqlite_actor.contract.wire import Message
from mqlite_actor.engine.commands import JudgedSend
from mqlite_actor.semantics.send import Sending

SENDS: Final = frozenset(get_args(Sending))
"""Asked by type, which costs a third of isinstance; nobody subclasses a request."""

SETTLES: Final = frozenset(
    {
        wire.CompleteRequest,
        wire.AbandonRequest,
        wire.RejectRequest,
        wire.DeferRequest,
        wire.RenewRequest,
    }
)

COMMAND_BYTES: Final = 256
"""Rough weight of a command without bodies and texts: struct, job, task bookkeeping."""

_TEXTS: Final = (
    "message_id", "correlation_id", "reply_to", "group_id", "content_type", "subject",
)  # fmt: skip

_texts: Final = attrgetter(*_TEXTS)


def weigh(request: Any) -> int:  # noqa: ANN401  # any command
    """Bytes that a command holds while it waits, about: texts count by their characters."""
    kind = type(request)
    if kind is JudgedSend:
        return weigh(request.request)
    weight = COMMAND_BYTES
    if kind in SENDS:
        for message in request.messages:
            weight += COMMAND_BYTES + len(message.body) + len("".join(_texts(message)))
            if message.properties:
                weight += _length(message.properties)
    elif kind in SETTLES:
        weight += len(request.dead_letter_reason) + len(request.dead_letter_description)
    elif kind is ResubmitRequest:
        weight += sum(
            _length(value) if isinstance(value, dict) else len(value)
            for name in request.message.__struct_fields__
            if (value := getattr(request.message, name)) is not UNSET
        )
    return weight


def _length(properties: dict[str, str]) -> int:
    return sum(map(len, properties)) + sum(map(len, properties.values()))


def check_texts(request: Any) -> None:  # noqa: ANN401  # any request
    """InvalidArgument naming the field whose text cannot be encoded, or that has another type."""
    if type(request) in SENDS:
        _check(request.queue, "queue")
        if isinstance(request, SendResultRequest):
            _check(request.request_id, "request_id")
        for index, message in enumerate(request.messages):
            if type(message.body) is not bytes:
                _check_body(message.body, f"messages[{index}].body")
            if message.properties or not _are_plain(_texts(message)):
                _check_message(message, f"messages[{index}]")
        return
    for name in request.__struct_fields__:
        value = getattr(request, name)
        if type(value) is str:
            _check(value, name)
    kind: type[msgspec.Struct] = type(request)
    flat, has_others = _flat_integers(kind)
    if has_others or not all(map(_is_integer, flat(request))):
        _check_integers(request, "")  # which says what is wrong with one, if it is
    if isinstance(request, ResubmitRequest):
        _check_message(request.message, "message")
    elif isinstance(request, SearchRequest):
        _check_properties(request.properties, "properties")


@cache
def _integers(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Fields of a struct that are integers, or hold some."""
    kinds = {each.name: each.type for each in msgspec.structs.fields(kind)}
    return tuple(
        name
        for name, each in kinds.items()
        if each == wire.Int or each == list[wire.Int] or _holds_structs(each)
    )


@cache
def _flat_integers(
    kind: type[msgspec.Struct],
) -> tuple[Callable[[msgspec.Struct], tuple[object, ...]], bool]:
    """What reads the fields of a struct that are integers, and whether others hold some."""
    kinds = {each.name: each.type for each in msgspec.structs.fields(kind)}
    names = [name for name in _integers(kind) if kinds[name] == wire.Int]
    has_others = len(names) < len(_integers(kind))
    if len(names) > 1:
        return attrgetter(*names), has_others
    return (lambda value: tuple(getattr(value, name) for name in names)), has_others


def _holds_structs(kind: object) -> bool:
    return any(
        isinstance(each, type) and issubclass(each, msgspec.Struct)
        for each in (kind, *get_args(kind))
    )


def _check_integers(value: object, path: str) -> None:
    """Down to those in lists and inner structs, as a wire's decoder does."""
    if isinstance(value, msgspec.Struct):
        for name in _integers(type(value)):
            _check_integers(getattr(value, name), f"{path}.{name}" if path else name)
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            _check_integers(each, f"{path}[{index}]")
    elif value is not UNSET and value is not None and not _is_integer(value):
        raise InvalidArgument(f"{path} is {quoted(str(value))}, not an integer of 64 bits")


def _is_integer(
    value: object, *, least: int = limits.INT64_MIN, most: int = limits.INT64_MAX
) -> bool:
    return isinstance(value, int) and least <= value <= most


def _are_plain(texts: tuple[str, ...]) -> bool:
    """Whether it needs no closer look."""
    try:
        return "".join(texts).isascii()
    except TypeError:
        return False


def _check_body(body: object, path: str) -> None:
    if not isinstance(body, bytes | bytearray | memoryview):
        raise InvalidArgument(f"{path} is of type {type(body).__name__}, not bytes; encode it")


def _check_message(message: Message | MessagePatch, path: str) -> None:
    for name in _TEXTS:
        text = getattr(message, name)
        if text is not UNSET:
            _check(text, f"{path}.{name}")
    if message.properties is not UNSET:
        _check_properties(message.properties, f"{path}.properties")


def _check_properties(properties: dict[str, str], path: str) -> None:
    if not isinstance(properties, dict):
        raise InvalidArgument(f"{path} is of type {type(properties).__name__}, not a dict")
    for key, value in properties.items():
        _check(key, path)
        _check(value, path)


def _check(text: str, path: str) -> None:
    if not isinstance(text, str):
        raise InvalidArgument(f"{path} holds {type(text).__name__}, not text; make it a str")
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"{path} holds half a surrogate pair, which is not text; decode it properly, or put"
            " raw bytes in the body"
        ) from error
