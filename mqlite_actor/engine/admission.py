"""What a command weighs, and whether its texts can be stored.

Called by `Engine.call` before a command enters the mailbox. Requests from a wire are clean already;
an embedded caller may hand over any Python string, and half a surrogate pair would fail only when
it is written (faults B58).
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final, get_args

from msgspec import UNSET

from mqlite_actor.contract.errors import InvalidArgument
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

COMMAND_BYTES: Final = 256
"""Rough weight of a command without bodies: struct, job, task bookkeeping."""

_TEXTS: Final = (
    "message_id", "correlation_id", "reply_to", "group_id", "content_type", "subject",
)  # fmt: skip

_texts: Final = attrgetter(*_TEXTS)


def weigh(request: Any) -> int:  # noqa: ANN401  # any command
    """Bytes that a command holds while it waits."""
    kind = type(request)
    if kind is JudgedSend:
        return weigh(request.request)
    weight = COMMAND_BYTES
    if kind in SENDS:
        for message in request.messages:
            weight += COMMAND_BYTES + len(message.body)
    elif kind is ResubmitRequest:
        body = request.message.body
        weight += 0 if body is UNSET else len(body)
    return weight


def check_texts(request: Any) -> None:  # noqa: ANN401  # any request
    """InvalidArgument naming the field whose text cannot be encoded."""
    if type(request) in SENDS:
        _check(request.queue, "queue")
        if isinstance(request, SendResultRequest):
            _check(request.request_id, "request_id")
        for index, message in enumerate(request.messages):
            if message.properties or not "".join(_texts(message)).isascii():
                _check_message(message, f"messages[{index}]")
        return
    for name in request.__struct_fields__:
        value = getattr(request, name)
        if type(value) is str:
            _check(value, name)
    if isinstance(request, ResubmitRequest):
        _check_message(request.message, "message")
    elif isinstance(request, SearchRequest):
        _check_properties(request.properties, "properties")


def _check_message(message: Message | MessagePatch, path: str) -> None:
    for name in _TEXTS:
        text = getattr(message, name)
        if text is not UNSET:
            _check(text, f"{path}.{name}")
    if message.properties is not UNSET:
        _check_properties(message.properties, f"{path}.properties")


def _check_properties(properties: dict[str, str], path: str) -> None:
    for key, value in properties.items():
        _check(key, path)
        _check(value, path)


def _check(text: str, path: str) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"{path} holds half a surrogate pair, which is not text; decode it properly, or put"
            " raw bytes in the body"
        ) from error
