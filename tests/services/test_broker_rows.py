"""The rows of the contract's pages on transport and decoding (spec/wire.md 1.1, 1.3), each asked of
a whole broker over a raw socket, and each leaving the next request in peace."""

from __future__ import annotations

import email.utils
import gzip
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from mqlite_actor.engine.engine import Engine
from tests.services.broker_scene import BEARER, JSON, Scene, failure, message, path, raw, served
from tests.services.door_client import Answer

STATS: Final = b'{"queue":"q"}'


@pytest.fixture
async def scene(engine: Engine) -> AsyncIterator[Scene]:
    async with served(engine) as scene:
        await scene.ok("AdminService/CreateQueue", {"name": "q"})
        yield scene


OK: Final = 200
BAD: Final = (400, "invalid_argument")
MISSING: Final = (404, "not_found")

BIGGEST: Final = 2**63 - 1

ROWS: Final[list[tuple[str, str, bytes, Any]]] = [
    ("1 white space around", "Stats", b" \r\n\t" + STATS + b"\n \r\t", OK),
    ("2 empty", "Stats", b"", BAD),
    ("2 white space", "Stats", b" \n\t", BAD),
    ("3 truncated", "Stats", b"{", BAD),
    ("3 truncated value", "Stats", b'{"queue":"q"', BAD),
    ("4 list", "Stats", b"[]", BAD),
    ("4 number", "Stats", b"1", BAD),
    ("4 string", "Stats", b'"x"', BAD),
    ("4 true", "Stats", b"true", BAD),
    ("5 null to Stats", "Stats", b"null", MISSING),
    ("5 null to Send", "Send", b"null", OK),
    ("6 unknown field", "Stats", b'{"queue":"q","zzz":1}', BAD),
    ("6 unknown in a message", "Send", b'{"queue":"q","messages":[{"nope":1}]}', BAD),
    ("6 unknown in filter", "AdminService/Subscribe", b'{"filter":{"x":1}}', BAD),
    ("6 unknown in config", "AdminService/CreateQueue", b'{"name":"x","config":{"x":1}}', BAD),
    ("7 field of another call", "AdminService/Purge", b'{"queue":"q","target":"t"}', BAD),
    ("7 field of another item", "CompleteBatch", b'{"messages":[{"delay_ms":1}]}', BAD),
    ("8 second object", "Stats", STATS + STATS, BAD),
    ("8 word behind", "Stats", STATS + b" x", BAD),
    ("10 null fields", "Stats", b'{"queue":null}', MISSING),
    ("10 null config", "AdminService/CreateQueue", b'{"name":"n","config":null}', OK),
    ("10 null messages", "Send", b'{"queue":"q","messages":null}', OK),
    ("10 null items", "Send", b'{"queue":"q","messages":[null,{"properties":{"a":null}}]}', OK),
    ("11 string for int", "Send", b'{"queue":"q","ttl_ms":"1"}', BAD),
    ("11 bool for int", "Send", b'{"queue":"q","ttl_ms":true}', BAD),
    ("11 number for string", "Stats", b'{"queue":5}', BAD),
    ("11 string for bool", "AdminService/CreateQueue",
     b'{"name":"x","config":{"dead_letter_on_expire":"true"}}', BAD),
    ("12 fraction", "Send", b'{"queue":"q","ttl_ms":1.0}', BAD),
    ("12 exponent", "Send", b'{"queue":"q","ttl_ms":1e3}', BAD),
    ("12 half", "Send", b'{"queue":"q","ttl_ms":1.5}', BAD),
    ("13 beyond int64", "Send", b'{"queue":"q","ttl_ms":%d}' % (BIGGEST + 1), BAD),
    ("13 below int64", "Send", b'{"queue":"q","ttl_ms":%d}' % (-BIGGEST - 2), BAD),
    ("13 five thousand digits", "Send", b'{"queue":"q","ttl_ms":%s}' % (b"9" * 5000), BAD),
    ("13 int64 itself", "Send", b'{"queue":"q","messages":[{}],"ttl_ms":%d}' % BIGGEST, OK),
    ("14 minus zero", "Send", b'{"queue":"q","ttl_ms":-0}', OK),
    ("15 last of equal keys", "Stats", b'{"queue":"nope","queue":"q"}', OK),
    ("15 last of equal keys, bad", "Stats", b'{"queue":"q","queue":"nope"}', MISSING),
    ("16 another letter case", "Stats", b'{"QUEUE":"q"}', OK),
    ("16 the same key for row 15", "Stats", b'{"QUEUE":"nope","queue":"q"}', OK),
    ("17 comment", "Stats", b'{"queue":"q"/**/}', BAD),
    ("17 trailing comma", "Stats", b'{"queue":"q",}', BAD),
    ("17 single quotes", "Stats", b"{'queue':'q'}", BAD),
    ("17 NaN", "Send", b'{"queue":"q","ttl_ms":NaN}', BAD),
    ("17 byte order mark", "Stats", b"\xef\xbb\xbf" + STATS, BAD),
    ("18 invalid UTF-8", "Stats", b'{"queue":"\xff"}', MISSING),
    ("18 half a surrogate pair", "Stats", rb'{"queue":"\ud800"}', MISSING),
    ("18 invalid UTF-8 in a message", "Send",
     b'{"queue":"q","messages":[{"subject":"\xff\xfe"}]}', OK),
    ("19 NUL in a name", "Stats", rb'{"queue":"a\u0000b"}', MISSING),
    ("19 NUL in a message", "Send", rb'{"queue":"q","messages":[{"subject":"a\u0000b"}]}', OK),
    ("20 too deep", "Stats", b"[" * 10_001, BAD),
    ("20 too deep in objects", "Stats", b'{"queue":' * 10_001, BAD),
    ("22 never read", "AdminService/ListQueues", b"garbage{{", OK),
    ("22 never read, list", "AdminService/Status", b"[1", OK),
    ("22 never read, empty", "AdminService/ListSubscriptions", b"", OK),
    ("23 Observe", "AdminService/Observe", b"{}", OK),
    ("23 Observe of null", "AdminService/Observe", b"null", OK),
    ("23 Observe of nothing", "AdminService/Observe", b"", BAD),
    ("23 Observe of more", "AdminService/Observe", b'{"x":1}', BAD),
    ("24 keys of nothing", "AuthService/ListKeys", b"", BAD),
    ("24 keys of null", "AuthService/ListKeys", b"null", OK),
    ("24 keys of more", "AuthService/RevokeKey", b'{"id":"0","x":1}', BAD),
    ("24 a key of a list", "AuthService/CreateKey", b"[]", BAD),
]  # fmt: skip


