"""CALLS: the contract's 27 routes, in its order, and our own beside them, each with its right."""

from __future__ import annotations

import pytest

from mqlite_actor.contract.calls import (
    BY_PATH,
    BY_REQUEST,
    CALLS,
    CONTRACT,
    EXT,
    EXT_PREFIX,
    PREFIX,
)
from mqlite_actor.contract.keys import Right
from mqlite_actor.contract.wire import Request, Response

ROUTES = """
QueueService/Send send
QueueService/Receive listen
QueueService/Complete listen
QueueService/CompleteBatch listen
QueueService/RenewBatch listen
QueueService/Abandon listen
QueueService/Reject listen
QueueService/Defer listen
QueueService/ReceiveDeferred listen
QueueService/Renew listen
QueueService/Schedule send
QueueService/Cancel send
QueueService/Peek listen
QueueService/Stats listen
AdminService/CreateQueue manage
AdminService/Subscribe manage
AdminService/ListQueues manage
AdminService/ListSubscriptions manage
AdminService/TestFilter manage
AdminService/Redrive manage
AdminService/Purge manage
AdminService/Status manage
AdminService/Observe monitor
AdminService/DeleteQueue manage
AuthService/CreateKey manage
AuthService/ListKeys manage
AuthService/RevokeKey manage
"""


OUR_OWN = """
QueueService/Release listen
QueueService/Explain listen
QueueService/Search listen
QueueService/SendResult send
AdminService/DescribeQueue manage
AdminService/UpdateQueue manage
AdminService/DeleteSubscription manage
AdminService/PurgeActive manage
AdminService/RedriveSelected manage
AdminService/Resubmit manage
AdminService/Backup manage
"""


@pytest.mark.promise("W3")
def test_the_routes_are_those_of_the_contract_in_its_order() -> None:
    expected = [tuple(line.split()) for line in ROUTES.split("\n") if line]
    assert [(call.name, call.right.value) for call in CONTRACT] == expected
    assert len(CONTRACT) == 27
    assert [call.path for call in CONTRACT] == [f"/mqlite.v1.{name}" for name, _ in expected]


def test_our_own_routes_have_a_prefix_and_a_right_each() -> None:
    expected = [tuple(line.split()) for line in OUR_OWN.split("\n") if line]
    assert [(call.name, call.right.value) for call in EXT] == expected
    assert [call.path for call in EXT] == [f"/mqlite.ext.v1.{name}" for name, _ in expected]
    assert CALLS == CONTRACT + EXT
    assert len({call.name for call in CALLS}) == len(CALLS)


def test_every_call_is_found_by_path_and_by_request() -> None:
    assert list(BY_PATH.values()) == list(BY_REQUEST.values()) == list(CALLS)
    for call in CALLS:
        prefix = PREFIX if call in CONTRACT else EXT_PREFIX
        assert BY_PATH[prefix + call.name] is BY_REQUEST[call.request] is call
        assert issubclass(call.request, Request)
        assert issubclass(call.response, Response)
        assert call.doc
        assert call.right in Right


def test_only_the_replies_with_secrets_or_snapshots_are_kept_from_caches() -> None:
    kept = [call.name for call in CALLS if call.no_store]
    assert kept == [
        "AdminService/Observe",
        "AuthService/CreateKey",
        "AuthService/ListKeys",
        "AuthService/RevokeKey",
    ]
