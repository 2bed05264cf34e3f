"""What a command weighs while it waits."""

from __future__ import annotations

from typing import Any

import pytest

from mqlite_actor.contract import ext, wire
from mqlite_actor.contract.mistakes import TEXTS
from mqlite_actor.contract.wire import Message
from mqlite_actor.engine import admission
from mqlite_actor.engine.admission import COMMAND_BYTES, weigh
from mqlite_actor.engine.commands import JudgedSend

WHOLE = "\U0001f600 ü"
LONG = "x" * 10_000


def sending(**fields: Any) -> wire.SendRequest:  # noqa: ANN401  # of any wrong type
    return wire.SendRequest(queue="q", messages=[Message(body=b"x"), Message(**fields)])


@pytest.mark.parametrize(
    "request_",
    [
        *(sending(**{name: LONG}) for name in TEXTS),
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
    (wire.ScheduleRequest(messages=[Message(body=bytes(7))]), 2 * COMMAND_BYTES + 7),
    (wire.RejectRequest(dead_letter_reason="a", dead_letter_description="bc"), COMMAND_BYTES + 3),
    (ext.ResubmitRequest(message=PATCHED), COMMAND_BYTES + 9 + 3 * len(WHOLE)),
    (ext.ResubmitRequest(), COMMAND_BYTES),
]


def test_a_command_weighs_all_that_it_holds_and_a_little_for_each_message() -> None:
    assert [weigh(request) for request, _ in WEIGHTS] == [weight for _, weight in WEIGHTS]
