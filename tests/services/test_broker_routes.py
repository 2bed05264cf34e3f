"""What the broker answers where: the card, health, unknown paths, methods, the order of checks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from mqlite_actor.contract import limits
from mqlite_actor.contract.calls import CONTRACT, EXT
from mqlite_actor.engine.engine import Engine
from mqlite_actor.version import __version__
from tests.services.broker_scene import (
    BEARER,
    JSON,
    Scene,
    failure,
    message,
    path,
    raw,
    served,
)

ANY_TOKEN = ("Authorization: Bearer wrong", BEARER)
UNAUTHENTICATED, UNKNOWN, NOT_POST = (
    (401, "unauthenticated"),
    (404, "not_found"),
    (405, "unimplemented"),
)


@pytest.fixture
async def scene(engine: Engine) -> AsyncIterator[Scene]:
    async with served(engine) as scene:
        yield scene


# -- the card --------------------------------------------------------------------------------------


@pytest.mark.promise("W2")
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_the_card_has_the_contracts_keys_in_order(scene: Scene, method: str) -> None:
    answer = await scene.ask("/", method=method, fields=())
    assert (answer.status, answer.headers["content-type"]) == (200, JSON)
    card = json.loads(answer.body)
    assert list(card) == [
        "name", "description", "version", "status", "auth", "docs", "endpoints", "health", "ui",
    ]  # fmt: skip
    assert answer.body == json.dumps(card, separators=(",", ":")).encode() + b"\n"
    assert (card["name"], card["version"], card["status"]) == ("mqlite", __version__, "ok")
    assert (card["auth"], card["health"], card["ui"]) == ("bearer", "/healthz", "/ui")
    assert card["docs"] == scene.settings.docs_url


@pytest.mark.promise("W3")
async def test_the_card_lists_the_27_calls_and_each_is_served(scene: Scene) -> None:
    card = json.loads((await scene.ask("/", method="GET")).body)
    assert len(card["endpoints"]) == 27
    assert card["endpoints"] == [call.path for call in CONTRACT]
    for path_ in card["endpoints"]:
        assert path_.startswith("/mqlite.v1.")
        answer = await scene.ask(path_, b"{}")
        assert answer.status != 404 or not message(answer).startswith("no such path")


async def test_our_own_calls_are_served_and_stand_in_no_card(scene: Scene) -> None:
    card = (await scene.ask("/", method="GET")).body.decode()
    assert "ext" not in json.loads(card)["endpoints"]
    for call in EXT:
        assert call.path not in card
        answer = await scene.ask(call.path, b"{}")
        assert b"no such path" not in answer.body, call.name
        answer = await scene.ask(f"/mqlite.v1.{call.name}", b"{}")
        assert message(answer) == f"no such path: /mqlite.v1.{call.name}"


@pytest.mark.promise("W4")
async def test_the_card_and_the_status_say_whether_a_token_is_asked_for(engine: Engine) -> None:
    for tokens, word in (("a-token", "bearer"), ("off", "none")):
        async with served(engine, MQLITE_TOKENS=tokens) as scene:
            card = json.loads((await scene.ask("/", method="GET", fields=())).body)
            fields = ("Authorization: Bearer a-token",)
            status = json.loads((await scene.call("AdminService/Status", fields=fields)).body)
        assert (card["auth"], status["auth"]) == (word, word == "bearer")


async def test_the_card_names_no_queue_no_file_and_no_token(scene: Scene) -> None:
    await scene.ok("AdminService/CreateQueue", {"name": "secret-queue"})
    body = (await scene.ask("/", method="GET", fields=())).body.decode()
    location = json.loads((await scene.call("AdminService/Status")).body)["location"]
    assert not [word for word in ("secret-queue", location, BEARER.split()[-1]) if word in body]


# -- health ----------------------------------------------------------------------------------------


@pytest.mark.promise("W1", "T72")
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE"])
async def test_health_is_two_bytes_for_anybody_by_any_method(scene: Scene, method: str) -> None:
    for fields in ((), ("Authorization: Bearer wrong",), (BEARER,)):
        answer = await scene.ask("/healthz", method=method, fields=fields)
        assert (answer.status, answer.body) == (200, b"" if method == "HEAD" else b"ok")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["content-length"] == "2"


async def test_health_is_answered_when_the_engine_is_closed_and_calls_are_500(
    scene: Scene,
) -> None:
    scene.engine.close()
    answer = await scene.call("AdminService/ListQueues")
    assert failure(answer) == (500, "internal")
    assert (await scene.ask("/healthz", method="GET")).body == b"ok"


# -- paths -----------------------------------------------------------------------------------------

UNKNOWN_PATHS = (
    "/nope",
    "/uixyz",
    "/metrics",
    "/mqlite.v1.",
    "/mqlite.v1.QueueService",
    "/mqlite.v1.QueueService/",
    "/mqlite.v1.QueueService/Nope",
    "/mqlite.v1.QueueService/Send/",
    "/mqlite.v1.QueueService/Send/x",
    "/mqlite.v1.queueservice/stats",
    "/mqlite.v1.QueueService/STATS",
    "/MQLITE.v1.QueueService/Stats",
    "/mqlite.v2.QueueService/Stats",
    "/QueueService/Stats",
    "/healthz/",
    "/Healthz",
    "/healthz%20",
)

UNCLEAN_PATHS = (
    "//",
    "//healthz",
    "///healthz",
    "/./healthz",
    "/x/../healthz",
    "/healthz/.",
    "//mqlite.v1.QueueService/Stats",
    "/./mqlite.v1.QueueService/Stats",
    "/../mqlite.v1.QueueService/Stats",
    "/mqlite.v1.QueueService//Stats",
    "/mqlite.v1.QueueService/./Stats",
    "/mqlite.v1.QueueService/x/../Stats",
    "/%2e/healthz",
    "/%2fhealthz",
)


@pytest.mark.promise("W5", "W6", "W7", "W9", "T72")
@pytest.mark.parametrize("target", UNKNOWN_PATHS)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_unknown_path_is_no_such_path_to_callers_and_401_to_others(
    scene: Scene, target: str, method: str
) -> None:
    answer = await scene.ask(target, method=method)
    assert failure(answer) == UNKNOWN
    assert message(answer) == f"no such path: {target.replace('%20', ' ')}"
    assert failure(await scene.ask(target, method=method, fields=())) == UNAUTHENTICATED


@pytest.mark.parametrize("target", UNCLEAN_PATHS)
async def test_an_unclean_path_is_not_tidied_up_and_leads_nowhere(
    scene: Scene, target: str
) -> None:
    answer = await scene.ask(target, b'{"queue":"q"}')
    assert failure(answer) == UNKNOWN
    assert message(answer).startswith("no such path: ")


async def test_a_path_is_percent_decoded_before_it_is_matched(scene: Scene) -> None:
    await scene.ok("AdminService/CreateQueue", {"name": "q"})
    answer = await scene.ask("/mqlite.v1.QueueService/St%61ts", b'{"queue":"q"}')
    assert (answer.status, json.loads(answer.body)["queue"]) == (200, "q")
    assert (await scene.ask("/%68ealthz", method="GET")).body == b"ok"


@pytest.mark.parametrize(
    "target", [b"/%ff%fe", b"/%00", b"/%0d%0aX: y", b"/%", b"/%zz", b"/%ed%a0%80", b"/\xff"]
)
async def test_a_path_of_strange_bytes_is_refused_and_not_a_fault_of_ours(
    scene: Scene, target: bytes
) -> None:
    answer = await scene.ask(target.replace(b" ", b"%20"), method="GET")
    assert answer.status in (400, 404), answer
    assert len(answer.headers) < 8, "a line break in the path must not become a field"


@pytest.mark.promise("W12")
async def test_a_query_string_means_nothing_and_is_no_credential(scene: Scene) -> None:
    await scene.ok("AdminService/CreateQueue", {"name": "q"})
    token = BEARER.split()[-1]
    target = f"{path('Stats')}?token={token}&queue=other&access_token={token}"
    answer = await scene.ask(target, b'{"queue":"q"}')
    assert (answer.status, json.loads(answer.body)["queue"]) == (200, "q")
    assert failure(await scene.ask(target, b'{"queue":"q"}', fields=())) == UNAUTHENTICATED
    assert (await scene.ask("/healthz?x=1", method="GET")).body == b"ok"


# -- methods ---------------------------------------------------------------------------------------


@pytest.mark.promise("W8", "T72")
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "TRACE", "BREW"])
async def test_a_call_by_another_method_than_post_is_405_after_the_token(
    scene: Scene, method: str
) -> None:
    target = path("Stats")
    answer = await scene.ask(target, method=method)
    assert failure(answer) == NOT_POST
    assert (message(answer), "allow" in answer.headers) == ("POST required", False)
    assert failure(await scene.ask(target, method=method, fields=())) == UNAUTHENTICATED


async def test_a_head_request_to_a_call_is_405_without_a_body(scene: Scene) -> None:
    answer = await scene.ask(path("Stats"), method="HEAD")
    assert (answer.status, answer.body) == (405, b"")


# -- the order of checks ---------------------------------------------------------------------------


@pytest.mark.promise("W9")
async def test_each_check_comes_before_the_next(scene: Scene) -> None:
    """Every request breaks all rules from its own on; the earliest one answers."""
    too_long = f"Content-Length: {limits.REQUEST_BYTES_MAX + 1}"
    wrong = "Authorization: Bearer wrong"
    cases = (
        ("/nope", "POST", (wrong, too_long), UNAUTHENTICATED),
        (path("Stats"), "GET", (wrong, too_long), UNAUTHENTICATED),
        ("/nope", "POST", (BEARER, too_long), UNKNOWN),
        (path("Stats"), "GET", (BEARER, too_long), NOT_POST),
        (path("Stats"), "POST", (BEARER, too_long), (413, "message_too_large")),
    )
    for target, method, fields, expected in cases:
        head = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1", *fields, "", ""]
        async with await scene.connect() as client:
            await client.send("\r\n".join(head).encode())
            assert failure(await client.answer()) == expected, (target, method, fields)
    assert failure(await scene.ask(path("Stats"), b"{{")) == (400, "invalid_argument")
    assert failure(await scene.call("Stats", {"queue": "none"})) == UNKNOWN


async def test_a_missing_queue_and_a_missing_path_read_differently(scene: Scene) -> None:
    words = message(await scene.call("Stats", {"queue": "none"}))
    assert "none" in words
    assert not words.startswith("no such path")


@pytest.mark.promise("W14")
async def test_every_call_that_fails_says_so_in_one_envelope(scene: Scene) -> None:
    for target, body, fields in (
        (path("Stats"), b"", (BEARER,)),
        (path("Stats"), b'{"queue":"none"}', (BEARER,)),
        (path("Complete"), b'{"queue":"none","seq_number":1,"lock_token":"x"}', (BEARER,)),
        (path("AdminService/CreateQueue"), b'{"name":""}', (BEARER,)),
        (path("Stats"), b"", ()),
        ("/nope", b"", (BEARER,)),
    ):
        answer = await scene.ask(target, body, fields=fields)
        assert answer.status >= 400
        failure(answer)
        assert not {"server", "allow", "www-authenticate", "cache-control"} & set(answer.headers)


async def test_a_connection_survives_every_refusal(scene: Scene) -> None:
    async with await scene.connect() as client:
        for target, body, fields in (
            (path("Stats"), b"{", (BEARER,)),
            (path("Stats"), b'{"queue":"none"}', (BEARER,)),
            (path("Stats"), b'{"queue":"none"}', ()),
            ("/nope", b"some body", (BEARER,)),
        ):
            failure(await client.ask(raw(target, body, fields=fields)))
        assert (await client.ask(raw("/healthz", method="GET"))).body == b"ok"
