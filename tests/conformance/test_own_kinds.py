"""Texts, integers and bytes of a program's own kinds are stored as the plain values that they are:
a template's SafeString, a member of an enum."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any

from mqlite_actor.contract import ext, wire
from mqlite_actor.contract.wire import Message
from mqlite_actor.sdk.embedded import Embedded
from mqlite_actor.sdk.handle import Handle


class Own(str):
    """Whatever it is asked for, it says something else than it holds."""

    __slots__ = ()

    def __str__(self) -> str:
        return "other"

    def __format__(self, _: str) -> str:
        return "other"

    def __add__(self, _: str) -> str:
        return "other"

    def encode(self, *_: str) -> bytes:
        return b"other"


class Word(str, Enum):  # noqa: UP042  # StrEnum says what it holds
    """Its `str` is the name of its member, as `format` is."""

    SUBJECT = "sübject"


class Two(IntEnum):
    TWO = 2


class Octets(bytes):
    """No encoder knows it."""


FIELDS: dict[str, Any] = {
    "message_id": Own("id"),
    "group_id": Own("group"),
    "correlation_id": Own("correlation"),
    "reply_to": Own("reply"),
    "subject": Word.SUBJECT,
    "content_type": Own("text/plain"),
    "properties": {Own("key"): Own("value"), Word.SUBJECT: Word.SUBJECT, "plain": Own("ü")},
}
PLAIN = {
    **{name: str.__str__(each) for name, each in FIELDS.items() if name != "properties"},
    "properties": {"key": "value", "sübject": "sübject", "plain": "ü"},
}


def given(message: Message) -> dict[str, object]:
    """What was sent of it; each text and number is of no other kind than the contract's."""
    texts = [getattr(message, name) for name in PLAIN if name != "properties"]
    texts += [*message.properties, *message.properties.values()]
    assert {type(each) for each in texts} == {str}
    assert type(message.body) is bytes
    return {name: getattr(message, name) for name in PLAIN}


async def test_a_message_of_own_kinds_is_stored_as_plain_ones(handle: Handle, queue: str) -> None:
    name = Own(queue)
    await handle.create_queue(name, lock_duration=Two.TWO, max_delivery_count=Two.TWO)
    made = Message(body=Octets(b"made"), ttl_ms=Two.TWO * 10**6, **FIELDS)
    await handle.send_one(name, Own("bödy"), **FIELDS)
    strided: Any = memoryview(b"axbxcx")[::2]
    await handle.send(name, [made, Message(body=strided)])
    await handle.send_result(name, [made], request_id=Own("request"))
    await handle.send_one(name, {"name": Own("ü")})
    (first, second, third, fourth, fifth) = await handle.peek(queue)
    assert [given(each) for each in (first, second, fourth)] == [PLAIN] * 3
    bodies = [each.body for each in (first, second, third, fourth, fifth)]
    assert bodies == ["bödy".encode(), b"made", b"abc", b"made", '{"name":"ü"}'.encode()]
    assert made.message_id is FIELDS["message_id"], "what is the program's stays as it is"
    assert type(made.body) is Octets
    found = await handle.search(
        name, subject=Word.SUBJECT, properties={Own("key"): Own("value")}, max_messages=Two.TWO
    )
    assert [each.message.seq_number for each in found] == [first.seq_number, second.seq_number]


async def test_what_is_said_of_messages_may_be_of_own_kinds(handle: Handle, queue: str) -> None:
    name, attempt = Own(queue), Own("attempt")
    await handle.create_queue(name)
    await handle.send(name, ["a", "b", "c"])
    (message,) = await handle.receive(name, attempt_id=attempt)
    await handle.message(name, message.seq_number, Own(message.lock_token)).reject(
        Own("reason"), Own("description")
    )
    (dead,) = await handle.peek(name, state=Own("dead_lettered"))
    assert (dead.dead_letter_reason, dead.dead_letter_description) == ("reason", "description")
    (message, other) = await handle.receive(name, max_messages=Two.TWO)
    await handle.give_back(name, [other.raw])
    await handle.complete_batch([message])
    patch = ext.MessagePatch(subject=Own("new"), properties={Own("k"): Own("v")})
    await handle.call(ext.ResubmitRequest(queue=name, seq_number=dead.seq_number, message=patch))
    again = await handle.receive(Own(queue), max_messages=5)
    assert [(each.subject, each.properties) for each in again] == [("new", {"k": "v"}), ("", {})]


async def test_a_filter_looks_at_what_an_own_kind_of_text_holds(handle: Handle, queue: str) -> None:
    topic = Own(f"{queue}-topic")
    rule = 'subject == "sübject" and properties["key"] + "s" == "values"'
    await handle.subscribe(topic, Own(queue), filter=Own(rule))
    probe = Message(subject=Word.SUBJECT, properties={Own("key"): Own("value")})
    asked = await handle.call(wire.TestFilterRequest(expr=Own(rule), message=probe))
    assert asked.matched
    await handle.send_one(topic, b"x", **FIELDS)
    (found,) = await handle.peek(queue)
    assert given(found) == PLAIN


async def test_a_transaction_takes_own_kinds(handle: Handle, queue: str) -> None:
    await handle.create_queue(queue)
    if not isinstance(handle, Embedded):
        return
    name = Own(queue)
    async with handle.tx() as tx:
        await tx.send_one(name, Own("body"), **FIELDS)
        await tx.send(name, [Message(body=b"y", **FIELDS)])
        assert await tx.execute(Own("SELECT ?"), (Own("text"),)) == [("text",)]
    await handle.run_tx(lambda each: each.send_one(name, "z", **FIELDS))
    assert [given(each) for each in await handle.peek(queue)] == [PLAIN] * 3
