"""export and import: messages of any state as lines, and back (tools.md 8, row 4)."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqlite_actor.clock import SystemClock
from mqlite_cli.lines import restored
from tests.sdk.loopback import Answer, Loopback, Recorded, engine_replies, loopback, refusal, reply
from tests.services.cli_inline import Inline
from tests.services.cli_process import Shell


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[tuple[Shell, Loopback]]:
    """A queue `q` with one message of each state, and an empty queue `r`."""
    with engine_replies(f"file:{tmp_path / 'served.db'}") as answer, loopback(answer) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        shell.ok("create-queue", "q")
        shell.ok("create-queue", "r")
        shell.ok("send", "q", "--lines", "--prop", "a=b", stdin=b"1\n2\n3\n")
        shell.ok("schedule", "q", "later", "--at", "2099-01-01T00:00:00Z", "--subject", "s")
        shell.ok("send", "q", "-", "--message-id", "m", "--ttl", "1h", stdin=b"\x00\xff")
        held = shell.ok("receive", "q", "--max", "3", "--no-ack", "--output", "ndjson")
        first, second, _ = (json.loads(line) for line in held.splitlines())
        shell.ok("reject", "q", "1", first["lock_token"], "--reason", "bad")
        shell.ok("defer", "q", "2", second["lock_token"])
        yield shell, server


def exported(shell: Shell, *words: str) -> list[dict[str, Any]]:
    done = shell.run("export", *words, check=0)
    found = [json.loads(line) for line in done.text.splitlines()]
    assert done.err == f"exported={len(found)}\n"
    return found


def test_an_export_holds_every_message_of_every_state_and_changes_nothing(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, _ = broker
    before = shell.ok("metrics", "q").split(" oldest")[0]
    found = exported(shell, "q")
    assert [each["state"] for each in found] == [
        "dead_lettered", "deferred", "locked", "scheduled", "active",
    ]  # fmt: skip
    assert found[0]["dead_letter_reason"] == "bad"
    assert base64.b64decode(found[4]["body"]) == b"\x00\xff"
    assert all("lock_token" not in each for each in found)
    assert shell.ok("metrics", "q").split(" oldest")[0] == before
    assert [each["seq_number"] for each in exported(shell, "q", "--from", "2", "--to", "3")] == [
        2, 3,
    ]  # fmt: skip
    assert [each["seq_number"] for each in exported(shell, "q", "--state", "dead_lettered")] == [1]
    assert exported(shell, "r") == []
    assert shell.run("export", "none", check=1).err.startswith("error: not_found: ")


def test_an_import_sends_it_all_again(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    text = shell.ok("export", "q")
    (shell.folder / "q.ndjson").write_text(text, "utf-8")
    line = shell.ok("import", "r", "--file", "q.ndjson")
    assert line == "ok: action=import queue=r sent=5 unrouted=0 expired=0\n"
    old, new = exported(shell, "q"), exported(shell, "r")
    for key in ("body", "properties", "subject", "message_id"):
        assert [each.get(key) for each in new] == [each.get(key) for each in old]
    assert [each["state"] for each in new] == [
        "active", "active", "active", "scheduled", "active",
    ]  # fmt: skip
    assert new[3]["visible_at_ms"] == old[3]["visible_at_ms"]
    # To the millisecond of the moment at which the line was read and stored.
    assert 0 <= new[4]["expires_at_ms"] - old[4]["expires_at_ms"] < 60_000
    assert shell.ok("import", "r", stdin=text.encode()).startswith("ok: action=import ")


def test_what_has_expired_is_left_out_and_a_bad_line_is_named(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, _ = broker
    lines = b'{"body":"YQ==","expires_at_ms":1}\n{"body":"Yg=="}\n{"body":"!"}\n'
    done = shell.run("import", "r", "-", stdin=lines, check=1)
    assert done.err.startswith("error: line 3: not a message: ")
    assert "1 message(s) are stored, all of the first 2 line(s) but 1 that had expired" in done.err
    assert [each["body"] for each in exported(shell, "r")] == ["Yg=="]
    assert shell.run("import", "r", "x", check=1).errors


def test_what_has_expired_is_counted_where_it_stands(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    over, new, bad = b'{"expires_at_ms":1}\n', b'{"text":"x"}\n', b"!\n"
    done = shell.run("import", "r", stdin=over + new + over, check=0)
    assert done.err == "warning: 2 message(s) had expired and are left out\n"
    assert done.text == "ok: action=import queue=r sent=1 unrouted=0 expired=2\n"
    for lines, told in (
        (over + over + bad, "0 message(s) are stored, all of the first 2 line(s) but 2 that had"),
        (new + over + bad, "1 message(s) are stored, all of the first 1 line(s)\n"),
        (over + new + over + new + bad, "2 message(s) are stored, all of the first 4 line(s) but"),
    ):
        assert told in shell.run("import", "r", stdin=lines, check=1).err


def test_a_dead_letter_that_has_expired_begins_a_new_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    mqlite = Inline(tmp_path, monkeypatch, capfd)
    mqlite.ok("create-queue", "q")
    mqlite.ok("create-queue", "r", "--ttl", "1h")
    mqlite.ok("send", "q", "x", "--ttl", "1ms")
    pause, lines = threading.Event(), ""
    while '"TTLExpired"' not in lines:  # bounded by what ends a test that hangs
        pause.wait(0.01)
        lines = mqlite.ok("export", "q")
    done = mqlite.run("import", "r", stdin=lines.encode(), check=0)
    assert (done.err, "sent=1 unrouted=0 expired=0" in done.text) == ("", True)
    old, new = json.loads(lines), json.loads(mqlite.ok("export", "r"))
    assert new["state"] == "active"
    assert new["expires_at_ms"] == new["enqueued_at_ms"] + 3_600_000
    # One that was rejected while it lived keeps the time that it has left.
    old["expires_at_ms"] = new["expires_at_ms"] - 1_800_000
    mqlite.run("import", "r", stdin=json.dumps(old).encode(), check=0)
    again = json.loads(mqlite.ok("export", "r").splitlines()[-1])
    assert 0 <= again["expires_at_ms"] - old["expires_at_ms"] < 60_000


@pytest.mark.parametrize(
    ("state", "visible_at_ms", "left_ms", "at_ms"),
    [
        ("scheduled", 88_000, 3_000, 88_000),
        ("scheduled", 5_000, 81_000, 0),
        ("active", 0, 81_000, 0),
    ],
)
def test_a_life_that_begins_later_is_as_long_as_it_was(
    state: str, visible_at_ms: int, left_ms: int, at_ms: int
) -> None:
    line = {"state": state, "visible_at_ms": visible_at_ms, "expires_at_ms": 91_000}
    now = iter([10_000, 90_500, 91_000]).__next__
    entry = restored(json.dumps(line).encode(), now)
    assert entry is not None
    assert (entry.message.ttl_ms, entry.at_ms) == (left_ms, at_ms)
    # The same line later in the stream.
    entry = restored(json.dumps(line).encode(), now)
    assert entry is not None
    assert (entry.message.ttl_ms, entry.at_ms) == (500, 0)
    entry = restored(json.dumps(line).encode(), now)
    assert entry is not None
    assert entry.is_expired


COUNTS = dict.fromkeys(
    ("active", "locked", "deferred", "scheduled", "dead_lettered", "total",
     "oldest_message_age_ms"), 0,
) | {"queue": "r"}  # fmt: skip


def told(request: Recorded) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(request.body)
    return found


@pytest.mark.parametrize("hours", [-3, 3])
@pytest.mark.parametrize("asked", ["yes", "permission_denied", "not_found"])
def test_an_import_goes_by_the_clock_of_the_broker_from_its_first_line_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    hours: int,
    asked: str,
) -> None:
    mqlite = Inline(tmp_path, monkeypatch, capfd)
    hour_ms = 3_600_000
    there_ms = SystemClock().now_ms() + hours * hour_ms
    status = {"permission_denied": 403, "not_found": 404}.get(asked, 200)

    def answer(request: Recorded) -> bytes | None:
        if request.call == "QueueService/Stats":
            content = COUNTS if status == 200 else {"code": asked, "message": "no"}
            return reply(status, content, now_ms=there_ms)
        slots = [{"outcome": "inserted", "seq_number": 1, "copies": 1}]
        return reply(200, {"results": slots}, now_ms=there_ms)

    stream = [
        {"text": "due", "state": "scheduled", "visible_at_ms": there_ms - hour_ms},
        {"text": "waits", "state": "scheduled", "visible_at_ms": there_ms + hour_ms},
        {"text": "lives", "expires_at_ms": there_ms + hour_ms},
        {"text": "is over", "expires_at_ms": there_ms - hour_ms},
    ]
    (tmp_path / "lines").write_text("".join(json.dumps(each) + "\n" for each in stream))
    with loopback(answer) as server:
        mqlite.environ["MQLITE_ENDPOINT"] = server.url
        assert "sent=3 " in mqlite.ok("import", "r", "--file", "lines")
    assert [request.call for request in server.requests].count("QueueService/Stats") == 1
    sent = [told(request) for request in server.requests[1:]]
    assert [each.get("scheduled_enqueue_time_ms", 0) for each in sent] == [
        0, there_ms + hour_ms, 0,
    ]  # fmt: skip
    assert abs(sent[2]["messages"][0]["ttl_ms"] - hour_ms) < hour_ms // 2


def always(answer: bytes) -> Answer:
    return lambda _: answer


def test_a_broker_that_cannot_be_asked_ends_an_import_and_one_without_a_clock_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    mqlite = Inline(tmp_path, monkeypatch, capfd)
    line = json.dumps({"text": "x", "expires_at_ms": SystemClock().now_ms() + 3_600_000})
    (tmp_path / "lines").write_text(f"{line}\n" * 2)
    slot = {"outcome": "inserted", "seq_number": 1, "copies": 1}
    body = json.dumps({**COUNTS, "results": [slot, slot]}).encode()
    bare = b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
    answers = {True: refusal(503, "unavailable", "stopping"), False: bare % (len(body), body)}
    for is_away, answer in answers.items():
        with loopback(always(answer)) as server:
            mqlite.environ["MQLITE_ENDPOINT"] = server.url
            done = mqlite.run("import", "r", "--file", "lines", check=int(is_away))
        if is_away:
            assert "stopping; 0 message(s) are stored" in done.err
        assert server.calls.count("QueueService/Stats") == 1


def test_a_scheduled_message_whose_time_has_come_at_the_broker_is_sent_for_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    mqlite = Inline(tmp_path, monkeypatch, capfd)
    now_ms, hour_ms = SystemClock().now_ms(), 3_600_000

    def chosen(request: Recorded) -> bytes | None:
        """A broker whose clock is an hour ahead, and which takes nothing for later."""
        sent = msgspec.json.decode(request.body)
        if not sent.get("scheduled_enqueue_time_ms"):
            return answer(request)
        refused = {"code": "invalid_argument", "message": "not in the future"}
        return reply(400, refused, now_ms=now_ms + hour_ms)

    def line(after_ms: int) -> dict[str, object]:
        return {"state": "scheduled", "visible_at_ms": now_ms + after_ms, "text": str(after_ms)}

    stream = [line(hour_ms // 2), {"text": "active"}, line(2 * hour_ms), {"text": "behind"}]
    with engine_replies() as answer, loopback(chosen) as server:
        mqlite.environ["MQLITE_ENDPOINT"] = server.url
        mqlite.ok("create-queue", "r")
        (tmp_path / "lines").write_text("".join(json.dumps(each) + "\n" for each in stream))
        done = mqlite.run("import", "r", "--file", "lines", check=1)
        assert "line 3 failed; 2 message(s) are stored" in done.err
        found = mqlite.ok("peek", "r", "--max", "9", "--body-only")
    assert found == f"{hour_ms // 2}\nactive\n"


def test_pages_are_followed_without_gaps(broker: tuple[Shell, Loopback]) -> None:
    shell, server = broker
    shell.ok("send", "r", "--lines", stdin=b"x\n" * 1500)
    server.requests.clear()
    assert len({each["seq_number"] for each in exported(shell, "r")}) == 1500
    assert server.calls.count("QueueService/Peek") == 3


def test_an_output_that_fails_is_told(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    done = shell.run("export", "q", redirect="1>/dev/full", check=1)
    assert "the export is not whole" in done.err
