"""Which header blocks are the lane's: the grammar, line by line."""

from __future__ import annotations

import pytest

from mqlite_actor.contract.limits import REQUEST_BYTES_MAX
from mqlite_broker.lane_head import (
    HEAD_BYTES_MAX,
    PLAN_BYTES_MAX,
    PLANS_MAX,
    Plan,
    Plans,
    may_become_ours,
    plan,
)
from mqlite_broker.rpc import Question

LINE = b"POST /mqlite.v1.QueueService/Send HTTP/1.1\r\n"
HOST = b"Host: a\r\n"
LENGTH = b"Content-Length: 5\r\n"


def head(*lines: bytes, first: bytes = LINE) -> bytes:
    return first + b"".join(lines) + b"\r\n"


def test_a_plain_call_is_taken_with_what_it_asks() -> None:
    found = plan(
        head(
            b"HOST:a:80 \r\n",
            b"authorization: Bearer x\r\n",
            b"Authorization:\tBearer  \xe9 \t\r\n",
            b"origin: http://b\r\n",
            b"content-LENGTH: 0012\r\n",
        )
    )
    question = Question(
        method="POST",
        path="/mqlite.v1.QueueService/Send",
        credentials=("Bearer x", "Bearer  \xe9"),
        host="a:80",
        origin="http://b",
    )
    assert found == Plan(question, 12, is_last=False)


@pytest.mark.parametrize(
    ("field", "is_last"),
    [(b"close", True), (b"CLOSE", True), (b"Keep-Alive", False), (b"", False)],
)
def test_the_client_says_whether_it_wants_another(field: bytes, *, is_last: bool) -> None:
    found = plan(head(HOST, LENGTH, b"Connection: %b\r\n" % field))
    assert found is not None
    assert found.is_last == is_last


@pytest.mark.parametrize(
    "path", [b"/mqlite.v1.", b"/mqlite.ext.v1.A/B", b"/mqlite.v1.a//b/../-_.", b"/mqlite.v1.x/"]
)
def test_every_path_of_a_call_is_taken_known_or_not(path: bytes) -> None:
    found = plan(head(HOST, LENGTH, first=b"POST %b HTTP/1.1\r\n" % path))
    assert found is not None
    assert found.question.path == path.decode()


def test_the_largest_legal_body_is_taken_and_one_byte_more_is_not() -> None:
    fits = plan(head(HOST, b"Content-Length: %d\r\n" % REQUEST_BYTES_MAX))
    assert fits is not None
    assert fits.length == REQUEST_BYTES_MAX
    assert plan(head(HOST, b"Content-Length: %d\r\n" % (REQUEST_BYTES_MAX + 1))) is None


def test_a_block_within_the_bound_is_taken_and_one_byte_more_is_not() -> None:
    rest = HEAD_BYTES_MAX - len(head(HOST, LENGTH, b"X: \r\n"))
    assert plan(head(HOST, LENGTH, b"X: %b\r\n" % (b"x" * rest))) is not None
    assert plan(head(HOST, LENGTH, b"X: %b\r\n" % (b"x" * (rest + 1)))) is None


