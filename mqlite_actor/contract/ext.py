"""The structs of our own routes, `/mqlite.ext.v1.…`, which mqlite v0.3.3 does not have.

Part of the wire like `wire.py`, and by the same rules. A broker of another make answers these paths
with `no such path`, which a handle shows as Unsupported. A field that is absent and one that is
zero are two things wherever the type says `UnsetType`: a patch leaves alone what is absent, a guard
that is absent is no guard (faults B46).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec
from msgspec import UNSET, UnsetType

from mqlite_actor.contract.wire import (
    Int,
    Message,
    QueueConfig,
    Request,
    Response,
    SettleItem,
    SettleItemResult,
    SubscriptionInfo,
)

# -- QueueService ----------------------------------------------------------------------------------


class ReleaseResponse(Response, frozen=True):
    """Results in the order of the request's items."""

    results: list[SettleItemResult]


class ReleaseRequest(Request[ReleaseResponse], frozen=True):
    """Give leases back as if the messages had not been delivered, each for itself."""

    queue: str = ""
    messages: list[SettleItem] = []
    receive_attempt_id: str = ""
    """Of the receive that gave the leases out, if it had one: its record goes with them, so that a
    repetition claims anew instead of getting leases that are over."""


class Reason(StrEnum):
    """Why a message, or a queue, gives a receive nothing; or that it does."""

    DELIVERABLE = "deliverable"
    BLOCKED = "blocked"
    LOCKED = "locked"
    LEASE_OVER = "lease_over"
    SCHEDULED = "scheduled"
    DUE = "due"
    DEFERRED = "deferred"
    EXPIRED = "expired"
    DEAD_LETTERED = "dead_lettered"
    GONE = "gone"
    EMPTY = "empty"


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message and why it is where it is. Never its body, its properties or its token."""

    seq_number: Int
    reason: Reason
    explanation: str
    """The reason as a sentence, for a person; texts of clients stand in it in quotes."""
    state: str = ""
    enqueued_at_ms: Int = 0
    visible_at_ms: Int = 0
    locked_until_ms: Int = 0
    expires_at_ms: Int = 0
    delivery_count: Int = 0
    max_delivery_count: Int = 0
    group_id: str = ""
    dead_letter_reason: str = ""
    dead_letter_description: str = ""
    ahead: Int = 0
    """Messages that go before it, counted up to 1000: of its group or strict queue for one that
    waits, of the queue for one that is deliverable."""
    blocked_by: Int = 0
    """The message that it waits for; 0 when it waits for none."""


class BlockedLane(msgspec.Struct, frozen=True, omit_defaults=True):
    """A group, or a strict queue (`group_id` ""), whose first message holds back the others."""

    head: Finding
    waiting: Int
    """Messages behind the head, among those looked at."""
    group_id: str = ""


class ExplainResponse(Response, frozen=True, omit_defaults=True):
    """What keeps a message, or a queue's front, from being delivered."""

    queue: str
    reason: Reason
    explanation: str
    message: Finding | UnsetType = UNSET
    """The message that was asked about; of a queue the one that is next, if there is one."""
    blocker: Finding | UnsetType = UNSET
    """The message that it waits for."""
    blocked: list[BlockedLane] = []
    """Of a queue: lines that stand still, the longest waiting first."""
    has_more: bool = False
    """More messages wait than were looked at."""


class ExplainRequest(Request[ExplainResponse], frozen=True):
    """Why is this message, or (`seq_number` 0) anything of this queue, not delivered?"""

    queue: str = ""
    seq_number: Int = 0


class FoundMessage(msgspec.Struct, frozen=True):
    """A message that a search found; without its body unless bodies were asked for."""

    message: Message
    body_bytes: Int


class SearchResponse(Response, frozen=True, omit_defaults=True):
    """A page by number. It can be empty while `next_page_token` says that there is more to look
    at."""

    messages: list[FoundMessage]
    scanned: Int = 0
    """How many messages were looked at for this page."""
    next_page_token: str = ""
    """For the same request again; "" at the end of the queue."""
    failed: Int = 0
    """How many messages of this page the filter failed on; they count as not matching."""
    failure: str = ""
    """What the first of those failures was."""


