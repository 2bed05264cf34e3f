"""Requests as bytes in, replies as bytes out: decoding through HTTP, and the exact form of JSON.

The details of decoding are shown in tests/contract; here a few samples of each kind show that the
broker decodes with them.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits
from mqlite_actor.engine.engine import Engine
from tests.services.broker_scene import BEARER, JSON, Scene, failure, message, path, raw, served

REFUSED = (400, "invalid_argument")


@pytest.fixture
async def scene(engine: Engine) -> AsyncIterator[Scene]:
    async with served(engine) as scene:
        await scene.ok("AdminService/CreateQueue", {"name": "q"})
        yield scene


# -- requests --------------------------------------------------------------------------------------


@pytest.mark.promise("W15", "W16", "W17", "W18", "W20")
@pytest.mark.parametrize(
    ("call", "body", "word"),
    [
        ("Stats", b"", "EOF"),
        ("Stats", b" \n", "EOF"),
        ("Stats", b"{", "unexpected EOF"),
        ("Stats", b"[]", ""),
        ("Stats", b"1", ""),
        ("Stats", b'"x"', ""),
        ("Stats", b'{"queue":5}', "queue"),
        ("Stats", b'{"queue":"q","zzz":1}', "zzz"),
        ("Send", b'{"queue":"q","messsages":[]}', "messages"),
        ("Send", b'{"queue":"q","messages":[{"nope":1}]}', "nope"),
        ("AdminService/CreateQueue", b'{"name":"x","config":{"nope":1}}', "nope"),
        ("Stats", b'{"queue":"q"}{"queue":"q"}', ""),
        ("Stats", b'{"queue":"q"} x', ""),
        ("Send", b'{"queue":"q","ttl_ms":1.0}', "ttl_ms"),
        ("Send", b'{"queue":"q","messages":[{"body":"YQ"}]}', "body"),
        ("Stats", b"\xef\xbb\xbf{}", ""),
        ("Stats", b"\x1f\x8b\x08\x00", ""),
        ("Stats", b"[" * 100_000, "deep"),
    ],
)
async def test_a_body_that_is_no_request_is_400_and_says_where(
    scene: Scene, call: str, body: bytes, word: str
) -> None:
    answer = await scene.ask(path(call), body)
    assert failure(answer) == REFUSED
    assert word in message(answer)


@pytest.mark.promise("W20", "W25")
@pytest.mark.parametrize(
    "body",
    [
        b'{"queue":"q"}',
        b' \r\n{"queue":"q"}\n\t ',
        b'{"QUEUE":"q"}',
        b'{"queue":null,"queue":"q"}',
        b'{"queue":"nope","queue":"q"}',
    ],
)
async def test_what_the_contract_grants_is_read(scene: Scene, body: bytes) -> None:
    answer = await scene.ask(path("Stats"), body)
    assert (answer.status, json.loads(answer.body)["queue"]) == (200, "q")


@pytest.mark.promise("W21", "W24")
async def test_null_is_an_empty_request_and_a_repeated_key_counts_last(scene: Scene) -> None:
    assert failure(await scene.ask(path("Stats"), b"null")) == (404, "not_found")
    assert (await scene.ask(path("Send"), b"null")).body == b'{"seq_numbers":null}\n'
    twice = b'{"queue":"q","queue":"nope"}'
    assert failure(await scene.ask(path("Stats"), twice)) == (404, "not_found")


@pytest.mark.promise("W28")
@pytest.mark.parametrize("body", [b"", b"garbage{{", b"[1", b"\xff"])
@pytest.mark.parametrize("call", ["ListQueues", "ListSubscriptions", "Status"])
async def test_a_call_without_a_request_never_reads_its_body(
    scene: Scene, call: str, body: bytes
) -> None:
    assert (await scene.ask(path(f"AdminService/{call}"), body)).status == 200


@pytest.mark.promise("W71")
async def test_status_tells_what_is_there_and_no_secret(scene: Scene) -> None:
    await scene.ok("AdminService/Subscribe", {"topic": "t", "name": "s"})
    answer = await scene.ask(path("AdminService/Status"), b"{}")
    found = json.loads(answer.body)
    assert list(found) == [
        "version", "backend", "remote", "location", "schema_version", "ping_ms", "db_size_bytes",
        "queues", "subscriptions", "uptime_ms", "auth",
    ]  # fmt: skip
    assert (found["backend"], found["remote"]) == ("local file", False)
    assert (found["queues"], found["subscriptions"]) == (1, 1)
    assert "scene-token" not in answer.body.decode()


@pytest.mark.promise("W10")
@pytest.mark.parametrize(
    "fields",
    [
        (),
        ("Content-Type: application/json",),
        ("Content-Type: text/plain",),
        ("Content-Type: application/json; charset=latin-1",),
        ("Content-Type: application/x-www-form-urlencoded",),
        ("Content-Type: multipart/form-data; boundary=x",),
        ("Content-Encoding: gzip", "Accept: text/html", "Accept-Encoding: gzip"),
    ],
)
async def test_the_content_type_of_a_request_means_nothing(
    scene: Scene, fields: tuple[str, ...]
) -> None:
    plain = await scene.ask(path("Stats"), b'{"queue":"q"}')
    answer = await scene.ask(path("Stats"), b'{"queue":"q"}', fields=(BEARER, *fields))
    assert (answer.status, answer.body) == (200, plain.body)


@pytest.mark.promise("W11")
async def test_a_body_in_chunks_is_read(scene: Scene) -> None:
    pieces = (b'{"que', b'ue":', b'"q"}')
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    lines = (f"POST {path('Stats')} HTTP/1.1", "Host: a", BEARER, "Transfer-Encoding: chunked")
    async with await scene.connect() as client:
        answer = await client.ask("\r\n".join((*lines, "", "")).encode() + chunks)
    assert (answer.status, json.loads(answer.body)["queue"]) == (200, "q")


@pytest.mark.promise("W27")
async def test_a_request_of_one_byte_too_many_is_413_and_others_are_served(scene: Scene) -> None:
    largest = b'{"queue":"q"}'.ljust(limits.REQUEST_BYTES_MAX)
    assert (await scene.ask(path("Stats"), largest)).status == 200
    answer = await scene.ask(path("Stats"), largest + b" ")
    assert failure(answer) == (413, "message_too_large")
    assert (await scene.call("Stats", {"queue": "q"})).status == 200


# -- replies ---------------------------------------------------------------------------------------


@pytest.mark.promise("W13")
async def test_every_reply_is_one_compact_line_of_json(scene: Scene, clock: ManualClock) -> None:
    """Keys in the contract's order, zero values left out where it says so, properties sorted."""
    now = clock.now_ms()
    sent = {
        "properties": {"z": "1", "ä": "2", "a": ""},
        "body": "AP8=",
        "subject": "s<&>",
        "content_type": "text/plain",
        "group_id": "g",
        "reply_to": "r",
        "correlation_id": "c",
        "message_id": "m",
    }
    texts = (
        '"message_id":"m","correlation_id":"c","reply_to":"r","group_id":"g",'
        '"content_type":"text/plain","subject":"s<&>",'
        '"properties":{"a":"","z":"1","ä":"2"},"body":"AP8="'
    )
    times = f'"seq_number":1,"enqueued_at_ms":{now}'
    expected = {
        ("AdminService/CreateQueue", '{"name":"other"}'): "{}",
        ("Send", json.dumps({"queue": "q", "messages": [sent]})): '{"seq_numbers":[1]}',
        (
            "Peek",
            '{"queue":"q"}',
        ): f'{{"messages":[{{{times},"visible_at_ms":{now},"state":"active",{texts}}}]}}',
        ("Receive", '{"queue":"q"}'): (
            f'{{"messages":[{{{times},"locked_until_ms":{now + 30_000},"delivery_count":1,'
            f'"lock_token":"TOKEN",{texts}}}]}}'
        ),
        ("Receive", '{"queue":"other"}'): '{"messages":[]}',
        ("RenewBatch", '{"queue":"q","messages":[{"seq_number":1,"lock_token":"TOKEN"}]}'): (
            f'{{"results":[{{"seq_number":1,"ok":true,"locked_until_ms":{now + 30_000}}}]}}'
        ),
        ("Stats", '{"queue":"q"}'): (
            '{"queue":"q","active":0,"locked":1,"deferred":0,"scheduled":0,"dead_lettered":0,'
            '"total":1,"oldest_message_age_ms":0}'
        ),
        ("Complete", '{"queue":"q","seq_number":1,"lock_token":"TOKEN"}'): '{"ok":true}',
        ("CompleteBatch", '{"queue":"q","messages":[{"seq_number":9}]}'): (
            '{"results":[{"seq_number":9,"ok":false}]}'
        ),
        ("CompleteBatch", '{"queue":"q"}'): '{"results":[]}',
        ("Stats", '{"queue":"ä"}'): None,
    }
    token = ""
    for (call, request), reply in expected.items():
        answer = await scene.ask(path(call), request.replace("TOKEN", token).encode())
        text = answer.body.decode()
        found = re.search('"lock_token":"([0-9a-f]{32})"', text)
        token = found[1] if found else token
        if reply is None:
            assert failure(answer)[0] == 404
            continue
        assert (answer.status, text) == (200, reply.replace("TOKEN", token) + "\n"), call
        assert answer.headers["content-type"] == JSON
        assert set(answer.headers) == {
            "content-type", "content-length", "date", "access-control-allow-origin",
        }  # fmt: skip


