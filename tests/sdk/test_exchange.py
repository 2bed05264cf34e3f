"""Requests to HTTP parts and replies to responses or errors, without a socket."""

from __future__ import annotations

import socket
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from mqlite_actor.contract import errors, ext, keys, observe, wire
from mqlite_actor.contract.calls import CALLS, Call
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.sdk import exchange

SETTLE = wire.CompleteRequest(queue="q", seq_number=7, lock_token="t")
CANCEL = wire.CancelRequest(queue="q", seq_number=7)
SEND = wire.SendRequest(queue="q", messages=[wire.Message(body=b"x")])


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_every_call_goes_to_its_path_with_a_json_object(call: Call) -> None:
    parts = exchange.to_http(call.request(), token="tok")
    assert parts.path == call.path
    assert parts.headers["Authorization"] == "Bearer tok"
    assert parts.headers["Content-Type"] == "application/json"
    assert msgspec.json.decode(parts.body) == {}


def test_without_a_token_no_credential_is_sent() -> None:
    assert "Authorization" not in exchange.to_http(SEND).headers


@pytest.mark.promise("T16")
@pytest.mark.parametrize(
    "token", ["sesame\r\nX: y", "sesame\n", "ses ame", "ses\u00e9same", "sesame\0"]
)
def test_a_token_that_no_header_can_carry_is_refused_unseen(token: str) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        exchange.to_http(SEND, token=token)
    assert "ses" not in caught.value.message


def test_a_lone_surrogate_is_refused_before_it_leaves() -> None:
    with pytest.raises(errors.InvalidArgument, match="surrogate"):
        exchange.to_http(wire.StatsRequest(queue="\ud800"))


def test_bodies_travel_as_base64_and_zero_values_are_left_out() -> None:
    body = exchange.to_http(SEND).body
    assert msgspec.json.decode(body) == {"queue": "q", "messages": [{"body": "eA=="}]}


def test_any_2xx_of_the_right_shape_is_the_response() -> None:
    for status in (200, 201, 299):
        content = b'{"seq_numbers":[3],"later_key":1}\n'
        assert exchange.from_http(SEND, status=status, content=content).seq_numbers == [3]


@pytest.mark.parametrize(
    ("request_", "content"),
    [
        (SEND, b""),
        (SEND, b"<html>hello</html>"),
        (SEND, b"[]"),
        (SEND, b"{}"),
        (SEND, b'{"seq_numbers":"x"}'),
        (SEND, b'{"seq_numbers":[]}'),
        (SEND, b'{"seq_numbers":null}'),
        (SEND, b'{"seq_numbers":[1,2]}'),
        (SEND, b"[" * 100_000),
        (SEND, b'{"seq_numbers":["\xff"]}'),
        (wire.CancelRequest(queue="q", seq_number=1), b'{"ok":false}'),
        (
            wire.CompleteBatchRequest(queue="q", messages=[wire.SettleItem(1, "t")]),
            b'{"results":[]}',
        ),
        (
            wire.CompleteBatchRequest(queue="q", messages=[wire.SettleItem(1, "t")]),
            b'{"results":[{"seq_number":2,"ok":true}]}',
        ),
        (
            wire.RenewBatchRequest(queue="q", messages=[wire.SettleItem(1, "t")]),
            b'{"results":[]}',
        ),
        (
            ext.ReleaseRequest(queue="q", messages=[wire.SettleItem(1, "t")]),
            b'{"results":[{"seq_number":2,"ok":true}]}',
        ),
        (ext.SendResultRequest(queue="q", messages=[wire.Message()]), b'{"results":[]}'),
        (
            ext.RedriveSelectedRequest(queue="q", seq_numbers=[1]),
            b'{"moved":1,"results":[{"seq_number":2,"outcome":"moved"}]}',
        ),
    ],
)
def test_a_reply_of_another_shape_is_said_to_be_one(
    request_: wire.Request[Any], content: bytes
) -> None:
    with pytest.raises(errors.Internal, match="is this an mqlite broker"):
        exchange.from_http(request_, status=200, content=content)


def test_ok_false_on_a_settle_is_a_lost_lock() -> None:
    with pytest.raises(errors.LockLost, match="7"):
        exchange.from_http(SETTLE, status=200, content=b'{"ok":false}')


@pytest.mark.parametrize("code", sorted(errors.BY_CODE))
def test_every_code_of_the_contract_becomes_its_class(code: str) -> None:
    cls = errors.BY_CODE[code]
    status = cls.http_status if code != "unsupported" else 400
    content = msgspec.json.encode({"code": code, "message": "why"})
    with pytest.raises(MqliteError) as caught:
        exchange.from_http(CANCEL, status=status, content=content)
    assert type(caught.value) is cls
    assert caught.value.message == "why"


@pytest.mark.parametrize(
    ("status", "content", "expected"),
    [
        (404, b'{"code":"not_found","message":"no such path: /x"}', errors.Unsupported),
        (404, b'{"code":"","message":""}', errors.Unsupported),
        (404, b"<html>", errors.Unsupported),
        (401, b"<html>", errors.Unauthenticated),
        (403, b"", errors.PermissionDenied),
        (413, b"too large", errors.MessageTooLarge),
        (503, b'{"code":"unavailable","message":"busy"}', errors.Unavailable),
        (503, b"upstream connect error or disconnect", errors.OutcomeUnknown),
        (503, b'{"code":"","message":""}', errors.OutcomeUnknown),
        (502, b"bad gateway", errors.OutcomeUnknown),
        (504, b"", errors.OutcomeUnknown),
        (500, b"oops", errors.Internal),
        (302, b"", errors.Internal),
        (400, b'{"code":"brand_new","message":"m"}', errors.Internal),
        (418, b'{"code":7}', errors.Internal),
    ],
)
def test_a_failure_without_our_words_is_told_by_its_status(
    status: int, content: bytes, expected: type[MqliteError]
) -> None:
    with pytest.raises(MqliteError) as caught:
        exchange.from_http(SEND, status=status, content=content)
    assert type(caught.value) is expected
    assert caught.value.message


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_read_that_a_proxy_lost_left_no_doubt(status: int) -> None:
    with pytest.raises(errors.Unavailable):
        exchange.from_http(wire.StatsRequest(queue="q"), status=status, content=b"")


