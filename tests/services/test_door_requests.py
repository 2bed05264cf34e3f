"""What the door makes of a request's head, and of the fields of an answer."""

from __future__ import annotations

import email.utils
from collections.abc import AsyncGenerator

import pytest
from quart import request as current
from quart.typing import ResponseReturnValue

from mqlite_broker.door import DoorApp, DoorLimits, DoorResponse
from tests.services.door_client import open_door, request


@pytest.fixture
def app() -> DoorApp:
    """Tells what reached it."""
    app = DoorApp("door_test")

    async def tell(**_: str) -> ResponseReturnValue:
        body = str(await current.get_data(as_text=True))
        words = [current.method, current.path, current.query_string.decode(), current.host, body]
        return DoorResponse(" ".join(words), content_type="text/plain")

    async def nothing() -> ResponseReturnValue:
        return DoorResponse(b"", status=204)

    async def stream() -> ResponseReturnValue:
        async def pieces() -> AsyncGenerator[bytes, None]:
            yield b"one "
            yield b"two"

        return DoorResponse(pieces())

    methods = ["GET", "POST", "OPTIONS"]
    app.add_url_rule("/", view_func=tell, methods=methods)
    app.add_url_rule("/nothing", view_func=nothing)
    app.add_url_rule("/stream", view_func=stream)
    app.add_url_rule("/<path:path>", view_func=tell, methods=methods)
    return app


