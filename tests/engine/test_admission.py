"""What an embedding program may hand over by mistake, and what a command weighs while it waits."""

from __future__ import annotations

from typing import Any

import pytest

from mqlite_actor.contract import ext, limits, wire
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.wire import Message
from mqlite_actor.engine import admission
from mqlite_actor.engine.admission import check_texts, weigh

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
