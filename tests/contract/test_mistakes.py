"""What a program may hand over by mistake is told by its place, whatever way it goes."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import msgspec
import pytest

from mqlite_actor.contract import ext, keys, limits, wire
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.mistakes import TEXTS, check
from mqlite_actor.contract.wire import Message
from mqlite_actor.engine.engine import Engine
from tests.conformance import asking

HALF = "\ud800"
WHOLE = "\U0001f600 ü"
OVER = limits.INT64_MAX + 1


def sending(**fields: Any) -> wire.SendRequest:  # noqa: ANN401  # of any wrong type
    return wire.SendRequest(queue="q", messages=[Message(body=b"x"), Message(**fields)])


def taking(**fields: Any) -> wire.ReceiveRequest:  # noqa: ANN401  # of any wrong type
    return wire.ReceiveRequest(queue="q", **fields)


def patching(**fields: Any) -> ext.UpdateQueueRequest:  # noqa: ANN401  # of any wrong type
    return ext.UpdateQueueRequest(config=ext.QueuePatch(**fields))


def resubmitting(**fields: Any) -> ext.ResubmitRequest:  # noqa: ANN401  # of all types
    return ext.ResubmitRequest(queue="q", message=ext.MessagePatch(**fields))


class Sized(IntEnum):
    """Integers of a program's own."""

    LARGE = 100


def wrong(value: Any) -> Any:  # noqa: ANN401  # a value that its field does not take
    return value


