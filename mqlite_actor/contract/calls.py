"""CALLS: the contract's 27 routes as data.

Drives the broker's routes and rights, the discovery card, the clients, the docs and the tests.
Order is the order of the card's `endpoints` (spec/wire.md 0.3). A broker serves the rows whose
request its engine has an operation for; any other path is `no such path`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from mqlite_actor.contract import keys, observe, wire
from mqlite_actor.contract.keys import Right

PREFIX = "/mqlite.v1."


@dataclass(frozen=True)
class Call:
    """One route. `reads_body` False: the body is never looked at. `no_store`: replies must not be
    cached. `needs_auth`: refused while authentication is off."""

    name: str
    request: type[wire.Request[Any]]
    response: type[wire.Response]
    right: Right
    doc: str
    reads_body: bool = True
    no_store: bool = False
    needs_auth: bool = False

    @property
    def path(self) -> str:
        """The full HTTP path."""
        return PREFIX + self.name

    @cached_property
    def decoder(self) -> msgspec.json.Decoder[Any]:
        """The strict decoder of its requests; made at first use, since a client needs none."""
        return msgspec.json.Decoder(self.request)


_SEND, _LISTEN, _MANAGE = Right.SEND, Right.LISTEN, Right.MANAGE

CALLS: tuple[Call, ...] = (
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
"""All calls, in the card's order."""

BY_PATH: dict[str, Call] = {call.path: call for call in CALLS}
BY_REQUEST: dict[type[wire.Request[Any]], Call] = {call.request: call for call in CALLS}
