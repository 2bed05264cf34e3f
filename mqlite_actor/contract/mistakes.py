"""What a program may hand over by mistake: values of other types than the contract's, and texts or
integers that cannot be stored. And what it may hand over by right, but nobody can encode: values of
its own subclasses of `str`, `int` and `bytes`, which become plain ones here.

Asked by whatever takes a request from its own process (engine, transaction, reader) or sends it
away (link, HTTP handles); calls nothing. A wire's decoder refuses the same, but only what arrives:
JSON writes bytes among the texts as base64, and reads a text in place of the body as such, so a
mistake would be stored as something else (faults B58). Rules: `InvalidArgument` names the place;
what is right at a glance costs one reading of the struct, and is not copied; what is given is never
changed, since it is the program's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeGuard, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import InvalidArgument, quoted
from mqlite_actor.contract.ext import SendResultRequest
from mqlite_actor.contract.wire import Message

R = TypeVar("R")
S = TypeVar("S", bound=msgspec.Struct)

SENDS: Final = frozenset({wire.SendRequest, wire.ScheduleRequest, SendResultRequest})
"""Asked by type, which costs a third of isinstance; nobody subclasses a request."""

TEXTS: Final = (
    "message_id", "correlation_id", "reply_to", "group_id", "content_type", "subject",
)  # fmt: skip
"""Of a message, those that its sender may set."""

texts_of: Final = attrgetter(*TEXTS)

_LEAST, _MOST = limits.INT64_MIN, limits.INT64_MAX

_parts_of: Final = attrgetter(*TEXTS, "body", "properties", "ttl_ms")


def check(request: R) -> R:
    """The request as it is to be used: itself, or a copy in which each text is a plain `str`, each
    integer an `int` and each body `bytes`.

    InvalidArgument names the field that has another type than the contract's, or a text that
    cannot be encoded, or an integer of more than 64 bits.
    """
    checked: Any = request  # any request, or a command of the engine's own
    if type(checked) not in SENDS:
        return cast("R", _check_struct(checked, ""))
    plan = _plan(checked.__class__)
    if not _is_plain(checked, plan):
        checked = _check_flat(checked, plan, "")
    messages = checked.messages
    if type(messages) is not list:
        messages = _listed(messages, "messages")
    changed: dict[int, Message] = {}
    for index, message in enumerate(messages):
        if type(message) is not Message and not isinstance(message, Message):
            raise _other(message, Message, f"messages[{index}]")
        if not _is_plain_message(message):
            plain = _check_message(message, f"messages[{index}]")
            if plain is not message:
                changed[index] = plain
    if not changed:
        return checked  # type: ignore[no-any-return]  # a cast would cost every send
    return cast("R", msgspec.structs.replace(checked, messages=_with_items(messages, changed)))


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


def _check_struct(value: S, path: str) -> S:
    plan = _plan(type(value))
    if not _is_plain(value, plan):
        value = _check_flat(value, plan, path)
    changed: dict[str, object] = {}
    for name, kind in plan.others:
        given = getattr(value, name)
        checked = _look(given, kind, f"{path}{name}")
        if checked is not given:
            changed[name] = checked
    return msgspec.structs.replace(value, **changed) if changed else value


def _is_plain(value: msgspec.Struct, plan: _Plan) -> bool:
    """Whether the texts and integers of a struct itself need no closer look."""
    _, read_texts, _, read_integers, _ = plan
    return _are_plain(read_texts(value)) and all(map(_is_integer, read_integers(value)))


def _is_plain_message(message: Message) -> bool:
    """The same for what a sender may set of a message. Spelled out, since it costs every send."""
    a, b, c, d, e, f, body, properties, ttl_ms = _parts_of(message)
    return (
        not properties
        and body.__class__ is bytes
        and ttl_ms.__class__ is int
        and _LEAST <= ttl_ms <= _MOST
        and a.__class__ is b.__class__ is c.__class__ is d.__class__ is e.__class__ is str
        and f.__class__ is str
        and f"{a}{b}{c}{d}{e}{f}".isascii()
    )


def _check_flat(value: S, plan: _Plan, path: str) -> S:
    changed: dict[str, object] = {}
    for name in plan.texts:
        text = getattr(value, name)
        plain = _check_text(text, f"{path}{name}")
        if plain is not text:
            changed[name] = plain
    for name in plan.integers:
        integer = getattr(value, name)
        whole = _check_integer(integer, f"{path}{name}")
        if whole is not integer:
            changed[name] = whole
    return msgspec.structs.replace(value, **changed) if changed else value


@cache
def _options(kind: object) -> tuple[object, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _look(value: object, kind: object, path: str) -> object:
    """At a value by its declared type; one that is not listed here is nobody's from outside."""
    options = _options(kind)
    if (value is UNSET and UnsetType in options) or (value is None and NoneType in options):
        return value
    named = [each for each in options if each not in (UnsetType, NoneType)]
    if len(named) != 1:
        return value
    check = _CHECKS.get(named[0])
    if check is not None:
        return check(value, path)
    if get_origin(named[0]) is list:
        return _look_at_each(_listed(value, path), get_args(named[0])[0], path)
    if _is_struct(named[0]):
        if not isinstance(value, named[0]):
            raise _other(value, named[0], path)
        return _check_struct(value, f"{path}.")
    return value