@pytest.mark.promise(
    "W15", "W16", "W17", "W18", "W19", "W20", "W21", "W22", "W23", "W24", "W25", "W28"
)
@pytest.mark.parametrize(("call", "body", "told"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
async def test_each_row_of_decoding_is_answered_and_the_connection_goes_on(
    scene: Scene, call: str, body: bytes, told: object
) -> None:
    async with await scene.connect() as client:
        answer = await client.ask(raw(path(call), body))
        assert (OK if answer.status == OK else failure(answer)) == told
        assert answer.headers["content-type"] == JSON
        assert (await client.ask(raw(path("Stats"), STATS))).status == OK


async def test_what_could_not_be_read_as_text_is_kept_as_its_replacement(scene: Scene) -> None:
    sent = b'{"queue":"q","messages":[{"subject":"a\xffb","group_id":"\\ud800","body":"eA=="}]}'
    assert (await scene.ask(path("Send"), sent)).status == OK
    (kept,) = (await scene.ok("Peek", {"queue": "q"}))["messages"]
    assert (kept["subject"], kept["group_id"]) == ("a\ufffdb", "\ufffd")


# -- transport -------------------------------------------------------------------------------------


def head(*lines: str, first: str = f"POST {path('Stats')} HTTP/1.1") -> bytes:
    return "\r\n".join([first, "Host: a", BEARER, *lines, "", ""]).encode()


LENGTH: Final = f"Content-Length: {len(STATS)}"
CHUNKED: Final = "Transfer-Encoding: chunked"
CHUNKS: Final = b"%x\r\n%s\r\n0\r\n\r\n" % (len(STATS), STATS)

FORMS: Final = {
    "a length": head(LENGTH) + STATS,
    "chunks": head(CHUNKED) + CHUNKS,
    "chunks of one byte with extensions and trailers": head(CHUNKED)
    + b"".join(b"1;x=y\r\n%c\r\n" % byte for byte in STATS)
    + b"0\r\nTrailer: x\r\n\r\n",
    "an invitation": head("Expect: 100-continue", LENGTH) + STATS,
    "HTTP/1.0": head(LENGTH, first=f"POST {path('Stats')} HTTP/1.0") + STATS,
    "an absolute target": head(LENGTH, first=f"POST http://a{path('Stats')} HTTP/1.1") + STATS,
    "a query": head(LENGTH, first=f"POST {path('Stats')}?token=x&queue=y HTTP/1.1") + STATS,
    "an encoded path": head(LENGTH, first="POST /mqlite.v1.QueueService/St%61ts HTTP/1.1") + STATS,
    "fields in any letter case": head("CONTENT-length: 13", "content-TYPE: text/plain") + STATS,
    "no type": head(LENGTH) + STATS,
    "an ignored coding": head("Content-Encoding: br", LENGTH) + STATS,
    "an ignored upgrade": head("Connection: Upgrade", "Upgrade: h2c", LENGTH) + STATS,
}


@pytest.mark.promise("W10", "W11", "W12", "W13")
@pytest.mark.parametrize("asked", FORMS.values(), ids=FORMS.keys())
async def test_each_form_of_a_call_is_served(scene: Scene, asked: bytes) -> None:
    async with await scene.connect() as client:
        await client.send(asked)
        answer = await client.answer("POST")
        assert answer.status == OK, answer
        assert answer.body.endswith(b"}\n")
        assert answer.body.count(b"\n") == 1


async def test_a_compressed_body_is_a_body_that_is_no_json(scene: Scene) -> None:
    fields = (BEARER, "Content-Encoding: gzip")
    answer = await scene.ask(path("Stats"), gzip.compress(STATS), fields=fields)
    assert failure(answer) == BAD


def is_plain(answer: Answer) -> bool:
    """An answer of the HTTP layer, which knows nothing of the contract."""
    return answer.headers["content-type"].startswith("text/plain")


REFUSED: Final = {
    "no Host": (f"POST {path('Stats')} HTTP/1.1\r\n{BEARER}\r\n\r\n".encode(), 400),
    "no request line": (b"\x00\x01\x02\r\n\r\n", 400),
    "an oversized header": (head("X: " + "x" * 1_200_000), 431),
    "an unknown coding": (head("Transfer-Encoding: gzip"), 501),
    "an unknown expectation": (head("Expect: a-cake", LENGTH), 417),
    "HTTP/2": (head(LENGTH, first=f"POST {path('Stats')} HTTP/2.0"), 505),
    "both framings": (head(LENGTH, CHUNKED) + CHUNKS, 400),
}


@pytest.mark.parametrize(("asked", "status"), REFUSED.values(), ids=REFUSED.keys())
async def test_what_http_refuses_never_reaches_the_contract(
    scene: Scene, asked: bytes, status: int
) -> None:
    async with await scene.connect() as client:
        await client.send(asked)
        answer = await client.answer("POST")
        assert (answer.status, is_plain(answer)) == (status, True)
        assert await client.ended() == b""
    counted = (await scene.ok("AdminService/Observe"))["http"]["requests"]
    assert not [row for row in counted if row["rpc"].endswith("/Stats") and row["count"]]


@pytest.mark.parametrize("broken", [b"zz\r\n", b"-1\r\n", b"5\r\nhi\r\n0\r\n\r\n", b"\r\n"])
async def test_a_broken_chunk_is_json_and_ends_the_connection(scene: Scene, broken: bytes) -> None:
    async with await scene.connect() as client:
        await client.send(head(CHUNKED) + broken + b"x" * 100)
        answer = await client.answer("POST")
        assert failure(answer) == BAD
        assert answer.headers["connection"] == "close"
        assert await client.ended() == b""


async def test_every_answer_has_a_date_and_a_length_and_no_other_fields(scene: Scene) -> None:
    asked = [
        raw(path("Stats"), STATS),
        raw(path("Stats"), b"x"),
        raw(path("Nope"), b"{}"),
        raw(path("Stats"), STATS, fields=()),
        raw("/healthz", method="GET"),
        raw("/", method="GET"),
    ]
    async with await scene.connect() as client:
        for each in asked:
            answer = await client.ask(each)
            assert email.utils.parsedate_to_datetime(answer.headers["date"]).year > 2000
            assert answer.headers["content-length"] == str(len(answer.body))
            known = {"date", "content-length", "content-type", "access-control-allow-origin"}
            assert set(answer.headers) == known


async def test_a_413_names_itself_and_ends_the_connection(scene: Scene) -> None:
    async with await scene.connect() as client:
        await client.send(head(f"Content-Length: {32 * 1024 * 1024 + 1}"))
        answer = await client.answer("POST")
        assert failure(answer) == (413, "message_too_large")
        assert answer.headers["connection"] == "close"
        assert message(answer) == "the request is over 32 MiB; send less in a call"
