"""Responses as JSON: which keys are always there, which are left out when zero, and their order."""

from __future__ import annotations

import json

import msgspec
import pytest
from msgspec import inspect

from mqlite_actor.contract import keys, observe, wire
from mqlite_actor.contract.calls import CALLS
from mqlite_actor.contract.wire import Message

ENCODED: list[tuple[object, str]] = [
    (Message(), "{}"),
    (wire.SendResponse(seq_numbers=None), '{"seq_numbers":null}'),
    (wire.SendResponse(seq_numbers=[]), '{"seq_numbers":[]}'),
    (wire.SendResponse(seq_numbers=[0, 7]), '{"seq_numbers":[0,7]}'),
    (wire.MessagesResponse(messages=[]), '{"messages":[]}'),
    (wire.MessagesResponse(messages=[Message()]), '{"messages":[{}]}'),
    (wire.OkResponse(), '{"ok":true}'),
    (wire.EmptyResponse(), "{}"),
    (wire.CompleteBatchResponse(results=[]), '{"results":[]}'),
    (
        wire.CompleteBatchResponse(results=[wire.SettleItemResult(seq_number=0, ok=False)]),
        '{"results":[{"seq_number":0,"ok":false}]}',
    ),
    (wire.RenewBatchResponse(results=[]), '{"results":[]}'),
    (
        wire.RenewBatchResponse(
            results=[
                wire.RenewItemResult(seq_number=0, ok=False),
                wire.RenewItemResult(seq_number=1, ok=True, locked_until_ms=2),
            ]
        ),
        '{"results":[{"seq_number":0,"ok":false},{"seq_number":1,"ok":true,"locked_until_ms":2}]}',
    ),
    (
        wire.StatsResponse(
            queue="",
            active=0,
            locked=0,
            deferred=0,
            scheduled=0,
            dead_lettered=0,
            total=0,
            oldest_message_age_ms=0,
        ),
        (
            '{"queue":"","active":0,"locked":0,"deferred":0,"scheduled":0,"dead_lettered":0,'
            '"total":0,'
            '"oldest_message_age_ms":0}'
        ),
    ),
    (wire.ListQueuesResponse(queues=[]), '{"queues":[]}'),
    (
        wire.QueueInfo(
            name="",
            kind="",
            lock_duration_ms=0,
            max_delivery_count=0,
            default_ttl_ms=0,
            dedup_window_ms=0,
            generation="",
        ),
        (
            '{"name":"","kind":"","lock_duration_ms":0,"max_delivery_count":0,"default_ttl_ms":0,'
            '"dedup_window_ms":0,"generation":""}'
        ),
    ),
    (wire.ListSubscriptionsResponse(subscriptions=[]), '{"subscriptions":[]}'),
    (wire.SubscriptionInfo(topic="", name=""), '{"topic":"","name":""}'),
    (
        wire.SubscriptionInfo(topic="t", name="n", expr="e"),
        '{"topic":"t","name":"n","expr":"e"}',
    ),
    (
        wire.TestFilterResponse(valid=False, error=msgspec.UNSET, ran=False, matched=False),
        '{"valid":false,"ran":false,"matched":false}',
    ),
    (
        wire.TestFilterResponse(valid=True, error="e", ran=True, matched=False),
        '{"valid":true,"error":"e","ran":true,"matched":false}',
    ),
    (wire.RedriveResponse(moved=0), '{"moved":0}'),
    (wire.PurgeResponse(purged=0), '{"purged":0}'),
    (
        wire.StatusResponse(
            version="",
            backend="",
            remote=False,
            location="",
            schema_version="",
            ping_ms=0,
            db_size_bytes=0,
            queues=0,
            subscriptions=0,
            uptime_ms=0,
            auth=False,
        ),
        (
            '{"version":"","backend":"","remote":false,"location":"","schema_version":"",'
            '"ping_ms":0,'
            '"db_size_bytes":0,"queues":0,"subscriptions":0,"uptime_ms":0,"auth":false}'
        ),
    ),
    (
        keys.AccessKey(
            id="", name="", permissions=[], created_at_ms=0, expires_at_ms=0, revoked_at_ms=0
        ),
        (
            '{"id":"","name":"","permissions":[],"created_at_ms":0,"expires_at_ms":0,'
            '"revoked_at_ms":0}'
        ),
    ),
    (keys.ListKeysResponse(keys=[]), '{"keys":[]}'),
    (keys.ListKeysResponse(keys=[], next_after_id="a"), '{"keys":[],"next_after_id":"a"}'),
]


@pytest.mark.parametrize(("value", "text"), ENCODED, ids=[type(row[0]).__name__ for row in ENCODED])
def test_a_response_has_exactly_these_keys_in_this_order(value: object, text: str) -> None:
    assert msgspec.json.encode(value).decode() == text


KEYS = (
    "seq_number", "enqueued_at_ms", "expires_at_ms", "visible_at_ms", "locked_until_ms",
    "delivery_count", "lock_token", "state", "dead_letter_reason", "dead_letter_description",
    "message_id", "correlation_id", "reply_to", "group_id", "content_type", "subject",
    "properties", "body",
)  # fmt: skip


def test_a_full_message_has_its_keys_in_the_order_of_the_contract() -> None:
    zero = Message()
    samples: dict[type, object] = {int: 1, str: "t", dict: {"k": "v"}, bytes: b"A"}
    filled = {key: samples[type(getattr(zero, key))] for key in KEYS}
    full = msgspec.structs.replace(zero, **filled)
    assert tuple(json.loads(msgspec.json.encode(full))) == KEYS
    for key in KEYS:  # and each of them stands alone
        alone = msgspec.structs.replace(zero, **{key: filled[key]})
        assert tuple(json.loads(msgspec.json.encode(alone))) == (key,)


SURPLUS = {"mailbox_depth", "process", "receive_waiters"}
"""Keys that our Observe has beyond the contract's (ruling R9); null where nobody knows."""


def test_two_keys_of_all_responses_can_be_null() -> None:
    nullable = {
        (call.response.__name__, field.name)
        for call in CALLS
        for field in msgspec.structs.fields(call.response)
        if "None" in str(field.type) and field.name not in SURPLUS
    }
    assert nullable == {("SendResponse", "seq_numbers"), ("ObserveResponse", "queues")}


def test_property_names_are_written_in_bytewise_order() -> None:
    encoder = msgspec.json.Encoder(order="deterministic")
    message = Message(properties={"b": "1", "a": "2", "é": "3", "Z": "4", "": "5"})
    written = json.loads(encoder.encode(message))["properties"]
    assert list(written) == sorted(message.properties, key=str.encode)


def test_a_body_is_written_in_padded_standard_base64() -> None:
    assert msgspec.json.encode(Message(body=b"\xfb\xff\xbfA")) == b'{"body":"+/+/QQ=="}'


def test_observe_leaves_out_no_key() -> None:
    def check(kind: inspect.Type) -> None:
        if isinstance(kind, inspect.StructType):
            assert not kind.cls.__struct_config__.omit_defaults, kind.cls
            for field in kind.fields:
                check(field.type)
        elif isinstance(kind, inspect.ListType):
            check(kind.item_type)
        elif isinstance(kind, inspect.UnionType):
            for each in kind.types:
                check(each)

    check(inspect.type_info(observe.ObserveResponse))
