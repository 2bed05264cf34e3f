"""Message rows to wire messages and back: the only place that knows the column order of both.

An absent text is NULL in the table and "" on the wire. Which fields a caller may see depends on the
call (spec/wire.md 3.2): a delivery shows the lease, a peek shows the state and never the token.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mqlite_actor.contract.limits import TEXT_FACTOR
from mqlite_actor.contract.wire import Message
from mqlite_actor.contract.words import State
from mqlite_actor.storage.database import Row, Stored, Value

ALL_BUT_BODY: Final = (
    "id, queue_id, state, delivery_count, visible_at, locked_until, lock_token, enqueued_at,"
    " expires_at, group_id, message_id, correlation_id, reply_to, content_type, subject,"
    " properties, dead_letter_reason, dead_letter_description"
)
STANDING: Final = (
    "id, queue_id, state, delivery_count, visible_at, locked_until, lock_token, enqueued_at,"
    " expires_at, group_id, NULL, NULL, NULL, NULL, NULL, NULL, dead_letter_reason,"
    " dead_letter_description"
)
"""The same for whoever asks only where a message stands: no other texts, which may be long."""

COLUMNS: Final = f"{ALL_BUT_BODY}, body"
"""As they are inserted."""

WHOLE: Final = (
    f"{ALL_BUT_BODY}, coalesce(body, (SELECT b.body FROM bodies AS b WHERE b.id = messages.id)),"
    " body IS NULL"
)
"""As they are read: the body wherever it is, and whether it is kept apart."""

STATE, LOCK_TOKEN, EXPIRES_AT, GROUP_ID, BODY, IS_APART = 2, 6, 8, 9, 18, 19
"""Places in a WHOLE row that decisions look at."""

_TEXTS: Final = (
    "group_id", "message_id", "correlation_id", "reply_to", "content_type", "subject",
    "dead_letter_reason", "dead_letter_description",
)  # fmt: skip
_PLAIN, _PROPERTIES = (9, 10, 11, 12, 13, 14, 16, 17), 15

TEXT_BYTES: Final = (
    "ifnull(octet_length(properties), 0)"
    f" + {TEXT_FACTOR} * ({' + '.join(f'ifnull(octet_length({name}), 0)' for name in _TEXTS)})"
)
"""What the texts of a row count in a page (`weight`); reads none of them."""

WIRE_STATE: Final = {
    Stored.READY: State.ACTIVE.value,
    Stored.WAITING: State.ACTIVE.value,
    Stored.LOCKED: State.LOCKED.value,
    Stored.SCHEDULED: State.SCHEDULED.value,
    Stored.DEFERRED: State.DEFERRED.value,
    Stored.DEAD: State.DEAD_LETTERED.value,
}

_decode_properties = msgspec.json.Decoder(dict[str, str]).decode
_encode_properties = msgspec.json.Encoder(order="deterministic").encode


def texts(message: Message) -> tuple[Value, ...]:
    """group_id … properties in column order, as they are stored."""
    return (
        message.group_id or None,
        message.message_id or None,
        message.correlation_id or None,
        message.reply_to or None,
        message.content_type or None,
        message.subject or None,
        _encode_properties(message.properties).decode() if message.properties else None,
    )


def weight(row: Row) -> int:
    """What a WHOLE row counts in a page: its body and its TEXT_BYTES."""
    plain = sum(_octets(row[place]) for place in _PLAIN if row[place])
    return len(row[BODY]) + _octets(row[_PROPERTIES] or "") + TEXT_FACTOR * plain


def _octets(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def delivered(row: Row, *, token: bytes | None, locked_until: int) -> Message:
    """A row just claimed, as Receive shows it: count already raised, no token for
    receive-and-delete."""
    (
        seq, _, _, count, _, _, _, enqueued_at, _, group_id, message_id, correlation_id, reply_to,
        content_type, subject, properties, _, _, body, _,
    ) = row  # fmt: skip
    return Message(
        seq_number=seq,
        enqueued_at_ms=enqueued_at,
        locked_until_ms=locked_until,
        delivery_count=count + 1,
        lock_token=token.hex() if token else "",
        message_id=message_id or "",
        correlation_id=correlation_id or "",
        reply_to=reply_to or "",
        group_id=group_id or "",
        content_type=content_type or "",
        subject=subject or "",
        properties=_decode_properties(properties) if properties else {},
        body=body,
    )


def peeked(row: Row) -> Message:
    """A row as Peek shows it: everything but the token."""
    (
        seq, _, state, count, visible_at, locked_until, _, enqueued_at, expires_at, group_id,
        message_id, correlation_id,
        reply_to, content_type, subject, properties, reason, description, body, _,
    ) = row  # fmt: skip
    return Message(
        seq_number=seq,
        enqueued_at_ms=enqueued_at,
        expires_at_ms=expires_at,
        visible_at_ms=visible_at,
        locked_until_ms=locked_until,
        delivery_count=count,
        state=WIRE_STATE[state],
        dead_letter_reason=reason or "",
        dead_letter_description=description or "",
        message_id=message_id or "",
        correlation_id=correlation_id or "",
        reply_to=reply_to or "",
        group_id=group_id or "",
        content_type=content_type or "",
        subject=subject or "",
        properties=_decode_properties(properties) if properties else {},
        body=body,
    )


class Envelope(msgspec.Struct, frozen=True):
    """All of a row but its body; the columns of `looking.ENVELOPE`."""

    id: int
    queue_id: int
    state: int
    delivery_count: int
    visible_at: int
    locked_until: int
    lock_token: bytes | None
    enqueued_at: int
    expires_at: int
    group_id: str | None
    message_id: str | None
    correlation_id: str | None
    reply_to: str | None
    content_type: str | None
    subject: str | None
    properties: str | None
    dead_letter_reason: str | None
    dead_letter_description: str | None
    body_bytes: int


def envelope(row: Row) -> Envelope:
    """A row of `looking.ENVELOPE`."""
    return Envelope(*row)


def properties_of(stored: Envelope) -> dict[str, str]:
    """The properties, decoded."""
    return _decode_properties(stored.properties) if stored.properties else {}


def listed(stored: Envelope) -> Message:
    """A row as a list shows it: everything but token and body."""
    return Message(
        seq_number=stored.id,
        enqueued_at_ms=stored.enqueued_at,
        expires_at_ms=stored.expires_at,
        visible_at_ms=stored.visible_at,
        locked_until_ms=stored.locked_until,
        delivery_count=stored.delivery_count,
        state=WIRE_STATE[Stored(stored.state)],
        dead_letter_reason=stored.dead_letter_reason or "",
        dead_letter_description=stored.dead_letter_description or "",
        message_id=stored.message_id or "",
        correlation_id=stored.correlation_id or "",
        reply_to=stored.reply_to or "",
        group_id=stored.group_id or "",
        content_type=stored.content_type or "",
        subject=stored.subject or "",
        properties=properties_of(stored),
    )


class Held(msgspec.Struct, frozen=True):
    """What a decision about one message needs; the columns of `messages.HELD_COLUMNS`."""

    id: int
    queue_id: int
    state: int
    delivery_count: int
    locked_until: int
    lock_token: bytes | None
    expires_at: int
    group_id: str | None
    body_bytes: int
    is_body_apart: int


def held_after_lock(row: Row, token: bytes, locked_until: int) -> Row:
    """What `messages.HELD_COLUMNS` will say of a WHOLE row that was just locked."""
    seq, queue_id, _, count, *_, body, is_apart = row
    return (
        seq, queue_id, int(Stored.LOCKED), count + 1, locked_until, token, row[EXPIRES_AT],
        row[GROUP_ID], len(body), is_apart,
    )  # fmt: skip


def held(row: Row) -> Held:
    """A row of `messages.HELD_COLUMNS`."""
    return Held(*row)