FOR_THE_DOOR = {
    "no length": head(HOST),
    "two lengths": head(HOST, LENGTH, LENGTH),
    "a list of lengths": head(HOST, b"Content-Length: 5, 5\r\n"),
    "a signed length": head(HOST, b"Content-Length: +5\r\n"),
    "a length in other digits": head(HOST, "Content-Length: ٥\r\n".encode()),
    "an empty length": head(HOST, b"Content-Length:\r\n"),
    "no Host": head(LENGTH),
    "an empty Host": head(b"Host:\r\n", LENGTH),
    "two Hosts": head(HOST, HOST, LENGTH),
    "two Origins": head(HOST, LENGTH, b"Origin: a\r\n", b"Origin: a\r\n"),
    "two Connections": head(HOST, LENGTH, b"Connection: close\r\n", b"Connection: close\r\n"),
    "a list of options": head(HOST, LENGTH, b"Connection: close, te\r\n"),
    "an unknown option": head(HOST, LENGTH, b"Connection: upgrade\r\n"),
    "a coding": head(HOST, LENGTH, b"Transfer-Encoding: chunked\r\n"),
    "an expectation": head(HOST, LENGTH, b"Expect: 100-continue\r\n"),
    "an upgrade": head(HOST, LENGTH, b"Upgrade: h2c\r\n"),
    "a folded line": head(HOST, LENGTH, b"X: a\r\n b\r\n"),
    "a bare line feed": head(HOST, LENGTH, b"X: a\nY: b\r\n"),
    "a bare CR": head(HOST, LENGTH, b"X: a\rb\r\n"),
    "a NUL": head(HOST, LENGTH, b"X: a\0b\r\n"),
    "a DEL": head(HOST, LENGTH, b"X: a\x7fb\r\n"),
    "a blank before the colon": head(HOST, LENGTH, b"X : a\r\n"),
    "a blank in the name": head(HOST, LENGTH, b"X Y: a\r\n"),
    "no colon": head(HOST, LENGTH, b"X\r\n"),
    "no name": head(HOST, LENGTH, b": a\r\n"),
    "a letter beyond ASCII in the name": head(HOST, LENGTH, b"X\xe9: a\r\n"),
    "GET": head(HOST, LENGTH, first=LINE.replace(b"POST", b"GET")),
    "small letters": head(HOST, LENGTH, first=LINE.replace(b"POST", b"post")),
    "version 1.0": head(HOST, LENGTH, first=LINE.replace(b"1.1", b"1.0")),
    "a query": head(HOST, LENGTH, first=LINE.replace(b" HTTP", b"? HTTP")),
    "an encoded letter": head(HOST, LENGTH, first=LINE.replace(b"Send", b"S%65nd")),
    "a fragment": head(HOST, LENGTH, first=LINE.replace(b" HTTP", b"# HTTP")),
    "an absolute target": head(HOST, LENGTH, first=LINE.replace(b"/mqlite", b"http://a/mqlite")),
    "two blanks": head(HOST, LENGTH, first=LINE.replace(b" HTTP", b"  HTTP")),
    "a blank at the end": head(HOST, LENGTH, first=LINE.replace(b"1.1", b"1.1 ")),
    "a page": head(HOST, LENGTH, first=b"POST / HTTP/1.1\r\n"),
    "a path like a call": head(HOST, LENGTH, first=b"POST /mqlite.v2.A/B HTTP/1.1\r\n"),
    "an empty line first": b"\r\n" + head(HOST, LENGTH),
}


@pytest.mark.parametrize("block", FOR_THE_DOOR.values(), ids=FOR_THE_DOOR.keys())
def test_whatever_is_not_plain_is_for_the_door(block: bytes) -> None:
    assert plan(block) is None


# -- the memory ------------------------------------------------------------------------------------

TRICKS = {
    "a length elsewhere": head(HOST, b"X: a\r\nX-Content-Length: 7\r\n", LENGTH),
    "a length in a value": head(HOST, b"X: Content-Length: 7\r\n", LENGTH),
    "another spelling": head(HOST, b"CONTENT-LENGTH: 5\r\n"),
    "more blanks": head(HOST, b"Content-Length:  5 \r\n"),
    "no blank": head(HOST, b"Content-Length:5\r\n"),
    "small letters": head(HOST, b"content-length: 5\r\n"),
    "the last field": head(b"X: y\r\n", HOST, LENGTH),
    "nine digits": head(HOST, b"Content-Length: 000000005\r\n"),
    "too long": head(HOST, b"Content-Length: 99999999\r\n"),
    "none": head(HOST, LENGTH),
}


@pytest.mark.parametrize("number", [b"0", b"5", b"7", b"007", b"33554432", b"33554433", b"", b"x"])
def test_what_is_remembered_is_what_reading_anew_finds(number: bytes) -> None:
    """For every block that may not be told from another by a careless memory."""
    plans = Plans()
    blocks = [*TRICKS.values(), *FOR_THE_DOOR.values()]
    for _ in range(2):
        for block in blocks:
            for each in (block, block.replace(b": 5", b": " + number)):
                assert plans.of(each) == plan(each), each


def test_the_memory_is_bounded() -> None:
    plans = Plans()
    for number in range(3 * PLANS_MAX):
        plans.of(head(HOST, LENGTH, b"X: %d\r\n" % number))
        plans.of(head(HOST, LENGTH, b"X: %d%b\r\n" % (number, b"x" * PLAN_BYTES_MAX)))
        assert len(plans._known) <= PLANS_MAX
    assert max(map(len, plans._known)) <= PLAN_BYTES_MAX


# -- beginnings ------------------------------------------------------------------------------------


def test_a_beginning_of_a_plain_call_is_waited_for_at_every_byte() -> None:
    block = head(HOST, LENGTH)
    assert all(may_become_ours(block[:end]) for end in range(len(block)))


@pytest.mark.parametrize(
    "beginning",
    [
        b"G",
        b"PUT ",
        b"POST /x",
        b"\r\n",
        b"\x16\x03",
        LINE[:-2] + b"\n",
        LINE + b"a\n",
        LINE + b"x" * HEAD_BYTES_MAX,
    ],
)
def test_a_beginning_that_cannot_become_one_is_not_waited_for(beginning: bytes) -> None:
    assert not may_become_ours(beginning)
