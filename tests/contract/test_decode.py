"""Request bytes to request struct, case by case: what a hand-written client may send, and what is
refused with a reason."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest

from mqlite_actor.contract import keys, limits, observe, wire
from mqlite_actor.contract.calls import BY_REQUEST, CALLS, Call
from mqlite_actor.contract.decode import decode_request
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.wire import Filter, Message, QueueConfig, SettleItem

AnyRequest = wire.Request[Any]


def names(table: Sequence[tuple[object, ...]]) -> list[str]:
    """What each row is called in a report."""
    return [str(row[0]) for row in table]


STATS = BY_REQUEST[wire.StatsRequest]
SEND = BY_REQUEST[wire.SendRequest]
Q = wire.StatsRequest(queue="q")

ACCEPTED: list[tuple[str, str | bytes, AnyRequest]] = [
    ("plain", '{"queue":"q"}', Q),
    ("white space around", ' \t\r\n{ "queue" :\n"q" } \r\n\t ', Q),
    ("null is an empty object", "null", wire.StatsRequest()),
    ("empty object", "{}", wire.StatsRequest()),
    ("null field", '{"queue":null}', wire.StatsRequest()),
    ("last of equal keys", '{"queue":"a","queue":"q"}', Q),
    ("null repeats a key", '{"queue":"q","queue":null}', wire.StatsRequest()),
    ("another letter case", '{"QUEUE":"q"}', Q),
    ("mixed letter case", '{"qUeUe":"q"}', Q),
    ("exact key first", '{"queue":"q","Queue":"other"}', Q),
    ("exact key last", '{"QUEUE":"other","queue":"q"}', Q),
    ("escapes", r'{"queue":"\u0041\"\\\/\b\f\n\r\t"}', wire.StatsRequest(queue='A"\\/\b\f\n\r\t')),
    ("escaped key", r'{"\u0071ueue":"q"}', Q),
    ("NUL in a string", r'{"queue":"a\u0000b"}', wire.StatsRequest(queue="a\0b")),
    ("surrogate pair", r'{"queue":"\ud83d\ude00"}', wire.StatsRequest(queue="😀")),
    ("half a pair", r'{"queue":"a\ud83db"}', wire.StatsRequest(queue="a\ufffdb")),
    ("half a pair, second", r'{"queue":"\ude00"}', wire.StatsRequest(queue="\ufffd")),
    ("invalid UTF-8", b'{"queue":"a\xffb"}', wire.StatsRequest(queue="a\ufffdb")),
    ("overlong UTF-8", b'{"queue":"\xc0\x80"}', wire.StatsRequest(queue="\ufffd\ufffd")),
    ("raw non-ASCII", '{"queue":"Größe 😀\u2028"}', wire.StatsRequest(queue="Größe 😀\u2028")),
]


@pytest.mark.promise("W20", "W21", "W22", "W24", "W25")
@pytest.mark.parametrize(("body", "expected"), [row[1:] for row in ACCEPTED], ids=names(ACCEPTED))
def test_what_a_client_may_write_is_understood(body: str | bytes, expected: AnyRequest) -> None:
    assert decode_request(STATS, body if isinstance(body, bytes) else body.encode()) == expected


REFUSED: list[tuple[str, str | bytes, str]] = [
    ("empty", "", "EOF"),
    ("only white space", " \r\n\t", "EOF"),
    ("truncated", "{", "unexpected EOF"),
    ("truncated key", '{"queue', "unexpected EOF|line 1"),
    ("truncated value", '{"queue":', "unexpected EOF"),
    ("list", "[]", "object"),
    ("number", "1", "object"),
    ("string", '"x"', "object"),
    ("true", "true", "object"),
    ("unknown field", '{"queue":"q","zzz":1}', "zzz"),
    ("unknown field that is null", '{"queue":"q","zzz":null}', "zzz"),
    ("near miss", '{"queu":"q"}', "queu.*did you mean 'queue'"),
    ("field of another call", '{"queue":"q","target":"t"}', "target"),
    ("second object", '{"queue":"q"}{"queue":"q"}', "line 1"),
    ("word behind", '{"queue":"q"} x', "line 1"),
    ("number for a string", '{"queue":5}', "queue"),
    ("object for a string", '{"queue":{}}', "queue"),
    ("list for a string", '{"queue":[]}', "queue"),
    ("bool for a string", '{"queue":true}', "queue"),
    ("comment", '{"queue":"q"/* */}', "line 1"),
    ("line comment", '{"queue":"q"}// x', "line 1"),
    ("trailing comma", '{"queue":"q",}', "line 1|EOF"),
    ("single quotes", "{'queue':'q'}", "line 1"),
    ("bare key", '{queue:"q"}', "line 1"),
    ("NaN", "NaN", "NaN"),
    ("Infinity as a field", '{"queue":-Infinity}', "Infinity"),
    ("byte order mark", b'\xef\xbb\xbf{"queue":"q"}', "line 1"),
    ("raw line break in a string", '{"queue":"a\nb"}', "line 1"),
    ("raw NUL in a string", '{"queue":"a\0b"}', "line 1"),
    ("bad escape", r'{"queue":"\x41"}', "line 1"),
    ("short escape", r'{"queue":"\u12"}', "line 1"),
    ("form feed as white space", '\f{"queue":"q"}', "line 1"),
    ("no-break space as white space", '\u00a0{"queue":"q"}', "line 1"),
    ("compressed", b"\x1f\x8b\x08\0\0\0\0\0", "line 1"),
    ("capital null", "NULL", "line 1"),
    ("UTF-16", '{"queue":"q"}'.encode("utf-16-le"), "line 1"),
]


@pytest.mark.promise("W15", "W16", "W17", "W18", "W20")
@pytest.mark.parametrize(("body", "reason"), [row[1:] for row in REFUSED], ids=names(REFUSED))
def test_what_is_no_request_is_refused_with_a_reason(body: str | bytes, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        decode_request(STATS, body if isinstance(body, bytes) else body.encode())


NULLS: list[tuple[str, type[AnyRequest], AnyRequest]] = [
    (
        '{"queue":null,"messages":null,"ttl_ms":null,"scheduled_enqueue_time_ms":null}',
        wire.SendRequest,
        wire.SendRequest(),
    ),
    (
        '{"messages":[null,{"body":null,"properties":null,"subject":null,"delivery_count":null}]}',
        wire.SendRequest,
        wire.SendRequest(messages=[Message(), Message()]),
    ),
    (
        '{"messages":[{"properties":{"a":null,"b":"x"}}]}',
        wire.SendRequest,
        wire.SendRequest(messages=[Message(properties={"a": "", "b": "x"})]),
    ),
    (
        '{"messages":[null]}',
        wire.CompleteBatchRequest,
        wire.CompleteBatchRequest(messages=[SettleItem()]),
    ),
    (
        '{"messages":[null,{"seq_number":null}]}',
        wire.RenewBatchRequest,
        wire.RenewBatchRequest(messages=[SettleItem(), SettleItem()]),
    ),
    (
        '{"seq_numbers":[null,7]}',
        wire.ReceiveDeferredRequest,
        wire.ReceiveDeferredRequest(seq_numbers=[0, 7]),
    ),
    ('{"name":"q","config":null}', wire.CreateQueueRequest, wire.CreateQueueRequest(name="q")),
    (
        '{"config":{"dead_letter_on_expire":null,"kind":null,"lock_duration_ms":null}}',
        wire.CreateQueueRequest,
        wire.CreateQueueRequest(config=QueueConfig()),
    ),
    ('{"filter":null}', wire.SubscribeRequest, wire.SubscribeRequest()),
    ('{"filter":{"expr":null}}', wire.SubscribeRequest, wire.SubscribeRequest(filter=Filter())),
    ('{"expr":"a","message":null}', wire.TestFilterRequest, wire.TestFilterRequest(expr="a")),
    (
        '{"message":{"subject":null}}',
        wire.TestFilterRequest,
        wire.TestFilterRequest(message=Message()),
    ),
    ('{"permissions":null}', keys.CreateKeyRequest, keys.CreateKeyRequest()),
    ("null", keys.ListKeysRequest, keys.ListKeysRequest()),
    ("null", observe.ObserveRequest, observe.ObserveRequest()),
]


@pytest.mark.promise("W22")
@pytest.mark.parametrize(("body", "kind", "expected"), NULLS)
def test_null_is_absent_at_every_depth(
    body: str, kind: type[AnyRequest], expected: AnyRequest
) -> None:
    assert decode_request(BY_REQUEST[kind], body.encode()) == expected


UNKNOWN: list[tuple[type[AnyRequest], str, str]] = [
    (wire.SendRequest, '{"messsages":[]}', "messsages"),
    (wire.SendRequest, '{"messages":[{},{"nope":1}]}', r"messages\[1\].nope"),
    (wire.SubscribeRequest, '{"filter":{"x":1}}', "filter.x"),
    (wire.CreateQueueRequest, '{"config":{"x":1}}', "config.x"),
    (wire.TestFilterRequest, '{"message":{"x":1}}', "message.x"),
    (wire.CompleteBatchRequest, '{"messages":[{"delay_ms":1}]}', r"messages\[0\].delay_ms"),
    (wire.RenewBatchRequest, '{"messages":[{"queue":"q"}]}', r"messages\[0\].queue"),
    (wire.PurgeRequest, '{"target":"t"}', "target"),
    (wire.PurgeRequest, '{"rate_per_sec":1}', "rate_per_sec"),
    (wire.CancelRequest, '{"lock_token":"t"}', "lock_token"),
    (wire.ReceiveRequest, '{"mode":1}', "mode"),
    (observe.ObserveRequest, '{"x":1}', "x"),
    (keys.RevokeKeyRequest, '{"name":"x"}', "name"),
]


@pytest.mark.promise("W17", "W18", "W19")
@pytest.mark.parametrize(("kind", "body", "named"), UNKNOWN)
def test_an_unknown_field_is_refused_by_its_full_name(
    kind: type[AnyRequest], body: str, named: str
) -> None:
    with pytest.raises(InvalidArgument, match=named):
        decode_request(BY_REQUEST[kind], body.encode())


@pytest.mark.promise("W28")
@pytest.mark.parametrize("body", [b"", b"garbage{{", b"[1", b"\xff", b'{"x":1}'])
def test_three_calls_never_read_their_body(body: bytes) -> None:
    unread = [call for call in CALLS if not call.reads_body]
    assert {call.name.partition("/")[2] for call in unread} == {
        "ListQueues",
        "ListSubscriptions",
        "Status",
    }
    for call in unread:
        assert decode_request(call, body) == call.request()


STRICT = [call for call in CALLS if call.reads_body]


@pytest.mark.promise("W15", "W16")
@pytest.mark.parametrize("call", STRICT, ids=[call.name for call in STRICT])
def test_every_other_call_wants_one_object_of_its_own_fields(call: Call) -> None:
    for body in (b"{}", b"null", b" {} \n"):
        assert decode_request(call, body) == call.request()
    for body in (b"", b"{", b"[]", b"1", b'"x"', b"true", b"{}{}", b"{} x", b'{"zzz":1}'):
        with pytest.raises(InvalidArgument):
            decode_request(call, body)


BODIES: list[tuple[object, bytes | None]] = [
    ("", b""),
    ("QQ==", b"A"),
    ("QUI=", b"AB"),
    ("QUJD", b"ABC"),
    ("+/+/", b"\xfb\xff\xbf"),
    (base64.b64encode(bytes(range(256))).decode(), bytes(range(256))),
    ("QU\nJD", b"ABC"),
    ("QU\r\nJD\r\n", b"ABC"),
    ("\nQQ\n=\r=\n", b"A"),
    ("QQ", None),
    ("QQ=", None),
    ("QQ===", None),
    ("Q", None),
    ("QUJ", None),
    ("-_-_", None),
    ("QU JD", None),
    ("QU\tJD", None),
    (" QUJD", None),
    ("QQ==QQ==", None),
    ("====", None),
    ("QÜ==", None),
    ("%51", None),
    ([], b""),
    ([0, 255, 7], b"\0\xff\7"),
    ([256], None),
    ([-1], None),
    ([1.0], None),
    (["A"], None),
    ([True], None),
    (7, None),
    (True, None),
    ({}, None),
]


@pytest.mark.promise("W26")
@pytest.mark.parametrize(("written", "body"), BODIES, ids=[repr(row[0])[:24] for row in BODIES])
def test_a_body_is_padded_standard_base64_or_a_list_of_bytes(
    written: object, body: bytes | None
) -> None:
    text = json.dumps({"messages": [{"body": written}]}).encode()
    if body is None:
        with pytest.raises(InvalidArgument, match=r"messages\[0\].body"):
            decode_request(SEND, text)
    else:
        assert decode_request(SEND, text) == wire.SendRequest(messages=[Message(body=body)])


@pytest.mark.parametrize(
    "bomb",
    [
        b"[" * 100_000,
        b'{"queue":' * 100_000,
        b'{"queue":' + b"[" * 10_001 + b"]" * 10_001 + b"}",
        b'{"zzz":' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"queue":' + b"[" * (limits.NESTING_MAX + 1) + b"]" * (limits.NESTING_MAX + 1) + b"}",
        b'{"queue":' + b'{"queue":' * 5000 + b"1" + b"}" * 5001,
        b"9" * 1_000_000,
        b'{"queue":' + b"9" * 1_000_000 + b"}",
        b"[" * 500 + b"]" * 500,
    ],
    ids=range(9),
)
def test_a_bomb_is_refused(bomb: bytes) -> None:
    with pytest.raises(InvalidArgument):
        decode_request(STATS, bomb)


@pytest.mark.parametrize(
    "body", ['{"name":"q","generation":"g"}', '{"queue":"q","generation":"g"}']
)
def test_delete_queue_alone_takes_queue_for_name(body: str) -> None:
    call = BY_REQUEST[wire.DeleteQueueRequest]
    assert decode_request(call, body.encode()) == wire.DeleteQueueRequest("q", "g")
    with pytest.raises(InvalidArgument, match="queue"):
        decode_request(BY_REQUEST[wire.CreateQueueRequest], b'{"queue":"q"}')
