"""What a command weighs, and what it has to leave of a disk that is nearly full.

Called by `Engine.call` before a command enters the mailbox, and by whatever else bounds what waits;
by groups and transactions while little is left on the disk.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET

from mqlite_actor.contract import wire
from mqlite_actor.contract.ext import ResubmitRequest, SendResultRequest
from mqlite_actor.contract.mistakes import SENDS, texts_of
from mqlite_actor.engine.commands import JudgedSend, RedriveChunk, RedriveSelectedChunk

SETTLES: Final = frozenset(
    {
        wire.CompleteRequest,
        wire.AbandonRequest,
        wire.RejectRequest,
        wire.DeferRequest,
        wire.RenewRequest,
    }
)

WHOLE: Final = 1.0
"""Of the room that is kept on a disk, for whatever brings new rows."""

KEPT: Final[dict[type[Any], float]] = {
    wire.SendRequest: WHOLE,
    wire.ScheduleRequest: WHOLE,
    SendResultRequest: WHOLE,
    JudgedSend: WHOLE,
    ResubmitRequest: WHOLE,
    # Each leaves a receipt for half an hour, and its message.
    wire.AbandonRequest: 0.75,
    wire.RejectRequest: 0.75,
    wire.DeferRequest: 0.75,
    RedriveChunk: 0.75,
    RedriveSelectedChunk: 0.75,
    # What a named attempt got is written down whole.
    wire.ReceiveRequest: 0.5,
    wire.ReceiveDeferredRequest: 0.5,
}
"""The part of RESERVE_BYTES that a command may not take. A quarter is left to all others, which
complete, purge, expire and forget: they need some before they free more."""


def kept(request: Any) -> float:  # noqa: ANN401  # any command
    """The part of the room that is kept from this command."""
    return KEPT.get(type(request), 0.25)


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
