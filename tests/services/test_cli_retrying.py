"""`--retries`, and many messages under request ids: what is lost on the way is asked for again, and
nothing is stored twice (tools.md 8, 15; ruling R46)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

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


def test_messages_with_ids_are_sent_all_or_none(mqlite: Inline, forgetful: Loopback) -> None:
    (mqlite.folder / "lines").write_text('{"text": "a", "message_id": "1"}\n')
    mqlite.ok("send", "q", "--ndjson", "--file", "lines")
    assert forgetful.calls[-1] == "QueueService/Send"
    forgetful.requests.clear()


def test_ping_tells_how_latencies_spread(mqlite: Inline, forgetful: Loopback) -> None:
    found = mqlite.run("ping", "--count", "5", "--output", "json", check=0).json
    assert found["min_ms"] <= found["p50_ms"] <= found["p99_ms"] <= found["max_ms"]
    assert len(forgetful.requests) == 6
