"""Observe over HTTP: the document, who may see it, and what the door counts of its requests.

Every document passes `snapshots.check`, the rules of a strict client.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from itertools import product
from pathlib import Path

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import errors, limits, wire
from mqlite_actor.contract.calls import CALLS, CONTRACT
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from tests.engine.gate import bounded, empty_caches, parked, teach
from tests.engine.snapshots import AUTHENTICATION, Document, check, depth, events
from tests.services.broker_scene import BEARER, JSON, Fields, Scene, failure, path, raw, served
from tests.services.credentials import MONITOR, bearer, key_request, mint
from tests.services.door_client import Answer
from tests.storage.fault_vfs import Fault, FaultVfs, faulty

OBSERVE = "AdminService/Observe"

CODES = [
    "already_exists", "canceled", "group_required", "internal", "invalid_argument", "key_conflict",
    "lock_lost", "message_too_large", "name_conflict", "not_found", "ok", "outcome_unknown",
    "permission_denied", "unauthenticated", "unimplemented",
]  # fmt: skip
"""The contract's codes of requests."""

OURS = ["generation_conflict", "queue_not_empty", "storage_full", "unavailable"]
"""What this broker answers beyond them; a client tolerates surplus members."""

Row = tuple[str, str]


@pytest.fixture
async def scene(engine: Engine) -> AsyncIterator[Scene]:
    async with served(engine, MQLITE_MONITOR_TOKENS=MONITOR) as scene:
        yield scene


async def observe(scene: Scene, fields: Fields = (BEARER,)) -> Document:
    """The snapshot that this caller gets, checked."""
    answer = await scene.call(OBSERVE, fields=fields)
    assert answer.status == 200, answer
    document: Document = json.loads(answer.body)
    check(document)
    return document


def requests(document: Document) -> dict[Row, int]:
    """Requests by call and code; zeros left out."""
    rows = document["http"]["requests"]
    return {(row["rpc"], row["code"]): row["count"] for row in rows if row["count"]}


def latencies(document: Document) -> dict[str, int]:
    """Calls behind the credential check, by name; Observe itself left out."""
    rows = document["http"]["handler_latency"]
    return {row["rpc"]: row["count"] for row in rows if row["rpc"] != OBSERVE}


def checks(document: Document) -> dict[str, int]:
    """Credential checks by outcome."""
    return {row["outcome"]: row["count"] for row in document["http"]["authentication"]}


def grown(before: dict[Row, int], after: dict[Row, int]) -> dict[Row, int]:
    """What was added, the first of the two snapshots itself left out."""
    both = {key: after[key] - before.get(key, 0) for key in after}
    both[OBSERVE, "ok"] -= 1
    return {key: number for key, number in both.items() if number}


# -- the document ----------------------------------------------------------------------------------


@pytest.mark.promise("W124")
async def test_every_call_and_every_code_is_shown_from_the_start(scene: Scene) -> None:
    http = (await observe(scene))["http"]
    names = [call.name for call in CONTRACT]
    assert len(names) == 27
    found = [(row["rpc"], row["code"]) for row in http["requests"]]
    assert found == list(product(sorted(names), sorted(CODES + OURS)))
    assert {(row["count"], row["duration_seconds"]) for row in http["requests"]} == {(0, 0)}
    assert {row["rpc"] for row in http["handler_latency"]} <= {OBSERVE}, "no other call was made"
    assert [row["outcome"] for row in http["authentication"]] == AUTHENTICATION


async def test_our_own_calls_are_shown_from_their_first_request_on(scene: Scene) -> None:
    name = "QueueService/Explain"
    assert (await scene.ask(f"/mqlite.ext.v1.{name}", b'{"queue":"no"}')).status == 404
    http = (await observe(scene))["http"]
    rows = {(row["rpc"], row["code"]): row["count"] for row in http["requests"]}
    assert rows[name, "not_found"] == 1
    assert [row for row in rows if row[0] == name] == [(name, "not_found")]
    assert name in {row["rpc"] for row in http["handler_latency"]}


@pytest.mark.promise("W124")
async def test_a_snapshot_is_json_that_nobody_keeps(scene: Scene) -> None:
    answer = await scene.call(OBSERVE)
    assert answer.headers["content-type"] == JSON
    assert answer.headers["cache-control"] == "no-store"
    assert answer.body.endswith(b"}\n")


