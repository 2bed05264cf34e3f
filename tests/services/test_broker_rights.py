"""Who may do what: every call with every kind of credential, and what is looked at first.

The tables here are written out, so that they can disagree with the rights in the table of calls.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits
from mqlite_actor.contract.calls import CALLS
from mqlite_actor.engine.engine import Engine
from tests.engine.local import local
from tests.services.broker_scene import BEARER, Fields, Scene, failure, message, path, served
from tests.services.credentials import (
    MONITOR,
    bearer,
    key_request,
    mint,
    revoke,
    served_calls,
)

SEND: Final = frozenset(
    f"QueueService/{verb}" for verb in ("Send", "Schedule", "Cancel", "SendResult")
)
LISTEN: Final = frozenset(
    f"QueueService/{verb}"
    for verb in (
        "Receive", "Complete", "CompleteBatch", "RenewBatch", "Abandon", "Reject", "Defer",
        "ReceiveDeferred", "Renew", "Peek", "Stats", "Release", "Explain", "Search",
    )
)  # fmt: skip
KEYS: Final = frozenset({"AuthService/CreateKey", "AuthService/ListKeys", "AuthService/RevokeKey"})
MANAGE: Final = KEYS | frozenset(
    f"AdminService/{verb}"
    for verb in (
        "CreateQueue", "Subscribe", "ListQueues", "ListSubscriptions", "TestFilter", "Redrive",
        "Purge", "Status", "DeleteQueue", "DescribeQueue", "UpdateQueue", "DeleteSubscription",
        "PurgeActive", "RedriveSelected", "Resubmit", "Backup",
    )
)  # fmt: skip
OBSERVE: Final = frozenset({"AdminService/Observe"})
EVERYTHING: Final = SEND | LISTEN | MANAGE | OBSERVE

RIGHTS: Final[dict[str, frozenset[str]]] = {
    "administrator": EVERYTHING,
    "manage": EVERYTHING,
    "send": SEND,
    "listen": LISTEN,
    "send listen": SEND | LISTEN,
    "monitor": OBSERVE,
}
"""Kind of credential (of a managed key: its permissions) → the calls that it may make."""

WEAK: Final = tuple(kind for kind, calls in RIGHTS.items() if calls != EVERYTHING)
DENIED = (403, "permission_denied")


@pytest.fixture(params=["on", "off"], ids=["lane", "hypercorn"])
async def scene(request: pytest.FixtureRequest, engine: Engine) -> AsyncIterator[Scene]:
    """Behind either door."""
    environ = {"MQLITE_MONITOR_TOKENS": MONITOR, "MQLITE_LANE": request.param}
    async with served(engine, **environ) as scene:
        yield scene


async def credential(scene: Scene, kind: str) -> Fields:
    """The header of a caller of this kind."""
    if kind == "administrator":
        return (BEARER,)
    if kind == "monitor":
        return bearer(MONITOR)
    return (await mint(scene, *kind.split())).fields


# -- the matrix ------------------------------------------------------------------------------------


async def good_requests(scene: Scene, clock: ManualClock) -> dict[str, dict[str, Any]]:
    """A request for each call that does its work here; none spoils another one's."""
    for name in ("q", "empty"):
        await scene.ok("AdminService/CreateQueue", {"name": name, "config": {}})
    await scene.ok("AdminService/Subscribe", {"topic": "topic", "name": "unwanted"})
    dead = await dead_letters(scene)
    await scene.ok("QueueService/Send", {"queue": "q", "messages": [{"body": "eA=="}] * 10})
    taken = (await scene.ok("QueueService/Receive", {"queue": "q", "max_messages": 9}))["messages"]
    leases = [{name: each[name] for name in ("seq_number", "lock_token")} for each in taken]
    later = clock.now_ms() + 60_000
    batch = {"queue": "q", "messages": [{"body": "eQ=="}], "scheduled_enqueue_time_ms": later}
    (scheduled,) = (await scene.ok("QueueService/Schedule", batch))["seq_numbers"]
    for verb in ("Defer", "Reject"):
        await scene.ok(f"QueueService/{verb}", {"queue": "q", **leases.pop()})
    deferred = taken[-1]["seq_number"]
    queues = (await scene.ok("AdminService/ListQueues"))["queues"]
    generation_of = {each["name"]: each["generation"] for each in queues}
    own = {verb: {"queue": "q", **leases[n]} for n, verb in enumerate(_SETTLING)}
    key = await mint(scene, "send")
    return {
        **{f"QueueService/{verb}": request for verb, request in own.items()},
        "QueueService/Send": {"queue": "q", "messages": [{"body": "eA=="}]},
        "QueueService/Schedule": batch,
        "QueueService/Cancel": {"queue": "q", "seq_number": scheduled},
        "QueueService/Receive": {"queue": "q"},
        "QueueService/CompleteBatch": {"queue": "q", "messages": [leases[5]]},
        "QueueService/RenewBatch": {"queue": "q", "messages": [leases[4]]},
        "QueueService/Release": {"queue": "q", "messages": [leases[6]]},
        "QueueService/Explain": {"queue": "q"},
        "QueueService/Search": {"queue": "q"},
        "QueueService/SendResult": {"queue": "q", "messages": [{"body": "eA=="}]},
        "QueueService/ReceiveDeferred": {"queue": "q", "seq_numbers": [deferred]},
        "QueueService/Peek": {"queue": "q"},
        "QueueService/Stats": {"queue": "q"},
        "AdminService/CreateQueue": {"name": "made"},
        "AdminService/Subscribe": {"topic": "made-topic", "name": "made-subscription"},
        "AdminService/ListQueues": {},
        "AdminService/ListSubscriptions": {},
        "AdminService/TestFilter": {"expr": "true"},
        "AdminService/Status": {},
        "AdminService/Observe": {},
        "AdminService/DescribeQueue": {"name": "q"},
        "AdminService/UpdateQueue": {"name": "q", "config": {"lock_duration_ms": 7000}},
        "AdminService/RedriveSelected": {"queue": "q", "seq_numbers": dead[:1]},
        "AdminService/Resubmit": {"queue": "q", "seq_number": dead[1]},
        "AdminService/PurgeActive": {"queue": "q", "generation": generation_of["q"]},
        "AdminService/DeleteSubscription": {"topic": "topic", "name": "unwanted"},
        "AdminService/Redrive": {"queue": "q", "max": 1},
        "AdminService/Purge": {"queue": "q"},
        "AdminService/Backup": {"path": f"{local(scene.engine).path}.{next(_numbers)}"},
        "AdminService/DeleteQueue": {"name": "empty", "generation": generation_of["empty"]},
        "AuthService/CreateKey": key_request("send"),
        "AuthService/ListKeys": {},
        "AuthService/RevokeKey": {"id": key.id},
    }


