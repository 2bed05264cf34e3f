"""What is a duration from now, or is over, is judged by the clock of where the command goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqlite_actor.clock import SystemClock
from tests.sdk.loopback import Loopback, Recorded, loopback, refusal, reply
from tests.services.cli_inline import Inline

HOUR_MS = 3_600_000
NEAR_MS = 60_000
"""How far the moment of a test may be from that of its command; clocks here are hours apart."""

COUNTS = dict.fromkeys(
    ("active", "locked", "deferred", "scheduled", "dead_lettered", "total",
     "oldest_message_age_ms"), 0,
) | {"queue": "q"}  # fmt: skip

STATUS = {
    "version": "1", "backend": "sqlite", "remote": False, "location": "x", "schema_version": "1",
    "ping_ms": 0, "db_size_bytes": 0, "queues": 1, "subscriptions": 0, "uptime_ms": 1, "auth": True,
}  # fmt: skip

NOTHING = {"messages": [], "scanned": 0, "failed": 0, "failure": "", "next_page_token": ""}


def key(expires_at_ms: int) -> dict[str, Any]:
    return {"id": "ab" * 16, "name": "n", "permissions": ["send"], "created_at_ms": 1,
            "revoked_at_ms": 0, "expires_at_ms": expires_at_ms}  # fmt: skip


def answers(there_ms: int) -> dict[str, Any]:
    """Name of a call → what a broker says at that time."""
    return {
        "Stats": COUNTS,
        "Status": STATUS,
        "Schedule": {"seq_numbers": [7]},
        "Search": NOTHING,
        "CreateKey": {"key": key(0), "token": "mqk_x"},
        "ListKeys": {"keys": [key(there_ms + HOUR_MS // 2)], "next_after_id": ""},
    }


@pytest.fixture
def mqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Inline:
    return Inline(tmp_path, monkeypatch, capfd)


def there(hours: int) -> int:
    return SystemClock().now_ms() + hours * HOUR_MS


def name(request: Recorded) -> str:
    return request.target.rpartition("/")[2]


def sent(server: Loopback, call: str, field: str) -> int:
    """A number of the last request of this call."""
    last = [each for each in server.requests if name(each) == call][-1]
    found: dict[str, Any] = msgspec.json.decode(last.body)
    return int(found[field])


@pytest.mark.parametrize("hours", [-3, 3])
@pytest.mark.parametrize(
    ("words", "call", "field", "minutes"),
    [
        (("schedule", "q", "x", "--at", "10m"), "Schedule", "scheduled_enqueue_time_ms", 10),
        (("key", "create", "--name", "n", "--permissions", "send", "--expires", "5m",
          "--secret-file", "k"), "CreateKey", "expires_at_ms", 5),
        (("search", "q", "--since", "1h"), "Search", "enqueued_from_ms", -60),
        (("peek", "q", "--until", "1h"), "Search", "enqueued_before_ms", -60),
        (("redrive", "q", "--seq", "7", "--older-than", "1h", "--dry-run"), "Search",
         "enqueued_before_ms", -60),
        (("purge", "q", "--older-than", "30m", "--dry-run"), "Search", "enqueued_before_ms", -30),
    ],
)  # fmt: skip
def test_a_duration_counts_from_the_time_of_the_broker(
    mqlite: Inline, hours: int, words: tuple[str, ...], call: str, field: str, minutes: int
) -> None:
    known = answers(there(hours))

    def answer(request: Recorded) -> bytes | None:
        return reply(200, known[name(request)], now_ms=there(hours))

    with loopback(answer) as server:
        mqlite.environ["MQLITE_ENDPOINT"] = server.url
        mqlite.ok(*words)
    assert abs(sent(server, call, field) - there(hours) - minutes * 60_000) < NEAR_MS


@pytest.mark.parametrize("hours", [-3, 3])
def test_a_key_is_over_when_its_broker_says_so(mqlite: Inline, hours: int) -> None:
    known = answers(there(hours))
    with loopback(lambda each: reply(200, known[name(each)], now_ms=there(hours))) as server:
        mqlite.environ["MQLITE_ENDPOINT"] = server.url
        assert "state=active" in mqlite.ok("key", "list", "--state", "active")
        assert "(no keys)" in mqlite.ok("key", "list", "--state", "expired")
        assert "state=active" in mqlite.ok("key", "revoke", "ab" * 16, "--dry-run", "--yes")
    assert server.calls.count("AdminService/Status") == 0, "the list has told the time"


@pytest.mark.parametrize("code", ["permission_denied", "not_found"])
def test_a_key_that_may_only_schedule_hears_the_time_all_the_same(
    mqlite: Inline, code: str
) -> None:
    def answer(request: Recorded) -> bytes | None:
        if request.call == "QueueService/Stats":
            status = {"permission_denied": 403, "not_found": 404}[code]
            return reply(status, {"code": code, "message": "no"}, now_ms=there(3))
        return reply(200, {"seq_numbers": [7]}, now_ms=there(3))

    with loopback(answer) as server:
        mqlite.environ["MQLITE_ENDPOINT"] = server.url
        mqlite.ok("schedule", "q", "x", "--at", "10m")
    at_ms = sent(server, "Schedule", "scheduled_enqueue_time_ms")
    assert abs(at_ms - there(3) - 10 * 60_000) < NEAR_MS


def test_a_wrong_time_is_refused_before_anybody_is_asked(mqlite: Inline) -> None:
    with loopback(lambda _: refusal(503, "unavailable", "stopping")) as server:
        mqlite.environ["MQLITE_ENDPOINT"] = server.url
        assert "--at" in mqlite.run("schedule", "q", "x", "--at", "soon", check=1).err
        assert "--since" in mqlite.run("search", "q", "--since", "ago", check=1).err
        assert server.requests == []
        assert "stopping" in mqlite.run("schedule", "q", "x", "--at", "1m", check=1).err
    assert server.calls == ["QueueService/Stats"], "nothing was sent"
