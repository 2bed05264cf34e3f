"""One call as HTTP, without any I/O: request struct to HTTP parts, reply bytes to response or
error.

Called by every HTTP handle; calls only the contract. The handles own the sockets, this module owns
what the bytes mean, so that no two of them can disagree. Rules: any 2xx is success and must have
the call's shape; anything else becomes an error of the contract's tree; a reply that is no broker's
is said to be one, never passed on as data; what may be repeated after a lost reply is decided here,
by a table (ruling R46), and so is what a repetition that failed leaves known.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec

from mqlite_actor.contract import errors, ext, keys, limits, mistakes, observe, wire
from mqlite_actor.contract.calls import BY_REQUEST
from mqlite_actor.contract.errors import (
    CallerError,
    Internal,
    InvalidArgument,
    LockLost,
    MqliteError,
    OutcomeUnknown,
    PermissionDenied,
    Unauthenticated,
    Unavailable,
)

R = TypeVar("R")

REPLY_BYTES_MAX = 4 * limits.REQUEST_BYTES_MAX
"""A reply longer than this is no broker's: a page of messages, a third longer in base64, and the
one that filled it, which two requests made what it is."""

assert (
    limits.PAGE_BYTES_MAX * 4 // 3
    + 2 * limits.REQUEST_BYTES_MAX
    + limits.RECALLED_MAX * limits.ENVELOPE_BYTES
    <= REPLY_BYTES_MAX
)

REPLY_SECONDS = 30.0
"""How long a broker may take beyond the wait that the request asks for: three times its own
patience with a full mailbox (limits.MAILBOX_WAIT_SECONDS)."""

READS: frozenset[type[wire.Request[Any]]] = frozenset({
    wire.PeekRequest,
    wire.StatsRequest,
    wire.ListQueuesRequest,
    wire.ListSubscriptionsRequest,
    wire.TestFilterRequest,
    wire.StatusRequest,
    observe.ObserveRequest,
    keys.ListKeysRequest,
    ext.ExplainRequest,
    ext.SearchRequest,
    ext.DescribeQueueRequest,
})  # fmt: skip
"""Calls that change nothing."""

REPLAYED: frozenset[type[wire.Request[Any]]] = frozenset({
    wire.CompleteRequest,
    wire.CompleteBatchRequest,
    wire.AbandonRequest,
    wire.RejectRequest,
    wire.DeferRequest,
    wire.RenewRequest,
    wire.RenewBatchRequest,
    keys.RevokeKeyRequest,
    ext.ReleaseRequest,
})  # fmt: skip
"""Writes that a broker answers alike when the identical request comes again: settles have a
receipt, a renewal renews, a revoked key stays revoked. A Send is not among them."""

RECEIVE_AND_DELETE: Final = 1

SLOW: dict[type[wire.Request[Any]], float] = {
    wire.RedriveRequest: 600.0,
    wire.PurgeRequest: 600.0,
    ext.RedriveSelectedRequest: 600.0,
    ext.PurgeActiveRequest: 600.0,
    ext.DeleteSubscriptionRequest: 600.0,
    ext.BackupRequest: 3600.0,
}
"""Seconds for calls whose work grows with the store: some hundred thousand messages a minute, and a
file of some hundred gigabytes."""

PACED_SECONDS_MAX = 7 * 86_400.0
"""For the pauses of a paced redrive: how many dead letters there are is not known here. Below the
24 days that the timer of a socket holds."""


class HttpParts(NamedTuple):
    """What a handle writes: a path below the base URL, headers without framing, a body."""

    path: str
    headers: dict[str, str]
    body: bytes


def to_http(request: wire.Request[Any], *, token: str = "") -> HttpParts:
    """The HTTP form of `request`. InvalidArgument if a value in it is none of the contract, or the
    token cannot be sent."""
    request = mistakes.check(request)
    call = BY_REQUEST[type(request)]
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {_sendable(token)}"
    try:
        body = msgspec.json.encode(request)
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            "a text holds half a surrogate pair, which is no character"
        ) from error
    return HttpParts(call.path, headers, body)


def from_http(request: wire.Request[R], *, status: int, content: bytes) -> R:
    """The response that a reply stands for, or its error raised."""
    if not 200 <= status < 300:
        raise _error(request, status, content)
    call = BY_REQUEST[type(request)]
    try:
        response = _decoder(call.response).decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _malformed(request, _reason(error)) from error
    flaw = _flaw(request, response)
    if flaw is not None:
        raise flaw
    return cast("R", response)


def is_read(request: wire.Request[Any]) -> bool:
    """Whether the call changes nothing, so that a lost reply leaves no doubt."""
    return type(request) in READS


def is_repeatable(request: wire.Request[Any]) -> bool:
    """Whether sending the identical request again has the effect of sending it once, whoever reads
    the answer.

    A claim under leases is not, even under an attempt id: its repetition is answered as the first
    try was, and the leases may be over by then. Who asked repeats it, and looks (`replays`).
    """
    if isinstance(request, wire.ReceiveRequest):
        return request.receive_attempt_id != "" and request.receive_mode == RECEIVE_AND_DELETE
    if isinstance(request, ext.SendResultRequest):
        return request.request_id != ""
    return type(request) in READS or type(request) in REPLAYED


def reply_seconds(request: wire.Request[Any], patience: float | None = None) -> float:
    """How long to wait for the reply before it counts as lost; `patience` replaces the usual."""
    if isinstance(request, wire.ReceiveRequest):
        wait_ms = max(0, min(request.wait_time_ms, limits.RECEIVE_WAIT_MS_MAX))
        return (REPLY_SECONDS if patience is None else patience) + wait_ms / 1000
    if patience is not None:
        return patience
    return SLOW.get(type(request), REPLY_SECONDS) + _paced_seconds(request)


def _paced_seconds(request: wire.Request[Any]) -> float:
    """How long the request itself asks the broker to take over its work."""
    if not isinstance(request, wire.RedriveRequest) or request.rate_per_sec <= 0:
        return 0.0
    if request.max <= 0:
        return PACED_SECONDS_MAX
    return min(request.max / request.rate_per_sec, PACED_SECONDS_MAX)


def lost_reply(request: wire.Request[Any], reason: str) -> MqliteError:
    """The error for a request that went out whole and whose answer never came whole."""
    if is_read(request):
        return Unavailable(f"{reason}; nothing was changed, ask again")
    return OutcomeUnknown(f"{reason}; the broker may have done it: look before you repeat")


def unknown_since(request: wire.Request[Any], error: MqliteError) -> OutcomeUnknown | None:
    """What to raise for `error` of a repetition whose first try may have been done; None where
    `error` says all.

    That the repetition did nothing says nothing about the first try. Only who looked into the
    request knows of both: a success, or a refusal for what is in it.
    """
    is_judged = isinstance(error, CallerError) and not isinstance(error, _UNREAD)
    if is_read(request) or is_judged or isinstance(error, OutcomeUnknown):
        return None
    return OutcomeUnknown(
        f"the answer was lost, and repeating the call failed ({error.message}); the broker may have"
        " done it the first time: look before you repeat"
    )


_UNREAD = (Unauthenticated, PermissionDenied)
"""Refusals of a caller, whatever it asks for."""


# -- success ---------------------------------------------------------------------------------------


@lru_cache(maxsize=64)  # one per response struct of the contract, with room
def _decoder(kind: type[wire.Response]) -> msgspec.json.Decoder[wire.Response]:
    return msgspec.json.Decoder(kind)


def _flaw(request: wire.Request[Any], response: wire.Response) -> MqliteError | None:
    """What a well-formed reply must also be true to: it answers this request, and fully."""
    if isinstance(request, wire.SendRequest) and isinstance(response, wire.SendResponse):
        if len(response.seq_numbers or ()) != len(request.messages):
            return _malformed(request, "not one sequence number per message")
    elif isinstance(request, ext.SendResultRequest) and isinstance(
        response, ext.SendResultResponse
    ):
        if len(response.results) != len(request.messages):
            return _malformed(request, "not one result per message")
    elif isinstance(request, ext.RedriveSelectedRequest) and isinstance(
        response, ext.RedriveSelectedResponse
    ):
        if [result.seq_number for result in response.results] != request.seq_numbers:
            return _malformed(request, "the results are not those of the request's numbers")
    elif isinstance(
        request, wire.CompleteBatchRequest | wire.RenewBatchRequest | ext.ReleaseRequest
    ):
        assert isinstance(
            response, wire.CompleteBatchResponse | wire.RenewBatchResponse | ext.ReleaseResponse
        )
        asked = [item.seq_number for item in request.messages]
        if [result.seq_number for result in response.results] != asked:
            return _malformed(request, "the results are not those of the request's items")
    elif isinstance(response, wire.OkResponse) and not response.ok:
        return _refused_in_words(request)
    return None


def _refused_in_words(request: wire.Request[Any]) -> MqliteError:
    """A 200 that says `ok: false`. No broker sends it, but a lease must never seem settled by
    it."""
    if isinstance(request, wire.SettleRequest):
        return LockLost(f"message {request.seq_number} is no longer under this lease")
    return _malformed(request, "it says ok: false under HTTP 200")


# -- failure ---------------------------------------------------------------------------------------


class _Refusal(msgspec.Struct):
    """The error envelope; surplus keys are let through."""

    code: str = ""
    message: str = ""


_CODES_WITHOUT_WORDS: dict[int, str] = {
    401: "unauthenticated",
    403: "permission_denied",
    413: "message_too_large",
}
"""Statuses that a proxy in front of the broker answers in its own words, and that mean the same."""

_GATEWAY_STATUSES = frozenset({502, 503, 504})
"""A proxy lost the broker on the way: the broker may have done the work. Some say 503 for that as
well as for a broker that they never reached; a 503 of a broker has its code."""


def _error(request: wire.Request[Any], status: int, content: bytes) -> MqliteError:
    try:
        refusal = msgspec.json.decode(content, type=_Refusal)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Not the envelope, so not the broker that speaks: the status is all that can be relied on.
        refusal = _Refusal()
    if refusal.code or status == 404:
        return narrowed(request, errors.from_wire(refusal.code, refusal.message, status))
    if status in _GATEWAY_STATUSES:
        return lost_reply(request, f"a proxy could not get the broker's answer (HTTP {status})")
    code = _CODES_WITHOUT_WORDS.get(status)
    if code is not None:
        reason = refusal.message or f"HTTP {status}, from something in front of the broker"
        return errors.from_wire(code, reason, status)
    return Internal(f"HTTP {status} without a code of the contract; is this an mqlite broker?")


SEVERAL_MISSING: frozenset[type[wire.Request[Any]]] = frozenset({
    wire.CancelRequest,
    keys.RevokeKeyRequest,
    ext.ResubmitRequest,
    ext.DeleteSubscriptionRequest,
})  # fmt: skip
"""Calls whose `not_found` may also be a message, a key or a subscription."""

OF_A_QUEUE = ("queue ", "subscription ", "no queue or topic ")
"""How the words of every `not_found` begin that is a queue's."""

