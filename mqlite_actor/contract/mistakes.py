"""What a program may hand over by mistake: values of other types than the contract's, and texts or
integers that cannot be stored.

Asked by whatever takes a request from its own process (engine, transaction, reader) or sends it
away (link, HTTP handles); calls nothing. A wire's decoder refuses the same, but only what arrives:
JSON writes bytes among the texts as base64, and reads a text in place of the body as such, so a
mistake would be stored as something else (faults B58). Rules: `InvalidArgument` names the place;
what is right at a glance costs one reading of the struct.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeGuard, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import InvalidArgument, quoted
from mqlite_actor.contract.ext import SendResultRequest
from mqlite_actor.contract.wire import Message

SENDS: Final = frozenset({wire.SendRequest, wire.ScheduleRequest, SendResultRequest})
"""Asked by type, which costs a third of isinstance; nobody subclasses a request."""

TEXTS: Final = (
    "message_id", "correlation_id", "reply_to", "group_id", "content_type", "subject",
)  # fmt: skip
"""Of a message, those that its sender may set."""

texts_of: Final = attrgetter(*TEXTS)


def check(request: Any) -> None:  # noqa: ANN401  # any request, or a command of the engine's own
    """InvalidArgument naming the field that has another type than the contract's, or a text that
    cannot be encoded, or an integer of more than 64 bits."""
    if type(request) not in SENDS:
        _check_struct(request, "")
        return
    plan = _plan(request.__class__)
    if not _is_plain(request, plan):
        _check_flat(request, plan, "")
    messages = request.messages
    if type(messages) is not list:
        messages = _listed(messages, "messages")
    for index, message in enumerate(messages):
        if type(message) is not Message and not isinstance(message, Message):
            raise _other(message, Message, f"messages[{index}]")
        if type(message.body) is not bytes:
            _check_body(message.body, f"messages[{index}].body")
        if message.properties or not _are_plain(texts_of(message)):
            _check_message(message, f"messages[{index}]")
        if message.ttl_ms != 0:
            _check_integer(message.ttl_ms, f"messages[{index}].ttl_ms")


# -- by the declared types -------------------------------------------------------------------------


class _Plan(NamedTuple):
    """Where the fields of a struct are, by what it takes to look at them."""

    texts: tuple[str, ...]
    read_texts: Callable[[Any], tuple[Any, ...]]
    integers: tuple[str, ...]
    read_integers: Callable[[Any], tuple[Any, ...]]
    others: tuple[tuple[str, object], ...]


@cache
def _plan(kind: Any) -> _Plan:  # noqa: ANN401  # the cache takes no type[Any]
    kinds = {each.name: each.type for each in msgspec.structs.fields(kind)}
    texts = tuple(name for name, each in kinds.items() if each is str)
    integers = tuple(name for name, each in kinds.items() if each == wire.Int)
    flat = {*texts, *integers}
    others = tuple((name, each) for name, each in kinds.items() if name not in flat)
    return _Plan(texts, _reader(texts), integers, _reader(integers), others)


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda _: ()
    read = attrgetter(*names)
    return read if len(names) > 1 else lambda value: (read(value),)


def _check_struct(value: msgspec.Struct, path: str) -> None:
    plan = _plan(type(value))
    if not _is_plain(value, plan):
        _check_flat(value, plan, path)
    for name, kind in plan.others:
        _look(getattr(value, name), kind, f"{path}{name}")


def _is_plain(value: msgspec.Struct, plan: _Plan) -> bool:
    """Whether the texts and integers of a struct itself need no closer look."""
    _, read_texts, _, read_integers, _ = plan
    return _are_plain(read_texts(value)) and all(map(_is_integer, read_integers(value)))


def _check_flat(value: msgspec.Struct, plan: _Plan, path: str) -> None:
    for name in plan.texts:
        _check_text(getattr(value, name), f"{path}{name}")
    for name in plan.integers:
        _check_integer(getattr(value, name), f"{path}{name}")


@cache
def _options(kind: object) -> tuple[object, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _look(value: object, kind: object, path: str) -> None:
    """At a value by its declared type; one that is not listed here is nobody's from outside."""
    options = _options(kind)
    if (value is UNSET and UnsetType in options) or (value is None and NoneType in options):
        return
    named = [each for each in options if each not in (UnsetType, NoneType)]
    if len(named) != 1:
        return
    check = _CHECKS.get(named[0])
    if check is not None:
        check(value, path)
    elif get_origin(named[0]) is list:
        _look_at_each(_listed(value, path), get_args(named[0])[0], path)
    elif _is_struct(named[0]):
        if not isinstance(value, named[0]):
            raise _other(value, named[0], path)
        _check_struct(value, f"{path}.")


def _look_at_each(
    values: list[Any] | tuple[Any, ...],
    kind: Any,  # noqa: ANN401  # any declared type
    path: str,
) -> None:
    """Batches hold thousands, so what is plain is passed over."""
    plan = _plan(kind) if _is_struct(kind) else None
    for index, each in enumerate(values):
        is_flat = plan is not None and not plan.others and type(each) is kind
        if not (is_flat and plan is not None and _is_plain(each, plan)):
            _look(each, kind, f"{path}[{index}]")


def _is_struct(kind: object) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _listed(value: object, path: str) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, _LISTS):
        raise _other(value, list, path)
    return value


_LISTS = (list, tuple)


def _other(value: object, kind: type, path: str) -> InvalidArgument:
    return InvalidArgument(f"{path} is of type {type(value).__name__}, not {kind.__name__}")


# -- values ----------------------------------------------------------------------------------------


def _are_plain(texts: tuple[str, ...]) -> bool:
    """Whether they need no closer look."""
    try:
        return "".join(texts).isascii()
    except TypeError:
        return False


def _check_text(text: object, path: str) -> None:
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


def _is_integer(
    value: object, *, least: int = limits.INT64_MIN, most: int = limits.INT64_MAX
) -> bool:
    return isinstance(value, int) and value.__class__ is not bool and least <= value <= most


def _check_integer(value: object, path: str) -> None:
    if not _is_integer(value):
        raise InvalidArgument(f"{path} is {quoted(str(value))}, not an integer of 64 bits")


def _check_flag(value: object, path: str) -> None:
    if not isinstance(value, bool):
        raise _other(value, bool, path)


def _check_body(body: object, path: str) -> None:
    if not isinstance(body, bytes | bytearray | memoryview):
        raise InvalidArgument(f"{path} is of type {type(body).__name__}, not bytes; encode it")


def _check_message(message: Message, path: str) -> None:
    for name in TEXTS:
        _check_text(getattr(message, name), f"{path}.{name}")
    _check_properties(message.properties, f"{path}.properties")


def _check_properties(properties: object, path: str) -> None:
    if not isinstance(properties, dict):
        raise _other(properties, dict, path)
    for key, value in properties.items():
        _check_text(key, path)
        _check_text(value, path)


_CHECKS: Final[dict[object, Callable[[object, str], None]]] = {
    str: _check_text,
    wire.Int: _check_integer,
    bool: _check_flag,
    bytes: _check_body,
    dict[str, str]: _check_properties,
}
