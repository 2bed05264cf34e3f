"""peek and search: which messages, in which order, in which form (tools.md 8, 17)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqlite_cli.flags import NEWEST_FIRST, SOUGHT
from tests.sdk.loopback import Loopback, engine_replies, loopback, refusal, reply
from tests.services.cli_inline import Inline
from tests.services.cli_process import Shell
from tests.services.on_terminal import at_terminal

EVIL = b"\xff\x1b]0;owned\x07\nline two"


@pytest.fixture
def mqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[tuple[Inline, Loopback]]:
    """`q` with the active messages 1 to 3 and the dead letter 4."""
    with engine_replies(f"file:{tmp_path / 'served.db'}") as answer, loopback(answer) as server:
        inline = Inline(tmp_path, monkeypatch, capfd, {"MQLITE_ENDPOINT": server.url})
        inline.ok("create-queue", "q")
        inline.ok("create-queue", "other")
        inline.ok("send", "q", "dead", "--prop", "n=9")
        (held,) = inline.run("receive", "q", "--no-ack", "--output", "json", check=0).json
        inline.ok("reject", "q", "1", held["lock_token"], "--reason", "rotten")
        tea = '{"item":"tea","n":2}'
        inline.ok("send", "q", tea, "--message-id", "m2", "--group", "g", "--subject", "s")
        inline.run("send", "q", "-", "--prop", "n=3", "--message-id", "m3", stdin=EVIL, check=0)
        inline.ok("send", "q", "four", "--prop", "n=x", "--correlation-id", "c")
        server.requests.clear()
        yield inline, server


def numbers(inline: Inline, *words: str) -> list[int]:
    found = inline.run(*words, "--output", "ndjson", check=0).text
    return [json.loads(line)["seq_number"] for line in found.splitlines()]


FOUND: list[tuple[list[str], list[int]]] = [
    (["--message-id", "m3"], [3]),
    (["--group", "g"], [2]),
    (["--subject", "s"], [2]),
    (["--correlation-id", "c"], [4]),
    (["--prop", "n=9"], [1]),
    (["--body", "four"], [4]),
    (["--reason", "rotten"], [1]),
    (["--filter", 'body_json.item == "tea"'], [2]),
    (["--filter", "body_size > 100"], []),
    (["--since", "1h"], [1, 2, 3, 4]),
    (["--until", "1h"], []),
    (["--since", "2001-01-01T00:00:00Z", "--until", "2002-01-01T00:00:00+01:00"], []),
    (["--newest-first"], [4, 3, 2, 1]),
    (["--newest-first", "--max", "2"], [4, 3]),
    (["--newest-first", "--from", "2", "--state", "active"], [4, 3, 2]),
    (["--since", "1h", "--state", "dead_lettered"], [1]),
    (["--filter", "true", "--max", "-1"], [1, 2, 3, 4]),
]


def test_peek_and_search_find_the_same(mqlite: tuple[Inline, Loopback]) -> None:
    inline, _ = mqlite
    for command in ("peek", "search"):
        for words, expected in FOUND:
            assert numbers(inline, command, "q", *words) == expected, words
    assert {word.lstrip("-") for words, _ in FOUND for word in words if word.startswith("--")} >= {
        flag.name for flag in (*SOUGHT, NEWEST_FIRST)
    }


def test_each_command_keeps_its_line(mqlite: tuple[Inline, Loopback]) -> None:
    inline, _ = mqlite
    assert inline.ok("peek", "q", "--reason", "rotten") == (
        'seq=1 state=dead_lettered deliveries=1 body="dead"\n'
    )
    assert inline.ok("search", "q", "--reason", "rotten") == (
        'seq=1 state=dead_lettered deliveries=1 reason=rotten body="dead"\n'
    )
    assert inline.ok("peek", "q", "--group", "nobody") == "(empty)\n"
    assert inline.ok("search", "q", "--group", "nobody", "--output", "json") == "[]\n"
    assert inline.run("peek", "nope", "--since", "1h", check=1).err.startswith("error: not_found: ")


def test_a_filter_that_is_none_or_fails_is_no_quiet_nothing(
    mqlite: tuple[Inline, Loopback],
) -> None:
    inline, _ = mqlite
    done = inline.run("peek", "q", "--filter", "subject = 's'", check=1)
    assert done.err.startswith("error: invalid_argument: invalid filter at line 1, column 9")
    done = inline.run("peek", "q", "--filter", "int(properties.n) > 2", check=0)
    assert done.text.count("\n") == 2
    assert done.err.startswith("warning: the filter failed on 2 message(s), which count as not ")


def test_what_chooses_nothing_by_a_slip_is_refused_before_a_request(
    mqlite: tuple[Inline, Loopback],
) -> None:
    inline, server = mqlite
    for words, mend in [
        (["--group", ""], "--group is empty"),
        (["--filter", " "], "--filter is empty"),
        (["--since", "yesterday"], "how long ago"),
        (["--since", "2026-01-01"], "how long ago"),
        (["--until", "-1h"], "--until"),
        (["--raw", "--pretty"], "give one"),
        (["--raw", "--output", "json"], "--raw prints bytes"),
    ]:
        assert mend in inline.run("peek", "q", *words, check=1).err, words
    assert server.requests == []


def test_a_body_comes_alone_readable_or_raw(mqlite: tuple[Inline, Loopback]) -> None:
    inline, _ = mqlite
    assert (
        inline.run("peek", "q", "--message-id", "m3", "--raw", check=0).out
        == EVIL.decode("utf-8", "replace").encode()
    )  # the capture decodes; the next test has the bytes
    shown = inline.ok("peek", "q", "--body-only", "--state", "active").splitlines()
    assert shown[0] == '{"item":"tea","n":2}'
    assert shown[1] == "\\xff\\x1b]0;owned\\a\\nline two"
    assert inline.ok("search", "q", "--group", "no", "--raw") == ""
    found = inline.run("peek", "q", "--body-only", "--max", "1", "--output", "json", check=0).json
    assert found == [{"seq_number": 1, "body": base64.b64encode(b"dead").decode()}]


def test_a_pretty_message_hides_nothing_and_obeys_nobody(mqlite: tuple[Inline, Loopback]) -> None:
    inline, _ = mqlite
    shown = inline.ok("peek", "q", "--message-id", "m3", "--pretty")
    assert shown.startswith("message 3 active\n  enqueued ")
    assert "  message-id  m3\n  prop n      3\n  body of 20 bytes\n" in shown
    assert shown.endswith("    \\xff\\x1b]0;owned\\a\n    line two\n\n")
    shown = inline.ok("search", "q", "--message-id", "m2", "--pretty")
    assert '    {\n      "item": "tea",\n      "n": 2\n    }\n' in shown
    assert "reason      rotten\n" in inline.ok("peek", "q", "--max", "1", "--pretty")


def test_what_pretty_ndjson_prints_can_be_sent(mqlite: tuple[Inline, Loopback]) -> None:
    inline, _ = mqlite
    printed = inline.run("peek", "q", "--pretty", "--output", "ndjson", check=0)
    assert '"text":"four"' in printed.text
    inline.run("send", "other", "--ndjson", stdin=printed.out, check=0)
    bodies = [
        [line["body"] for line in inline.run("peek", queue, "--output", "json", check=0).json]
        for queue in ("q", "other")
    ]
    assert bodies[0] == bodies[1]


def test_raw_bytes_go_into_a_pipe_and_never_to_a_terminal(tmp_path: Path) -> None:
    with loopback(lambda _: reply(200, {"messages": [{"seq_number": 1, "body": EVIL}]})) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        assert shell.run("peek", "q", "--raw", check=0).out == EVIL
        server.requests.clear()
        code, shown = at_terminal(shell, "peek", "q", "--raw")
        assert (code, server.requests) == (1, [])
        assert "take --body-only" in shown


def test_a_broker_that_cannot_search_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with loopback(lambda r: refusal(404, "not_found", f"no such path: {r.target}")) as server:
        inline = Inline(tmp_path, monkeypatch, capfd, {"MQLITE_ENDPOINT": server.url})
        done = inline.run("peek", "q", "--since", "1h", check=1)
        assert done.err.startswith("error: unsupported: the broker does not know this operation")
        assert len(server.requests) == 1
