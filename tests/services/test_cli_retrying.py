"""`--retries`, and many messages under request ids: what is lost on the way is asked for again, and
nothing is stored twice (tools.md 8, 15; ruling R46)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from mqlite_cli import retrying
from tests.sdk.loopback import Loopback, Recorded, engine_replies, loopback, refusal, reply
from tests.services.cli_inline import Inline

BUSY = refusal(503, "unavailable", "busy")
SENT = reply(200, {"seq_numbers": [1]})


@pytest.fixture
def mqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Inline:
    return Inline(tmp_path, monkeypatch, capfd)


@pytest.fixture
def flaky(mqlite: Inline) -> Iterator[list[bytes | None]]:
    """Answers, taken from the front; None closes the connection without a word."""
    answers: list[bytes | None] = []
    with loopback(lambda _: answers.pop(0)) as server:
        mqlite.environ["MQLITE_ENDPOINT"] = server.url
        yield answers


def test_what_did_nothing_is_done_again(mqlite: Inline, flaky: list[bytes | None]) -> None:
    flaky += [BUSY, BUSY, SENT]
    assert mqlite.ok("send", "q", "x", "--retries", "2") == "ok: queue=q seq=1\n"
    flaky += [BUSY, BUSY, SENT]
    assert "busy" in mqlite.run("send", "q", "x", "--retries", "1", check=1).err
    flaky[:] = [BUSY]
    assert "busy" in mqlite.run("send", "q", "x", check=1).err


def test_a_lost_answer_is_asked_for_again_where_that_is_harmless(
    mqlite: Inline, flaky: list[bytes | None]
) -> None:
    flaky += [None, reply(200, {"queues": []})]
    assert mqlite.ok("list", "--retries", "1") == "(no queues)\n"
    flaky += [None]
    done = mqlite.run("send", "q", "x", "--retries", "5", check=1)
    assert done.err.startswith("error: outcome_unknown: ")
    assert flaky == []


def test_what_stays_in_doubt_is_told_so_although_the_last_attempt_did_nothing(
    mqlite: Inline, flaky: list[bytes | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying, "_PAUSE_SECONDS", 0.0)
    flaky += [None, BUSY, BUSY]
    assert "busy" in mqlite.run("list", "--retries", "2", check=1).err
    flaky += [None, BUSY, BUSY]
    send = ["send", "q", "--lines"]
    done = mqlite.run(*send, "--retries", "2", stdin=b"1\n2\n", check=1)
    assert done.err.startswith("error: outcome_unknown: ")
    assert "0 message(s) are stored, all of the first 0 line(s); whether lines 1 to 2 are" in (
        done.err
    )
    slots = {"results": [{"outcome": "inserted", "seq_number": 1}] * 256}
    flaky += [reply(200, slots), None, BUSY]  # the client itself repeats on a kept connection
    done = mqlite.run(*send, stdin=b"x\n" * 300, check=1)
    assert done.err.startswith("error: outcome_unknown: ")
    assert "256 message(s) are stored" in done.err
    assert "whether lines 257 to 300 are is not known" in done.err
    flaky += [None, BUSY]
    done = mqlite.run("receive", "q", "--delete", check=1)
    assert done.err.startswith("error: outcome_unknown: "), "they may be removed, and unseen"
    assert flaky == []


def test_what_the_flag_may_be(mqlite: Inline, flaky: list[bytes | None]) -> None:
    for number in ("-1", "101"):
        assert "--retries must be" in mqlite.run("list", "--retries", number, check=1).err
    mqlite.environ.clear()
    assert "is for a broker" in mqlite.run("list", "--retries", "1", check=1).err
    assert flaky == []


@pytest.fixture
def forgetful(mqlite: Inline) -> Iterator[Loopback]:
    """A real engine whose every second answer to a SendResult is lost after it is done."""
    with engine_replies(f"file:{mqlite.folder / 'served.db'}") as answer:
        seen: list[str] = []

        def lossy(request: Recorded) -> bytes | None:
            answered = answer(request)
            if request.target.endswith("SendResult"):
                seen.append(request.target)
                return answered if len(seen) % 2 == 0 else None
            return answered

        with loopback(lossy) as server:
            mqlite.environ["MQLITE_ENDPOINT"] = server.url
            mqlite.ok("create-queue", "q")
            yield server


def test_many_messages_survive_lost_answers_and_are_stored_once(
    mqlite: Inline, forgetful: Loopback
) -> None:
    (mqlite.folder / "lines").write_text("".join(f"{number}\n" for number in range(600)))
    send = ["send", "q", "--lines", "--file", "lines"]
    assert mqlite.ok(*send, "--retries", "1").endswith(" sent=600 unrouted=0\n")
    assert "total=600" in mqlite.ok("metrics", "q")
    ids = [
        msgspec.json.decode(each.body)["request_id"]
        for each in forgetful.requests
        if each.target.endswith("SendResult")
    ]
    assert len(ids) == 6
    assert len(set(ids)) == 3
    done = mqlite.run(*send, check=1)
    assert "whether lines 1 to 256 are is not known" in done.err


def test_a_broker_without_request_ids_gets_plain_sends(mqlite: Inline) -> None:
    def answer(request: Recorded) -> bytes:
        if "ext" in request.target:
            return refusal(404, "not_found", f"no such path: {request.target}")
        count = len(msgspec.json.decode(request.body)["messages"])
        return reply(200, {"seq_numbers": list(range(1, count + 1))})

    (mqlite.folder / "lines").write_text("x\n" * 300)
    with loopback(answer) as server:
        mqlite.environ["MQLITE_ENDPOINT"] = server.url
        send = ["send", "q", "--lines", "--file", "lines"]
        assert mqlite.ok(*send).endswith(" sent=300 unrouted=0\n")
        assert server.calls[1:] == ["QueueService/Send", "QueueService/Send"]


USED = [
    {"text": "one", "message_id": "B"},
    {"text": "another", "message_id": "A"},
    {"text": "three", "message_id": "C"},
    {"text": "four"},
]
"""Four lines, of which the second has an id that was used with another body."""


def refuses_the_used_id(mqlite: Inline) -> None:
    mqlite.ok("create-queue", "d", "--dedup", "10m")
    mqlite.ok("send", "d", "first", "--message-id", "A")
    (mqlite.folder / "lines").write_text("".join(f"{json.dumps(each)}\n" for each in USED))
    for _ in range(2):  # what is stored is not stored again
        done = mqlite.run("send", "d", "--ndjson", "--file", "lines", check=1)
        assert done.text == ""
        assert done.err.startswith("error: already_exists: ")
        assert "3 message(s) are stored, all of the first 4 line(s) but line(s) 2" in done.err
        assert "total=4" in mqlite.ok("metrics", "d")


def test_a_line_whose_id_was_used_with_another_body_is_named_and_not_counted(
    mqlite: Inline,
) -> None:
    refuses_the_used_id(mqlite)


def test_the_same_from_a_broker_without_request_ids(mqlite: Inline) -> None:
    with engine_replies(f"file:{mqlite.folder / 'served.db'}") as answer:

        def older(request: Recorded) -> bytes | None:
            if request.target.endswith("SendResult"):
                return refusal(404, "not_found", f"no such path: {request.target}")
            return answer(request)

        with loopback(older) as server:
            mqlite.environ["MQLITE_ENDPOINT"] = server.url
            refuses_the_used_id(mqlite)
            mqlite.ok("subscribe", "t", "s", "--expr", 'subject == "wanted"')
            done = mqlite.ok("send", "t", "--ndjson", "--file", "lines")
            assert done.endswith(" sent=4 unrouted=4\n"), "nobody wanted them, which is no refusal"


def test_a_batch_whose_refusals_cannot_be_asked_for_is_in_doubt(
    mqlite: Inline, flaky: list[bytes | None]
) -> None:
    older = refusal(404, "not_found", "no such path: SendResult")
    flaky += [older, reply(200, {"seq_numbers": [7, 0]}), BUSY]
    lines = b'{"text": "a", "message_id": "1"}\n{"text": "b", "message_id": "2"}\n'
    done = mqlite.run("send", "q", "--ndjson", stdin=lines, check=1)
    assert done.err.startswith("error: outcome_unknown: ")
    assert "whether lines 1 to 2 are is not known" in done.err
    assert flaky == []


def test_a_refused_line_is_named_also_when_a_later_one_fails_the_batch(mqlite: Inline) -> None:
    mqlite.ok("create-queue", "d", "--dedup", "10m")
    mqlite.ok("send", "d", "first", "--message-id", "A")
    lines = [*USED[1:3], {"text": "x" * 3000, "message_id": "D"}]
    (mqlite.folder / "lines").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    mqlite.environ["MQLITE_MAX_MESSAGE_BYTES"] = "2000"
    done = mqlite.run("send", "d", "--ndjson", "--file", "lines", check=1)
    assert done.err.startswith("error: message_too_large: ")
    assert "line 3 failed; 1 message(s) are stored, all of the first 2 line(s) but line(s) 1" in (
        done.err
    )


def test_messages_with_ids_survive_lost_answers_too(mqlite: Inline, forgetful: Loopback) -> None:
    (mqlite.folder / "lines").write_text('{"text": "a", "message_id": "1"}\n')
    mqlite.ok("send", "q", "--ndjson", "--file", "lines", "--retries", "1")
    assert "total=1" in mqlite.ok("metrics", "q")
    assert len(forgetful.requests) > 2


def test_ping_tells_how_latencies_spread(mqlite: Inline, forgetful: Loopback) -> None:
    found = mqlite.run("ping", "--count", "5", "--output", "json", check=0).json
    assert found["min_ms"] <= found["p50_ms"] <= found["p99_ms"] <= found["max_ms"]
    assert len(forgetful.requests) == 6
