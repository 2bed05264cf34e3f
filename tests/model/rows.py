"""What the model keeps: a message with its lease, and the marks of what was settled.

Used by tests/model/model.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mqlite_actor.contract import wire
from mqlite_actor.contract.wire import Message

Receipt = tuple[str, int, str, str, tuple[object, ...]]
"""Queue, number, token, verb, arguments."""


@dataclass
class Row:
    """One stored message. `shown` is what Peek shows of it."""

    queue: str
    shown: Message
    token: str = ""

    def is_over(self, now: int) -> bool:
        return 0 < self.shown.expires_at_ms <= now

    def becomes(self, state: str, **changes: Any) -> None:  # noqa: ANN401 - fields of a message
        """A new state; only a locked message has a lease."""
        lease = {} if state == "locked" else {"locked_until_ms": 0}
        if state != "locked":
            self.token = ""
        self.shown = altered(self.shown, state=state, **lease, **changes)


def altered(message: Message, **changes: Any) -> Message:  # noqa: ANN401 - fields of a message
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    return Message(**{**fields, **changes})


def delivered(shown: Message) -> Message:
    """A message as Receive shows it, without the lease."""
    return altered(
        shown, state="", expires_at_ms=0, visible_at_ms=0, locked_until_ms=0, lock_token=""
    )


def receipt_of(request: wire.SettleRequest) -> Receipt:
    """What has to be the same for a settlement to be a repetition."""
    arguments: tuple[object, ...] = ()
    if isinstance(request, wire.AbandonRequest):
        arguments = (request.delay_ms,)
    elif isinstance(request, wire.RejectRequest):
        reason = request.dead_letter_reason or "AppRequested"
        arguments = (reason, request.dead_letter_description)
    verb = type(request).__name__
    return request.queue, request.seq_number, request.lock_token, verb, arguments
