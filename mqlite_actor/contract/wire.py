"""The structs of the wire: one request and one response per call, and the objects inside them.

The same struct is the HTTP JSON body, the frame between processes and the command in the writer's
mailbox; it is decoded once, at the door. Field names are the contract's JSON keys, their order is
the order in which keys are written, and a default is the contract's zero value (spec/wire.md 1.6,
2, 3). Every integer is bounded to int64, so that nothing later can overflow. They hold texts,
bytes, numbers and lists of such, of which no cycle can be made, so the collector leaves those that
come with every call alone (`gc=False`). The
fixed words (states, kinds, orderings) are in `words.py`, access keys in `keys.py`, the Observe
snapshot in `observe.py`.
"""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

import msgspec

from mqlite_actor.contract.limits import INT64_MAX, INT64_MIN

R = TypeVar("R")

Int = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]
"""Any integer of the wire."""


class Request(
    msgspec.Struct,
    Generic[R],
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    gc=False,
):
    """A call's request; the type parameter is its response."""


class Response(msgspec.Struct, frozen=True, gc=False):
    """A call's response. A later broker may add keys, so unknown ones are let through."""


# -- objects ---------------------------------------------------------------------------------------


class Message(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False
):
    """A message in either direction. A broker ignores what only it may set; zero values are left
    out."""

    seq_number: Int = 0
    enqueued_at_ms: Int = 0
    expires_at_ms: Int = 0
    visible_at_ms: Int = 0
    locked_until_ms: Int = 0
    delivery_count: Int = 0
    lock_token: str = ""
    state: str = ""
    dead_letter_reason: str = ""
    dead_letter_description: str = ""
    message_id: str = ""
    correlation_id: str = ""
    reply_to: str = ""
    group_id: str = ""
    content_type: str = ""
    subject: str = ""
    properties: dict[str, str] = {}
    body: bytes = b""
    ttl_ms: Int = 0
    """Ours, on input only: overrides the request's `ttl_ms` for this message (ruling R17)."""


class SettleItem(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False
):
    """One lease of a batch."""

    seq_number: Int = 0
    lock_token: str = ""


class SettleItemResult(msgspec.Struct, frozen=True, gc=False):
    """Positional answer to one item of CompleteBatch."""

    seq_number: Int
    ok: bool


