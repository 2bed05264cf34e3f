"""What an embedding program may hand over by mistake, and what a command weighs while it waits."""

from __future__ import annotations

from typing import Any

import pytest

from mqlite_actor.contract import ext, limits, wire
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.wire import Message
from mqlite_actor.engine import admission
from mqlite_actor.engine.admission import COMMAND_BYTES, check_texts, weigh
from mqlite_actor.engine.commands import JudgedSend
from mqlite_actor.engine.engine import Engine
from tests.conformance import asking

HALF = "\ud800"
WHOLE = "\U0001f600 ü"
LONG = "x" * 10_000
OVER = limits.INT64_MAX + 1


def sending(**fields: Any) -> wire.SendRequest:  # noqa: ANN401  # of any wrong type
    return wire.SendRequest(queue="q", messages=[Message(body=b"x"), Message(**fields)])


def taking(**fields: Any) -> wire.ReceiveRequest:  # noqa: ANN401  # of any wrong type
    return wire.ReceiveRequest(queue="q", **fields)


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
    "seq_numbers[1] is '-9223372036854775809'": wire.ReceiveDeferredRequest(
        queue="q", seq_numbers=[1, -OVER - 1]
    ),
    "config.dlq_max_count is '9223372036854775808'": wire.CreateQueueRequest(
        name="q", config=wire.QueueConfig(dlq_max_count=OVER)
    ),
    "messages[0].seq_number is '9223372036854775808'": wire.CompleteBatchRequest(
        queue="q", messages=[wire.SettleItem(OVER, "")]
    ),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_told_by_its_place(words: str) -> None:
    with pytest.raises(InvalidArgument) as told:
        check_texts(MISTAKES[words])
    assert told.value.message.startswith(words)


def test_what_the_wire_takes_passes() -> None:
    for request in (
        sending(properties={"é": "v"}, subject="é", body=bytearray(b"x")),
        wire.PeekRequest(queue="q", from_seq=limits.INT64_MAX, max=limits.INT64_MIN),
        ext.ResubmitRequest(queue="q", message=ext.MessagePatch(subject="s")),
        wire.CreateQueueRequest(name="q"),
        wire.StatusRequest(),
    ):
        check_texts(request)


@pytest.mark.parametrize(
    "request_",
    [
        *(sending(**{name: LONG}) for name in admission._TEXTS),
        sending(body=LONG.encode()),
        sending(properties={"k": LONG}),
        sending(properties={LONG: "v"}),
        wire.RejectRequest(queue="q", dead_letter_reason=LONG),
        wire.CompleteRequest(queue="q", dead_letter_description=LONG),
        ext.ResubmitRequest(queue="q", message=ext.MessagePatch(subject=LONG)),
        ext.ResubmitRequest(queue="q", message=ext.MessagePatch(properties={"k": LONG})),
        ext.ResubmitRequest(queue="q", message=ext.MessagePatch(body=LONG.encode())),
    ],
)
def test_whatever_is_long_weighs(request_: wire.Request[Any]) -> None:
    assert len(LONG) < weigh(request_) <= len(LONG) + 4 * admission.COMMAND_BYTES


PATCHED = ext.MessagePatch(body=bytes(9), subject=WHOLE, properties={WHOLE: WHOLE})

TWO = wire.SendRequest(
    messages=[Message(body=bytes(5)), Message(subject="ab", properties={"k": "vw"})]
)

WEIGHTS: list[tuple[Any, int]] = [
    (wire.StatsRequest(queue="q"), COMMAND_BYTES),
    (TWO, 3 * COMMAND_BYTES + 5 + 2 + 3),
    (JudgedSend(TWO, {}), 3 * COMMAND_BYTES + 5 + 2 + 3),
    (ext.SendResultRequest(messages=[Message(body=bytes(7))]), 2 * COMMAND_BYTES + 7),
    (wire.RejectRequest(dead_letter_reason="a", dead_letter_description="bc"), COMMAND_BYTES + 3),
    (ext.ResubmitRequest(message=PATCHED), COMMAND_BYTES + 9 + 3 * len(WHOLE)),
    (ext.ResubmitRequest(), COMMAND_BYTES),
]


def test_a_command_weighs_all_that_it_holds_and_a_little_for_each_message() -> None:
    assert [weigh(request) for request, _ in WEIGHTS] == [weight for _, weight in WEIGHTS]


def resubmitting(**fields: Any) -> ext.ResubmitRequest:  # noqa: ANN401  # of all types
    return ext.ResubmitRequest(queue="q", message=ext.MessagePatch(**fields))


HALVES: list[tuple[str, wire.Request[Any]]] = [
    *((f"messages[1].{name}", sending(**{name: f"x{HALF}"})) for name in admission._TEXTS),
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


def test_whole_texts_of_any_script_pass() -> None:
    for request in (
        sending(message_id=WHOLE, properties={WHOLE: WHOLE}),
        ext.ResubmitRequest(queue=WHOLE, message=PATCHED),
        ext.SearchRequest(queue=WHOLE, subject=WHOLE, properties={WHOLE: WHOLE}),
    ):
        check_texts(request)
