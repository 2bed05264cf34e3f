"""Python values to the contract's requests, and replies back: one place for every colour of handle.

Called by `Handle`, `Tx` and `SyncTx`. Nothing here talks to anybody.
"""

from __future__ import annotations

import concurrent.futures
import inspect
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import DedupConflict, InvalidArgument, MqliteError, quoted
from mqlite_actor.contract.ext import ReleaseRequest
from mqlite_actor.contract.limits import KIB, MIB
from mqlite_actor.contract.mistakes import plain_text
from mqlite_actor.contract.wire import Message
from mqlite_actor.sdk.durations import Duration, duration_to_ms
from mqlite_actor.sdk.instants import to_ms

if TYPE_CHECKING:
    from mqlite_actor.sdk.message import Received

Body = bytes | str | Mapping[str, Any] | list[Any] | tuple[Any, ...] | msgspec.Struct
"""A payload: bytes as they are, text as UTF-8, anything else as JSON."""

PART_MESSAGES = 1000
PART_BYTES = 8 * MIB
OVERHEAD_BYTES = 1 * KIB
"""One call of `send_all`: a quarter of what a request may hold, because base64 adds a third to
bodies and JSON may make six bytes of a character of the rest, which therefore counts as two; and
little enough for one transaction (limits.GROUP_BYTES_MAX)."""

NAMED_MAX = 20
"""Indexes that an error spells out; its `seq_numbers` have them all."""

JSON_TYPE = "application/json"

TEXTS = frozenset(
    {"message_id", "group_id", "correlation_id", "reply_to", "subject", "content_type"}
)


class Lease(TypedDict):
    """The three fields that name a lease."""

    queue: str
    seq_number: int
    lock_token: str


def message(body: Body = b"", **fields: str | Mapping[str, str]) -> Message:
    """A message of these fields (message_id … content_type, properties)."""
    properties = fields.pop("properties", None) or {}
    if not isinstance(properties, Mapping):
        raise InvalidArgument("properties: give a mapping of str to str")
    texts: dict[str, str] = {}
    for name, value in fields.items():
        if name not in TEXTS or not isinstance(value, str):
            raise InvalidArgument(f"{name}: not a text field of a message")
        texts[name] = value
    content, content_type = payload(body)
    texts["content_type"] = texts.get("content_type") or content_type
    plain = Message(body=content, properties=dict(properties))
    return msgspec.structs.replace(plain, **texts)


def batch(messages: Iterable[Message | Body]) -> list[Message]:
    """Messages as they are, payloads as messages."""
    # Most give a list, and the question about Mapping costs as much as all the rest.
    if type(messages) is not list:
        check_many(messages)
    return [each if isinstance(each, Message) else _plain(each) for each in messages]


def check_many(messages: Iterable[object]) -> None:
    """InvalidArgument for one text or mapping, whose letters or keys nobody means to send."""
    if isinstance(messages, str | bytes | bytearray | Mapping):
        raise InvalidArgument("messages: give a list of messages, or use send_one")


def _plain(body: Body) -> Message:
    content, content_type = payload(body)
    return Message(body=content, content_type=content_type)


def payload(body: Body) -> tuple[bytes, str]:
    """Bytes to send, and the content type that they have by themselves."""
    if type(body) is bytes:
        return body, ""
    if isinstance(body, str):
        try:
            return plain_text(body).encode(), ""
        except UnicodeEncodeError as error:
            raise InvalidArgument("body: half of a surrogate pair is no text") from error
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body), ""
    is_json = isinstance(body, Mapping | list | tuple | msgspec.Struct)
    if isinstance(body, Message) or not (is_json or is_dataclass(body)):
        raise InvalidArgument(
            f"body: give bytes, str, or a dict, list, struct or dataclass for JSON,"
            f" not {type(body).__name__}"
        )
    return as_json(body), JSON_TYPE


def parts(messages: Iterable[Message | Body]) -> Iterator[list[Message]]:
    """The same messages in lists that each fit one call."""
    check_many(messages)
    part: list[Message] = []
    size = 0
    for each in messages:
        (added,) = batch([each])
        added_size = _size(added)
        if part and (len(part) >= PART_MESSAGES or size + added_size > PART_BYTES):
            yield part
            part, size = [], 0
        part.append(added)
        size += added_size
    if part:
        yield part


def _size(message: Message) -> int:
    """What it counts in a call, from above. What is no text where one belongs is not refused
    here."""
    texts = [
        message.message_id, message.correlation_id, message.reply_to, message.group_id,
        message.content_type, message.subject, *message.properties, *message.properties.values(),
    ]  # fmt: skip
    return len(message.body) + 2 * sum(len(str(each)) for each in texts) + OVERHEAD_BYTES


def as_json(value: object) -> bytes:
    """A value as a JSON payload; InvalidArgument if JSON cannot hold it."""
    try:
        encoded = msgspec.json.encode(value, enc_hook=_plain_json)
        # The encoder makes null of numbers that JSON does not have: an amount would be gone.
        if b"null" in encoded and not _is_finite(_built(value)):
            raise InvalidArgument("body: JSON has no nan and no infinity; send None or a text")
        return encoded
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidArgument(f"body: JSON cannot hold it: {error}") from error


