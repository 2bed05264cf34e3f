"""A broker asked with requests made from its description answers as the description says.

Schemathesis makes the requests of every operation, valid and broken ones; names, leases and keys
that exist are planted into some, so that they do something. No answer is a 5xx, and none has a
status, content type or shape that is not described. MQLITE_OPENAPI_EXAMPLES is the number of
requests per operation and kind, MQLITE_OPENAPI_SEED repeats a run's choices; both are printed.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.checks import CheckFunction, not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from mqlite_actor.contract.calls import BY_PATH, PREFIX
from mqlite_broker import openapi
from tests.services.broker_process import TOKEN, BrokerProcess, started

EXAMPLES: Final = int(os.environ.get("MQLITE_OPENAPI_EXAMPLES", "12"))
SEED: Final = int(os.environ.get("MQLITE_OPENAPI_SEED") or random.SystemRandom().randrange(2**32))

CHECKS: Final[list[CheckFunction]] = [
    not_a_server_error, status_code_conformance, content_type_conformance,
    response_schema_conformance,
]  # fmt: skip

QUEUES: Final = {
    "plain": {},
    "groups": {"ordering_mode": "group_fifo"},
    "strict": {"ordering_mode": "strict_fifo"},
    "once": {"dedup_window_ms": 60_000},
    "short": {"lock_duration_ms": 1, "max_delivery_count": 1, "default_ttl_ms": 5},
}
LEASED: Final = "leased"
TOPIC: Final = "topic"
KEY_ID: Final = "0" * 32
THERE: Final = "1" * 32
LEASE: Final = ("seq_number", "lock_token")

WAIT_MS: Final = 5
"""The longest poll: the run is about answers, not about waiting."""

PLANTED: Final = 0.6
"""Of the valid requests, how many name things that exist."""

BOUND_SECONDS: Final = 30.0
ROUNDS_MAX: Final = 5


class Scene:
    """A broker with something in it, and what of it a request can name."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.url = broker.url
        self.headers = {"Authorization": f"Bearer {TOKEN}"}
        self.session = requests.Session()
        self.dice = random.Random(SEED)
        self.leases: list[dict[str, Any]] = []
        self.ask("AdminService/CreateQueue", name=LEASED)
        for name, config in QUEUES.items():
            self.ask("AdminService/CreateQueue", name=name, config=config)
        self.ask("AuthService/CreateKey", id=THERE, name="there", permissions=["send"])
        for name in ("sub1", "sub2"):
            self.ask("AdminService/Subscribe", topic=TOPIC, name=name)

    def ask(self, call: str, **fields: Any) -> Any:  # noqa: ANN401  # whatever JSON holds
        """A call that must succeed."""
        done = self.session.post(
            f"{self.url}/mqlite.v1.{call}",
            json=fields,
            headers=self.headers,
            timeout=BOUND_SECONDS,
        )
        assert done.status_code == 200, done.text
        return done.json()

    def lease(self) -> dict[str, Any]:
        """A message that is locked, unless an earlier request settled it."""
        if not self.leases:
            grouped = [{"body": "eA==", "group_id": f"g{n}"} for n in range(8)]
            for name in QUEUES:
                self.ask("QueueService/Send", queue=name, messages=grouped)
            self.ask("QueueService/Send", queue=LEASED, messages=[{"body": "eA=="}] * 8)
            found = self.ask("QueueService/Receive", queue=LEASED, max_messages=8)
            self.leases = found["messages"]
        return self.leases.pop()

    def scheduled(self) -> int:
        """The number of a message that waits for its time."""
        at = 4_000_000_000_000
        call = "QueueService/Schedule"
        sent = self.ask(call, queue=LEASED, messages=[{}], scheduled_enqueue_time_ms=at)
        return int(sent["seq_numbers"][0])

    def empty(self) -> dict[str, str]:
        """A queue that can be deleted: its name and generation."""
        name = f"empty {self.dice.getrandbits(64)}"
        self.ask("AdminService/CreateQueue", name=name)
        listed = self.ask("AdminService/ListQueues")["queues"]
        found = next(each for each in listed if each["name"] == name)
        return {"name": name, "generation": str(found["generation"])}

    def plant(self, body: dict[str, Any], fields: Iterable[str]) -> None:
        """Put things that exist into a request that has these fields."""
        has_lease = "lock_token" in fields
        name = self.dice.choice((*QUEUES, "sub1"))
        body.update(dict.fromkeys({"queue", "target", "name"} & set(fields), name))
        if "queue" in body and {"seq_number", "seq_numbers"} & set(fields):
            body["queue"] = LEASED
        elif "messages" in fields:
            body["queue"] = self.dice.choice((LEASED, name, TOPIC))
        if "topic" in fields:
            body |= {"topic": TOPIC, "name": "sub1"}
        if "generation" in fields:
            body |= self.empty()
        if "expr" in fields:
            body["expr"] = 'subject startsWith "a"'
        if "id" in fields:
            body["id"] = self.dice.choice((KEY_ID, THERE, f"{self.dice.getrandbits(128):032x}"))
        self.plant_numbers(body, set(fields), is_leased=has_lease)

    def plant_numbers(self, body: dict[str, Any], fields: set[str], *, is_leased: bool) -> None:
        """Numbers of messages, and the leases of a batch."""
        if is_leased:
            body |= {key: value for key, value in self.lease().items() if key in LEASE}
        elif "seq_number" in fields:
            body["seq_number"] = self.scheduled()
        if "seq_numbers" in fields:
            body["seq_numbers"] = [self.lease()["seq_number"]]
        for item in body.get("messages", []):
            if "body" in item:  # a generated text is hardly ever base64
                item["body"] = self.dice.choice(("", "eA==", "AAECAw=="))
            if item.keys() & set(LEASE):
                item |= {key: value for key, value in self.lease().items() if key in LEASE}


