"""How many objects and values a long request may hold: counted before it is decoded."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.calls import BY_REQUEST, CALLS, Call
from mqlite_actor.contract.decode import _nulls_in_lists, decode_request
from mqlite_actor.contract.errors import InvalidArgument

SEND = BY_REQUEST[wire.SendRequest]


def lists(call: Call) -> list[str]:
    """Fields of its request that are lists of objects or of numbers."""
    kind = inspect.type_info(call.request)
    assert isinstance(kind, inspect.StructType)
    return [
        each.encode_name
        for each in kind.fields
        if isinstance(each.type, inspect.ListType)
        and isinstance(each.type.item_type, inspect.StructType | inspect.IntType)
    ]


LISTS = [(call, field) for call in CALLS if call.reads_body for field in lists(call)]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Every request is counted, and may have five objects, its own among them."""
    monkeypatch.setattr(limits, "REQUEST_UNCOUNTED_BYTES", 0)
    monkeypatch.setattr(limits, "REQUEST_OBJECTS_MAX", 5)
    return 4


def test_lists_of_messages_and_of_numbers_are_among_them() -> None:
    assert {"Send", "CompleteBatch", "ReceiveDeferred"} <= {
        call.name.rpartition("/")[2] for call, _ in LISTS
    }


@pytest.mark.parametrize(("call", "field"), LISTS, ids=[f"{c.name}.{f}" for c, f in LISTS])
def test_more_nulls_in_a_list_than_objects_may_be_are_refused(call: Call, field: str) -> None:
    nulls = b"null," * limits.REQUEST_OBJECTS_MAX
    body = b'{"%s":[%snull]}' % (field.encode(), nulls)
    with pytest.raises(InvalidArgument, match=r"more than 262144 objects.*split it"):
        decode_request(call, body)


@pytest.mark.parametrize("item", ["null", " null", "\r\n\tnull ", "{}"])
def test_the_bound_itself_is_allowed(few: int, item: str) -> None:
    at_most, one_more = (
        f'{{"messages":[{",".join(items)}]}}'.encode()
        for items in ([item] * few, ["{}", *[item] * few])
    )
    assert decode_request(SEND, at_most) == wire.SendRequest(messages=[wire.Message()] * few)
    with pytest.raises(InvalidArgument, match="objects"):
        decode_request(SEND, one_more)


def test_what_is_absent_by_null_is_no_object(few: int) -> None:
    """As many clients write every field that they do not set."""
    absent: dict[str, Any] = {
        field.encode_name: None for field in msgspec.structs.fields(wire.Message)
    }
    body = msgspec.json.encode({"queue": "q", "messages": [absent] * few})
    for each in (body, msgspec.json.format(body)):
        assert decode_request(SEND, each) == wire.SendRequest("q", [wire.Message()] * few)


TEXTS = [
    ",null" * 99,
    ", null, [null [ \n null",
    '",null',
    "\\,null",
    '\\",null\\',
    "\0,null",
    '[null"',
]


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("text", TEXTS)
def test_what_a_text_holds_is_no_null(text: str) -> None:
    message = wire.Message(properties={text: text, "b": text + "\\"}, subject=text)
    # Its properties are an object as well.
    body = msgspec.json.encode(wire.SendRequest("q", [message, message]))
    assert decode_request(SEND, body) == wire.SendRequest("q", [message, message])
    one_more = msgspec.json.encode({"queue": text, "messages": [message, None, message]})
    for each in (one_more, msgspec.json.format(one_more)):
        with pytest.raises(InvalidArgument, match="objects"):
            decode_request(SEND, each)


@pytest.mark.parametrize(
    "unit",
    [b'"a" ', b'["a"', b'""', b'""null', b":null", b"n", b"\\", b'\\"', b'\\\\"', b"[", b",   ",
     b"[null", b'"":"", '],
)  # fmt: skip
def test_hostile_texts_are_counted_in_linear_time(unit: bytes) -> None:
    """In steps of a hundredth of the largest body, where a square would be seen at once."""
    began = b'{"queue":"' + b",null" * (limits.REQUEST_OBJECTS_MAX + 1) + b'"'
    took = []
    for size in (limits.REQUEST_BYTES_MAX // 32, limits.REQUEST_BYTES_MAX // 2):
        body = began + unit * (size // len(unit))
        start = time.process_time()
        _nulls_in_lists(body, at_most=limits.REQUEST_OBJECTS_MAX)
        took.append(time.process_time() - start)
    assert took[1] < 64 * max(took[0], 0.01)


def test_more_values_than_there_may_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REQUEST_UNCOUNTED_BYTES", 0)
    monkeypatch.setattr(limits, "REQUEST_VALUES_MAX", 5)
    call = BY_REQUEST[wire.ReceiveDeferredRequest]
    at_most = wire.ReceiveDeferredRequest(seq_numbers=[1, 2, 3, 4, 5, 6])
    assert decode_request(call, b'{"seq_numbers":[1,2,3,4,5,6]}') == at_most
    with pytest.raises(InvalidArgument, match="more than 5 values"):
        decode_request(call, b'{"seq_numbers":[1,2,3,4,5,6,7]}')