async def test_the_status_has_eleven_keys_and_no_credential(scene: Scene) -> None:
    answer = await scene.call("AdminService/Status")
    status = json.loads(answer.body)
    assert list(status) == [
        "version", "backend", "remote", "location", "schema_version", "ping_ms", "db_size_bytes",
        "queues", "subscriptions", "uptime_ms", "auth",
    ]  # fmt: skip
    assert (status["remote"], status["schema_version"], status["queues"]) == (False, "5", 1)
    assert BEARER.split()[-1].encode() not in answer.body


async def test_the_list_of_queues_has_the_contracts_keys_in_order(scene: Scene) -> None:
    (row,) = (await scene.ok("AdminService/ListQueues"))["queues"]
    assert list(row) == [
        "name", "kind", "lock_duration_ms", "max_delivery_count", "default_ttl_ms",
        "dedup_window_ms", "generation",
    ]  # fmt: skip
    assert list(row.values())[:-1] == ["q", "queue", 30_000, 10, 0, 0]


async def test_pipelined_calls_are_answered_in_order(scene: Scene) -> None:
    send = b'{"queue":"q","messages":[{"body":"YQ=="}]}'
    async with await scene.connect() as client:
        await client.send(raw(path("Send"), send) * 3 + raw(path("Stats"), b'{"queue":"q"}'))
        replies = [json.loads((await client.answer("POST")).body) for _ in range(4)]
    assert [reply.get("seq_numbers") for reply in replies] == [[1], [2], [3], None]
    assert replies[3]["total"] == 3
