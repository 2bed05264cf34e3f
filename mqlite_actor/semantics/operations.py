"""OPERATIONS: which function serves which request.

The directory board of this floor. The engine looks a request's type up here and runs the function
inside a transaction; the broker serves exactly the calls that have an entry.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mqlite_actor.contract import ext, wire
from mqlite_actor.contract import keys as contract_keys
from mqlite_actor.semantics import (
    cancel,
    deletion,
    describe,
    entities,
    explain,
    keys,
    peek,
    receive,
    release,
    renew,
    search,
    selected,
    send,
    send_result,
    settle,
)
from mqlite_actor.storage.database import Transaction

Operation = Callable[[Transaction, Any, int], Any]
"""(transaction, request, now in ms) to response. Any: the pairing of types is the table's own."""


def operations(*, message_bytes_max: int) -> dict[type[Any], Operation]:
    """The table for an engine with this body limit."""
    sending = partial(send.send, message_bytes_max=message_bytes_max)
    return {
        wire.SendRequest: sending,
        wire.ScheduleRequest: sending,
        wire.CancelRequest: cancel.cancel,
        wire.ReceiveRequest: receive.receive,
        wire.ReceiveDeferredRequest: receive.receive_deferred,
        wire.CompleteRequest: settle.complete,
        wire.CompleteBatchRequest: settle.complete_batch,
        wire.AbandonRequest: settle.abandon,
        wire.RejectRequest: settle.reject,
        wire.DeferRequest: settle.defer,
        wire.RenewRequest: renew.renew,
        wire.RenewBatchRequest: renew.renew_batch,
        wire.PeekRequest: peek.peek,
        wire.StatsRequest: peek.stats,
        wire.CreateQueueRequest: entities.create_queue,
        wire.ListQueuesRequest: entities.list_queues,
        wire.SubscribeRequest: entities.subscribe,
        wire.ListSubscriptionsRequest: entities.list_subscriptions,
        wire.DeleteQueueRequest: deletion.delete_queue,
        ext.SendResultRequest: partial(
            send_result.send_result, message_bytes_max=message_bytes_max
        ),
        ext.ReleaseRequest: release.release,
        ext.ExplainRequest: explain.explain,
        ext.SearchRequest: search.search,
        ext.DescribeQueueRequest: describe.describe_queue,
        ext.UpdateQueueRequest: describe.update_queue,
        ext.ResubmitRequest: partial(selected.resubmit, message_bytes_max=message_bytes_max),
        contract_keys.CreateKeyRequest: keys.create_key,
        contract_keys.ListKeysRequest: keys.list_keys,
        contract_keys.RevokeKeyRequest: keys.revoke_key,
    }