class SearchRequest(Request[SearchResponse], frozen=True):
    """Look through a queue for messages that are all of what is given. Changes nothing."""

    queue: str = ""
    state: str = ""
    message_id: str = ""
    group_id: str = ""
    correlation_id: str = ""
    subject: str = ""
    properties: dict[str, str] = {}
    body_text: str = ""
    """UTF-8 text that the body holds, letter case included."""
    from_seq: Int = 0
    to_seq: Int = 0
    enqueued_from_ms: Int = 0
    enqueued_before_ms: Int = 0
    include_bodies: bool = False
    max: Int = 0
    page_token: str = ""
    dead_letter_reason: str = ""
    """Exactly this one; only dead letters have one."""
    filter: str = ""
    """In the language of subscriptions; asked last, about what is all of the rest."""
    newest_first: bool = False
    """From the highest number downwards."""


class SlotOutcome(StrEnum):
    """What became of one message of a SendResult."""

    INSERTED = "inserted"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    UNMATCHED = "unmatched"


class SendSlot(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to one message: stored, known already, refused for its body, or wanted by no
    subscription."""

    outcome: SlotOutcome
    seq_number: Int = 0
    """As Send answers it: in the last target that stored or knew the message, 0 if none did."""
    copies: Int = 0
    """Targets in which it was stored now; more than one only for a topic."""


class SendResultResponse(Response, frozen=True):
    """One slot per message, in order."""

    results: list[SendSlot]


class SendResultRequest(Request[SendResultResponse], frozen=True):
    """Send, answered for each message; safe to repeat under a `request_id` for 30 minutes.

    An `Idempotency-Key` header is the same as a `request_id`. No other call looks at one: a Send or
    Schedule that is repeated with it is stored twice, as by every broker of the contract.
    """

    queue: str = ""
    messages: list[Message] = []
    scheduled_enqueue_time_ms: Int = 0
    ttl_ms: Int = 0
    request_id: str = ""


# -- AdminService ----------------------------------------------------------------------------------


class QueueSettings(msgspec.Struct, frozen=True):
    """Every setting of a queue as it holds, defaults filled in; of the dead-letter bounds 0 is the
    broker's own and a negative number is none."""

    lock_duration_ms: Int
    max_delivery_count: Int
    default_ttl_ms: Int
    dead_letter_on_expire: bool
    dedup_window_ms: Int
    ordering_mode: str
    dlq_max_age_ms: Int
    dlq_max_count: Int
    dlq_max_bytes: Int


class DescribeQueueResponse(Response, frozen=True):
    """All that is known of one queue. `subscriptions` is the topic that it listens to, if any."""

    name: str
    kind: str
    generation: str
    created_at_ms: Int
    updated_at_ms: Int
    config: QueueSettings
    active: Int
    locked: Int
    deferred: Int
    scheduled: Int
    dead_lettered: Int
    total: Int
    oldest_message_age_ms: Int
    dead_letter_bytes: Int
    oldest_dead_letter_age_ms: Int
    """Since it was sent, not since it died; 0 when there is none."""
    subscriptions: list[SubscriptionInfo]


class DescribeQueueRequest(Request[DescribeQueueResponse], frozen=True):
    """Show a queue's whole configuration and how full it is."""

    name: str = ""


class QueuePatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings to change; what is absent stays. 0 is what it is in CreateQueue: the default."""

    lock_duration_ms: Int | UnsetType = UNSET
    max_delivery_count: Int | UnsetType = UNSET
    default_ttl_ms: Int | UnsetType = UNSET
    dead_letter_on_expire: bool | UnsetType = UNSET
    dedup_window_ms: Int | UnsetType = UNSET
    ordering_mode: str | UnsetType = UNSET
    dlq_max_age_ms: Int | UnsetType = UNSET
    dlq_max_count: Int | UnsetType = UNSET
    dlq_max_bytes: Int | UnsetType = UNSET


class UpdateQueueResponse(Response, frozen=True):
    """The configuration that holds now."""

    generation: str
    config: QueueSettings
    created: bool = False


class UpdateQueueRequest(Request[UpdateQueueResponse], frozen=True):
    """Change some settings of an existing queue, if it is (still) the one of this generation.

    With `create`, a queue that is not there is made so, in the same transaction; one that is there
    keeps what `config` does not name.
    """

    name: str = ""
    config: QueuePatch = QueuePatch()
    generation: str = ""
    create: QueueConfig | UnsetType = UNSET


class DeleteSubscriptionResponse(Response, frozen=True):
    """Whether the subscription is gone, and how many messages went with it."""

    deleted: bool
    discarded: Int


class DeleteSubscriptionRequest(Request[DeleteSubscriptionResponse], frozen=True):
    """End a subscription and delete its queue; with `discard_messages` whatever it still holds."""

    topic: str = ""
    name: str = ""
    generation: str = ""
    discard_messages: bool = False


class PurgeActiveResponse(Response, frozen=True):
    """How many active messages were deleted."""

    purged: Int


class PurgeActiveRequest(Request[PurgeActiveResponse], frozen=True):
    """Delete active messages, oldest first, if the guard holds: one of the two must be given."""

    queue: str = ""
    generation: str = ""
    expected_count: Int | UnsetType = UNSET
    """How many active messages the caller saw."""
    max: Int = 0
    older_than_ms: Int = 0


class RedriveOutcome(StrEnum):
    """What became of one number of a RedriveSelected."""

    MOVED = "moved"
    NOT_DEAD_LETTERED = "not_dead_lettered"
    NOT_FOUND = "not_found"
    NOT_TRIED = "not_tried"


class RedriveResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to one number; `new_seq_number` where it was moved, the same one if in place."""

    seq_number: Int
    outcome: RedriveOutcome
    new_seq_number: Int = 0


class RedriveSelectedResponse(Response, frozen=True):
    """How many were moved, and what became of each number, in order."""

    moved: Int
    results: list[RedriveResult]


class RedriveSelectedRequest(Request[RedriveSelectedResponse], frozen=True):
    """Make these dead letters active again, in place or in another queue, each for itself."""

    queue: str = ""
    seq_numbers: list[Int] = []
    target: str = ""


class MessagePatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Fields of a message to change; what is absent stays, `properties` are replaced as a whole."""

    message_id: str | UnsetType = UNSET
    correlation_id: str | UnsetType = UNSET
    reply_to: str | UnsetType = UNSET
    group_id: str | UnsetType = UNSET
    content_type: str | UnsetType = UNSET
    subject: str | UnsetType = UNSET
    properties: dict[str, str] | UnsetType = UNSET
    body: bytes | UnsetType = UNSET


class ResubmitResponse(Response, frozen=True):
    """The number under which the message lives now; the old one if it stayed in its queue."""

    seq_number: Int


class ResubmitRequest(Request[ResubmitResponse], frozen=True):
    """Edit a dead letter and put it back, here or in another queue, in one step or not at all."""

    queue: str = ""
    seq_number: Int = 0
    message: MessagePatch = MessagePatch()
    target: str = ""


class BackupResponse(Response, frozen=True):
    """`done` False: the engine ended first, and no file was made."""

    done: bool
    path: str
    size_bytes: Int
    duration_ms: Int
    removed: list[str] = []
    """Older snapshots of the series that are gone now."""


class BackupRequest(Request[BackupResponse], frozen=True):
    """Write a checked snapshot of the whole store into a new file on the broker's machine.

    With `keep`, `path` names a series: the time goes into the file's name, and when the snapshot is
    whole only the `keep` newest of the series stay.
    """

    path: str = ""
    keep: Int = 0