FILTERED = (wire.SubscribeRequest, ext.SearchRequest)


def narrowed(request: wire.Request[Any], error: MqliteError) -> MqliteError:
    """The class that an engine of this program raises, where the code names only its parent: a
    program that moves from one to a broker catches the same."""
    is_queue = type(request) not in SEVERAL_MISSING or error.message.startswith(OF_A_QUEUE)
    if type(error) is errors.NotFound and is_queue:
        return errors.QueueNotFound(error.message)
    is_filter = isinstance(request, FILTERED) and error.message.startswith("invalid filter")
    if type(error) is InvalidArgument and is_filter:
        return errors.InvalidFilter(error.message)
    return error


def _malformed(request: wire.Request[Any], reason: str) -> MqliteError:
    name = BY_REQUEST[type(request)].name
    return Internal(
        f"the reply to {name} is not the contract's: {reason}; is this an mqlite broker?"
    )


def _reason(error: Exception) -> str:
    """msgspec's words; they name a place and a type, never a value of the reply."""
    return "JSON nested too deeply" if isinstance(error, RecursionError) else str(error)


def _sendable(token: str) -> str:
    """The token if it can stand in a header. The error does not repeat it."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidArgument(
            "the token holds a blank, a line break or another character that no header can carry"
        )
    return mistakes.plain_text(token)
