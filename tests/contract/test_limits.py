"""Bounds: the contract's own numbers, and the relations between them."""

from __future__ import annotations

import msgspec
import pytest

from mqlite_actor.contract import limits
from mqlite_actor.contract.ext import FoundMessage
from mqlite_actor.contract.wire import Message

CONTRACT = {
    "REQUEST_BYTES_MAX": 33_554_432,
    "MESSAGE_BYTES_DEFAULT": 1_048_576,
    "RECEIVE_MESSAGES_MAX": 256,
    "RECEIVE_WAIT_MS_MAX": 20_000,
    "PAGE_BYTES_MAX": 33_554_432,
    "PEEK_DEFAULT": 32,
    "PEEK_MAX": 1000,
    "RENEW_BATCH_MAX": 512,
    "LOCK_DURATION_MS_DEFAULT": 30_000,
    "MAX_DELIVERY_COUNT_DEFAULT": 10,
    "RECEIPT_MS": 1_800_000,
    "ATTEMPT_MS_MIN": 300_000,
    "DURATION_MS_MAX": 2**53,
    "INSTANT_MS_MAX": 253_402_300_799_999,
    "SWEEP_SECONDS": 1.0,
    "EXPIRE_SECONDS": 10.0,
    "PRUNE_SECONDS": 60.0,
    "HEADER_SECONDS": 10.0,
    "BODY_SECONDS": 60.0,
    "IDLE_SECONDS": 120.0,
}


@pytest.mark.parametrize("name", CONTRACT)
def test_a_number_of_the_contract_is_as_written_there(name: str) -> None:
    assert getattr(limits, name) == CONTRACT[name]


def test_every_bound_is_positive() -> None:
    names = [name for name in dir(limits) if name.isupper() and name != "INT64_MIN"]
    assert len(names) > 30
    for name in names:
        assert getattr(limits, name) > 0, name


def test_bounds_that_lean_on_each_other_hold() -> None:
    assert limits.RECEIVE_MESSAGES_MAX <= limits.RENEW_BATCH_MAX
    assert limits.MESSAGE_BYTES_DEFAULT < limits.PAGE_BYTES_MAX <= limits.REQUEST_BYTES_MAX
    assert limits.REQUEST_BYTES_MAX <= limits.MAILBOX_BYTES_MAX
    assert limits.GROUP_BYTES_MAX <= limits.MAILBOX_BYTES_MAX
    assert limits.DURATION_MS_MAX + limits.INSTANT_MS_MAX < limits.INT64_MAX
    assert limits.SWEEP_SECONDS <= limits.EXPIRE_SECONDS <= limits.PRUNE_SECONDS
    assert limits.MAILBOX_WAIT_SECONDS < limits.RECEIVE_WAIT_MS_MAX / 1000
    assert limits.PEEK_DEFAULT <= limits.PEEK_MAX
    assert len(str(limits.INT64_MIN)) <= limits.INTEGER_DIGITS_MAX


def test_what_surrounds_a_message_in_a_reply_is_no_more_than_is_counted() -> None:
    shown = Message(
        seq_number=limits.INT64_MAX,
        enqueued_at_ms=limits.INSTANT_MS_MAX,
        expires_at_ms=limits.INSTANT_MS_MAX,
        visible_at_ms=limits.INSTANT_MS_MAX,
        locked_until_ms=limits.INSTANT_MS_MAX,
        delivery_count=limits.MAX_DELIVERY_COUNT_MAX,
        state="dead_lettered",
        dead_letter_reason="x",
        dead_letter_description="x",
        message_id="x",
        correlation_id="x",
        reply_to="x",
        group_id="x",
        content_type="x",
        subject="x",
        properties={"": ""},
        body=b"x",
    )
    given = msgspec.structs.replace(
        shown, state="", lock_token="0" * 32, dead_letter_reason="", dead_letter_description=""
    )
    for encode in (msgspec.json.encode, msgspec.msgpack.encode):
        for each in (FoundMessage(shown, limits.INT64_MAX), given):
            assert len(encode(each)) <= limits.ENVELOPE_BYTES