WRITES_NEVER_REPEATED = {
    wire.SendRequest,
    wire.ScheduleRequest,
    wire.ReceiveRequest,
    wire.ReceiveDeferredRequest,
    wire.CancelRequest,
    wire.CreateQueueRequest,
    wire.SubscribeRequest,
    wire.RedriveRequest,
    wire.PurgeRequest,
    wire.DeleteQueueRequest,
    keys.CreateKeyRequest,
    ext.SendResultRequest,
    ext.UpdateQueueRequest,
    ext.DeleteSubscriptionRequest,
    ext.PurgeActiveRequest,
    ext.RedriveSelectedRequest,
    ext.ResubmitRequest,
    ext.BackupRequest,
}


def test_each_call_is_a_read_a_replayable_write_or_never_repeated() -> None:
    groups = [exchange.READS, exchange.REPLAYED, WRITES_NEVER_REPEATED]
    assert frozenset().union(*groups) == {call.request for call in CALLS}
    assert sum(len(group) for group in groups) == len(CALLS)
    for call in CALLS:
        request = call.request()
        assert exchange.is_read(request) == (call.request in exchange.READS)
        assert exchange.is_repeatable(request) == (call.request not in WRITES_NEVER_REPEATED)


def test_a_receive_is_repeatable_by_its_attempt_id_alone_and_only_without_leases() -> None:
    removal = wire.ReceiveRequest(queue="q", receive_mode=1)
    assert not exchange.is_repeatable(removal)
    assert exchange.is_repeatable(replace(removal, receive_attempt_id="a"))
    for mode in (0, 2):  # any other number is a claim under leases, whose replay may be over
        again = replace(removal, receive_mode=mode, receive_attempt_id="a")
        assert not exchange.is_repeatable(again)


def test_a_send_is_repeatable_by_its_request_id_alone() -> None:
    assert exchange.is_repeatable(ext.SendResultRequest(queue="q", request_id="r"))
    assert not exchange.is_repeatable(ext.SendResultRequest(queue="q"))


@pytest.mark.parametrize(("wait_ms", "seconds"), [(-1, 30), (0, 30), (5_000, 35), (10**9, 50)])
def test_a_reply_may_take_the_wait_and_thirty_seconds(wait_ms: int, seconds: float) -> None:
    request = wire.ReceiveRequest(queue="q", wait_time_ms=wait_ms)
    assert exchange.reply_seconds(request) == seconds
    assert exchange.reply_seconds(observe.ObserveRequest()) == 30
    assert exchange.reply_seconds(ext.BackupRequest()) == 3600


@pytest.mark.parametrize(
    ("request_", "seconds"),
    [
        (wire.PurgeRequest(), 600),
        (wire.RedriveRequest(max=45), 600),
        (ext.RedriveSelectedRequest(), 600),
        (wire.RedriveRequest(max=45, rate_per_sec=1), 645),
        (wire.RedriveRequest(max=10**18, rate_per_sec=1), 600 + 7 * 86_400),
        (wire.RedriveRequest(rate_per_sec=1000), 600 + 7 * 86_400),
    ],
)
def test_work_on_dead_letters_has_the_time_that_it_asks_for(
    request_: wire.Request[Any], seconds: float
) -> None:
    assert exchange.reply_seconds(request_) == seconds
    assert exchange.reply_seconds(request_, 5) == 5
    with socket.socket() as raw:
        raw.settimeout(exchange.reply_seconds(request_))  # the system's timer holds it


@pytest.mark.parametrize(
    ("error", "is_doubtful"),
    [
        (errors.Unavailable("away"), True),
        (errors.StorageFull("full"), True),
        (errors.Internal("odd"), True),
        (errors.Closed("closed"), True),
        (errors.Unsupported("an older broker"), True),
        (errors.Unauthenticated("who?"), True),
        (errors.PermissionDenied("not you"), True),
        (errors.LockLost("over"), False),
        (errors.QueueNotFound("gone"), False),
        (errors.InvalidArgument("no"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_repetition_that_failed_says_nothing_of_the_first_try(
    error: MqliteError, *, is_doubtful: bool
) -> None:
    unknown = exchange.unknown_since(SETTLE, error)
    assert (unknown is not None) == is_doubtful
    assert unknown is None or error.message in unknown.message
    assert exchange.unknown_since(wire.StatsRequest(), error) is None, "a read changed nothing"
    assert exchange.unknown_since(SETTLE, errors.OutcomeUnknown("said already")) is None


def test_a_lost_reply_leaves_doubt_only_about_a_write() -> None:
    assert isinstance(exchange.lost_reply(wire.StatsRequest(), "lost"), errors.Unavailable)
    assert isinstance(exchange.lost_reply(SEND, "lost"), errors.OutcomeUnknown)
    assert isinstance(exchange.lost_reply(SETTLE, "lost"), errors.OutcomeUnknown)
