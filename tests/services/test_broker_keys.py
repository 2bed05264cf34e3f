"""Access keys over HTTP: the bytes of their replies, what caches, logs and files get, and when a
key stops working."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits
from mqlite_actor.contract.keys import CreateKeyRequest
from mqlite_actor.engine.engine import Engine
from tests.conformance.key_calls import new_id, spellings
from tests.services.broker_process import BEARER as PROCESS_BEARER
from tests.services.broker_process import TOKEN as PROCESS_TOKEN
from tests.services.broker_process import content, started
from tests.services.broker_scene import (
    BEARER,
    TOKEN,
    Fields,
    Scene,
    failure,
    message,
    path,
    raw,
    served,
)
from tests.services.credentials import MONITOR, Key, bearer, key_request, mint, revoke
from tests.services.door_client import PATIENCE, Answer, Client, until

UNAUTHENTICATED, DENIED = (401, "unauthenticated"), (403, "permission_denied")
CREATE, LIST, REVOKE = "AuthService/CreateKey", "AuthService/ListKeys", "AuthService/RevokeKey"
STATUS = "AdminService/Status"


@pytest.fixture
async def scene(engine: Engine) -> AsyncIterator[Scene]:
    async with served(engine, MQLITE_MONITOR_TOKENS=MONITOR) as scene:
        yield scene


async def asked(scene: Scene, fields: Fields, call: str = "Stats") -> int:
    """The status of a call that needs little; 404 says that its caller was let in."""
    return (await scene.call(call, {"queue": "none"}, fields=fields)).status


# -- replies ---------------------------------------------------------------------------------------


@pytest.mark.promise("W46")
async def test_the_reply_of_a_new_key_is_the_contracts_to_the_byte(
    scene: Scene, clock: ManualClock
) -> None:
    expiry = clock.now_ms() + 1_000
    request = key_request("listen", "send", name='naïve "key"', expires_at_ms=expiry)
    answer = await scene.call(CREATE, request)
    token = json.loads(answer.body)["token"]
    assert re.fullmatch("mqk_[0-9a-f]{64}", token)
    assert answer.body.decode() == (
        f'{{"key":{{"id":"{request["id"]}","name":"naïve \\"key\\"",'
        f'"permissions":["send","listen"],"created_at_ms":{clock.now_ms()},'
        f'"expires_at_ms":{expiry},"revoked_at_ms":0}},"token":"{token}"}}\n'
    )
    assert await asked(scene, bearer(token)) == 404, "it works at once"


@pytest.mark.promise("W47")
async def test_a_taken_id_is_a_conflict_whose_bytes_tell_nothing(scene: Scene) -> None:
    request = key_request("send", name="of the billing service")
    token = json.loads((await scene.call(CREATE, request)).body)["token"]
    other = key_request("manage", id=str(request["id"]), name="other")
    answers = [await scene.call(CREATE, each) for each in (request, request, other)]
    for answer in answers:
        assert failure(answer) == (409, "key_conflict")
        assert not re.search(b"mqk_|billing|other", answer.body)
        assert_holds_no_secret(answer.body, Key(str(request["id"]), token))
    assert len({answer.body for answer in answers}) == 1
    assert await asked(scene, bearer(token), "Send") == 200, "the key is as it was"


@pytest.mark.promise("W48", "W51", "W54")
@pytest.mark.parametrize(
    ("call", "body"),
    [
        (CREATE, b"{}"), (CREATE, b"null"), (CREATE, b""), (CREATE, b'{"token":"x"}'),
        (CREATE, b'{"permissions":"send"}'), (CREATE, b'{"permissions":[1]}'),
        (CREATE, b'{"permissions":[null]}'), (CREATE, b'{"expires_at_ms":"0"}'),
        (LIST, b""), (LIST, b'{"limit":-1}'), (LIST, b'{"limit":1001}'), (LIST, b'{"limit":1.0}'),
        (LIST, b'{"page":1}'), (LIST, b'{"after_id":"x"}'), (REVOKE, b""), (REVOKE, b"{}"),
        (REVOKE, b'{"id":"x"}'), (REVOKE, b'{"id":7}'), (REVOKE, b'{"name":"x"}'),
    ],
)  # fmt: skip
async def test_a_request_that_is_none_is_400_and_not_to_be_kept(
    scene: Scene, call: str, body: bytes
) -> None:
    answer = await scene.ask(path(call), body)
    assert failure(answer) == (400, "invalid_argument")
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.promise("W54", "W55")
async def test_a_list_shows_no_secret_of_anybody(scene: Scene) -> None:
    keys = [await mint(scene, *words) for words in (("send",), ("listen",), ("manage",))]
    await revoke(scene, keys[0])
    for request in ({}, {"limit": 2}, {"sort": "created_desc"}):
        answer = await scene.call(LIST, request)
        reply = json.loads(answer.body)
        assert list(reply) == (["keys", "next_after_id"] if "limit" in request else ["keys"])
        for each in reply["keys"]:
            assert list(each) == [
                "id", "name", "permissions", "created_at_ms", "expires_at_ms", "revoked_at_ms",
            ]  # fmt: skip
        assert_holds_no_secret(answer.body, *keys)
    ids = [each["id"] for each in (await scene.ok(LIST))["keys"]]
    assert ids == sorted(key.id for key in keys), "tokens of the environment are no keys"


def assert_holds_no_secret(text: bytes, *keys: Key) -> None:
    """Neither a token nor its digest in any spelling, nor a token of the environment."""
    for key in keys:
        digests = (key.digest.hex().encode(), base64.b64encode(key.digest), key.digest)
        assert not [each for each in (*digests, *spellings(key.token)) if each in text]
    assert not [each for each in (TOKEN, MONITOR, PROCESS_TOKEN) if each.encode() in text]


@pytest.mark.promise("W56")
async def test_replies_of_the_key_calls_are_kept_by_no_cache(scene: Scene) -> None:
    """From the point on where the call begins: what is refused before it holds no secret."""
    weak = (await mint(scene, "send", "listen")).fields
    request = key_request("send")
    steps: tuple[tuple[str, object, Fields, int, bool], ...] = (
        (CREATE, request, (BEARER,), 200, True),
        (CREATE, request, (BEARER,), 409, True),
        (CREATE, key_request(), (BEARER,), 400, True),
        (LIST, {}, (BEARER,), 200, True),
        (LIST, {"sort": "x"}, (BEARER,), 400, True),
        (REVOKE, {"id": request["id"]}, (BEARER,), 200, True),
        (REVOKE, {"id": new_id()}, (BEARER,), 404, True),
        (LIST, {}, (), 401, False),
        (LIST, {}, weak, 403, False),
        (STATUS, {}, (BEARER,), 200, False),
    )
    for call, body, fields, status, is_private in steps:
        answer = await scene.call(call, body, fields=fields)
        assert answer.status == status, (call, body)
        assert answer.headers.get("cache-control") == ("no-store" if is_private else None), call
    scene.engine.close()
    answer = await scene.call(LIST)
    assert (answer.status, answer.headers["cache-control"]) == (500, "no-store")


@pytest.mark.promise("W56")
async def test_a_key_request_that_is_too_long_is_kept_by_no_cache_either(scene: Scene) -> None:
    length = f"Content-Length: {limits.REQUEST_BYTES_MAX + 1}"
    head = [f"POST {path(CREATE)} HTTP/1.1", "Host: 127.0.0.1", BEARER, length, "", ""]
    async with await scene.connect() as client:
        await client.send("\r\n".join(head).encode())
        answer = await client.answer()
    assert failure(answer) == (413, "message_too_large")
    assert answer.headers.get("cache-control") == "no-store"


@pytest.mark.promise("W56")
@pytest.mark.parametrize("call", [CREATE, LIST, REVOKE])
async def test_with_authentication_off_the_key_calls_are_denied_after_the_method(
    engine: Engine, call: str
) -> None:
    async with served(engine) as scene:
        key = await mint(scene, "manage")
        before = await scene.ok(LIST)
    async with served(engine, MQLITE_TOKENS="off") as scene:
        for body in (b"{}", b"", b"{{", json.dumps(key_request("send")).encode()):
            answer = await scene.ask(path(call), body, fields=())
            assert failure(answer) == DENIED, body
            assert "authentication is off" in message(answer)
        answer = await scene.ask(path(call), method="GET", fields=key.fields)
        assert failure(answer) == (405, "unimplemented")
    async with served(engine) as scene:
        assert await scene.ok(LIST) == before
        assert await asked(scene, key.fields, STATUS) == 200, "it is asked for, and works, again"


# -- when a key stops working ----------------------------------------------------------------------


@pytest.mark.promise("W50", "E155")
async def test_a_key_works_until_the_millisecond_of_its_expiry(
    scene: Scene, clock: ManualClock
) -> None:
    key = await mint(scene, "listen", expires_at_ms=clock.now_ms() + 5_000)
    async with await scene.connect() as client:  # one connection: nothing is remembered on it
        request = raw(path("Stats"), b'{"queue":"none"}', fields=key.fields)
        clock.advance(4_999)
        assert (await client.ask(request)).status == 404
        clock.advance(1)
        assert failure(await client.ask(request)) == UNAUTHENTICATED
    (listed,) = (await scene.ok(LIST))["keys"]
    assert (listed["id"], listed["expires_at_ms"]) == (key.id, clock.now_ms())


@pytest.mark.promise("W51", "E155")
async def test_a_revoked_key_is_refused_from_the_next_request_on(
    scene: Scene, clock: ManualClock
) -> None:
    key = await mint(scene, "listen")
    async with await scene.connect() as client:
        request = raw(path("Stats"), b'{"queue":"none"}', fields=key.fields)
        assert (await client.ask(request)).status == 404
        await revoke(scene, key)
        assert failure(await client.ask(request)) == UNAUTHENTICATED
    first = (await scene.ok(LIST))["keys"]
    clock.advance(1_000)
    await revoke(scene, key)
    assert (await scene.ok(LIST))["keys"] == first
    assert failure(await scene.call(REVOKE, {"id": new_id()})) == (404, "not_found")


@pytest.mark.promise("W52")
async def test_a_long_poll_that_was_let_in_outlives_the_revocation(scene: Scene) -> None:
    await scene.ok("AdminService/CreateQueue", {"name": "q"})
    key = await mint(scene, "listen")
    body = json.dumps({"queue": "q", "wait_time_ms": limits.RECEIVE_WAIT_MS_MAX}).encode()
    async with await scene.connect() as client:
        await client.send(raw(path("Receive"), body, fields=key.fields))
        await until(lambda: scene.engine.statistics()["waiters"].get("q") == 1)
        await revoke(scene, key)
        assert await asked(scene, key.fields) == 401
        await scene.ok("QueueService/Send", {"queue": "q", "messages": [{"body": "eA=="}]})
        answer = await client.answer("POST")
        assert answer.status == 200, answer
        (taken,) = json.loads(answer.body)["messages"]
        settle = {name: taken[name] for name in ("seq_number", "lock_token")}
        last = raw(
            path("Complete"), json.dumps({"queue": "q", **settle}).encode(), fields=key.fields
        )
        assert failure(await client.ask(last)) == UNAUTHENTICATED


@pytest.mark.promise("W53")
async def test_keys_outlive_the_key_that_made_them(scene: Scene) -> None:
    issuer = await mint(scene, "manage")
    heir = await mint(scene, "manage", by=issuer.fields)
    grandchild = await mint(scene, "send", by=heir.fields)
    answer = await scene.call(REVOKE, {"id": issuer.id}, fields=heir.fields)
    assert answer.status == 200, "a key may revoke the one that made it"
    assert await asked(scene, issuer.fields, STATUS) == 401
    assert (await scene.call(STATUS, fields=heir.fields)).status == 200
    assert await asked(scene, grandchild.fields, "Send") == 200


async def test_a_key_may_revoke_itself_and_hears_that_it_did(scene: Scene) -> None:
    key = await mint(scene, "manage")
    assert (await scene.call(REVOKE, {"id": key.id}, fields=key.fields)).status == 200
    assert failure(await scene.call(LIST, fields=key.fields)) == UNAUTHENTICATED


@pytest.mark.promise("W58")
async def test_a_token_of_the_environment_wins_over_a_key_of_the_same_text(
    engine: Engine, clock: ManualClock
) -> None:
    async with served(engine) as scene:
        revoked, live = await mint(scene, "send"), await mint(scene, "send")
        expired = await mint(scene, "send", expires_at_ms=clock.now_ms() + 1)
        watching = await mint(scene, "manage")
        await revoke(scene, revoked)
        clock.advance(1)
        for key in (revoked, expired):
            assert await asked(scene, key.fields) == 401
    keys = (revoked, live, expired)
    environ = {
        "MQLITE_TOKENS": ",".join(key.token for key in keys),
        "MQLITE_MONITOR_TOKENS": watching.token,
    }
    async with served(engine, **environ) as scene:
        for key in keys:
            assert (await scene.call(LIST, fields=key.fields)).status == 200
        answer = await scene.call(LIST, fields=watching.fields)
        assert failure(answer) == DENIED, "a monitor's token gives the monitor's rights only"


async def test_an_embedded_caller_makes_the_first_key_without_a_token(engine: Engine) -> None:
    request = CreateKeyRequest(id=new_id(), name="first", permissions=["manage"])
    made = await engine.call(request)
    async with served(engine) as scene:
        assert (await scene.call(LIST, fields=bearer(made.token))).status == 200


# -- logs and files --------------------------------------------------------------------------------


async def a_life_of_keys(client: Client) -> list[Key]:
    """A key of each fate; the first one works to the end."""

    async def call(name: str, request: object, fields: Fields = (PROCESS_BEARER,)) -> Answer:
        return await client.ask(raw(path(name), json.dumps(request).encode(), fields=fields))

    made: list[Key] = []
    for permissions in (("manage",), ("send",), ("listen",)):
        request = key_request(*permissions, name="name-of-a-key")
        reply = json.loads((await call(CREATE, request)).body)
        made.append(Key(reply["key"]["id"], reply["token"]))
        assert (await call(CREATE, request)).status == 409
    assert (await call(REVOKE, {"id": made[1].id})).status == 200
    for key, status in zip(made, (200, 401, 403), strict=True):
        assert (await call(LIST, {}, key.fields)).status == status
    for text in (f"/{made[0].token}", f"{path(STATUS)}?token={made[0].token}"):
        assert (await client.ask(raw(text, fields=()))).status == 401
    return made


@pytest.mark.promise("W55", "W57", "E155")
@pytest.mark.parametrize("form", ["text", "json"])
async def test_a_key_survives_a_restart_and_its_token_is_in_no_file_and_no_log(
    tmp_path: Path, form: str
) -> None:
    environ = {"MQLITE_LOG_LEVEL": "debug", "MQLITE_LOG_FORMAT": form}
    with started(tmp_path, **environ) as broker:
        async with await broker.connect() as client:
            kept, gone, weak = await a_life_of_keys(client)
        running = content(tmp_path)
        assert {"mq.db", "mq.db-wal", "mq.db-shm"} <= set(running)
        lines = broker.stop()
    for files in (running, content(tmp_path)):
        text = b"".join(each for each in files.values() if each is not None)
        assert kept.digest in text, "what is looked for would be found here"
        for key in (kept, gone, weak):
            assert not [each for each in spellings(key.token) if each in text]
        assert PROCESS_TOKEN.encode() not in text
    said = "\n".join(line for line in lines if f"/{kept.token}" not in line)
    assert CREATE in said
    assert_holds_no_secret(said.encode(), kept, gone, weak)
    with started(tmp_path) as broker, trio.fail_after(PATIENCE):
        async with await broker.connect() as client:
            for key, status in ((kept, 200), (gone, 401), (weak, 403)):
                answer = await client.ask(raw(path(LIST), b"{}", fields=key.fields))
                assert answer.status == status
        broker.stop()
