"""receive: nothing is acknowledged that nobody saw (spec/tools.md 1.5; T31-T36, T42-T45; B91)."""

from __future__ import annotations

import os
import pty
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqlite_actor.contract.wire import Message
from tests.sdk.loopback import (
    BOUND_SECONDS,
    Answer,
    Loopback,
    Recorded,
    engine_replies,
    loopback,
    refusal,
    reply,
)
from tests.services.cli_process import PYTHON, Shell, clean_environ

RECEIVE, SETTLE = "QueueService/Receive", "QueueService/CompleteBatch"
TOKEN = "0123456789abcdef" * 2


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """An embedded queue `q` with three messages."""
    shell = Shell(tmp_path)
    shell.ok("create-queue", "q")
    for body in ("one", "two", "three"):
        shell.ok("send", "q", body)
    return shell


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[tuple[Shell, Loopback]]:
    """The same behind a server that records."""
    with engine_replies() as answer, loopback(answer) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        shell.ok("create-queue", "q")
        for body in ("one", "two", "three"):
            shell.ok("send", "q", body)
        server.requests.clear()
        yield shell, server


def counts(shell: Shell) -> dict[str, Any]:
    numbers: dict[str, Any] = shell.run("metrics", "q", "--output", "json", check=0).json
    return numbers


@pytest.mark.promise("T31")
def test_n_messages_are_n_lines_one_batch_settle_and_an_empty_queue(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, server = broker
    text = shell.ok("receive", "q", "--max", "10")
    assert text == (
        'seq=1 deliveries=1 body="one"\n'
        'seq=2 deliveries=1 body="two"\n'
        'seq=3 deliveries=1 body="three"\n'
    )
    assert server.calls == [RECEIVE, SETTLE]
    assert counts(shell)["total"] == 0


@pytest.mark.promise("T31")
def test_an_embedded_receive_empties_the_queue(shell: Shell) -> None:
    assert shell.ok("receive", "q", "--max", "2").count("\n") == 2
    assert shell.ok("receive", "q", "--max", "2") == 'seq=3 deliveries=1 body="three"\n'
    assert shell.ok("receive", "q") == "(no messages)\n"


@pytest.mark.promise("T32")
@pytest.mark.parametrize(
    "redirect", ["1>&-", "1>/dev/null", "1</dev/zero", "0<&- 1>&- 2>/dev/null"]
)
def test_standard_output_that_nobody_reads_is_refused_before_anything_is_claimed(
    broker: tuple[Shell, Loopback], redirect: str
) -> None:
    shell, server = broker
    done = shell.run("receive", "q", redirect=redirect, check=1)
    if "2>" not in redirect:
        assert "nobody can read standard output" in done.err
    assert server.connections == 4  # those of the fixture
    assert server.requests == []
    assert shell.ok("receive", "q") == 'seq=1 deliveries=1 body="one"\n'


@pytest.mark.promise("T32")
def test_an_embedded_receive_without_a_reader_leaves_the_delivery_count(shell: Shell) -> None:
    shell.run("receive", "q", redirect="1>&-", check=1)
    shell.run("receive", "q", redirect="1>/dev/null", check=1)
    assert shell.ok("receive", "q") == 'seq=1 deliveries=1 body="one"\n'


@pytest.mark.promise("T33")
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_full_device_settles_nothing(broker: tuple[Shell, Loopback], form: str) -> None:
    shell, server = broker
    done = shell.run("receive", "q", "--output", form, redirect="1>/dev/full", check=1)
    assert "No space left on device" in done.err
    assert "1 message(s) not completed" in done.err
    assert server.calls == [RECEIVE]
    assert counts(shell)["locked"] == 1


@pytest.mark.promise("T33")
def test_a_broken_pipe_settles_nothing(broker: tuple[Shell, Loopback]) -> None:
    shell, server = broker
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*PYTHON, "receive", "q"], stdout=writer, stderr=subprocess.PIPE, cwd=shell.folder,
        env=clean_environ(shell.environ), timeout=BOUND_SECONDS, check=False,
    )  # fmt: skip
    os.close(writer)
    assert done.returncode != 0
    assert b"Traceback" not in done.stderr
    assert server.calls == [RECEIVE]


@pytest.mark.promise("T33")
def test_an_embedded_message_that_could_not_be_shown_is_delivered_again(shell: Shell) -> None:
    shell.run("receive", "q", redirect="1>/dev/full", check=1)
    assert shell.ok("receive", "q") == 'seq=1 deliveries=2 body="one"\n'


@pytest.mark.promise("T34")
@pytest.mark.parametrize("words", [["receive", "q", "--delete"], ["peek", "q"], ["send", "q", "x"]])
def test_with_standard_output_closed_nothing_is_written_into_the_database(
    shell: Shell, words: list[str]
) -> None:
    for redirect in ("1>&-", "0<&- 1>&- 2>&-", "0<&- 2>&-"):
        shell.run(*words, redirect=redirect)
    path = shell.folder / "mq.db"
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    content = path.read_bytes()
    assert b"deliveries=" not in content
    assert b"error:" not in content
    assert b"ok: queue" not in content


