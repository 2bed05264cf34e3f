"""SIGINT and SIGTERM in the middle of a receive: nothing is lost, nothing settled unseen (design.md
decision 12, ruling R34)."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqlite_actor.contract.wire import Message
from tests.sdk.loopback import (
    BOUND_SECONDS,
    Loopback,
    Recorded,
    engine_replies,
    loopback,
    refusal,
    reply,
)
from tests.services.cli_process import Shell
from tests.warm.process import preparing

pytestmark = pytest.mark.cold  # of each kind of program, some begin as they do for users

RECEIVE, SETTLE = "QueueService/Receive", "QueueService/CompleteBatch"
ABANDON = "QueueService/Abandon"
RELEASE = "/mqlite.ext.v1.QueueService/Release"
TOKEN = "0123456789abcdef" * 2
LARGE = 100_000
"""Bytes of a body: more than a pipe takes when nobody reads."""


@contextmanager
def stuffed(folder: Path, *, hold: str = "") -> Iterator[tuple[Shell, Loopback, threading.Event]]:
    """A queue `q` of four large messages behind a server that holds up `hold` until the event."""
    free = threading.Event()
    with engine_replies() as answer:

        def choose(request: Recorded) -> bytes | None:
            if request.call == hold:
                free.wait(BOUND_SECONDS)
            return answer(request)

        with loopback(choose) as server:
            shell = Shell(folder, MQLITE_ENDPOINT=server.url)
            fill(shell)
            server.requests.clear()
            yield shell, server, free
            free.set()


def fill(shell: Shell) -> None:
    with preparing():
        shell.ok("create-queue", "q")
        for _ in range(4):
            shell.ok("send", "q", "-", stdin=b"x" * LARGE)


def peeked(shell: Shell) -> list[dict[str, Any]]:
    with preparing():
        messages: list[dict[str, Any]] = shell.run("peek", "q", "--output", "json", check=0).json
    return messages


def states(shell: Shell) -> list[str]:
    return [message["state"] for message in peeked(shell)]


def begin_reading(process: subprocess.Popen[bytes]) -> bytes:
    """The first line: from now on the process writes to a pipe that is full."""
    assert process.stdout is not None
    line: bytes = process.stdout.readline()
    assert line.startswith(b"seq=1 ")
    return line


def settle_begins(process: subprocess.Popen[bytes], server: Loopback) -> None:
    """Wait until the settle has arrived and is held up."""
    pause = threading.Event()
    while SETTLE not in server.calls:
        assert process.poll() is None
        pause.wait(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_output_is_stuck_gives_everything_back(
    tmp_path: Path, number: signal.Signals
) -> None:
    with stuffed(tmp_path) as (shell, server, _):
        with shell.start("receive", "q", "--max", "4") as process:
            begin_reading(process)
            both = (number, signal.SIGINT if number == signal.SIGTERM else signal.SIGTERM)
            for each in both:  # one wish, told by two; whichever is heard first
                process.send_signal(each)
            assert process.wait(BOUND_SECONDS) in {128 + each for each in both}
            assert process.stderr is not None
            assert process.stderr.read() == b""
        assert SETTLE not in server.calls
        assert server.calls.count(RELEASE) == 1
        assert 1 <= server.calls.count(ABANDON) <= 3
        assert states(shell) == ["active"] * 4
        # What nobody saw was not delivered.
        messages = peeked(shell)
        assert messages[0]["delivery_count"] == 1
        assert "delivery_count" not in messages[-1]


def test_an_older_broker_takes_all_back_as_deliveries(tmp_path: Path) -> None:
    with engine_replies() as answer:

        def choose(request: Recorded) -> bytes | None:
            if request.call == RELEASE:
                return refusal(404, "not_found", f"no such path: {request.target}")
            return answer(request)

        with loopback(choose) as server:
            shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
            fill(shell)
            with shell.start("receive", "q", "--max", "4") as process:
                begin_reading(process)
                process.send_signal(signal.SIGTERM)
                assert process.wait(BOUND_SECONDS) == 143
            assert server.calls.count(ABANDON) == 4
            assert states(shell) == ["active"] * 4


def test_an_embedded_receive_gives_back_too(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    fill(shell)
    with shell.start("receive", "q", "--max", "4") as process:
        begin_reading(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(BOUND_SECONDS) == 143
    assert states(shell) == ["active"] * 4


def test_no_ack_gives_back_only_what_nobody_saw(tmp_path: Path) -> None:
    with stuffed(tmp_path) as (shell, server, _):
        with shell.start("receive", "q", "--max", "4", "--no-ack") as process:
            begin_reading(process)
            process.send_signal(signal.SIGINT)
            assert process.wait(BOUND_SECONDS) == 130
        assert states(shell)[0] == "locked"
        assert states(shell)[-1] == "active"
        assert ABANDON not in server.calls


def test_what_was_removed_is_shown_to_its_end(tmp_path: Path) -> None:
    with stuffed(tmp_path) as (shell, _, __):
        with shell.start("receive", "q", "--max", "4", "--delete") as process:
            first = begin_reading(process)
            process.send_signal(signal.SIGINT)
            rest, err = process.communicate(timeout=BOUND_SECONDS)
        # 0 if the output was quicker than the signal.
        assert (process.returncode, err) in {(130, b""), (0, b"")}
        assert (first + rest).count(b"\n") == 4
        assert states(shell) == []


def test_a_second_signal_ends_even_that(tmp_path: Path) -> None:
    with (
        stuffed(tmp_path) as (shell, _, __),
        shell.start("receive", "q", "--max", "4", "--delete") as process,
    ):
        begin_reading(process)
        waiting = threading.Event()
        while process.poll() is None:
            # The first may not have been noticed yet, and two at once count as one.
            process.send_signal(signal.SIGTERM)
            waiting.wait(0.05)
        assert process.returncode == 143


def test_a_settle_on_its_way_is_left_to_its_end(tmp_path: Path) -> None:
    with stuffed(tmp_path, hold=SETTLE) as (shell, server, free):
        with shell.start("receive", "q") as process:
            begin_reading(process)
            settle_begins(process, server)
            process.send_signal(signal.SIGTERM)
            free.set()
            _, err = process.communicate(timeout=BOUND_SECONDS)
        # 0 if the settle was quicker than the signal.
        assert (process.returncode, err) in {(143, b""), (0, b"")}
        assert ABANDON not in server.calls
        assert states(shell) == ["active"] * 3


def test_a_settle_that_hangs_is_told_as_not_known(tmp_path: Path) -> None:
    with stuffed(tmp_path, hold=SETTLE) as (shell, server, _):
        with shell.start("receive", "q") as process:
            begin_reading(process)
            settle_begins(process, server)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=BOUND_SECONDS)
        assert process.returncode == 130
        assert b"whether they are completed is not known" in err


class LateBroker:
    """Answers a claim only when the client has hung up, and any later request at once."""

    def __init__(self, claim: bytes, *later: bytes) -> None:
        self._answers = (claim, *later)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.asked: list[str] = []
        self.is_waiting = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        for answer in self._answers:
            connection, _ = self._listener.accept()
            with connection:
                connection.settimeout(BOUND_SECONDS)
                data = b""
                while not data.endswith(b"}"):
                    data += connection.recv(65536)
                self.asked.append(data.partition(b" HTTP")[0].rpartition(b"/")[2].decode())
                if not self.is_waiting.is_set():
                    self.is_waiting.set()
                    assert connection.recv(1) == b"", "the client hangs up"
                connection.sendall(answer)

    def close(self) -> None:
        self._thread.join(BOUND_SECONDS)
        self._listener.close()
        assert not self._thread.is_alive()


RELEASED = reply(200, {"results": [{"seq_number": 7, "ok": True}]})
CLAIMED = reply(200, {"messages": [Message(seq_number=7, delivery_count=1, lock_token=TOKEN)]})


@pytest.mark.parametrize(
    ("words", "shown", "asked"),
    [
        ([], b"", ["Receive", "Release"]),
        (["--delete"], b'seq=7 deliveries=1 body=""\n', ["Receive"]),
    ],
)
def test_a_claim_that_raced_the_signal_is_given_back_or_shown_if_it_is_gone(
    tmp_path: Path, words: list[str], shown: bytes, asked: list[str]
) -> None:
    broker = LateBroker(*[CLAIMED, RELEASED][: len(asked)])
    shell = Shell(tmp_path, MQLITE_ENDPOINT=broker.url)
    with shell.start("receive", "q", "--wait", "20s", *words) as process:
        assert broker.is_waiting.wait(BOUND_SECONDS)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=BOUND_SECONDS)
    broker.close()
    assert (process.returncode, out, err) == (130, shown, b"")
    assert broker.asked == asked


def test_a_failed_output_sets_fetched_messages_aside_again(tmp_path: Path) -> None:
    with stuffed(tmp_path) as (shell, server, _):
        defer_all(shell)
        done = shell.run("receive-deferred", "q", "--seq", "1,2", redirect="1>/dev/full", check=1)
        assert "deferred again" in done.err
        assert server.calls.count("QueueService/Defer") >= 1
        assert "deferred" in states(shell)


def defer_all(shell: Shell) -> None:
    words = ("receive", "q", "--max", "2", "--no-ack", "--output", "json")
    with preparing():
        for message in shell.run(*words, check=0).json:
            shell.ok("defer", "q", str(message["seq_number"]), message["lock_token"])


def test_each_message_is_given_back_once_by_its_lease(tmp_path: Path) -> None:
    with stuffed(tmp_path) as (shell, server, _):
        with shell.start("receive", "q", "--max", "4") as process:
            begin_reading(process)
            process.send_signal(signal.SIGINT)
            process.wait(BOUND_SECONDS)
        given_up = [msgspec.json.decode(r.body) for r in server.requests if r.call == ABANDON]
        (given_back,) = (msgspec.json.decode(r.body) for r in server.requests if r.call == RELEASE)
        assert all(set(body) == {"queue", "seq_number", "lock_token"} for body in given_up)
        numbers = [body["seq_number"] for body in [*given_up, *given_back["messages"]]]
        assert sorted(numbers) == [1, 2, 3, 4]