class RenewItemResult(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Positional answer to one item of RenewBatch; the deadline only where `ok`."""

    seq_number: Int
    ok: bool
    locked_until_ms: Int = 0


# -- QueueService ----------------------------------------------------------------------------------


class SendResponse(Response, frozen=True):
    """One sequence number per message, in order; null when the request held no messages."""

    seq_numbers: list[Int] | None


class SendRequest(Request[SendResponse], frozen=True):
    """Store messages in a queue, or one copy per matching subscription of a topic; all or none."""

    queue: str = ""
    messages: list[Message] = []
    scheduled_enqueue_time_ms: Int = 0
    ttl_ms: Int = 0


class ScheduleRequest(SendRequest, frozen=True):
    """The same request under its second name."""


class MessagesResponse(Response, frozen=True):
    """Messages in the order of the call's rule; `[]` when there are none."""

    messages: list[Message]


class ReceiveRequest(Request[MessagesResponse], frozen=True):
    """Take messages: under a lease (mode 0) or removing them (mode 1), waiting if asked to."""

    queue: str = ""
    max_messages: Int = 0
    wait_time_ms: Int = 0
    receive_mode: Int = 0
    receive_attempt_id: str = ""


class ReceiveDeferredRequest(Request[MessagesResponse], frozen=True):
    """Take deferred messages by number; a call may name 80,000."""

    queue: str = ""
    seq_numbers: list[Int] = []


class OkResponse(Response, frozen=True):
    """The effect is committed (or was already, by an identical earlier request)."""

    ok: bool = True


class SettleRequest(Request[OkResponse], frozen=True):
    """Common shape of the verbs that act on one lease; a verb ignores what it does not use."""

    queue: str = ""
    seq_number: Int = 0
    lock_token: str = ""
    dead_letter_reason: str = ""
    dead_letter_description: str = ""
    delay_ms: Int = 0


class CompleteRequest(SettleRequest, frozen=True):
    """Done: remove the message."""


class AbandonRequest(SettleRequest, frozen=True):
    """Give it back, now or after `delay_ms`; at the delivery limit it is dead-lettered."""


class RejectRequest(SettleRequest, frozen=True):
    """Dead-letter it with a reason."""


class DeferRequest(SettleRequest, frozen=True):
    """Set it aside; only ReceiveDeferred fetches it again."""


class RenewRequest(SettleRequest, frozen=True):
    """Extend the lease by the queue's lock duration."""


class CompleteBatchResponse(Response, frozen=True):
    """Results in the order of the request's items."""

    results: list[SettleItemResult]


class CompleteBatchRequest(Request[CompleteBatchResponse], frozen=True):
    """Complete many leases in one transaction, each for itself."""

    queue: str = ""
    messages: list[SettleItem] = []


class RenewBatchResponse(Response, frozen=True):
    """Results in the order of the request's items."""

    results: list[RenewItemResult]


class RenewBatchRequest(Request[RenewBatchResponse], frozen=True):
    """Extend many leases, all judged by one clock reading."""

    queue: str = ""
    messages: list[SettleItem] = []


class CancelRequest(Request[OkResponse], frozen=True):
    """Delete a scheduled message that was never delivered."""

    queue: str = ""
    seq_number: Int = 0


class PeekRequest(Request[MessagesResponse], frozen=True):
    """Look at messages of any state without touching them."""

    queue: str = ""
    from_seq: Int = 0
    state: str = ""
    max: Int = 0


class StatsResponse(Response, frozen=True):
    """Counts of one queue, and the age of its oldest active or locked message."""

    queue: str
    active: Int
    locked: Int
    deferred: Int
    scheduled: Int
    dead_lettered: Int
    total: Int
    oldest_message_age_ms: Int


class StatsRequest(Request[StatsResponse], frozen=True):
    """Count the messages of one queue by state."""

    queue: str = ""


# -- AdminService ----------------------------------------------------------------------------------


class QueueConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings of a queue; zero or absent means the default (spec/wire.md 3.4)."""

    kind: str = ""
    lock_duration_ms: Int = 0
    max_delivery_count: Int = 0
    default_ttl_ms: Int = 0
    dead_letter_on_expire: bool | None = None
    dedup_window_ms: Int = 0
    ordering_mode: str = ""
    dlq_max_age_ms: Int = 0
    dlq_max_count: Int = 0
    dlq_max_bytes: Int = 0


class QueueInfo(msgspec.Struct, frozen=True):
    """A row of ListQueues."""

    name: str
    kind: str
    lock_duration_ms: Int
    max_delivery_count: Int
    default_ttl_ms: Int
    dedup_window_ms: Int
    generation: str = ""
    """Opaque; what DeleteQueue asks for. "" from a broker that is too old to have it."""


class Filter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A subscription's filter; empty matches everything."""

    expr: str = ""


class SubscriptionInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row of ListSubscriptions."""

    topic: str
    name: str
    expr: str = ""


class EmptyResponse(Response, frozen=True):
    """`{}`: done."""


class CreateQueueRequest(Request[EmptyResponse], frozen=True):
    """Create a queue, or replace the whole configuration of an existing one of the same kind."""

    name: str = ""
    config: QueueConfig = QueueConfig()


class SubscribeRequest(Request[EmptyResponse], frozen=True):
    """Route a topic's messages into a backing queue; repeated, it replaces only the filter."""

    topic: str = ""
    name: str = ""
    filter: Filter = Filter()


class ListQueuesResponse(Response, frozen=True):
    """All queues and subscription queues, by name."""

    queues: list[QueueInfo]


class ListQueuesRequest(Request[ListQueuesResponse], frozen=True):
    """List queues and their main settings. The body is never read."""


class ListSubscriptionsResponse(Response, frozen=True):
    """All subscriptions, by topic and name."""

    subscriptions: list[SubscriptionInfo]


class ListSubscriptionsRequest(Request[ListSubscriptionsResponse], frozen=True):
    """List which subscription listens to which topic. The body is never read."""


class TestFilterResponse(Response, frozen=True, kw_only=True):
    """Whether the expression compiles, ran and matched; `error` only when something failed."""

    valid: bool
    error: str | msgspec.UnsetType = msgspec.UNSET
    ran: bool
    matched: bool


class TestFilterRequest(Request[TestFilterResponse], frozen=True):
    """Compile a filter, and try it on a sample if one is given. Stores nothing."""

    expr: str = ""
    message: Message | None = None


class RedriveResponse(Response, frozen=True):
    """How many dead letters were moved."""

    moved: Int


class RedriveRequest(Request[RedriveResponse], frozen=True):
    """Make dead letters active again, in place or in another queue."""

    queue: str = ""
    target: str = ""
    max: Int = 0
    older_than_ms: Int = 0
    rate_per_sec: Int = 0


class PurgeResponse(Response, frozen=True):
    """How many dead letters were deleted."""

    purged: Int


class PurgeRequest(Request[PurgeResponse], frozen=True):
    """Delete dead letters."""

    queue: str = ""
    max: Int = 0
    older_than_ms: Int = 0


class StatusResponse(Response, frozen=True):
    """What runs here and how it does; never a credential."""

    version: str
    backend: str
    remote: bool
    location: str
    schema_version: str
    ping_ms: Int
    db_size_bytes: Int
    queues: Int
    subscriptions: Int
    uptime_ms: Int
    auth: bool


class StatusRequest(Request[StatusResponse], frozen=True):
    """Describe the broker and its store. The body is never read."""


class DeleteQueueRequest(Request[OkResponse], frozen=True):
    """Delete an empty plain queue, named by the generation that ListQueues showed."""

    name: str = ""
    generation: str = ""