REFUSED = {
    "an HTTP/2.0 request line": (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    "the HTTP/2 preface": (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
        505,
    ),
    "an HTTP/0.9 version": (b"GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505),
    "two framings": (
        request("/", method="POST", fields="Content-Length: 4\r\nTransfer-Encoding: chunked\r\n")
        + b"0\r\n\r\n",
        400,
    ),
    "chunks from HTTP/1.0": (
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "an unknown coding": (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    "two codings": (
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        501,
    ),
    "an unknown expectation": (b"POST / HTTP/1.1\r\nHost: a\r\nExpect: a-cake\r\n\r\n", 417),
    "no Host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two Hosts": (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    "two lengths": (
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        400,
    ),
    "a signed length": (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc", 400),
    "a 40-digit length": (
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %s\r\n\r\n" % (b"9" * 40),
        400,
    ),
    "no request line at all": (b"this is not HTTP\r\n\r\n", 400),
    "a TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), 400),
    "a bare query as target": (b"GET ?x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "a target without slash": (b"GET nowhere HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "an asterisk to GET": (b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "a foreign scheme": (b"GET ftp://a/b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "a tunnel": (b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 501),
    "1.2 MiB of header": (b"GET / HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n" % (b"x" * 1_200_000), 431),
    "5,000 header fields": (b"GET / HTTP/1.1\r\nHost: a\r\n%s\r\n" % (b"a:\r\n" * 5000), 431),
    "fields without end": (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"a:\r\n" * 5000, 431),
    "100,000 header fields": (b"GET / HTTP/1.1\r\nHost: a\r\n%s\r\n" % (b"a:\r\n" * 100_000), 431),
}


@pytest.mark.parametrize(("asked", "status"), REFUSED.values(), ids=REFUSED.keys())
async def test_what_is_not_plain_http_1_is_refused_in_plain_text_and_closed(
    app: DoorApp, asked: bytes, status: int
) -> None:
    async with open_door(app) as door, await door.connect() as client:
        answer = await client.ask(asked)
        assert answer.status == status
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.headers["connection"] == "close"
        assert answer.body.startswith(str(status).encode())
        assert answer.body.endswith(b"\n")
        assert await client.ended() == b""


async def test_a_refused_head_request_is_answered_without_a_body(app: DoorApp) -> None:
    async with open_door(app) as door, await door.connect() as client:
        await client.send(b"HEAD * HTTP/1.1\r\nHost: a\r\n\r\n")
        answer = await client.answer("HEAD")
        assert (answer.status, await client.ended()) == (400, b"")


@pytest.mark.parametrize(
    "fields",
    [
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
    ],
    ids=["h2c", "websocket"],
)
async def test_an_upgrade_is_ignored_and_the_connection_goes_on(app: DoorApp, fields: str) -> None:
    async with open_door(app) as door, await door.connect() as client:
        for _ in range(2):
            answer = await client.ask(request("/page", fields=fields))
            assert (answer.status, answer.interim) == (200, [])
            assert answer.body == b"GET /page  door "


TARGETS = {
    "origin form": (b"GET /a/b?c=d HTTP/1.1\r\nHost: door\r\n\r\n", b"GET /a/b c=d door "),
    "percent-encoded": (b"GET /St%61ts HTTP/1.1\r\nHost: door\r\n\r\n", b"GET /Stats  door "),
    "absolute form": (
        b"GET http://other:81/a?c=d HTTP/1.1\r\nHost: door\r\n\r\n",
        b"GET /a c=d other:81 ",
    ),
    "absolute form, any case": (b"GET HTTPS://o/%3Fa HTTP/1.1\r\nHost: d\r\n\r\n", b"GET /?a  o "),
    "absolute form without path": (b"GET http://o HTTP/1.1\r\nHost: d\r\n\r\n", b"GET /  o "),
    "absolute form with a query only": (
        b"GET http://o?c HTTP/1.1\r\nHost: d\r\n\r\n",
        b"GET / c o ",
    ),
    "HTTP/1.0 without Host": (b"GET /a HTTP/1.0\r\n\r\n", b"GET /a   "),
    "HTTP/1.0 with a body": (
        b"POST /a HTTP/1.0\r\nHost: d\r\nContent-Length: 2\r\n\r\nhi",
        b"POST /a  d hi",
    ),
    "a chunked body": (
        request("/a", method="POST", fields="Transfer-Encoding: Chunked\r\n")
        + b"1;ext=1\r\nh\r\n1\r\ni\r\n0\r\nTrailer: x\r\n\r\n",
        b"POST /a  door hi",
    ),
}


@pytest.mark.parametrize(("asked", "told"), TARGETS.values(), ids=TARGETS.keys())
async def test_every_form_of_request_reaches_the_application(
    app: DoorApp, asked: bytes, told: bytes
) -> None:
    async with open_door(app) as door, await door.connect() as client:
        answer = await client.ask(asked)
        assert answer.status == 200
        assert answer.body.startswith(told)


async def test_options_of_the_whole_server_reaches_the_application(app: DoorApp) -> None:
    @app.before_request
    async def preflight() -> ResponseReturnValue | None:
        return DoorResponse(b"", status=204) if current.method == "OPTIONS" else None

    async with open_door(app) as door, await door.connect() as client:
        answer = await client.ask(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")
        assert answer.status == 204
        assert "content-length" not in answer.headers
        assert (await client.ask(request())).status == 200


async def test_answers_carry_date_and_length_and_name_no_server(app: DoorApp) -> None:
    async with open_door(app) as door, await door.connect() as client:
        for asked in (request("/page"), request("/page", method="HEAD"), b"nonsense\r\n\r\n"):
            answer = await client.ask(asked)
            assert email.utils.parsedate_to_datetime(answer.headers["date"]).tzinfo is not None
            assert int(answer.headers["content-length"]) > 0
            assert "server" not in answer.headers
            assert answer.line in ("HTTP/1.1 200 OK", "HTTP/1.1 400 Bad Request")


async def test_an_answer_of_unknown_length_is_chunked_or_ends_the_connection(app: DoorApp) -> None:
    async with open_door(app) as door, await door.connect() as client:
        answer = await client.ask(request("/stream"))
        assert (answer.body, answer.headers["transfer-encoding"]) == (b"one two", "chunked")
        answer = await client.ask(b"GET /stream HTTP/1.0\r\n\r\n")
        assert answer.body == b"one two"
        assert "transfer-encoding" not in answer.headers


async def test_pipelined_requests_are_answered_in_order(app: DoorApp) -> None:
    bodies = [bytes([65 + n]) * n * 1000 for n in range(20)]
    asked = b"".join(request(f"/{n}", method="POST", body=b) for n, b in enumerate(bodies))
    limits = DoorLimits(pipeline_bytes_max=len(asked))
    async with open_door(app, limits) as door, await door.connect() as client:
        await client.send(asked)
        for n, body in enumerate(bodies):
            assert (await client.answer()).body == f"POST /{n}  door ".encode() + body


async def test_bytes_behind_the_last_request_do_not_change_its_answer(app: DoorApp) -> None:
    """Whatever the parser thinks of them, and whenever it sees them."""
    last = request("/page", method="POST", body=b"x", fields="Connection: close\r\n")
    for behind in (b"x", request("/page"), b"\0" * 100):
        async with open_door(app) as door, await door.connect() as client:
            await client.send(last + behind)
            assert (await client.answer("POST")).status == 200
            assert await client.ended() == b""
