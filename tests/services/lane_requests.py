"""Random requests of every degree of plainness, each with what a lane has to do with it.

Used by test_lane_fuzz. A request is plain if it follows the lane's grammar; the generator says so
from how it made it, not by asking the lane. Calls are ones whose answers hold nothing random, so
that two brokers that were asked the same answer the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from mqlite_actor.contract.calls import PREFIX
from tests.services.broker_scene import TOKEN


@dataclass(frozen=True)
class Made:
    """One request. `is_call`: its path is one of the calls' prefix."""

    data: bytes
    is_plain: bool
    is_call: bool


@dataclass
class Draft:
    """A request while it is being made; oddities change it."""

    line: bytes
    fields: list[bytes]
    body: bytes
    is_call: bool = True
    ends: bytes = b"\r\n"

    def block(self) -> bytes:
        return self.ends.join([self.line, *self.fields, b"", b""]) + self.body

    def replace(self, name: bytes, *fields: bytes) -> None:
        """Put other fields in the place of the one that begins with `name`."""
        at = [n for n, field in enumerate(self.fields) if field.lower().startswith(name + b":")]
        self.fields[at[0] : at[0] + 1] = fields


BODIES: Final[tuple[object, ...]] = (
    {"queue": "q"},
    {"queue": "none"},
    {},
    {"queue": "q", "extra": 1},
    {"queue": 7},
    {"QUEUE": "q"},
    {"queue": "q", "messages": [{"body": "eA=="}]},
    {"queue": "q", "messages": [{"body": "eA"}]},
    {"queue": "q", "messages": [{"body": "eA==", "message_id": "é\n"}] * 3},
    {"queue": "q", "messages": []},
    {"name": "q2", "max_delivery_count": 3},
    {"queue": "empty", "max_messages": 5},
    {"queue": "q", "seq_number": 1, "lock_token": "0" * 32},
)

CALLS: Final = (
    "QueueService/Send", "QueueService/Stats", "QueueService/Peek", "QueueService/Complete",
    "AdminService/ListQueues", "AdminService/CreateQueue", "AuthService/RevokeKey", "Nope/Nope",
    "QueueService/", "QueueService//Stats", "QueueService/./Stats", "",
)  # fmt: skip

CREDENTIALS: Final = (
    (b"Authorization: Bearer " + TOKEN.encode(),),
    (b"authorization:bearer   " + TOKEN.encode() + b"  ",),
    (b"AUTHORIZATION:\tBearer " + TOKEN.encode(),),
    (),
    (b"Authorization: Bearer wrong",),
    (b"Authorization: Bearer caf\xc3\xa9 \xff",),
    (b"Authorization:",),
    (b"Authorization: Bearer " + TOKEN.encode(), b"Authorization: Bearer " + TOKEN.encode()),
)

HARMLESS: Final = (
    b"User-Agent: fuzz/1.0 (x; y)", b"Accept: */*", b"X-Empty:", b"X-Tab: a\tb",
    b"Content-Type: text/plain", b"Content-Encoding: gzip", b"Cookie: a=b; c=d",
    b"!#$%&'*+.^_`|~: x", b"X-Bytes: \xe9\xff", b"Connection: keep-alive",
    b"Connection:", b"Connection: Keep-Alive", b"Content-Length-X: 5",
)  # fmt: skip


def plain(random: Random) -> Draft:
    """A request that the lane takes."""
    weights = [12, *([1] * (len(CREDENTIALS) - 1))]
    credential = random.choices(CREDENTIALS, weights)[0]
    body = json.dumps(random.choice(BODIES)).encode()
    if random.random() < 0.1:
        body = random.choice([b"", b"{", b"null", b"[" * 200, random.randbytes(20), b" {} "])
    fields = [
        b"Host: 127.0.0.1",
        *credential,
        b"Content-Length: %d" % len(body),
        *{each.split(b":")[0].lower(): each for each in random.choices(HARMLESS, k=2)}.values(),
    ]
    random.shuffle(fields)
    line = f"POST {PREFIX}{random.choice(CALLS)} HTTP/1.1".encode()
    return Draft(line, fields, body)


# -- oddities: each makes a plain request one for the door, or one that nobody takes ---------------


def _target(old: bytes, new: bytes) -> Callable[[Draft, Random], None]:
    def change(draft: Draft, _: Random) -> None:
        draft.line = draft.line.replace(old, new, 1)

    return change


def _field(*fields: bytes) -> Callable[[Draft, Random], None]:
    def change(draft: Draft, random: Random) -> None:
        for field in fields:
            draft.fields.insert(random.randrange(len(draft.fields) + 1), field)

    return change


def _length(*fields: bytes) -> Callable[[Draft, Random], None]:
    def change(draft: Draft, _: Random) -> None:
        here = [field.replace(b"N", b"%d" % len(draft.body)) for field in fields]
        draft.replace(b"content-length", *here)

    return change