MISTAKES: dict[str, wire.Request[Any]] = {
    "messages[1].properties holds int": sending(properties={"k": 1}),
    "messages[1].properties holds bytes": sending(properties={"k": b"v"}),
    "messages[1].properties holds NoneType": sending(properties={None: "v"}),
    "messages[1].properties is of type list": sending(properties=["k"]),
    "messages[1].subject holds bytes": sending(subject=b"v"),
    "messages[1].message_id holds half": sending(message_id="\ud800"),
    "messages[1].body is of type str": sending(body="x"),
    "from_seq is '9223372036854775808'": wire.PeekRequest(queue="q", from_seq=OVER),
    "max_messages is '1.5'": taking(max_messages=1.5),
    "max_messages is 'True'": taking(max_messages=True),
    "seq_numbers[1] is '-9223372036854775809'": wire.ReceiveDeferredRequest(
        queue="q", seq_numbers=[1, -OVER - 1]
    ),
    "config.max_delivery_count is '9223372036854775808'": wire.CreateQueueRequest(
        name="q", config=wire.QueueConfig(max_delivery_count=OVER)
    ),
    "messages[0].seq_number is '9223372036854775808'": wire.CompleteBatchRequest(
        queue="q", messages=[wire.SettleItem(OVER, "")]
    ),
    "messages[1].body is of type list": wire.ScheduleRequest(
        queue="q", messages=[Message(), Message(body=wrong([104, 105]))]
    ),
    "messages[1].ttl_ms is '5'": sending(ttl_ms="5"),
    "messages[0] is of type bytes, not Message": wire.SendRequest(messages=wrong([b"x"])),
    "messages is of type bytes, not list": wire.SendRequest(messages=wrong(b"x")),
    "ttl_ms is 'None'": wire.SendRequest(ttl_ms=wrong(None)),
    "queue holds NoneType": wire.StatsRequest(queue=wrong(None)),
    "lock_token holds int": wire.CompleteRequest(queue="q", lock_token=wrong(5)),
    "messages[0].lock_token holds bytes": wire.RenewBatchRequest(
        queue="q", messages=[wire.SettleItem(1, wrong(b"t"))]
    ),
    "permissions[1] holds int": keys.CreateKeyRequest(permissions=["send", wrong(1)]),
    "config is of type dict, not QueueConfig": wire.CreateQueueRequest(config=wrong({})),
    "config.dlq_max_count is '5'": patching(dlq_max_count="5"),
    "config.dlq_max_count is '1.5'": patching(dlq_max_count=1.5),
    "config.dlq_max_count is '9223372036854775808'": patching(dlq_max_count=OVER),
    "config.dead_letter_on_expire is of type str": patching(dead_letter_on_expire="no"),
    "expected_count is '1'": ext.PurgeActiveRequest(queue="q", expected_count=wrong("1")),
    "message.body is of type str": resubmitting(body="x"),
    "message.properties is of type list": resubmitting(properties=["k"]),
    "message.subject holds NoneType": resubmitting(subject=None),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_told_by_its_place(words: str) -> None:
    with pytest.raises(InvalidArgument) as told:
        check(MISTAKES[words])
    assert told.value.message.startswith(words)


def test_what_the_wire_takes_passes() -> None:
    for request in (
        sending(properties={"é": "v"}, subject="é", body=bytearray(b"x")),
        wire.PeekRequest(queue="q", from_seq=limits.INT64_MAX, max=limits.INT64_MIN),
        ext.ResubmitRequest(queue="q", message=ext.MessagePatch(subject="s")),
        wire.ScheduleRequest(queue="q", messages=wrong((Message(),)), ttl_ms=Sized.LARGE),
        wire.TestFilterRequest(),
        wire.CreateQueueRequest(name="q", config=wire.QueueConfig(dead_letter_on_expire=True)),
        patching(dlq_max_count=1, dead_letter_on_expire=False, ordering_mode="é"),
        wire.StatusRequest(),
    ):
        check(request)


class Own(str):
    """Texts of a program's own, which no encoder knows."""

    __slots__ = ()

    def __str__(self) -> str:
        return "other"


class Octets(bytes):
    """Bodies of a program's own."""


ITEM = wire.SettleItem(1, "t")

PLAIN: list[tuple[wire.Request[Any], wire.Request[Any]]] = [
    *((sending(**{name: Own("é")}), sending(**{name: "é"})) for name in TEXTS),
    (sending(properties={Own("k"): "v"}), sending(properties={"k": "v"})),
    (sending(properties={"a": "b", "k": Own("é")}), sending(properties={"a": "b", "k": "é"})),
    (sending(body=Octets(b"b")), sending(body=b"b")),
    (sending(body=memoryview(b"axb")[::2]), sending(body=b"ab")),
    (sending(ttl_ms=Sized.LARGE), sending(ttl_ms=100)),
    (
        wire.ScheduleRequest(queue=Own("q"), messages=[Message()], ttl_ms=Sized.LARGE),
        wire.ScheduleRequest(queue="q", messages=[Message()], ttl_ms=100),
    ),
    (
        ext.SendResultRequest(queue=Own("q"), messages=[Message()], request_id=Own("r")),
        ext.SendResultRequest(queue="q", messages=[Message()], request_id="r"),
    ),
    (
        wire.CompleteBatchRequest(queue="q", messages=[ITEM, wire.SettleItem(2, Own("t"))]),
        wire.CompleteBatchRequest(queue="q", messages=[ITEM, wire.SettleItem(2, "t")]),
    ),
    (
        wire.CompleteBatchRequest(messages=wrong((ITEM, wire.SettleItem(Sized.LARGE, "t")))),
        wire.CompleteBatchRequest(messages=[ITEM, wire.SettleItem(100, "t")]),
    ),
    (
        wire.ReceiveDeferredRequest(queue="q", seq_numbers=[1, Sized.LARGE]),
        wire.ReceiveDeferredRequest(queue="q", seq_numbers=[1, 100]),
    ),
    (
        keys.CreateKeyRequest(name="n", permissions=["send", Own("é")]),
        keys.CreateKeyRequest(name="n", permissions=["send", "é"]),
    ),
    (
        wire.CreateQueueRequest(config=wire.QueueConfig(kind=Own("k"), dedup_window_ms=Sized(100))),
        wire.CreateQueueRequest(config=wire.QueueConfig(kind="k", dedup_window_ms=100)),
    ),
    (patching(dlq_max_count=Sized.LARGE), patching(dlq_max_count=100)),
    (
        resubmitting(subject=Own("s"), properties={Own("k"): Own("v")}, body=Octets(b"b")),
        resubmitting(subject="s", properties={"k": "v"}, body=b"b"),
    ),
    (
        wire.TestFilterRequest(message=Message(subject=Own("s"))),
        wire.TestFilterRequest(message=Message(subject="s")),
    ),
]


def test_texts_numbers_and_bodies_of_own_kinds_become_plain_ones() -> None:
    for given, plain in PLAIN:
        checked = check(given)
        assert type(checked) is type(given)
        assert msgspec.json.encode(checked) == msgspec.json.encode(plain)


def test_what_is_plain_is_not_copied_and_what_is_given_not_changed() -> None:
    for given, plain in PLAIN:
        before = repr(given)
        check(given)
        assert repr(given) == before
        assert check(plain) is plain
    request = sending(subject=WHOLE, properties={WHOLE: WHOLE}, ttl_ms=1)
    assert check(request) is request
    first, second = PLAIN[0][0], check(PLAIN[0][0])
    assert isinstance(first, wire.SendRequest)
    assert isinstance(second, wire.SendRequest)
    assert second.messages[0] is first.messages[0], "a message beside it is not copied either"


HALVES: list[tuple[str, wire.Request[Any]]] = [
    *((f"messages[1].{name}", sending(**{name: f"x{HALF}"})) for name in TEXTS),
    ("messages[1].properties", sending(properties={"k": HALF})),
    ("messages[1].properties", sending(properties={HALF: "v"})),
    ("messages[1].subject", sending(properties={"k": "v"}, subject=HALF)),
    ("queue", wire.SendRequest(queue=HALF, messages=[Message()])),
    ("request_id", ext.SendResultRequest(queue="q", request_id=HALF)),
    ("lock_token", wire.CompleteRequest(queue="q", lock_token=HALF)),
    ("message.reply_to", resubmitting(reply_to=HALF)),
    ("message.properties", resubmitting(properties={"k": HALF})),
    ("properties", ext.SearchRequest(queue="q", properties={HALF: "v"})),
]


async def test_half_a_surrogate_pair_is_refused_by_its_field_before_anything_is_stored(
    engine: Engine,
) -> None:
    await asking.make(engine, "q")
    groups = engine.statistics()["groups"]
    for field, request in HALVES:
        with pytest.raises(InvalidArgument) as refusal:
            await engine.call(request)
        assert refusal.value.message.startswith(f"{field} holds half a surrogate pair")
    assert engine.statistics()["groups"] == groups, "the writer never heard of it"
    assert await asking.states(engine, "q") == {}


PATCH = ext.MessagePatch(subject=WHOLE, properties={WHOLE: WHOLE})


def test_whole_texts_of_any_script_pass() -> None:
    for request in (
        sending(message_id=WHOLE, properties={WHOLE: WHOLE}),
        ext.ResubmitRequest(queue=WHOLE, message=PATCH),
        ext.SearchRequest(queue=WHOLE, subject=WHOLE, properties={WHOLE: WHOLE}),
    ):
        check(request)