@pytest.mark.promise("T35")
def test_a_file_a_pipe_and_a_terminal_are_accepted(shell: Shell) -> None:
    shell.run("receive", "q", redirect="1>out.txt", check=0)
    assert (shell.folder / "out.txt").read_text() == 'seq=1 deliveries=1 body="one"\n'
    assert shell.ok("receive", "q") == 'seq=2 deliveries=1 body="two"\n'
    master, slave = pty.openpty()
    done = subprocess.run(
        [*PYTHON, "receive", "q"], stdout=slave, stderr=subprocess.PIPE, cwd=shell.folder,
        env=clean_environ(shell.environ), timeout=BOUND_SECONDS, check=False,
    )  # fmt: skip
    os.close(slave)
    assert done.returncode == 0, done.stderr
    assert os.read(master, 1000) == b'seq=3 deliveries=1 body="three"\r\n'
    os.close(master)
    assert counts(shell)["total"] == 0


def test_delete_and_no_ack_may_go_unseen(broker: tuple[Shell, Loopback]) -> None:
    shell, server = broker
    shell.run("receive", "q", "--delete", redirect="1>/dev/null", check=0)
    shell.run("receive", "q", "--no-ack", redirect="1>/dev/null", check=0)
    assert server.calls == [RECEIVE, RECEIVE]
    assert counts(shell) | {"oldest_message_age_ms": 0} == {
        "queue": "q", "active": 1, "locked": 1, "deferred": 0, "scheduled": 0, "dead_lettered": 0,
        "total": 2, "oldest_message_age_ms": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("flag", "fate"), [("--delete", "already removed"), ("--no-ack", "tokens may be lost")]
)
def test_a_failed_write_says_what_became_of_the_messages(
    broker: tuple[Shell, Loopback], flag: str, fate: str
) -> None:
    shell, _ = broker
    for redirect in ("1>/dev/full", "1>&-"):
        assert fate in shell.run("receive", "q", flag, redirect=redirect, check=1).err


@pytest.mark.promise("T36")
def test_no_ack_with_delete_is_refused_before_connecting(tmp_path: Path) -> None:
    with loopback(lambda _: None) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        assert "give one" in shell.run("receive", "q", "--no-ack", "--delete", check=1).err
        assert server.connections == 0


def script(*messages: Message, settle: Callable[[Recorded], bytes | None]) -> Answer:
    """A broker that delivers `messages` and answers the settle as told."""

    def answer(request: Recorded) -> bytes | None:
        if request.call == RECEIVE:
            return reply(200, {"messages": list(messages)})
        return settle(request)

    return answer


TWO = (
    Message(seq_number=7, delivery_count=1, lock_token=TOKEN, locked_until_ms=1, body=b"a"),
    Message(seq_number=8, delivery_count=1, lock_token=TOKEN, locked_until_ms=1, body=b"b"),
)


@pytest.mark.promise("T42")
def test_an_item_whose_lease_was_over_is_named(tmp_path: Path) -> None:
    results = {"results": [{"seq_number": 7, "ok": True}, {"seq_number": 8, "ok": False}]}
    with loopback(script(*TWO, settle=lambda _: reply(200, results))) as server:
        done = Shell(tmp_path, MQLITE_ENDPOINT=server.url).run("receive", "q", check=1)
        assert done.text.count("\n") == 2
        assert "1 of 2 message(s)" in done.err
        assert done.err.endswith("seq 8\n")
        sent = msgspec.json.decode(server.requests[1].body)
        assert sent == {
            "queue": "q",
            "messages": [{"seq_number": seq, "lock_token": TOKEN} for seq in (7, 8)],
        }


@pytest.mark.parametrize(
    ("settle", "begins"),
    [
        (
            lambda _: refusal(500, "internal", "oops"),
            "error: internal: oops; 2 message(s) were shown",
        ),
        (lambda _: None, "error: outcome_unknown: "),
        (lambda _: reply(200, {"results": []}), "error: internal: "),
    ],
)
def test_a_failed_settle_exits_1_after_the_output_and_is_not_repeated(
    tmp_path: Path, settle: Callable[[Recorded], bytes | None], begins: str
) -> None:
    with loopback(script(*TWO, settle=settle)) as server:
        done = Shell(tmp_path, MQLITE_ENDPOINT=server.url).run("receive", "q", check=1)
        assert done.text.count("\n") == 2
        assert done.err.startswith(begins)
        assert "whether they are completed is not known" in done.err
        assert server.calls.count(RECEIVE) == 1