async def dead_letters(scene: Scene) -> list[int]:
    """Numbers of two dead letters."""
    await scene.ok("QueueService/Send", {"queue": "q", "messages": [{"body": "eA=="}] * 2})
    taken = (await scene.ok("QueueService/Receive", {"queue": "q", "max_messages": 2}))["messages"]
    for each in taken:
        lease = {name: each[name] for name in ("seq_number", "lock_token")}
        await scene.ok("QueueService/Reject", {"queue": "q", **lease})
    return [each["seq_number"] for each in taken]


_numbers = itertools.count(1)
_SETTLING: Final = ("Complete", "Abandon", "Reject", "Defer", "Renew")


async def picture(scene: Scene) -> list[Any]:
    """All that a call could change, as the administrator sees it."""
    return [
        await scene.ok("AdminService/ListQueues"),
        await scene.ok("AdminService/ListSubscriptions"),
        await scene.ok("QueueService/Peek", {"queue": "q", "max": 1000}),
        await scene.ok("QueueService/Stats", {"queue": "empty"}),
        await scene.ok("AuthService/ListKeys"),
    ]


def test_the_table_here_names_every_call_of_the_contract_once() -> None:
    assert {call.name for call in CALLS} == EVERYTHING
    assert [len(each) for each in (SEND, LISTEN, MANAGE, OBSERVE, EVERYTHING)] == [4, 14, 19, 1, 38]


