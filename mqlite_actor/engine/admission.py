"""What a command weighs.

Called by `Engine.call` before a command enters the mailbox, and by whatever else bounds what waits.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET

from mqlite_actor.contract import wire
from mqlite_actor.contract.ext import ResubmitRequest
from mqlite_actor.contract.mistakes import SENDS, texts_of
from mqlite_actor.engine.commands import JudgedSend

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


def weigh(request: Any) -> int:  # noqa: ANN401  # any command
    """Bytes that a command holds while it waits, about: texts count by their characters."""
    kind = type(request)
    if kind is JudgedSend:
        return weigh(request.request)
    weight = COMMAND_BYTES
    if kind in SENDS:
        for message in request.messages:
            weight += COMMAND_BYTES + len(message.body) + len("".join(texts_of(message)))
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
