"""send and peek: bodies byte for byte, refusals before any request (T7, T21-T27, T30, T58)."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from mqlite_actor.contract.wire import Message
from mqlite_cli import streams
from tests.sdk.loopback import Recorded, loopback, reply
from tests.services.cli_inline import Inline
from tests.services.cli_process import Shell

HOSTILE = bytes(range(256))
MIB = 1024 * 1024


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    shell.ok("create-queue", "q")
    return shell


def stored(shell: Shell) -> list[bytes]:
    """Bodies in the queue, by sequence number."""
    messages = shell.run("peek", "q", "--output", "json", check=0).json
    return [base64.b64decode(message.get("body", "")) for message in messages]


@pytest.mark.promise("T21")
def test_words_are_joined_by_single_spaces(shell: Shell) -> None:
    assert shell.ok("send", "q", "a", "b  c", "d") == "ok: queue=q seq=1\n"
    assert stored(shell) == [b"a b  c d"]


@pytest.mark.promise("T21")
def test_an_empty_string_is_an_empty_body_without_a_key(shell: Shell) -> None:
    shell.ok("send", "q", "")
    (message,) = shell.run("peek", "q", "--output", "json", check=0).json
    assert "body" not in message
    assert shell.ok("peek", "q") == 'seq=1 state=active deliveries=0 body=""\n'


@pytest.mark.promise("T7")
def test_what_follows_two_dashes_is_the_body(shell: Shell) -> None:
    assert shell.ok("send", "q", "--", "hello", "--output", "json") == "ok: queue=q seq=1\n"
    assert stored(shell) == [b"hello --output json"]


@pytest.mark.promise("T22")
def test_binary_standard_input_survives_and_is_shown_on_one_line(shell: Shell) -> None:
    shell.ok("send", "q", "-", stdin=HOSTILE)
    assert stored(shell) == [HOSTILE]
    line = shell.ok("peek", "q")
    assert line.count("\n") == 1
    assert line.rstrip("\n").isprintable()
    assert "\\x00\\x01" in line
    assert "\\xfe\\xff" in line


def test_bytes_of_an_argument_that_are_not_utf_8_are_kept(shell: Shell) -> None:
    shell.ok("send", "q", b"a\xffb")
    assert stored(shell) == [b"a\xffb"]


def test_a_file_is_the_body(shell: Shell) -> None:
    (shell.folder / "body.bin").write_bytes(HOSTILE)
    shell.ok("send", "q", "--file", "body.bin")
    assert stored(shell) == [HOSTILE]


@pytest.mark.promise("T24")
@pytest.mark.parametrize(
    ("words", "mend"),
    [
        (["q", "x", "--file", "body"], "given twice"),
        (["q"], "no body"),
        (["q", "--file", "none"], "cannot read none: No such file"),
        (["q", "--file", "."], "cannot read .: Is a directory"),
        (["q", "--file", "/dev/zero"], "holds more than"),
        (["q", "-", "extra"], "drop the words"),
    ],
)
def test_a_body_that_is_not_exactly_one_is_refused_without_a_request(
    tmp_path: Path, words: list[str], mend: str
) -> None:
    with loopback(lambda _: None) as server:
        done = Shell(tmp_path, MQLITE_ENDPOINT=server.url).run("send", *words, check=1)
        assert mend in done.err
        assert server.connections == 0


def test_a_closed_standard_input_is_no_empty_body(shell: Shell) -> None:
    done = shell.run("send", "q", "-", redirect="0<&-", check=1)
    assert "standard input is closed" in done.err
    assert stored(shell) == []


@pytest.mark.promise("T23")
def test_standard_input_is_capped_at_16_mib_and_never_cut(tmp_path: Path) -> None:
    sizes: list[int] = []

    def answer(request: Recorded) -> bytes:
        (message,) = msgspec.json.decode(request.body)["messages"]
        sizes.append(len(base64.b64decode(message["body"])))
        return reply(200, {"seq_numbers": [1]})

    with loopback(answer) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        shell.ok("send", "q", "-", stdin=bytes(16 * MIB))
        done = shell.run("send", "q", "-", stdin=bytes(16 * MIB + 1), check=1)
        assert "more than 16777216 bytes" in done.err
        assert sizes == [16 * MIB]
        assert server.connections == 1


@pytest.mark.promise("T25")
def test_a_mebibyte_is_accepted_and_a_byte_more_is_too_large(shell: Shell) -> None:
    shell.ok("send", "q", "-", stdin=bytes(MIB))
    done = shell.run("send", "q", "-", stdin=bytes(MIB + 1), check=1)
    assert done.err.startswith("error: message_too_large: ")


@pytest.mark.promise("T26")
def test_a_publish_that_nobody_took_is_seq_0_and_success(tmp_path: Path) -> None:
    with loopback(lambda _: reply(200, {"seq_numbers": [0]})) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        assert shell.ok("send", "topic", "x") == "ok: queue=topic seq=0\n"


@pytest.mark.promise("T26")
def test_an_unknown_target_exits_1(shell: Shell) -> None:
    assert shell.run("send", "nope", "x", check=1).err.startswith("error: not_found: ")


@pytest.mark.promise("T27")
def test_a_repeated_id_gets_the_first_seq_or_a_conflict(shell: Shell) -> None:
    shell.ok("create-queue", "q", "--dedup", "1h")
    for _ in range(2):
        assert shell.ok("send", "q", "same", "--message-id", "m") == "ok: queue=q seq=1\n"
    done = shell.run("send", "q", "other", "--message-id", "m", check=1)
    assert done.err.startswith("error: already_exists: ")


@pytest.mark.promise("T30")
@pytest.mark.parametrize("ttl", ["-1s", "999us", "0.1ns"])
def test_a_ttl_that_would_mean_none_is_refused(tmp_path: Path, ttl: str) -> None:
    done = Shell(tmp_path).run("send", "q", "x", "--ttl", ttl, check=1)
    assert done.err.startswith("error: invalid_argument: --ttl: ")
    assert list(tmp_path.iterdir()) == []


def test_metadata_reaches_the_message(shell: Shell) -> None:
    printed = shell.run(
        "send", "q", "x", "--message-id", "m", "--group", "g", "--subject", "s", "--reply-to", "r",
        "--ttl", "1h", "--output", "json", check=0,
    )  # fmt: skip
    assert printed.text == '{\n  "queue": "q",\n  "seq": 1\n}\n'
    (message,) = shell.run("peek", "q", "--output", "json", check=0).json
    assert (message["message_id"], message["group_id"]) == ("m", "g")
    assert (message["subject"], message["reply_to"]) == ("s", "r")
    assert message["expires_at_ms"] - message["visible_at_ms"] == 3_600_000


# -- peek ------------------------------------------------------------------------------------------


@pytest.mark.promise("T58")
def test_peek_of_an_unknown_queue_or_state_exits_1(shell: Shell) -> None:
    assert shell.run("peek", "nope", check=1).err.startswith("error: not_found: ")
    done = shell.run("peek", "q", "--state", "dead", check=1)
    assert done.err.startswith("error: invalid_argument: --state: dead is none of active, ")
    assert shell.ok("peek", "q") == "(empty)\n"
    assert shell.ok("peek", "q", "--state", "locked", "--output", "json") == "[]\n"


@pytest.mark.promise("T58")
def test_peek_pages_without_gaps_and_shows_no_token(shell: Shell) -> None:
    for number in range(5):
        shell.ok("send", "q", str(number))
    shell.run("receive", "q", "--no-ack", check=0)
    seen: list[int] = []
    while page := shell.run(
        "peek", "q", "--max", "2", "--from", str(len(seen) + 1), "--output", "json", check=0
    ).json:
        assert len(page) <= 2
        assert all("lock_token" not in message for message in page)
        seen += [message["seq_number"] for message in page]
    assert seen == [1, 2, 3, 4, 5]


def test_peek_shows_sixteen_messages_unless_told_otherwise(tmp_path: Path) -> None:
    asked: list[object] = []

    def answer(request: Recorded) -> bytes:
        asked.append(msgspec.json.decode(request.body))
        return reply(200, {"messages": [Message(seq_number=1, state="active")]})

    with loopback(answer) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        shell.ok("peek", "q")
        shell.ok("peek", "q", "--max", "0", "--state", "deferred", "--from", "9")
    assert asked == [
        {"queue": "q", "max": 16},
        {"queue": "q", "from_seq": 9, "state": "deferred"},
    ]


def test_message_json_is_the_wire_object_in_the_wire_s_order(shell: Shell) -> None:
    shell.ok("send", "q", "\u00e9\u202e\x7f", "--subject", "a\u202eb\u0085")
    text = shell.ok("peek", "q", "--output", "json")
    assert text.startswith('[\n  {\n    "seq_number": 1,\n    "enqueued_at_ms": ')
    assert text.endswith("\n  }\n]\n")
    assert '"subject": "a\\u202eb\\u0085"' in text
    (message,) = shell.run("peek", "q", "--output", "json", check=0).json
    assert message["subject"] == "a\u202eb\u0085"
    assert list(message) == [field for field in Message.__struct_fields__ if field in message]


@pytest.mark.parametrize("words", [["-"], ["--lines"], ["--ndjson"]])
def test_standard_input_that_does_not_block_is_waited_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    mqlite = Inline(tmp_path, monkeypatch, capfd)
    mqlite.ok("create-queue", "q")
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    waited: list[list[int]] = []

    def wait(readers: list[int], *_: object) -> None:
        """Whoever has the other end says something when it is waited for, and then leaves."""
        waited.append(readers)
        os.write(writing, b'{"text": "x"}' if words == ["--ndjson"] else b"x")
        os.close(writing)

    monkeypatch.setattr(streams, "select", SimpleNamespace(select=wait))
    kept = os.dup(0)
    try:
        os.dup2(reading, 0)
        mqlite.ok("send", "q", *words)
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(reading)
    assert waited == [[0]]
    assert stored(Shell(tmp_path)) == [b"x"]