@pytest.fixture(scope="module", params=["on", "off"], ids=["lane", "hypercorn"])
def scene(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    """A broker with the lane, and one with every request through hypercorn."""
    folder = tmp_path_factory.mktemp("openapi")
    with started(folder, MQLITE_METRICS="on", MQLITE_LANE=request.param) as broker:
        scene = Scene(broker)
        yield scene
        scene.session.close()
        lines = broker.stop()
    assert not [line for line in lines if "Traceback" in line], "\n".join(lines)


PATHS: Final = tuple(openapi.describe()["paths"])
OPEN: Final = ("/", "/healthz", "/readyz")

PLANTED_FOR: Final = frozenset(path for path in PATHS if path.startswith(PREFIX))
"""Calls for which `plant` knows what to put in; others may happen to be refused always."""


@cache
def operations() -> dict[str, Any]:
    """What schemathesis makes of each path; read when the first test needs it."""
    schema = schemathesis.openapi.from_dict(openapi.describe())
    found = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    assert len(found) == len(PATHS)
    return {operation.path: operation for operation in found}


def fields_of(path: str) -> tuple[str, ...]:
    """The fields that a call's request may have."""
    call = BY_PATH.get(path)
    return call.request.__struct_fields__ if call else ()


def bounded(body: dict[str, Any]) -> None:
    """Take out of a request what would make it wait, or write anywhere."""
    if isinstance(body.get("wait_time_ms"), int | float):
        body["wait_time_ms"] = min(body["wait_time_ms"], WAIT_MS)
    if "path" in body:
        body["path"] = "named.db"  # of a file on the broker's machine, in its own folder
    if body.get("rate_per_sec"):
        body["rate_per_sec"] = 10_000  # a smaller rate is a longer call


def ask_all(scene: Scene, path: str, mode: GenerationMode, wanted: int) -> Counter[int]:
    """Requests of one kind for one path, each answer held against the description; their statuses.

    A third of what is made for a path has the status that is wanted, so a run without one is rare
    and says nothing: then some more are made."""
    statuses: Counter[int] = Counter()
    for number in range(ROUNDS_MAX if path in PLANTED_FOR else 1):
        if not statuses[wanted]:
            statuses += ask_some(scene, path, mode, SEED + number)
    return statuses


def ask_some(scene: Scene, path: str, mode: GenerationMode, start: int) -> Counter[int]:
    """So many requests as one run makes."""
    statuses: Counter[int] = Counter()
    operation = operations()[path]

    @seed(start)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:  # noqa: ANN401  # generic over what the test does not name
        is_planted = mode is GenerationMode.POSITIVE and scene.dice.random() < PLANTED
        if isinstance(case.body, dict):
            if is_planted:
                scene.plant(case.body, fields_of(path))
            bounded(case.body)
        case.headers.pop("Authorization", None)
        reply = case.call(
            scene.url, session=scene.session, headers=scene.headers, timeout=BOUND_SECONDS
        )
        statuses[reply.status_code] += 1
        case.validate_response(reply, checks=CHECKS)

    ask()
    return statuses


@pytest.mark.parametrize("path", PATHS)
def test_answers_are_described_and_never_a_fault_of_ours(scene: Scene, path: str) -> None:
    print(f"MQLITE_OPENAPI_SEED={SEED} MQLITE_OPENAPI_EXAMPLES={EXAMPLES}")
    statuses = ask_all(scene, path, GenerationMode.POSITIVE, 200)
    print(f"{path} valid: {dict(statuses)}")
    assert statuses[200] or path not in PLANTED_FOR, "no request did anything"
    if operations()[path].body:
        statuses = ask_all(scene, path, GenerationMode.NEGATIVE, 400)
        print(f"{path} broken: {dict(statuses)}")
        assert statuses[400] or path not in PLANTED_FOR, "no request was broken"


@pytest.mark.parametrize("path", [path for path in PATHS if path not in OPEN])
def test_without_a_token_the_answer_is_the_described_401(scene: Scene, path: str) -> None:
    method = operations()[path].method
    reply = scene.session.request(method, scene.url + path, data=b"{}", timeout=BOUND_SECONDS)
    assert reply.status_code == 401
    assert reply.json()["code"] == "unauthenticated"
    assert "401" in openapi.describe()["paths"][path][method]["responses"]