@pytest.mark.promise("W41", "W42", "W43", "W44", "W75")
@pytest.mark.parametrize("kind", RIGHTS)
async def test_each_kind_of_credential_may_do_its_calls_and_no_other(
    scene: Scene, clock: ManualClock, kind: str
) -> None:
    """Refused calls first, with requests that would work: they must change nothing."""
    requests = await good_requests(scene, clock)
    assert requests.keys() == EVERYTHING
    fields = await credential(scene, kind)
    exist = await served_calls(scene)
    before = await picture(scene)
    for name in sorted(EVERYTHING - RIGHTS[kind]):
        answer = await scene.call(name, requests[name], fields=fields)
        assert failure(answer) == (DENIED if name in exist else (404, "not_found")), name
        assert "www-authenticate" not in answer.headers
    assert await picture(scene) == before
    for name in sorted(RIGHTS[kind], key=list(requests).index):
        answer = await scene.call(name, requests[name], fields=fields)
        if name in exist:
            assert answer.status == 200, (name, answer)
        else:
            assert message(answer).startswith("no such path: "), name


@pytest.mark.promise("W29", "W41")
async def test_who_has_no_good_credential_may_do_nothing_at_all(
    scene: Scene, clock: ManualClock
) -> None:
    """Every call, with a request that would work."""
    requests = await good_requests(scene, clock)
    revoked = await mint(scene, "manage")
    await revoke(scene, revoked)
    expired = await mint(scene, "manage", expires_at_ms=clock.now_ms() + 1)
    clock.advance(1)
    nobody: dict[str, Fields] = {
        "nobody": (),
        "another token": bearer("scene-tokem"),
        "a key that is none": bearer("mqk_" + "0" * 64),
        "a revoked key": revoked.fields,
        "an expired key": expired.fields,
        "the identity of a key": bearer(revoked.id),
        "a good token and another": (BEARER, *bearer("another")),
        "the monitor's, as administrator": (f"Authorization: Basic {MONITOR}",),
    }
    before = await picture(scene)
    for kind, fields in nobody.items():
        for name in sorted(EVERYTHING):
            answer = await scene.call(name, requests[name], fields=fields)
            assert failure(answer) == (401, "unauthenticated"), (kind, name)
    assert await picture(scene) == before


@pytest.mark.promise("W44")
async def test_the_monitors_view_is_the_same_for_those_who_manage(scene: Scene) -> None:
    """Once Observe is served; until then nobody finds it."""
    (observe,) = OBSERVE
    is_served = observe in await served_calls(scene)
    for kind, calls in RIGHTS.items():
        answer = await scene.call(observe, {}, fields=await credential(scene, kind))
        if not is_served:
            assert failure(answer) == (404, "not_found"), kind
        elif observe not in calls:
            assert failure(answer) == DENIED, kind
        else:
            word = "monitor" if kind == "monitor" else "manage"
            assert json.loads(answer.body)["access"] == word, kind
            assert answer.headers["cache-control"] == "no-store"


@pytest.mark.promise("W43", "W44")
async def test_the_metrics_are_for_those_who_manage_or_monitor(engine: Engine) -> None:
    """Once there are metrics; until then nobody finds them."""
    environ = {"MQLITE_MONITOR_TOKENS": MONITOR, "MQLITE_METRICS": "on"}
    async with served(engine, **environ) as scene:
        card = json.loads((await scene.ask("/", method="GET", fields=())).body)
        for kind, calls in RIGHTS.items():
            fields = await credential(scene, kind)
            status = (await scene.ask("/metrics", method="GET", fields=fields)).status
            right = 200 if calls >= OBSERVE else 403
            assert status == (right if "metrics" in card else 404), kind
        assert (await scene.ask("/metrics", method="GET", fields=())).status == 401


@pytest.mark.promise("W56")
async def test_with_authentication_off_everybody_may_do_everything_but_keys(
    engine: Engine, clock: ManualClock
) -> None:
    async with served(engine) as scene:
        requests = await good_requests(scene, clock)
    async with served(engine, MQLITE_TOKENS="off") as scene:
        exist = await served_calls(scene)
        for fields in ((), bearer("mqk_" + "0" * 64)):
            for name in sorted(KEYS):
                answer = await scene.call(name, requests[name], fields=fields)
                assert failure(answer) == DENIED, name
        for name in sorted(EVERYTHING - KEYS, key=list(requests).index):
            answer = await scene.call(name, requests[name], fields=())
            assert answer.status == (200 if name in exist else 404), (name, answer)
            if name in OBSERVE & exist:
                assert json.loads(answer.body)["access"] == "anonymous"
    async with served(engine) as scene:
        assert len((await scene.ok("AuthService/ListKeys"))["keys"]) == 1


