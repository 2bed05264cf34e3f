"""Every verb takes three requests at most, however much it has to look at, and most take fewer.

CASES has a row for each call of the contract: what it is asked, on which ground, and how many
requests that may take. A call without a row fails. The engine is a whole one; only its passes rest,
so that nobody else's requests are counted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest

from mqlite_actor.contract import calls, ext, keys, observe, wire
from mqlite_actor.contract.errors import Unsupported
from mqlite_actor.engine.engine import EngineOptions
from mqlite_actor.engine.opening import open_engine
from tests.hrana.server import HranaServer, running_hrana
from tests.remote import verb_cases as on
from tests.remote.verb_cases import Case, Ground

MOST: Final = 3
"""Ruling R3: no verb waits for more round trips than this."""

CASES: Final[dict[str, list[tuple[Case, int]]]] = {
    "QueueService/Send": [(on.send, 1), (on.send_once, 2), (on.publish, 2)],
    "QueueService/Receive": [
        (on.receive, 1), (on.receive_none, 1), (on.receive_in_line, 1), (on.receive_attempt, 2),
        (on.receive_behind_expired, 3), (on.drain, 2), (on.drain_line, 3),
        (on.drain_attempt, 2),
    ],
    "QueueService/Complete": [(on.settling(wire.CompleteRequest), 1)],
    "QueueService/CompleteBatch": [(on.complete_batch, 1), (on.complete_foreign, 3)],
    "QueueService/RenewBatch": [(on.renew_batch, 1)],
    "QueueService/Abandon": [
        (on.settling(wire.AbandonRequest), 1), (on.settling(wire.AbandonRequest, delay_ms=99), 1),
        (on.abandon_last, 1),
    ],
    "QueueService/Reject": [(on.settling(wire.RejectRequest), 1)],
    "QueueService/Defer": [(on.settling(wire.DeferRequest), 1)],
    "QueueService/ReceiveDeferred": [(on.receive_deferred, 3)],
    "QueueService/Renew": [(on.settling(wire.RenewRequest), 1)],
    "QueueService/Schedule": [(on.schedule, 1)],
    "QueueService/Cancel": [(on.cancel, 2)],
    "QueueService/Peek": [(on.peek, 2)],
    "QueueService/Stats": [(on.stats, 1)],
    "AdminService/CreateQueue": [(on.just(wire.CreateQueueRequest(name="new")), 3)],
    "AdminService/Subscribe": [
        (on.resubscribe, 2), (on.just(wire.SubscribeRequest(topic="new-t", name="new-s")), 3),
    ],
    "AdminService/ListQueues": [(on.just(wire.ListQueuesRequest()), 1)],
    "AdminService/ListSubscriptions": [(on.just(wire.ListSubscriptionsRequest()), 1)],
    "AdminService/TestFilter": [(on.just(wire.TestFilterRequest(expr="true")), 0)],
    "AdminService/Redrive": [(on.redrive, 3)],
    "AdminService/Purge": [(on.purge, 3)],
    "AdminService/Status": [(on.just(wire.StatusRequest()), 1)],
    "AdminService/Observe": [(on.just(observe.ObserveRequest()), 2)],
    "AdminService/DeleteQueue": [(on.delete, 2)],
    "AuthService/CreateKey": [(on.just(on.new_key()), 2)],
    "AuthService/ListKeys": [(on.just(keys.ListKeysRequest()), 1)],
    "AuthService/RevokeKey": [(on.revoke, 2)],
    "QueueService/Release": [(on.release, 1), (on.release_attempt, 2)],
    "QueueService/Explain": [
        (on.explain_line, 2), (on.explain_message, 3), (on.explain_gone, 1),
        (on.explain_empty, 1),
    ],
    "QueueService/Search": [(on.search, 3), (on.search_state, 2)],
    "QueueService/SendResult": [(on.send_result, 3)],
    "AdminService/DescribeQueue": [(on.describe, 2)],
    "AdminService/UpdateQueue": [(on.update, 1)],
    "AdminService/DeleteSubscription": [(on.delete_subscription, 3)],
    "AdminService/PurgeActive": [(on.purge_active, 3)],
    "AdminService/RedriveSelected": [(on.redrive_selected, 2)],
    "AdminService/Resubmit": [(on.resubmit, 2)],
    "AdminService/Backup": [(on.just(ext.BackupRequest(path="copy.db")), 0)],
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HranaServer]:
    with running_hrana(tmp_path_factory.mktemp("verbs")) as server:
        yield server


@pytest.fixture
async def ground(server: HranaServer) -> AsyncIterator[Ground]:
    async with open_engine(server.url, EngineOptions(background=False)) as engine:
        yield Ground(server, engine)


@pytest.mark.parametrize("name", [call.name for call in calls.CALLS])
async def test_a_verb_takes_few_requests(ground: Ground, name: str) -> None:
    for case, bound in CASES[name]:
        request = await case(ground)
        before = ground.server.round_trips
        try:
            await ground.engine.call(request)
        except Unsupported:
            assert name == "AdminService/Backup", "what needs a file is the provider's work"
        trips = ground.server.round_trips - before
        assert trips <= bound, f"{trips} requests for {request}"
        assert bound <= MOST


def test_every_verb_has_its_row() -> None:
    assert set(CASES) == {call.name for call in calls.CALLS}
