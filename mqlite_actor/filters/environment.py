"""What a filter may see of a message.

`Facts` is made once for a message and may serve any number of filters: every variable is made when
it is first asked for and kept. Nothing else is visible: no queue name, no sequence number, no
delivery data. The body is decoded only for a filter that names `body_json`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mqlite_actor.contract.wire import Message
from mqlite_actor.filters.instants import Instant
from mqlite_actor.filters.json_text import NotJson, decoded
from mqlite_actor.filters.utf8 import octets
from mqlite_actor.filters.values import WORDS, StringMap, Strings, Value

_MILLISECOND: Final = 1_000_000


def _properties(facts: Facts) -> StringMap:
    pairs = facts.message.properties.items()
    return StringMap({octets(key): octets(value) for key, value in pairs})


def _subject_parts(facts: Facts) -> Strings:
    return Strings(facts.subject.split(b".") if facts.subject else ())


def _body_json(facts: Facts) -> dict[bytes, Value]:
    """The body as a JSON object; an empty one when it is none or was not meant to be one."""
    message = facts.message
    is_meant = not message.content_type or "json" in message.content_type.lower()
    if not message.body or not is_meant:
        return {}
    try:
        value = decoded(bytes(message.body))
    except NotJson:
        return {}
    return value if type(value) is dict else {}


_MAKERS: Final[dict[str, Callable[[Facts], Value]]] = {
    "subject": lambda facts: octets(facts.message.subject),
    "group_id": lambda facts: octets(facts.message.group_id),
    "correlation_id": lambda facts: octets(facts.message.correlation_id),
    "reply_to": lambda facts: octets(facts.message.reply_to),
    "message_id": lambda facts: octets(facts.message.message_id),
    "content_type": lambda facts: octets(facts.message.content_type),
    "properties": _properties,
    "subject_parts": _subject_parts,
    "property_keys": lambda facts: Strings(sorted(facts.properties)),
    "body_size": lambda facts: len(facts.message.body),
    "body_text": lambda facts: bytes(facts.message.body),
    "body_json": _body_json,
    "enqueued_at": lambda facts: Instant(facts.enqueued_at_ms * _MILLISECOND),
    "visible_at": lambda facts: Instant(facts.visible_at_ms * _MILLISECOND),
    "now": lambda facts: Instant(facts.now_ms * _MILLISECOND),
}
"""Variable → how it is made. `now` is no variable; it is what now() gives."""

UNSEEN: Final[dict[str, Value]] = {"body_text": b"", "body_json": {}}
"""What `$env[…]` shows of the body to a filter that names it nowhere else."""


class Facts:
    """The variables of one message. Not thread-safe: one evaluation at a time."""

    __slots__ = ("enqueued_at_ms", "message", "now_ms", "visible_at_ms", *_MAKERS)

    message: Message
    enqueued_at_ms: int
    visible_at_ms: int
    now_ms: int
    subject: bytes
    body_size: int  # may be set at once by whoever knows it and not the body
    properties: StringMap
    now: Instant

    def __init__(
        self, message: Message, *, enqueued_at_ms: int, visible_at_ms: int, now_ms: int
    ) -> None:
        self.message = message
        self.enqueued_at_ms = enqueued_at_ms
        self.visible_at_ms = visible_at_ms
        self.now_ms = now_ms

    def __getattr__(self, name: str) -> Value:
        """Called for a variable that was not asked for before; the next time its slot answers."""
        make = _MAKERS.get(name)
        if make is None:
            raise AttributeError(name)
        value = make(self)
        setattr(self, name, value)
        return value


class Record:
    """`$env`: the facts as a value of the language, without the bodies that nobody named."""

    __slots__ = ("_facts", "_hidden")

    def __init__(self, facts: Facts, hidden: frozenset[str]) -> None:
        self._facts = facts
        self._hidden = hidden

    def variable(self, key: Value) -> Value:
        """The variable of this name, nil if there is none."""
        name = key.decode("utf-8", "replace") if type(key) is bytes else ""
        if name == "now" or name not in _MAKERS:
            return None
        return UNSEEN[name] if name in self._hidden else getattr(self._facts, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and other._facts is self._facts

    __hash__ = None  # type: ignore[assignment] # no map has it as a key


WORDS[Record] = "struct"
