"""schedule and cancel, and how instants are written (T28, T29), metadata of sent messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.limits import INSTANT_MS_MAX
from mqlite_cli.moments import read_moment, shown_moment
from tests.sdk.loopback import Loopback, engine_replies, loopback, reply
from tests.services.cli_process import Shell

NOON_2030 = 1_893_499_200_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[tuple[Shell, Loopback]]:
    with engine_replies() as answer, loopback(answer) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        shell.ok("create-queue", "q")
        server.requests.clear()
        yield shell, server


@pytest.mark.promise("T28")
def test_an_instant_with_an_offset_is_stored_and_printed_in_utc(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, _ = broker
    assert shell.ok("schedule", "q", "wake", "up", "--at", "2030-01-01T13:00:00.5+01:00") == (
        "ok: queue=q seq=1 at=2030-01-01T12:00:00.5Z\n"
    )
    printed = shell.run(
        "schedule", "q", "x", "--at", "2030-01-01T12:00:00Z", "--output", "json", check=0
    ).text
    assert printed == '{\n  "at": "2030-01-01T12:00:00Z",\n  "queue": "q",\n  "seq": 2\n}\n'
    (first, second) = shell.run("peek", "q", "--output", "json", check=0).json
    assert (first["state"], first["visible_at_ms"]) == ("scheduled", NOON_2030 + 500)
    assert second["visible_at_ms"] == NOON_2030


@pytest.mark.promise("T28")
def test_a_duration_counts_from_now(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    before = SystemClock().now_ms()
    assert " at=20" in shell.ok("schedule", "q", "x", "--at", "30m")
    (message,) = shell.run("peek", "q", "--output", "json", check=0).json
    assert before + 1_800_000 <= message["visible_at_ms"] <= SystemClock().now_ms() + 1_800_000


@pytest.mark.promise("T28")
@pytest.mark.parametrize(
    ("at", "mend"),
    [
        ("2020-01-01T00:00:00Z", "not in the future"),
        ("-30m", "a negative duration"),
        ("0", "longer than zero"),
        ("1us", "shorter than a millisecond"),
        ("tomorrow", "write an instant like"),
        ("2030-01-01", "write an instant like"),
        ("2030-01-01T00:00:00", "write an instant like"),
        ("2030-02-30T00:00:00Z", "no such day"),
        ("2030-01-01T25:00:00Z", "no such day"),
        ("9999-12-31T23:59:59.9999Z", "after the year 9999"),
        ("999999w", "after the year 9999"),
        ("", "--at is needed"),
    ],
)
def test_what_is_no_instant_in_the_future_is_refused_without_a_request(
    tmp_path: Path, at: str, mend: str
) -> None:
    with loopback(lambda _: None) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        done = shell.run("schedule", "q", "x", "--at", at, check=1)
        assert mend in done.err
        assert "--at" in done.err
        assert server.connections == 0


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2030-01-01T12:00:00Z", NOON_2030),
        ("2030-01-01t12:00:00z", NOON_2030),
        ("2030-01-01 12:00:00Z", NOON_2030),
        ("2030-01-01T12:00:00.000000001Z", NOON_2030 + 1),
        ("2030-01-01T12:00:00.25Z", NOON_2030 + 250),
        ("2030-01-02T02:00:00+14:00", NOON_2030),
        ("9999-12-31T23:59:59.999Z", INSTANT_MS_MAX),
        ("1ms", 1001),
        ("1.5ms", 1002),
    ],
)
def test_an_instant_is_rounded_up_to_a_millisecond(text: str, ms: int) -> None:
    assert read_moment(text, field="--at", now=lambda: 1000) == ms


def test_an_instant_is_shown_without_trailing_zeros() -> None:
    shown = [shown_moment(NOON_2030 + ms) for ms in (0, 1, 20, 500)]
    assert shown == [f"2030-01-01T12:00:00{tail}Z" for tail in ("", ".001", ".02", ".5")]
    assert shown_moment(INSTANT_MS_MAX) == "9999-12-31T23:59:59.999Z"
    assert shown_moment(2**62) == f"{2**62}ms"
    assert read_moment(shown_moment(NOON_2030 + 7), field="", now=lambda: 0) == NOON_2030 + 7


def test_an_instant_of_the_past_is_named() -> None:
    with pytest.raises(InvalidArgument, match="1970-01-01T00:00:01Z is not in the future"):
        read_moment("1970-01-01T00:00:01Z", field="--at", now=lambda: 1000)


@pytest.mark.promise("T29")
def test_a_cancel_works_once(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    shell.ok("schedule", "q", "x", "--at", "1h")
    assert shell.ok("cancel", "q", "1") == "ok: action=cancel queue=q seq=1\n"
    assert shell.run("cancel", "q", "1", check=1).err.startswith("error: not_found: ")
    assert shell.ok("peek", "q") == "(empty)\n"


@pytest.mark.promise("T29")
def test_a_delayed_retry_cannot_be_cancelled(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    shell.ok("send", "q", "x")
    (message,) = shell.run("receive", "q", "--no-ack", "--output", "json", check=0).json
    shell.ok("abandon", "q", "1", message["lock_token"], "--delay", "1h")
    assert "state=scheduled" in shell.ok("peek", "q")
    assert shell.run("cancel", "q", "1", check=1).err.startswith("error: not_found: ")
    assert "state=scheduled" in shell.ok("peek", "q")


@pytest.mark.parametrize("command", [["send"], ["schedule", "--at", "2030-01-01T12:00:00Z"]])
def test_all_metadata_reaches_the_wire(tmp_path: Path, command: list[str]) -> None:
    with loopback(lambda _: reply(200, {"seq_numbers": [1]})) as server:
        Shell(tmp_path, MQLITE_ENDPOINT=server.url).ok(
            *command, "q", "x", "--message-id", "m", "--group", "g", "--subject", "s",
            "--correlation-id", "c", "--reply-to", "r", "--content-type", "text/plain",
            "--prop", "a=1,b=x\\,y", "--prop", "c==,d=", "--prop", "a=2",
        )  # fmt: skip
        (message,) = msgspec.json.decode(server.requests[0].body)["messages"]
        assert message == {
            "message_id": "m", "group_id": "g", "subject": "s", "correlation_id": "c",
            "reply_to": "r", "content_type": "text/plain", "body": "eA==",
            "properties": {"a": "2", "b": "x,y", "c": "=", "d": ""},
        }  # fmt: skip


@pytest.mark.parametrize("prop", ["a", "=1", "a=1,b", "", "a=1,"])
def test_a_property_without_key_or_value_is_a_usage_error(tmp_path: Path, prop: str) -> None:
    done = Shell(tmp_path).run("send", "q", "x", "--prop", prop, check=2)
    assert "not key=value" in done.err
    assert list(tmp_path.iterdir()) == []