def _host(*fields: bytes) -> Callable[[Draft, Random], None]:
    return lambda draft, _: draft.replace(b"host", *fields)


def _chunked(draft: Draft, random: Random) -> None:
    draft.replace(b"content-length", b"Transfer-Encoding: chunked")
    pieces = []
    rest = draft.body
    while rest:
        size = random.randint(1, len(rest))
        pieces.append(b"%x\r\n%b\r\n" % (size, rest[:size]))
        rest = rest[size:]
    draft.body = b"".join([*pieces, b"0\r\n\r\n"])


def _bad_chunk(draft: Draft, _: Random) -> None:
    draft.replace(b"content-length", b"Transfer-Encoding: chunked")
    draft.body = b"zz\r\n" + draft.body


def _get(draft: Draft, _: Random) -> None:
    draft.line = draft.line.replace(b"POST", b"GET", 1)


def _page(draft: Draft, random: Random) -> None:
    target = random.choice([b"/", b"/healthz", b"/nope", b"/mqlite.v2.X/Y", b"//", b"/mqlite"])
    draft.line = b"GET %b HTTP/1.1" % target
    draft.replace(b"content-length")
    draft.body = b""
    draft.is_call = False


def _no_length(draft: Draft, _: Random) -> None:
    draft.replace(b"content-length")
    draft.body = b""


def _line_feeds(draft: Draft, _: Random) -> None:
    draft.ends = b"\n"


ODDITIES: Final[dict[str, Callable[[Draft, Random], None]]] = {
    "a query": _target(b" HTTP", b"?token=x HTTP"),
    "an encoded letter": _target(b"mqlite.v1.", b"mqlite.v1.%2e"),
    "an absolute target": _target(b"POST /", b"POST http://127.0.0.1/"),
    "version 1.0": _target(b"HTTP/1.1", b"HTTP/1.0"),
    "version 1.2": _target(b"HTTP/1.1", b"HTTP/1.2"),
    "version 2.0": _target(b"HTTP/1.1", b"HTTP/2.0"),
    "a method in small letters": _target(b"POST", b"post"),
    "two blanks": _target(b"POST ", b"POST  "),
    "a tab in the line": _target(b" HTTP", b"\tHTTP"),
    "GET": _get,
    "a page": _page,
    "PUT": _target(b"POST", b"PUT"),
    "OPTIONS": _target(b"POST", b"OPTIONS"),
    "an upgrade": _field(b"Connection: Upgrade", b"Upgrade: h2c"),
    "a list of connection options": _field(b"Connection: keep-alive, te"),
    "an expectation": _field(b"Expect: 100-continue"),
    "an unknown expectation": _field(b"Expect: cake"),
    "both framings": _field(b"Transfer-Encoding: chunked"),
    "an unknown coding": _field(b"Transfer-Encoding: gzip"),
    "chunks": _chunked,
    "a bad chunk": _bad_chunk,
    "no length": _no_length,
    "a signed length": _length(b"Content-Length: +N"),
    "a hexadecimal length": _length(b"Content-Length: 0xN"),
    "two equal lengths": _length(b"Content-Length: N", b"Content-Length: N"),
    "a list of lengths": _length(b"Content-Length: N, N"),
    "two lengths": _length(b"Content-Length: N", b"Content-Length: 1N"),
    "a length of 40 digits": _length(b"Content-Length: " + b"9" * 40),
    "no Host": _host(),
    "two Hosts": _host(b"Host: a", b"Host: b"),
    "an empty Host": _host(b"Host:"),
    "a folded line": _field(b"X-Folded: a\r\n b"),
    "a blank before the colon": _field(b"X-Blank : a"),
    "no colon": _field(b"X-No-Colon"),
    "an empty name": _field(b": a"),
    "a NUL": _field(b"X-Nul: a\x00b"),
    "a bare CR": _field(b"X-Cr: a\rb"),
    "a control character": _field(b"X-Control: a\x01b"),
    "a long field": _field(b"X-Long: " + b"x" * 9000),
    "bare line feeds": _line_feeds,
    "one bare line feed": _field(b"X-Lf: a\nX-Lf2: b"),
}


def request(random: Random) -> Made:
    """A request, plain two times out of three."""
    draft = plain(random)
    if random.random() < 2 / 3:
        return Made(draft.block(), is_plain=True, is_call=True)
    return odd(random, random.choice(list(ODDITIES)), draft)


def odd(random: Random, oddity: str, draft: Draft | None = None) -> Made:
    """A request that is no longer plain."""
    draft = draft or plain(random)
    ODDITIES[oddity](draft, random)
    return Made(draft.block(), is_plain=False, is_call=draft.is_call)
