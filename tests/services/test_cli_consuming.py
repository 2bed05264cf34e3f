"""consume: a shell command for each message, and what becomes of it (tools.md 8, row 3)."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqlite_actor.clock import SystemClock
from mqlite_cli import consuming
from mqlite_cli.consume_plan import delay_ms
from tests.sdk.loopback import Loopback, Recorded, engine_replies, loopback, refusal, reply
from tests.services.cli_inline import Inline
from tests.services.cli_process import BOUND_SECONDS, Shell, serving


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[tuple[Shell, Loopback]]:
    with engine_replies(f"file:{tmp_path / 'served.db'}") as answer, loopback(answer) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        shell.ok("create-queue", "q", "--max-delivery", "5")
        yield shell, server


LOST = "error: what became of 1 message(s) could not be told; what is not settled comes again"


def messages(shell: Shell, queue: str = "q") -> list[dict[str, Any]]:
    found = shell.ok("peek", queue, "--max", "1000", "--output", "ndjson")
    return [json.loads(line) for line in found.splitlines()]


def appears(path: Path) -> None:
    """Wait until a command has made this file."""
    pause = threading.Event()
    for _ in range(int(BOUND_SECONDS * 100)):
        if path.exists():
            return
        pause.wait(0.01)
    raise AssertionError(f"{path} did not appear")


def test_a_command_gets_the_body_and_the_metadata_and_its_message_is_completed(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, _ = broker
    shell.ok("send", "q", "-", "--message-id", "m 1", "--group", "g", "--subject", "s",
             "--prop", "a=b", "--correlation-id", "c", stdin=b"\x00\xff\n")  # fmt: skip
    script = 'cat > body; env | grep ^MESSAGE_ | sort > env; echo "seen $MESSAGE_SEQ"'
    out = shell.ok("consume", "q", "--exec", script, "--count", "1")
    assert out == ("seen 1\nok: action=consume queue=q completed=1 abandoned=0 rejected=0 lost=0\n")
    assert (shell.folder / "body").read_bytes() == b"\x00\xff\n"
    found = dict(
        line.split("=", 1) for line in (shell.folder / "env").read_text("utf-8").splitlines()
    )
    assert int(found.pop("MESSAGE_ENQUEUED_AT_MS")) > 0
    assert found == {
        "MESSAGE_QUEUE": "q", "MESSAGE_SEQ": "1", "MESSAGE_DELIVERY_COUNT": "1",
        "MESSAGE_ID": "m 1", "MESSAGE_GROUP_ID": "g", "MESSAGE_SUBJECT": "s",
        "MESSAGE_CORRELATION_ID": "c", "MESSAGE_REPLY_TO": "", "MESSAGE_CONTENT_TYPE": "",
        "MESSAGE_EXPIRES_AT_MS": "0", "MESSAGE_PROPERTIES": '{"a":"b"}',
    }  # fmt: skip
    assert messages(shell) == []


def test_metadata_that_the_locale_cannot_hold_reaches_the_command(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, _ = broker
    shell.ok("send", "q", "--ndjson", stdin='{"text": "x", "message_id": "Größe→"}\n'.encode())
    poor = Shell(shell.folder, **shell.environ, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    poor.ok("consume", "q", "--exec", 'printf "%s" "$MESSAGE_ID" > id', "--count", "1")
    assert (shell.folder / "id").read_text("utf-8") == "Größe→"


def test_a_thread_that_cannot_be_had_ends_it_and_gives_the_message_back(
    broker: tuple[Shell, Loopback],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    shell, server = broker
    shell.ok("send", "q", "x")
    mqlite = Inline(shell.folder, monkeypatch, capfd)
    mqlite.environ["MQLITE_ENDPOINT"] = server.url
    start = threading.Thread.start
    for refused in ("_feed", "_loop"):

        def some(thread: threading.Thread, refused: str = refused) -> None:
            if getattr(getattr(thread, "_target", None), "__name__", "") == refused:
                raise RuntimeError("can't start new thread")
            start(thread)

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", some)
            done = mqlite.run("consume", "q", "--exec", "cat", "--idle", "1s", check=1)
        assert "can't start new thread" in done.err
        assert [(each["state"], each.get("delivery_count", 0)) for each in messages(shell)] == [
            ("active", 0)
        ]


def test_a_command_that_fails_gives_its_message_back_for_later(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, server = broker
    shell.ok("send", "q", "-", stdin=b"x" * 300_000)
    # It reads nothing of a body that no pipe holds.
    done = shell.run("consume", "q", "--exec", "exit 7", "--count", "1", "--delay", "9s", check=0)
    assert done.err == "warning: seq=1: exit 7; abandoned\n"
    assert "abandoned=1" in done.text
    (abandon,) = (
        msgspec.json.decode(r.body) for r in server.requests if r.call == "QueueService/Abandon"
    )
    assert abandon["delay_ms"] == 9_000
    (message,) = messages(shell)
    assert message["delivery_count"] == 1


def test_the_delay_doubles_and_ends_somewhere() -> None:
    assert [delay_ms(1_000, n) for n in (1, 2, 3, 4, 100)] == [1_000, 2_000, 4_000, 8_000, 300_000]
    assert [delay_ms(900_000, n) for n in (1, 9)] == [900_000, 900_000]
    assert delay_ms(0, 9) == 0


@pytest.mark.parametrize("words", [["--on-failure", "reject"], ["--reject-exit", "65"]])
def test_a_message_that_is_beyond_help_becomes_a_dead_letter(
    broker: tuple[Shell, Loopback], words: list[str]
) -> None:
    shell, _ = broker
    shell.ok("send", "q", "x")
    shell.run("consume", "q", "--exec", "exit 65", "--count", "1", *words, check=0)
    (message,) = messages(shell)
    assert message["state"] == "dead_lettered"
    assert message["dead_letter_reason"] == "CommandFailed"
    assert message["dead_letter_description"] == "exit 65"


def test_a_command_that_takes_too_long_is_ended_with_what_it_started(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, _ = broker
    shell.ok("send", "q", "x")
    done = shell.run(
        "consume", "q", "--exec", "tail -f /dev/null | cat", "--limit", "100ms", "--count", "1",
        "--on-failure", "reject", check=0,
    )  # fmt: skip
    assert done.err == "warning: seq=1: it took longer than 0.1s; rejected\n"


def test_commands_run_side_by_side_and_idleness_ends_them(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    shell.ok("send", "q", "--lines", stdin=b"1\n2\n3\n")
    # Each waits until all three have begun.
    script = 'touch "began.$MESSAGE_SEQ"; while [ ! -e began.1 -o ! -e began.2 -o ! -e began.3 ];'
    line = shell.ok(
        "consume", "q", "--exec", f"{script} do :; done", "--concurrency", "3", "--idle", "50ms",
        "--limit", "50s", "--output", "ndjson",
    )  # fmt: skip
    assert json.loads(line) == {
        "action": "consume", "queue": "q", "completed": 3, "abandoned": 0, "rejected": 0, "lost": 0,
    }  # fmt: skip


def test_a_lease_is_renewed_while_its_command_runs(broker: tuple[Shell, Loopback]) -> None:
    shell, server = broker
    shell.ok("update-queue", "q", "--lock", "1s")
    shell.ok("send", "q", "x")
    with shell.start("consume", "q", "--exec", "until [ -e go ]; do :; done", "--count", "1") as p:
        pause = threading.Event()
        while server.calls.count("QueueService/RenewBatch") < 3:
            assert p.poll() is None
            pause.wait(0.01)
        (shell.folder / "go").touch()
        out, err = p.communicate(timeout=BOUND_SECONDS)
    assert (p.returncode, err) == (0, b"")
    assert b"completed=1" in out


@pytest.mark.parametrize("is_told_twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_after_a_signal_what_runs_is_finished_and_nothing_more_is_taken(
    broker: tuple[Shell, Loopback], number: signal.Signals, code: int, *, is_told_twice: bool
) -> None:
    shell, server = broker
    shell.ok("send", "q", "--lines", stdin=b"1\n2\n")
    script = "touch began; until [ -e go ]; do :; done"
    with shell.start("consume", "q", "--exec", script) as process:
        appears(shell.folder / "began")
        process.send_signal(number)
        if is_told_twice:  # by two at once, whichever is heard first
            process.send_signal(signal.SIGINT if number == signal.SIGTERM else signal.SIGTERM)
        (shell.folder / "go").touch()
        _, err = process.communicate(timeout=BOUND_SECONDS)
    assert err == b""
    assert process.returncode in ({0, 130} if is_told_twice else {code})
    assert [message["seq_number"] for message in messages(shell)] in ([2], [])
    assert server.calls.count("QueueService/Complete") == 2 - len(messages(shell))


def test_a_command_that_outlasts_the_grace_is_ended_and_its_message_untouched(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, _ = broker
    shell.ok("send", "q", "x")
    script = "touch began; tail -f /dev/null"
    with shell.start("consume", "q", "--exec", script, "--grace", "0") as process:
        appears(shell.folder / "began")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=BOUND_SECONDS)
    assert (process.returncode, err) == (0, b"")
    (message,) = messages(shell)
    assert (message["state"], message.get("delivery_count", 0)) == ("active", 0)


@pytest.mark.parametrize("words", [["--grace", "0"], ["--limit", "100ms", "--count", "1"]])
def test_a_command_that_is_asked_to_end_and_says_that_it_is_done_is_believed(
    broker: tuple[Shell, Loopback], words: list[str]
) -> None:
    shell, _ = broker
    shell.ok("send", "q", "x")
    script = "trap 'touch done; exit 0' TERM; touch began; while :; do :; done"
    with shell.start("consume", "q", "--exec", script, *words) as process:
        if "--grace" in words:
            appears(shell.folder / "began")
            process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=BOUND_SECONDS)
    assert process.returncode == 0
    # A shell that the limit has met in front of its trap has done nothing.
    has_ended = (shell.folder / "done").exists()
    assert (b"completed=1" in out) == has_ended == (not messages(shell))
    assert has_ended or "--limit" in words


def test_an_idle_worker_ends_at_once_and_takes_nothing_with_it(tmp_path: Path) -> None:
    served = Shell(tmp_path, MQLITE_TOKENS="mqk_test", MQLITE_TOKEN="mqk_test")
    with serving(served) as broker:
        shell = served.with_(MQLITE_ENDPOINT=broker.url)
        shell.ok("create-queue", "q")
        shell.ok("send", "q", "x")
        words = ["consume", "q", "--exec", "touch began", "--concurrency", "4"]
        with shell.start(*words) as process:
            appears(tmp_path / "began")
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=BOUND_SECONDS)
        assert (process.returncode, err) == (0, b"")
        assert b"completed=1" in out
        shell.ok("send", "q", "y")
        assert 'body="y"' in shell.ok("receive", "q")


def test_a_broker_that_is_away_is_waited_for(tmp_path: Path) -> None:
    with engine_replies(f"file:{tmp_path / 'served.db'}") as answer:

        def choose(request: Recorded) -> bytes | None:
            if server.calls.count("QueueService/Receive") == 1:
                return refusal(503, "unavailable", "stopping")
            return answer(request)

        with loopback(choose) as server:
            shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
            shell.ok("create-queue", "q")
            shell.ok("send", "q", "x")
            done = shell.run("consume", "q", "--exec", "cat", "--count", "1", check=0)
    assert done.err == "warning: stopping; it is tried again\n"
    assert done.text.startswith("xok: ")


def test_what_will_not_go_away_ends_it(broker: tuple[Shell, Loopback]) -> None:
    shell, server = broker
    assert shell.run("consume", "none", "--exec", "cat", check=1).err.startswith("error: not_found")
    server.requests.clear()
    for words in (
        [], ["--exec", ""], ["--exec", "cat", "--on-failure", "defer"],
        ["--exec", "cat", "--concurrency", "0"], ["--exec", "cat", "--count", "0"],
        ["--exec", "cat", "--delay", "-1s"],
    ):  # fmt: skip
        assert len(shell.run("consume", "q", *words, check=1).errors) == 1, words
    assert server.requests == []


def test_a_store_of_its_own_is_consumed_too(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.ok("create-queue", "q")
    shell.ok("send", "q", "--lines", stdin=b"1\n2\n3\n")
    assert "completed=3" in shell.ok(
        "consume", "q", "--exec", "cat", "--concurrency", "2", "--idle", "10ms"
    )
    assert messages(shell) == []


@pytest.mark.parametrize("lock_ms", [0, 60_000])
def test_a_verdict_is_told_for_as_long_as_the_lease_may_live(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    lock_ms: int,
) -> None:
    mqlite = Inline(tmp_path, monkeypatch, capfd)
    monkeypatch.setattr(consuming, "_SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(consuming, "_PAUSE_SECONDS", 0.0)
    until_ms = SystemClock().now_ms() + lock_ms if lock_ms else 0
    message = {"seq_number": 1, "lock_token": "t", "body": "eA==", "locked_until_ms": until_ms}
    away: list[bytes | None] = [refusal(503, "unavailable", "stopping")] * 9 + [None]
    settled = [*away, reply(200, {})]

    def answer(request: Recorded) -> bytes | None:
        if request.call == "QueueService/Receive":
            return reply(200, {"messages": [message]})
        return settled.pop(0) if request.call == "QueueService/Complete" else None

    with loopback(answer) as server:
        mqlite.environ["MQLITE_ENDPOINT"] = server.url
        done = mqlite.run("consume", "q", "--exec", "true", "--count", "1")
    if lock_ms:
        assert done.code == 0
        assert "completed=1" in done.text
        assert settled == []
    else:
        assert done.code == 1
        assert "lost=1" in done.text
        assert done.err == (
            "warning: seq=1: stopping; it is not completed and comes again when its lease ends\n"
            f"{LOST}\n"
        )


def test_a_settlement_that_may_be_done_is_never_told_as_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    mqlite = Inline(tmp_path, monkeypatch, capfd)
    monkeypatch.setattr(consuming, "_SETTLE_SECONDS", 0.0)
    claimed = reply(200, {"messages": [{"seq_number": 1, "lock_token": "t", "body": "eA=="}]})

    def answer(request: Recorded) -> bytes | None:
        return claimed if request.call == "QueueService/Receive" else None

    with loopback(answer) as server:
        mqlite.environ["MQLITE_ENDPOINT"] = server.url
        done = mqlite.run("consume", "q", "--exec", "true", "--count", "1", check=1)
    what = "whether it is completed is not known; if not, it comes again"
    assert done.err.endswith(f"{what}\n{LOST}\n")
    assert "completed=0 abandoned=0 rejected=0 lost=1" in done.text


@pytest.mark.parametrize(("lost", "code"), [(1, 0), (2, 1)])
def test_a_stop_fails_for_what_was_lost_since_the_signal_and_not_for_what_was_before(
    tmp_path: Path, lost: int, code: int
) -> None:
    claims = [[{"seq_number": n, "lock_token": "t", "body": "eA=="}] for n in (1, 2)]

    def answer(request: Recorded) -> bytes | None:
        if request.call == "QueueService/Receive":
            return reply(200, {"messages": claims.pop(0)})
        if msgspec.json.decode(request.body)["seq_number"] == lost:
            return refusal(409, "lock_lost", "over")
        return reply(200, {"ok": True})

    waiting = "trap 'exit 0' TERM; touch began; while :; do :; done"
    script = f'if [ "$MESSAGE_SEQ" = 2 ]; then {waiting}; fi'
    with loopback(answer) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        with shell.start("consume", "q", "--exec", script, "--grace", "0") as process:
            appears(shell.folder / "began")
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=BOUND_SECONDS)
    assert process.returncode == code
    assert b"completed=1 abandoned=0 rejected=0 lost=1" in out
    assert (LOST.encode() in err) == (code == 1)


def test_what_a_broker_answers_early_is_no_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    mqlite = Inline(tmp_path, monkeypatch, capfd)
    monkeypatch.setattr(consuming, "_PAUSE_SECONDS", 0.0)
    message = {"seq_number": 1, "lock_token": "t", "body": "eA=="}
    claims = [[], [], [message]]

    def answer(request: Recorded) -> bytes:
        is_claim = request.call == "QueueService/Receive"
        return reply(200, {"messages": claims.pop(0)} if is_claim else {})

    with loopback(answer) as server:
        mqlite.environ["MQLITE_ENDPOINT"] = server.url
        done = mqlite.ok("consume", "q", "--exec", "cat", "--count", "1", "--idle", "20s")
    assert done.startswith("xok: ")
