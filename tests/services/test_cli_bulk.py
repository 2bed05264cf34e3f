"""Many messages at once: send --ndjson and --lines, receive --count (tools.md 8, row 2)."""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.sdk.loopback import Loopback, engine_replies, loopback
from tests.services.cli_process import BOUND_SECONDS, PYTHON, Shell, clean_environ

SEND = "/mqlite.ext.v1.QueueService/SendResult"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[tuple[Shell, Loopback]]:
    with engine_replies(f"file:{tmp_path / 'served.db'}") as answer, loopback(answer) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        shell.ok("create-queue", "q")
        server.requests.clear()
        yield shell, server


def ndjson(*objects: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in objects)


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def bodies(shell: Shell) -> list[str]:
    found = lines_of(shell.ok("peek", "q", "--max", "1000", "--output", "ndjson"))
    return [base64.b64decode(each.get("body", "")).decode() for each in found]


def test_each_line_is_a_message_and_flags_say_what_it_does_not(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, server = broker
    stream = ndjson(
        {"text": "tea", "subject": "own", "properties": {"a": "2", "c": "3"}},
        {"body": "Y29mZmVl", "message_id": "m", "seq_number": 99, "state": "locked"},
    )
    words = ("--ndjson", "--subject", "flag", "--prop", "a=1,b=1")
    line = shell.ok("send", "q", *words, stdin=stream + b"\n  \n")
    assert line == "ok: action=send queue=q sent=2 unrouted=0\n"
    first, second = lines_of(shell.ok("peek", "q", "--output", "ndjson"))
    assert (first["subject"], first["properties"]) == ("own", {"a": "2", "b": "1", "c": "3"})
    assert (second["subject"], second["message_id"], second["seq_number"]) == ("flag", "m", 2)
    assert bodies(shell) == ["tea", "coffee"]
    assert server.calls.count(SEND) == 1


def test_one_message_is_sent_many_times_each_with_its_number(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, server = broker
    line = shell.ok(
        "send", "q", "tea {{n}}", "--count", "300", "--prop", "n={{n}}", "--message-id", "m{{n}}"
    )
    assert line == "ok: action=send queue=q sent=300 unrouted=0\n"
    assert len(server.calls) == 2, "batches, not calls"
    found = lines_of(shell.ok("peek", "q", "--newest-first", "--max", "1", "--output", "ndjson"))
    assert [(each["message_id"], each["properties"]) for each in found] == [("m300", {"n": "300"})]
    assert bodies(shell)[:2] == ["tea 1", "tea 2"]
    for words, mend in [
        (["x", "--count", "0"], "at least 1"),
        (["x", "--count", "2", "--message-id", "m"], "put {{n}} into it"),
        (["--lines", "--count", "2"], "give one"),
    ]:
        assert mend in shell.run("send", "q", *words, check=1).err


def test_nothing_is_a_failure_for_whoever_wants_it_to_be(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    for words in (
        ["receive", "q"],
        ["receive", "q", "--delete"],
        ["receive", "q", "--no-ack"],
        ["receive-deferred", "q", "--seq", "1"],
        ["peek", "q"],
        ["peek", "q", "--since", "1h"],
        ["search", "q", "--raw"],
    ):
        done = shell.run(*words, "--fail-empty", check=1)
        assert done.err == "error: there is no message\n", words
        shell.run(*words, check=0)
    shell.ok("send", "q", "x")
    shell.run("receive", "q", "--fail-empty", check=0)


def test_lines_are_bodies_and_a_file_may_hold_them(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    (shell.folder / "lines").write_bytes(b"one\n\nthree")
    assert "sent=3" in shell.ok("send", "q", "--lines", "--file", "lines")
    assert bodies(shell) == ["one", "", "three"]


def test_many_lines_go_in_batches_by_number_and_by_size(broker: tuple[Shell, Loopback]) -> None:
    shell, server = broker
    (shell.folder / "small").write_bytes(b"x\n" * 600)
    (shell.folder / "large").write_bytes((b"y" * 900_000 + b"\n") * 6)
    found = shell.run("send", "q", "--lines", "--file", "small", "--output", "ndjson", check=0).json
    assert found == {"action": "send", "queue": "q", "sent": 600, "unrouted": 0}
    sizes = [len(msgspec.json.decode(request.body)["messages"]) for request in server.requests]
    assert sizes == [256, 256, 88]
    server.requests.clear()
    shell.ok("send", "q", "--lines", "--file", "large")
    sizes = [len(msgspec.json.decode(request.body)["messages"]) for request in server.requests]
    assert sizes == [4, 2]


def test_a_line_that_is_no_message_is_named_and_those_in_front_are_stored(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, _ = broker
    for bad in (b"{", b'{"txet":"x"}', b"[]", b'{"text":"a","body":"YQ=="}', b'{"text":"\xff"}'):
        done = shell.run(
            "send", "q", "--ndjson", stdin=ndjson({"text": "a"}) + bad + b"\n", check=1
        )
        assert done.err.startswith("error: line 2: "), done.err
        assert done.err.endswith("1 message(s) are stored, all of the first 1 line(s)\n")
        assert done.out == b""
    assert bodies(shell) == ["a"] * 5


def test_a_message_that_the_broker_refuses_is_named_and_those_in_front_are_stored(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, _ = broker
    stream = b"one\ntwo\n" + b"z" * (1024 * 1024 + 1) + b"\nfour\n"
    (shell.folder / "lines").write_bytes(stream)
    done = shell.run("send", "q", "--lines", "--file", "lines", check=1)
    assert done.err.startswith("error: message_too_large: ")
    assert "line 3 failed; 2 message(s) are stored, all of the first 2 line(s)" in done.err
    assert bodies(shell) == ["one", "two"]


@pytest.mark.parametrize(
    "numbers",
    [[signal.SIGINT], [signal.SIGTERM], [signal.SIGHUP], [signal.SIGTERM] * 2],
    ids=["interrupt", "stop", "hangup", "timeout(1), which sends two"],
)
def test_a_slow_producer_is_not_held_up_and_a_signal_is_told_what_is_stored(
    broker: tuple[Shell, Loopback], numbers: list[signal.Signals]
) -> None:
    shell, _ = broker
    sender = subprocess.Popen(
        [*PYTHON, "send", "q", "--lines"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, cwd=shell.folder, env=clean_environ(shell.environ),
    )  # fmt: skip
    try:
        assert sender.stdin is not None
        sender.stdin.write(b"now\nlat")
        sender.stdin.flush()
        assert 'body="now"' in shell.ok("receive", "q", "--wait", "20s")
        for number in numbers:
            sender.send_signal(number)
        _, err = sender.communicate(timeout=BOUND_SECONDS)
        assert sender.returncode == 128 + numbers[0]
        # Its answer may have come by then, or not.
        assert re.match(rb"warning: [01] message\(s\) are stored, all of the first [01] line", err)
    finally:
        sender.kill()
        sender.communicate()
    assert bodies(shell) == []


def test_a_lost_reply_is_told_as_not_known(tmp_path: Path) -> None:
    with loopback(lambda _: None) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        done = shell.run("send", "q", "--lines", stdin=b"a\nb\n", check=1)
    assert done.err.startswith("error: outcome_unknown: ")
    assert "0 message(s) are stored" in done.err
    assert "whether lines 1 to 2 are is not known" in done.err


def test_what_makes_no_sense_is_refused_before_any_call(broker: tuple[Shell, Loopback]) -> None:
    shell, server = broker
    for words in (
        ["send", "q", "--ndjson", "--lines"],
        ["send", "q", "--ndjson", "body"],
        ["send", "q", "--lines", "-", "--file", "x"],
        ["send", "q", "--lines", "--file", "none"],
        ["send", "q", "--lines", "--message-id", "m"],
        ["receive", "q", "--count", "0"],
        ["receive", "q", "--count", "2", "--output", "json"],
    ):
        assert len(shell.run(*words, check=1).errors) == 1, words
    assert server.requests == []


@pytest.mark.parametrize("way", ["", "--no-ack", "--delete"])
def test_a_count_is_taken_batch_by_batch(broker: tuple[Shell, Loopback], way: str) -> None:
    shell, server = broker
    shell.ok("send", "q", "--lines", stdin=b"1\n2\n3\n4\n5\n6\n")
    server.requests.clear()
    words = ["receive", "q", "--count", "5", "--max", "2", "--output", "ndjson"]
    found = lines_of(shell.ok(*words, *way.split()))
    assert [each["seq_number"] for each in found] == [1, 2, 3, 4, 5]
    assert server.calls.count("QueueService/Receive") == 3
    assert server.calls.count("QueueService/CompleteBatch") == (0 if way else 3)
    # The next finds the one that is left, and then nothing.
    assert shell.ok("receive", "q", "--count", "5").count("\n") == 1
    if not way:
        assert shell.ok("receive", "q", "--count", "5") == "(no messages)\n"
        assert shell.ok("receive", "q", "--output", "ndjson") == ""


def test_a_store_of_its_own_is_fed_and_drained_too(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.ok("create-queue", "q")
    shell.ok("send", "q", "--lines", stdin=b"x\n" * 300)
    found = lines_of(shell.ok("receive", "q", "--count", "300", "--output", "ndjson"))
    assert len(found) == 300
    assert shell.ok("peek", "q") == "(empty)\n"


def test_a_script_pipes_one_queue_into_another(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    shell.ok("create-queue", "r")
    shell.ok("send", "q", "--lines", "--prop", "a=b", stdin=b"1\n2\n")
    pipe = "mqlite receive q --count 9 --output ndjson | mqlite send r --ndjson"
    subprocess.run(
        ["sh", "-c", f'mqlite() {{ "$PY" -m mqlite_cli "$@"; }}\n{pipe}'],
        cwd=shell.folder, env=clean_environ({**shell.environ, "PY": sys.executable}),
        timeout=BOUND_SECONDS, check=True,
    )  # fmt: skip
    found = lines_of(shell.ok("peek", "r", "--output", "ndjson"))
    assert [each["properties"] for each in found] == [{"a": "b"}] * 2