@pytest.mark.promise("T43")
@pytest.mark.parametrize(
    ("words", "sent"),
    [
        ([], {"max_messages": 1}),
        (["--max", "0"], {"max_messages": 1}),
        (["--max", "-5"], {"max_messages": 1}),
        (["--max", "1000"], {"max_messages": 256}),
        (["--wait", "1500us"], {"max_messages": 1, "wait_time_ms": 2}),
        (["--wait", "-1s"], {"max_messages": 1}),
        (["--wait", "60s"], {"max_messages": 1, "wait_time_ms": 20_000}),
    ],
)
def test_bounds_are_clamped(tmp_path: Path, words: list[str], sent: dict[str, int]) -> None:
    with loopback(script(settle=lambda _: None)) as server:
        Shell(tmp_path, MQLITE_ENDPOINT=server.url).ok("receive", "q", *words)
        assert msgspec.json.decode(server.requests[0].body) == {"queue": "q", **sent}


@pytest.mark.promise("T44")
def test_received_json_is_the_wire_object_with_a_token_only_for_no_ack(shell: Shell) -> None:
    settled, kept, removed = (
        shell.run("receive", "q", "--output", "json", *flag, check=0).json[0]
        for flag in ([], ["--no-ack"], ["--delete"])
    )
    for message in (settled, kept, removed):
        assert set(message) <= set(Message.__struct_fields__)
        assert not {"state", "visible_at_ms", "expires_at_ms"} & set(message)
    assert "lock_token" not in settled
    assert len(kept["lock_token"]) == 32
    assert not {"lock_token", "locked_until_ms"} & set(removed)


@pytest.mark.promise("T44")
def test_a_leaking_broker_s_lock_fields_are_not_shown_for_delete(tmp_path: Path) -> None:
    with loopback(script(*TWO, settle=lambda _: None)) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        for message in shell.run("receive", "q", "--delete", "--output", "json", check=0).json:
            assert not {"lock_token", "locked_until_ms"} & set(message)


@pytest.mark.promise("T45")
def test_an_empty_receive_prints_nothing_found_and_settles_nothing(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, server = broker
    shell.ok("create-queue", "empty")
    server.requests.clear()
    assert shell.ok("receive", "empty") == "(no messages)\n"
    assert shell.ok("receive", "empty", "--output", "json") == "[\n]\n"
    assert server.calls == [RECEIVE, RECEIVE]


def test_an_unknown_queue_exits_1(shell: Shell) -> None:
    assert shell.run("receive", "nope", check=1).err.startswith("error: not_found: ")


def test_fields_appear_only_when_set_and_cannot_forge_a_line(tmp_path: Path) -> None:
    hostile = Message(
        seq_number=1, delivery_count=2, message_id='m body="x"', group_id="g\n1", reply_to="r",
        lock_token=TOKEN, body=b'\x1b]52;c;QQ\x07"\\\n\xff\xe2\x80\xae',
    )  # fmt: skip
    with loopback(script(hostile, settle=lambda _: None)) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        assert shell.ok("receive", "q", "--no-ack") == (
            'seq=1 deliveries=2 message-id="m body=\\"x\\"" group="g\\n1" reply-to=r '
            f'lock-token={TOKEN} body="\\x1b]52;c;QQ\\a\\"\\\\\\n\\xff\\u202e"\n'
        )


def test_a_claim_under_a_lease_has_no_attempt_id_and_a_removing_one_is_asked_again_by_it(
    tmp_path: Path,
) -> None:
    asked: list[dict[str, Any]] = []

    def answer(request: Recorded) -> bytes | None:
        asked.append(msgspec.json.decode(request.body))
        return None if len(asked) in {1, 2} else reply(200, {"messages": list(TWO)})

    with loopback(answer) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        done = shell.run("receive", "q", check=1)
        assert done.err.startswith("error: outcome_unknown: ")
        assert "receive_attempt_id" not in asked[0]
        assert shell.ok("receive", "q", "--delete").count("\n") == 2
        assert asked[1] == asked[2]
        assert len(asked[1]["receive_attempt_id"]) == 32


@pytest.mark.parametrize("is_embedded", [False, True])
def test_an_interrupt_ends_a_waiting_receive_with_130(tmp_path: Path, *, is_embedded: bool) -> None:
    """That it waits is told by its request, or by the write-ahead log of an open database."""
    ended = threading.Event()

    def answer(_: Recorded) -> None:
        ended.wait(BOUND_SECONDS)

    with loopback(answer) as server:
        shell = Shell(tmp_path)
        shell.ok("create-queue", "q")
        log = tmp_path / "mq.db-wal"
        assert not log.exists()
        environ = {} if is_embedded else {"MQLITE_ENDPOINT": server.url}
        process = subprocess.Popen(
            [*PYTHON, "receive", "q", "--wait", "20s"], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, cwd=tmp_path, env=clean_environ(environ),
        )  # fmt: skip
        try:
            while not (log.exists() or server.requests) and process.poll() is None:
                continue
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=BOUND_SECONDS)
        finally:
            process.kill()
            process.wait()
            ended.set()
        assert (process.returncode, out, err) == (130, b"", b"")
