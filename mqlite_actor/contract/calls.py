"""CALLS: every route as data, the contract's 27 and then our own.

Drives the broker's routes and rights, the discovery card, the clients, the docs and the tests.
The contract's stand in the order of the card's `endpoints` (spec/wire.md 0.3); ours, under a prefix
of their own, never stand in the card (ruling R8). A broker serves the rows whose request its engine
has an operation for; any other path is `no such path`. No two rows share a name, whatever their
prefix.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mqlite_actor.contract import ext, keys, observe, wire
from mqlite_actor.contract.keys import Right

PREFIX = "/mqlite.v1."
EXT_PREFIX = "/mqlite.ext.v1."


class Call:
    """One route, never changed. `reads_body` False: the body is never looked at. `no_store`:
    replies must not be cached. `needs_auth`: refused while authentication is off. `decoder`: the
    strict decoder of its requests."""

    __slots__ = (
        "decoder", "doc", "name", "needs_auth", "no_store", "path", "prefix", "reads_body",
        "request", "response", "right",
    )  # fmt: skip
    decoder: msgspec.json.Decoder[Any]

    def __init__(
        self,
        name: str,
        request: type[wire.Request[Any]],
        response: type[wire.Response],
        right: Right,
        doc: str,
        *,
        reads_body: bool = True,
        no_store: bool = False,
        needs_auth: bool = False,
        prefix: str = PREFIX,
    ) -> None:
        self.name = name
        self.request = request
        self.response = response
        self.right = right
        self.doc = doc
        self.reads_body = reads_body
        self.no_store = no_store
        self.needs_auth = needs_auth
        self.prefix = prefix
        self.path = prefix + name

    def __repr__(self) -> str:
        return f"Call({self.path})"

    def __getattr__(self, name: str) -> msgspec.json.Decoder[Any]:
        # Asked for what has no value yet: `decoder`, made at first use, since a client needs none.
        if name != "decoder":
            raise AttributeError(name)
        self.decoder = msgspec.json.Decoder(self.request)
        return self.decoder


_SEND, _LISTEN, _MANAGE = Right.SEND, Right.LISTEN, Right.MANAGE

CONTRACT: tuple[Call, ...] = (
    Call("QueueService/Send", wire.SendRequest, wire.SendResponse, _SEND,
         "Store messages now or at a time, all or none"),
    Call("QueueService/Receive", wire.ReceiveRequest, wire.MessagesResponse, _LISTEN,
         "Take messages under a lease, or remove them; may wait"),
    Call("QueueService/Complete", wire.CompleteRequest, wire.OkResponse, _LISTEN,
         "Remove a message that was handled"),
    Call("QueueService/CompleteBatch", wire.CompleteBatchRequest, wire.CompleteBatchResponse,
         _LISTEN, "Remove many, each answered for itself"),
    Call("QueueService/RenewBatch", wire.RenewBatchRequest, wire.RenewBatchResponse, _LISTEN,
         "Extend many leases"),
    Call("QueueService/Abandon", wire.AbandonRequest, wire.OkResponse, _LISTEN,
         "Give a message back, now or after a delay"),
    Call("QueueService/Reject", wire.RejectRequest, wire.OkResponse, _LISTEN,
         "Dead-letter a message with a reason"),
    Call("QueueService/Defer", wire.DeferRequest, wire.OkResponse, _LISTEN,
         "Set a message aside, to be fetched by number"),
    Call("QueueService/ReceiveDeferred", wire.ReceiveDeferredRequest, wire.MessagesResponse,
         _LISTEN, "Take deferred messages by number"),
    Call("QueueService/Renew", wire.RenewRequest, wire.OkResponse, _LISTEN,
         "Extend one lease"),
    Call("QueueService/Schedule", wire.ScheduleRequest, wire.SendResponse, _SEND,
         "Store messages for a later time"),
    Call("QueueService/Cancel", wire.CancelRequest, wire.OkResponse, _SEND,
         "Delete a scheduled message before its first delivery"),
    Call("QueueService/Peek", wire.PeekRequest, wire.MessagesResponse, _LISTEN,
         "Look at messages without touching them"),
    Call("QueueService/Stats", wire.StatsRequest, wire.StatsResponse, _LISTEN,
         "Count a queue's messages by state"),
    Call("AdminService/CreateQueue", wire.CreateQueueRequest, wire.EmptyResponse, _MANAGE,
         "Create a queue or replace its configuration"),
    Call("AdminService/Subscribe", wire.SubscribeRequest, wire.EmptyResponse, _MANAGE,
         "Route a topic into a subscription"),
    Call("AdminService/ListQueues", wire.ListQueuesRequest, wire.ListQueuesResponse, _MANAGE,
         "List queues", reads_body=False),
    Call("AdminService/ListSubscriptions", wire.ListSubscriptionsRequest,
         wire.ListSubscriptionsResponse, _MANAGE, "List subscriptions", reads_body=False),
    Call("AdminService/TestFilter", wire.TestFilterRequest, wire.TestFilterResponse, _MANAGE,
         "Compile a filter and try it on a sample"),
    Call("AdminService/Redrive", wire.RedriveRequest, wire.RedriveResponse, _MANAGE,
         "Make dead letters active again"),
    Call("AdminService/Purge", wire.PurgeRequest, wire.PurgeResponse, _MANAGE,
         "Delete dead letters"),
    Call("AdminService/Status", wire.StatusRequest, wire.StatusResponse, _MANAGE,
         "Describe the broker and its store", reads_body=False),
    Call("AdminService/Observe", observe.ObserveRequest, observe.ObserveResponse, Right.MONITOR,
         "Snapshot of counts, counters and health", no_store=True),
    Call("AdminService/DeleteQueue", wire.DeleteQueueRequest, wire.OkResponse, _MANAGE,
         "Delete an empty queue"),
    Call("AuthService/CreateKey", keys.CreateKeyRequest, keys.CreateKeyResponse, _MANAGE,
         "Make an access key", no_store=True, needs_auth=True),
    Call("AuthService/ListKeys", keys.ListKeysRequest, keys.ListKeysResponse, _MANAGE,
         "List access keys", no_store=True, needs_auth=True),
    Call("AuthService/RevokeKey", keys.RevokeKeyRequest, wire.OkResponse, _MANAGE,
         "Revoke an access key", no_store=True, needs_auth=True),
)  # fmt: skip
"""The contract's calls, in the card's order."""

EXT: tuple[Call, ...] = (
    Call("QueueService/Release", ext.ReleaseRequest, ext.ReleaseResponse, _LISTEN,
         "Give messages back without counting the delivery", prefix=EXT_PREFIX),
    Call("QueueService/Explain", ext.ExplainRequest, ext.ExplainResponse, _LISTEN,
         "Say why a message or a queue's front is not delivered", prefix=EXT_PREFIX),
    Call("QueueService/Search", ext.SearchRequest, ext.SearchResponse, _LISTEN,
         "Look through a queue, some hundred messages a call", prefix=EXT_PREFIX),
    Call("QueueService/SendResult", ext.SendResultRequest, ext.SendResultResponse, _SEND,
         "Send, answered for each message and safe to repeat", prefix=EXT_PREFIX),
    Call("AdminService/DescribeQueue", ext.DescribeQueueRequest, ext.DescribeQueueResponse,
         _MANAGE, "Show a queue's whole configuration and its counts", prefix=EXT_PREFIX),
    Call("AdminService/UpdateQueue", ext.UpdateQueueRequest, ext.UpdateQueueResponse, _MANAGE,
         "Change some settings of a queue and leave the others", prefix=EXT_PREFIX),
    Call("AdminService/DeleteSubscription", ext.DeleteSubscriptionRequest,
         ext.DeleteSubscriptionResponse, _MANAGE,
         "End a subscription and delete its queue", prefix=EXT_PREFIX),
    Call("AdminService/PurgeActive", ext.PurgeActiveRequest, ext.PurgeActiveResponse, _MANAGE,
         "Delete active messages, under a guard", prefix=EXT_PREFIX),
    Call("AdminService/RedriveSelected", ext.RedriveSelectedRequest, ext.RedriveSelectedResponse,
         _MANAGE, "Make chosen dead letters active again", prefix=EXT_PREFIX),
    Call("AdminService/Resubmit", ext.ResubmitRequest, ext.ResubmitResponse, _MANAGE,
         "Edit a dead letter and put it back", prefix=EXT_PREFIX),
    Call("AdminService/Backup", ext.BackupRequest, ext.BackupResponse, _MANAGE,
         "Write a checked snapshot into a new file", prefix=EXT_PREFIX),
)  # fmt: skip
"""Our own calls."""

CALLS: tuple[Call, ...] = CONTRACT + EXT

BY_PATH: dict[str, Call] = {call.path: call for call in CALLS}
BY_REQUEST: dict[type[wire.Request[Any]], Call] = {call.request: call for call in CALLS}