def _look_at_each(
    values: list[Any] | tuple[Any, ...],
    kind: Any,  # noqa: ANN401  # any declared type
    path: str,
) -> list[Any] | tuple[Any, ...]:
    """Batches hold thousands, so what is plain is passed over."""
    plan = _plan(kind) if _is_struct(kind) else None
    changed: dict[int, Any] = {}
    for index, each in enumerate(values):
        is_flat = plan is not None and not plan.others and type(each) is kind
        if not (is_flat and plan is not None and _is_plain(each, plan)):
            checked = _look(each, kind, f"{path}[{index}]")
            if checked is not each:
                changed[index] = checked
    return _with_items(values, changed) if changed else values


def _with_items(values: list[Any] | tuple[Any, ...], changed: dict[int, Any]) -> list[Any]:
    return [changed.get(index, each) for index, each in enumerate(values)]


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


def _are_plain(texts: tuple[object, ...]) -> bool:
    """Whether they need no closer look."""
    for each in texts:  # noqa: SIM110  # a generator costs three times as much
        if each.__class__ is not str or not each.isascii():
            return False
    return True


def _check_text(text: object, path: str) -> str:
    if not isinstance(text, str):
        raise InvalidArgument(f"{path} holds {type(text).__name__}, not text; make it a str")
    plain = plain_text(text)
    if plain.isascii():
        return plain
    try:
        plain.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"{path} holds half a surrogate pair, which is not text; decode it properly, or put"
            " raw bytes in the body"
        ) from error
    return plain


def plain_text(text: str) -> str:
    """What a text of a subclass says: an enum's member, a template's `SafeString`. Not by `str`,
    which asks the subclass for another one."""
    return text if type(text) is str else str.__str__(text)


def _is_integer(value: object) -> bool:
    """Whether it needs no closer look."""
    return value.__class__ is int and _LEAST <= value <= _MOST


def _check_integer(value: object, path: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        whole = int.__int__(value)
        if _is_integer(whole):
            return whole
    raise InvalidArgument(f"{path} is {quoted(str(value))}, not an integer of 64 bits")


def _check_flag(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise _other(value, bool, path)
    return value


def _check_body(body: object, path: str) -> bytes:
    if not isinstance(body, bytes | bytearray | memoryview):
        raise InvalidArgument(f"{path} is of type {type(body).__name__}, not bytes; encode it")
    return body if type(body) is bytes else memoryview(body).tobytes()


def _check_message(message: Message, path: str) -> Message:
    """What its sender may set; a broker ignores the rest."""
    changed: dict[str, object] = {}
    for name, check in _SENT:
        given = getattr(message, name)
        checked = check(given, f"{path}.{name}")
        if checked is not given:
            changed[name] = checked
    return msgspec.structs.replace(message, **changed) if changed else message


def _check_properties(properties: object, path: str) -> dict[str, str]:
    if not isinstance(properties, dict):
        raise _other(properties, dict, path)
    is_plain = type(properties) is dict
    for key, value in properties.items():
        is_plain &= _check_text(key, path) is key and _check_text(value, path) is value
    if is_plain:
        return properties
    return {plain_text(key): plain_text(value) for key, value in properties.items()}


_SENT: Final[tuple[tuple[str, Callable[[object, str], object]], ...]] = (
    ("body", _check_body),
    *((name, _check_text) for name in TEXTS),
    ("properties", _check_properties),
    ("ttl_ms", _check_integer),
)

_CHECKS: Final[dict[object, Callable[[object, str], object]]] = {
    str: _check_text,
    wire.Int: _check_integer,
    bool: _check_flag,
    bytes: _check_body,
    dict[str, str]: _check_properties,
}