def _plain_json(value: object) -> str:
    """What stands for a value that the encoder does not know: text of the program's own kind."""
    if isinstance(value, str):
        return plain_text(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def _built(value: object) -> object:
    """What the encoder has written, as plain values; a `msgspec.Raw` is JSON already."""
    return msgspec.to_builtins(value, enc_hook=lambda _: None)


def _is_finite(value: object) -> bool:
    """Whether all its floats, at any depth, are numbers that JSON has."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, float) and not math.isfinite(each):
            return False
        if isinstance(each, dict):
            left += each.values()
        elif isinstance(each, list | tuple):
            left += each
    return True


def from_json(body: bytes, kind: Any) -> Any:  # noqa: ANN401  # any type that msgspec knows
    """A JSON payload as a value of this type; InvalidArgument names the place that does not fit."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgument(f"body: {error}") from error


def send(
    queue: str, messages: list[Message], *, ttl: Duration | None, at: datetime | None
) -> wire.SendRequest:
    """Now, or to be delivered from `at` on."""
    return wire.SendRequest(
        queue=queue,
        messages=messages,
        scheduled_enqueue_time_ms=0 if at is None else to_ms(at, field="at"),
        ttl_ms=0 if ttl is None else duration_to_ms(ttl, field="ttl"),
    )


def unstored(numbers: list[int]) -> list[int]:
    """The indexes of the messages that got no number."""
    return [index for index, number in enumerate(numbers) if number == 0]


def conflict(refused: list[int], numbers: list[int], reason: str) -> DedupConflict:
    """The error for messages of a batch that are not stored while all others are."""
    named = ", ".join(str(index) for index in refused[:NAMED_MAX])
    more = f" and {len(refused) - NAMED_MAX} more" if len(refused) > NAMED_MAX else ""
    return DedupConflict(
        f"messages [{named}]{more} of the batch are not stored, the others are: {reason}",
        seq_numbers=numbers,
    )


def used(message: Message) -> str:
    """Why one was refused, where the broker only says that it was."""
    return f"message_id {quoted(message.message_id)} was sent before, with another body"


def doubt(error: MqliteError) -> str:
    """The reason where the broker could not be asked for it."""
    return (
        "their ids were used with other bodies, or no subscription wants them;"
        f" asking which failed: {error.message}"
    )


def lease(received: Received) -> Lease:
    """What names the lease of a message in hand."""
    return {
        "queue": received.queue,
        "seq_number": received.seq_number,
        "lock_token": received.lock_token,
    }


def leases(messages: Iterable[Received]) -> tuple[str, list[wire.SettleItem]]:
    """The queue of messages in hand, and their leases; InvalidArgument if there are several."""
    batch = list(messages)
    queues = {message.queue for message in batch}
    if len(queues) > 1:
        raise InvalidArgument(
            f"messages: of several queues ({', '.join(sorted(queues))}); one a call"
        )
    items = [
        wire.SettleItem(seq_number=message.seq_number, lock_token=message.lock_token)
        for message in batch
    ]
    return (queues.pop() if queues else "", items)


def abandons(release: ReleaseRequest) -> list[wire.AbandonRequest]:
    """What to send to a broker that cannot release: the same messages, but the delivery counts."""
    return [
        wire.AbandonRequest(
            queue=release.queue, seq_number=item.seq_number, lock_token=item.lock_token
        )
        for item in release.messages
    ]


def complete(received: Received) -> wire.CompleteRequest:
    """Remove it."""
    return wire.CompleteRequest(**lease(received))


def abandon(received: Received, *, delay: Duration = 0) -> wire.AbandonRequest:
    """Give it back."""
    delay_ms = duration_to_ms(delay, field="delay", is_zero_allowed=True)
    return wire.AbandonRequest(**lease(received), delay_ms=delay_ms)


def reject(received: Received, reason: str, description: str) -> wire.RejectRequest:
    """Dead-letter it."""
    return wire.RejectRequest(
        **lease(received), dead_letter_reason=reason, dead_letter_description=description
    )


def refuse_generator(answer: object, whose: str) -> None:
    """InvalidArgument for what a function returns that has a yield: nothing of it has run."""
    if inspect.isgenerator(answer) or inspect.isasyncgen(answer):
        raise InvalidArgument(f"{whose}: it returned a generator, of which nothing has run")


def refuse_unrun(answer: object, whose: str) -> None:
    """The same for all whose work is not done when a function has returned it. A pool's future that
    is done is refused with the others: whether it is would be chance."""
    refuse_generator(answer, whose)
    if isinstance(answer, concurrent.futures.Future):
        raise InvalidArgument(f"{whose}: it returned a future; wait there for its result")
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()  # else Python warns that nobody awaits it
        raise InvalidArgument(
            f"{whose}: it returned what nobody awaits; write it as `async def`, and await it there"
        )


def refuse_unfinished(answer: object, whose: str) -> None:
    """The same for what a coroutine function returned, which has awaited by then what it meant to:
    a task of asyncio that has ended is done, and one that failed raises its failure."""
    asyncio = sys.modules.get("asyncio")  # whoever has one has imported it; a client need not
    if asyncio is None or not isinstance(answer, asyncio.Future):
        refuse_unrun(answer, whose)
    elif answer.done() and not answer.cancelled():
        answer.result()
    else:
        refuse_unrun(answer, whose)