@pytest.mark.promise("W75")
@pytest.mark.parametrize("kind", WEAK)
async def test_who_may_not_delete_learns_nothing_of_what_exists(scene: Scene, kind: str) -> None:
    await scene.ok("AdminService/CreateQueue", {"name": "queue"})
    await scene.ok("AdminService/Subscribe", {"topic": "topic", "name": "subscription"})
    fields = await credential(scene, kind)
    bodies = set()
    for name in ("queue", "topic", "subscription", "nothing", ""):
        request = {"name": name, "generation": "0" * 32}
        answer = await scene.call("AdminService/DeleteQueue", request, fields=fields)
        assert failure(answer) == DENIED, name
        bodies.add(answer.body)
    assert len(bodies) == 1
    assert len((await scene.ok("AdminService/ListQueues"))["queues"]) == 2


# -- the order of checks ---------------------------------------------------------------------------

TOO_LONG = f"Content-Length: {limits.REQUEST_BYTES_MAX + 1}"

BAD_REQUESTS: Mapping[str, tuple[str, bytes]] = {
    "a GET": ("GET", b""),
    "a DELETE": ("DELETE", b""),
    "no body": ("POST", b""),
    "a body that is no JSON": ("POST", b"{{"),
    "an unknown field": ("POST", b'{"zzz":1}'),
    "another type": ("POST", b"[1]"),
}


@pytest.mark.promise("W45")
@pytest.mark.parametrize("kind", WEAK)
async def test_a_missing_right_is_told_before_the_method_and_the_body(
    scene: Scene, kind: str
) -> None:
    fields = await credential(scene, kind)
    forbidden = (await served_calls(scene)) - RIGHTS[kind]
    assert forbidden
    for name in sorted(forbidden):
        for what, (method, body) in BAD_REQUESTS.items():
            answer = await scene.ask(path(name), body, method=method, fields=fields)
            assert failure(answer) == DENIED, (name, what)


@pytest.mark.promise("W45")
async def test_a_missing_right_is_told_before_the_size(scene: Scene) -> None:
    fields = await credential(scene, "listen")
    head = [f"POST {path('Send')} HTTP/1.1", "Host: 127.0.0.1", *fields, TOO_LONG, "", ""]
    async with await scene.connect() as client:
        await client.send("\r\n".join(map(str, head)).encode())
        assert failure(await client.answer()) == DENIED


@pytest.mark.promise("W45")
@pytest.mark.parametrize("kind", RIGHTS)
async def test_an_unknown_path_is_no_such_path_whatever_the_rights(scene: Scene, kind: str) -> None:
    fields = await credential(scene, kind)
    for target in ("/nope", "/mqlite.v1.QueueService/Nope", "/mqlite.v1.AuthService/createkey"):
        for method in ("GET", "POST"):
            answer = await scene.ask(target, b"{{", method=method, fields=fields)
            assert failure(answer) == (404, "not_found")
            assert message(answer) == f"no such path: {target}"


@pytest.mark.promise("W45")
async def test_with_the_right_the_method_and_the_body_are_told_as_to_anybody(scene: Scene) -> None:
    fields = await credential(scene, "send")
    for what, (method, body) in BAD_REQUESTS.items():
        answer = await scene.ask(path("Send"), body, method=method, fields=fields)
        is_post = method == "POST"
        assert failure(answer) == (
            (400, "invalid_argument") if is_post else (405, "unimplemented")
        ), what


async def test_a_bad_credential_is_told_before_everything_else(scene: Scene) -> None:
    key = await mint(scene, "send")
    await revoke(scene, key)
    for target in (path("Send"), path("AuthService/CreateKey"), "/nope"):
        for what, (method, body) in BAD_REQUESTS.items():
            answer = await scene.ask(target, body, method=method, fields=key.fields)
            assert failure(answer) == (401, "unauthenticated"), (target, what)


async def test_the_words_of_a_refusal_name_the_right_and_no_secret(scene: Scene) -> None:
    key = await mint(scene, "listen")
    for name, right in (("Send", "send"), ("AdminService/Status", "manage")):
        answer = await scene.call(name, fields=key.fields)
        assert failure(answer) == DENIED
        assert f"'{right}'" in message(answer)
        assert key.token not in message(answer)
        assert key.id not in message(answer)
