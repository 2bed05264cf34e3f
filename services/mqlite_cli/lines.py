"""Messages as lines of JSON, in the keys of the wire: what `--output ndjson` prints and what
`send --ndjson` and `import` read.

Called by `messages` and `carrying`; opens nothing. Rule: what one command prints another reads, so
the keys that only a broker may set are legal in a line. `send` pays no attention to them.
"""

from __future__ import annotations

import msgspec

from mqlite_actor.contract.wire import Message
from mqlite_actor.contract.words import State
from mqlite_cli.feeding import Entry, ReadLine
from mqlite_cli.their_time import Now


class Line(Message, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One message of a stream. `text` is a body that is text, in place of `body` in base64."""

    text: str | msgspec.UnsetType = msgspec.UNSET


_DECODER = msgspec.json.Decoder(Line)


def encoded(message: Message) -> bytes:
    """The line of a message."""
    return msgspec.json.encode(message)


def sent(base: Message) -> ReadLine:
    """A line is an object; what it does not say is as in `base`."""

    def read(line: bytes, _: Now) -> Entry | None:
        found = _decoded(line)
        return None if found is None else Entry(_merged(found, base))

    return read


def bodies(base: Message) -> ReadLine:
    """A line is a body, the empty line too."""
    return lambda line, _: Entry(msgspec.structs.replace(base, body=line))


def restored(line: bytes, now: Now) -> Entry | None:
    """A line is a message that was exported: it keeps what is left of its time to live, which
    begins with the moment that it is scheduled for, and is scheduled again if it was. One whose
    time is over has expired; a dead letter begins a new life then, as a redrive gives it one.

    The clock is looked at for each line that asks for it: a stream may take hours.
    """
    found = _decoded(line)
    if found is None:
        return None
    message = _merged(found, Message())
    is_scheduled = found.state == State.SCHEDULED
    if not (is_scheduled or found.expires_at_ms):
        return Entry(message)
    now_ms = now()
    if 0 < found.expires_at_ms <= now_ms:
        return Entry(message, is_expired=found.state != State.DEAD_LETTERED)
    is_waiting = is_scheduled and found.visible_at_ms > now_ms
    if found.expires_at_ms:
        lives_from = found.visible_at_ms if is_waiting else now_ms
        ttl_ms = max(1, found.expires_at_ms - lives_from)
        message = msgspec.structs.replace(message, ttl_ms=ttl_ms)
    return Entry(message, found.visible_at_ms if is_waiting else 0)


def _decoded(line: bytes) -> Line | None:
    if not line.strip():
        return None
    try:
        found = _DECODER.decode(line)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a message: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError("not a message: it is not UTF-8") from error
    if found.body and found.text is not msgspec.UNSET:
        raise ValueError("a message has `body` or `text`, not both")
    return found


def _merged(line: Line, base: Message) -> Message:
    return Message(
        message_id=line.message_id,
        correlation_id=line.correlation_id or base.correlation_id,
        reply_to=line.reply_to or base.reply_to,
        group_id=line.group_id or base.group_id,
        content_type=line.content_type or base.content_type,
        subject=line.subject or base.subject,
        properties={**base.properties, **line.properties},
        body=line.body if line.text is msgspec.UNSET else line.text.encode(),
        ttl_ms=line.ttl_ms,
    )
