"""Connection strings of any make: understood or refused with a mend, and no secret is shown.

MQLITE_FUZZ_EXAMPLES says how many are tried.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from hypothesis import assume
from hypothesis import strategies as st

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.sdk.address import (
    Destination,
    classify,
    dial,
    link_path,
    masked,
    parse_endpoint,
    parse_store,
)
from tests.fuzzing import fuzzed

SECRET = "s3cr3t"

MARKS = [
    "mqlite://", "mqlites://", "http://", "https://", "libsql://", "ws://", "wss://", "unix:",
    "file:", ":memory:", "file::memory:", "FILE:", "Mqlite://", "host", "127.0.0.1", "[::1]",
    "[fe80::1%25eth0]", ":", ":0", ":6754", ":65536", ":99999999999999999999", "/", "//", "?", "#",
    "@", "&", "=", "%", "%40", "%zz", "%ff", "tls=0", "tls=true", "authToken=", "..", "\\", " ",
    "\t", "\n", "\x00", "\x1b[2J", "é", "\ud800", "\U0001f600", "",
]  # fmt: skip

pieces = st.sampled_from(MARKS) | st.text(max_size=6)
strings = st.lists(pieces, max_size=9).map("".join)


def told(parse: Callable[[str], object], text: str) -> str:
    """What a program may print of it: the error, or what it was taken for."""
    try:
        return repr(parse(text))
    except InvalidArgument as error:
        return error.message


@fuzzed("connection strings", 300, text=strings)
def test_any_string_is_understood_or_refused_with_one_line(text: str) -> None:
    for parse in (classify, parse_endpoint, parse_store, link_path):
        said = told(parse, text)
        assert len(said) < 600 + 20 * len(text)
        assert said.isprintable(), said


@fuzzed("connection strings", 300, text=strings)
def test_what_is_understood_can_be_used(text: str) -> None:
    """A broker's string yields parts that fit into a request; its base URL is the same broker."""
    with suppress(InvalidArgument):
        endpoint = parse_endpoint(text)
        again = parse_endpoint(endpoint.base_url)
        assert again.base_url == endpoint.base_url
        parts = dial(endpoint)
        assert 0 < parts.port < 65_536
        assert parts.host
        for written in (parts.host_header, parts.target("/mqlite.v1.QueueService/Send")):
            assert all("\x21" <= character <= "\x7e" for character in written), written
        assert classify(text) is Destination.BROKER


@fuzzed("connection strings", 300, before=strings, after=strings)
def test_a_secret_in_front_of_an_at_is_never_shown(before: str, after: str) -> None:
    assume(SECRET not in before + after)
    text = f"{before}{SECRET}@{after}"
    assert SECRET not in masked(text)
    for parse in (classify, parse_endpoint, parse_store):
        assert SECRET not in told(parse, text)