@pytest.mark.promise("W124")
@pytest.mark.parametrize("body", [b"{}", b" { } \n", b"null"])
async def test_an_empty_request_is_answered(scene: Scene, body: bytes) -> None:
    assert (await scene.ask(path(OBSERVE), body)).status == 200


@pytest.mark.promise("W124")
@pytest.mark.parametrize(
    "body", [b"", b'{"queue":"q"}', b'{"since":0}', b"[]", b'"x"', b"{}{}", b"{"]
)
async def test_any_other_request_is_refused(scene: Scene, body: bytes) -> None:
    assert failure(await scene.ask(path(OBSERVE), body)) == (400, "invalid_argument")


@pytest.mark.promise("W124")
async def test_the_access_word_says_whose_credential_it_was(scene: Scene, engine: Engine) -> None:
    manager = await mint(scene, "manage")
    callers = {"manage": [(BEARER,), manager.fields], "monitor": [bearer(MONITOR)]}
    for word, all_fields in callers.items():
        for fields in all_fields:
            assert (await observe(scene, fields))["access"] == word
    for weak in [await mint(scene, "send"), await mint(scene, "listen", "send")]:
        answer = await scene.call(OBSERVE, fields=weak.fields)
        assert failure(answer) == (403, "permission_denied")
    async with served(engine, MQLITE_TOKENS="off") as open_scene:
        assert (await observe(open_scene, ()))["access"] == "anonymous"


@pytest.mark.promise("W44")
async def test_a_monitor_token_looks_and_does_nothing_else(scene: Scene) -> None:
    await observe(scene, bearer(MONITOR))
    for call in CALLS:
        if call.name != OBSERVE:
            answer = await scene.ask(call.path, b"{}", fields=bearer(MONITOR))
            is_served = call.request in scene.engine.served
            assert answer.status == (403 if is_served else 404), call.name


# -- message events --------------------------------------------------------------------------------


@pytest.mark.promise("W125")
async def test_a_message_is_counted_once_on_its_way_and_a_repetition_never(scene: Scene) -> None:
    await scene.ok("AdminService/CreateQueue", {"name": "q"})
    await scene.ok("QueueService/Send", {"queue": "q", "messages": [{"body": "eA=="}]})
    (message,) = (await scene.ok("QueueService/Receive", {"queue": "q"}))["messages"]
    lease = {key: message[key] for key in ("seq_number", "lock_token")}
    for _ in range(3):
        await scene.ok("QueueService/Complete", {"queue": "q", **lease})
    seen = await observe(scene)
    assert events(seen) == {("q", event): 1 for event in ("enqueued", "delivered", "completed")}
    assert depth(seen, "q")["total"] == 0


# -- requests --------------------------------------------------------------------------------------

STATS = "QueueService/Stats"
LARGE = {"body": "AAAA" * (limits.MESSAGE_BYTES_DEFAULT // 3 + 1)}
CONFLICT = {"message_id": "m", "body": "Mg=="}
FORGED = {"queue": "q", "seq_number": 1, "lock_token": "0" * 32}
KEY = key_request("send", id="0" * 32)

REQUESTS: tuple[tuple[str, str, object, Fields, str], ...] = (
    ("ok", STATS, {"queue": "q"}, (BEARER,), "POST"),
    ("ok", "AdminService/ListQueues", {}, (BEARER,), "POST"),
    ("not_found", STATS, {"queue": "none"}, (BEARER,), "POST"),
    ("invalid_argument", STATS, {"zzz": 1}, (BEARER,), "POST"),
    ("unauthenticated", STATS, {"queue": "q"}, (), "POST"),
    ("unauthenticated", STATS, {"queue": "q"}, bearer("wrong"), "POST"),
    ("permission_denied", STATS, {"queue": "q"}, bearer(MONITOR), "POST"),
    ("unimplemented", STATS, {"queue": "q"}, (BEARER,), "GET"),
    ("message_too_large", "QueueService/Send", {"queue": "q", "messages": [LARGE]}, (BEARER,),
     "POST"),
    ("already_exists", "QueueService/Send", {"queue": "d", "messages": [CONFLICT]}, (BEARER,),
     "POST"),
    ("group_required", "QueueService/Send", {"queue": "g", "messages": [{}]}, (BEARER,), "POST"),
    ("name_conflict", "AdminService/CreateQueue", {"name": "t"}, (BEARER,), "POST"),
    ("lock_lost", "QueueService/Complete", FORGED, (BEARER,), "POST"),
    ("queue_not_empty", "AdminService/DeleteQueue", {"name": "d"}, (BEARER,), "POST"),
    ("generation_conflict", "AdminService/DeleteQueue", {"name": "q", "generation": "x"},
     (BEARER,), "POST"),
    ("key_conflict", "AuthService/CreateKey", {**KEY, "name": "another"}, (BEARER,), "POST"),
)  # fmt: skip
"""Code, call, body, credential, method."""


async def furnish(scene: Scene) -> None:
    """What the requests above run into."""
    for name, config in (
        ("q", {}),
        ("d", {"dedup_window_ms": 60_000}),
        ("g", {"ordering_mode": "group_fifo"}),
    ):
        await scene.ok("AdminService/CreateQueue", {"name": name, "config": config})
    await scene.ok("AdminService/Subscribe", {"topic": "t", "name": "s"})
    await scene.ok("QueueService/Send", {"queue": "d", "messages": [{"message_id": "m"}]})
    await scene.ok("AuthService/CreateKey", KEY)


async def generation(scene: Scene, queue: str) -> str:
    """What DeleteQueue asks for."""
    listed = (await scene.ok("AdminService/ListQueues"))["queues"]
    return next(str(row["generation"]) for row in listed if row["name"] == queue)


@pytest.mark.promise("W124")
async def test_each_request_is_counted_once_by_its_call_and_its_code(scene: Scene) -> None:
    await furnish(scene)
    of_d = await generation(scene, "d")
    for code, call, body, fields, method in REQUESTS:
        if code == "queue_not_empty":
            assert isinstance(body, dict)
            body = {**body, "generation": of_d}  # noqa: PLW2901  # known only now
        before = await observe(scene)
        answer = await scene.ask(
            path(call), json.dumps(body).encode(), method=method, fields=fields
        )
        assert code == ("ok" if answer.status == 200 else failure(answer)[1])
        assert grown(requests(before), requests(await observe(scene))) == {(call, code): 1}
    shown = {code for code, *_ in REQUESTS}
    assert shown | {"canceled", "internal", "outcome_unknown"} >= set(CODES)


FAULTS: dict[type[MqliteError], str] = {
    errors.Internal: "internal",
    errors.StorageFailed: "internal",
    errors.OutcomeUnknown: "outcome_unknown",
    errors.StorageFull: "storage_full",
    errors.Unavailable: "unavailable",
    errors.Unsupported: "unsupported",
    errors.Closed: "internal",
}
"""What is no word of the vocabulary is folded; what is nobody's failure is not."""


@pytest.mark.promise("W124")
@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
async def test_a_failure_of_ours_is_counted_by_its_code_or_as_internal(
    scene: Scene, engine: Engine, kind: type[MqliteError]
) -> None:
    def fail(_tx: object, _request: object, _now_ms: int) -> object:
        raise kind("on purpose")

    teach(engine, wire.StatsRequest, fail)
    before = await observe(scene)
    answer = await scene.call("Stats", {"queue": "q"})
    assert answer.status >= 500 or kind is errors.Unsupported
    assert ("retry-after" in answer.headers) is (kind is errors.Unavailable)
    after = await observe(scene)
    assert grown(requests(before), requests(after)) == {(STATS, FAULTS[kind]): 1}


@pytest.mark.promise("W124")
async def test_a_client_that_leaves_its_long_poll_is_counted_as_canceled(scene: Scene) -> None:
    await scene.ok("AdminService/CreateQueue", {"name": "q"})
    before = requests(await observe(scene))
    async with await scene.connect() as client:
        body = b'{"queue":"q","wait_time_ms":20000}'
        await client.send(raw(path("Receive"), body))
        await parked(scene.engine, "q", 1)
    await parked(scene.engine, "q", 0)
    receive = "QueueService/Receive"
    with bounded():
        while (receive, "canceled") not in (after := requests(await observe(scene))):
            assert grown(before, after).keys() <= {(OBSERVE, "ok")}
    assert {key: number for key, number in after.items() if key[0] == receive} == {
        (receive, "canceled"): 1
    }


@pytest.mark.promise("W127")
async def test_the_time_of_a_call_is_kept_from_its_first_answer_on(scene: Scene) -> None:
    for _ in range(5):
        await scene.ok("AdminService/ListQueues")
    await scene.call("AdminService/Status", fields=())
    await scene.call("AdminService/Status", fields=bearer(MONITOR))
    await scene.ask(path("AdminService/Status"), method="GET")
    for target in ("/", "/healthz", "/nope"):
        await scene.ask(target, method="GET")
    seen = await observe(scene)
    assert latencies(seen) == {"AdminService/ListQueues": 5}, "behind the credential check only"
    for body in (b"{", b'{"nope":1}'):
        assert (await scene.ask(path("Stats"), body)).status == 400
    assert latencies(await observe(scene))["QueueService/Stats"] == 2, "refusals too"
    assert all(row["sum_seconds"] > 0 for row in seen["http"]["handler_latency"])


@pytest.mark.promise("W128", "T76")
async def test_invented_paths_add_no_row(scene: Scene) -> None:
    before = await observe(scene)
    for number in range(50):
        for target in (path(f"Nope{number}"), path(f"Stats/{number}"), f"/{number}"):
            assert failure(await scene.ask(target, b"{}")) == (404, "not_found")
            assert (await scene.ask(target, b"{}", fields=())).status == 401
    after = await observe(scene)
    assert grown(requests(before), requests(after)) == {}
    assert latencies(after) == {}
    assert len(after["http"]["requests"]) == len(before["http"]["requests"])


# -- credentials -----------------------------------------------------------------------------------


async def test_each_protected_request_is_one_check_and_open_pages_are_none(scene: Scene) -> None:
    weak = await mint(scene, "send")
    before = checks(await observe(scene))
    outcomes = [
        ("missing", await scene.call("AdminService/Status", fields=())),
        ("invalid", await scene.call("AdminService/Status", fields=bearer("x"))),
        ("permission_denied", await scene.call("AdminService/Status", fields=weak.fields)),
        ("success", await scene.call("AdminService/Status")),
        ("success", await scene.ask("/nope", method="GET")),
    ]
    for target in ("/", "/healthz"):
        await scene.ask(target, method="GET", fields=())
    after = checks(await observe(scene))
    for outcome in AUTHENTICATION:
        number = sum(outcome == each for each, _ in outcomes) + (outcome == "success")
        assert after[outcome] - before[outcome] == number, outcome


async def test_without_authentication_nothing_is_checked(engine: Engine) -> None:
    async with served(engine, MQLITE_TOKENS="off") as scene:
        await scene.ok("AdminService/ListQueues")
        assert set(checks(await observe(scene, ())).values()) == {0}


# -- the store cannot be read ----------------------------------------------------------------------


@pytest.fixture
def vfs() -> Iterator[FaultVfs]:
    with faulty() as each:
        yield each


def unavailable(answer: Answer) -> Document:
    """The document of an answer that has no queues."""
    assert answer.status == 200, answer
    document: Document = json.loads(answer.body)
    check(document)
    assert document["queues"] is None
    assert document["collection"]["error_code"] == "io"
    return document


async def test_a_store_that_cannot_be_read_is_200_without_queues_to_the_monitor(
    vfs: FaultVfs, store: Path, clock: ManualClock
) -> None:
    options = EngineOptions(clock=clock, background=False)
    async with (
        open_engine(f"file:{store}", options) as engine,
        served(engine, MQLITE_MONITOR_TOKENS=MONITOR) as scene,
    ):
        await scene.ok("AdminService/CreateQueue", {"name": "q"})
        await scene.ok("QueueService/Send", {"queue": "q", "messages": [{}]})
        await observe(scene)
        good_at = clock.now_ms()
        clock.advance(1_000)
        empty_caches(engine)
        vfs.arm(Fault("read", 1, lasting=True))
        for _ in range(2):
            seen = unavailable(await scene.call(OBSERVE, fields=bearer(MONITOR)))
            assert seen["collection"]["last_success_at_ms"] == good_at
            assert events(seen) == {("q", "enqueued"): 1}
            assert requests(seen)["QueueService/Send", "ok"] == 1
        vfs.disarm()
        assert depth(await observe(scene), "q")["active"] == 1
