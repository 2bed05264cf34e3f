"""list --stats, create-queue --if-not-exists, --dry-run (tools.md 8, rows 7, 9 and 11)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.loopback import Loopback, engine_replies, loopback
from tests.services.cli_process import Shell

WRITES = ("Delete", "Purge", "Redrive", "Create")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[tuple[Shell, Loopback]]:
    """A queue `a` with one dead letter and two active messages, and `b` with three active ones;
    a subscription `s` of the topic `t` with one."""
    with engine_replies(f"file:{tmp_path / 'served.db'}") as answer, loopback(answer) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        for name in ("a", "b"):
            shell.ok("create-queue", name, "--lock", "1m")
            shell.ok("send", name, "--lines", stdin=b"1\n2\n3\n")
        shell.ok("consume", "a", "--exec", "exit 1", "--on-failure", "reject", "--count", "1")
        shell.ok("subscribe", "t", "s")
        shell.ok("send", "t", "x")
        server.requests.clear()
        yield shell, server


def writes(server: Loopback) -> list[str]:
    return [call for call in server.calls if call.rpartition("/")[2].startswith(WRITES)]


def test_a_list_counts_the_messages_of_each_queue_and_of_all(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, _ = broker
    rows = [line.split() for line in shell.ok("list", "--stats").splitlines()]
    assert rows[0] == [
        "queue", "kind", "active", "locked", "deferred", "scheduled", "dead", "total", "oldest",
    ]  # fmt: skip
    assert [row[:8] for row in rows[1:-1]] == [
        ["a", "queue", "2", "0", "0", "0", "1", "3"],
        ["b", "queue", "3", "0", "0", "0", "0", "3"],
        ["s", "subscription", "1", "0", "0", "0", "0", "1"],
    ]
    assert rows[-1][:8] == ["(3", "queues)", "6", "0", "0", "0", "1", "7"]
    assert all(row[-1].endswith("ms") for row in rows[1:])


def test_a_list_has_forms_for_scripts_and_for_wide_terminals(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, server = broker
    assert shell.ok("list", "--format", "names") == "a\nb\ns\n"
    assert server.calls == ["AdminService/ListQueues"]
    assert shell.ok("list", "--format", "names", "--sort", "active") == "b\na\ns\n"
    head, first, *_ = shell.ok("list", "--format", "csv").splitlines()
    assert head.startswith("name,kind,lock_duration_ms,")
    assert first.startswith("a,queue,60000,10,0,0,")
    head, first, *_ = shell.ok("list", "--format", "csv", "--stats").splitlines()
    assert head.endswith(",dead_lettered,total,oldest_message_age_ms")
    assert first.startswith("a,queue,2,0,0,0,1,3,")
    rows = [line.split() for line in shell.ok("list", "--format", "wide").splitlines()]
    assert rows[0][-5:] == ["lock", "max-delivery", "ttl", "dedup", "generation"]
    assert rows[1][9:13] == ["1m", "10", "0", "0"]
    assert rows[-1][:8] == ["(3", "queues)", "6", "0", "0", "0", "1", "7"]
    assert "did you mean wide" in shell.run("list", "--format", "wid", check=1).err
    assert "give one" in shell.run("list", "--format", "csv", "--output", "json", check=1).err


def test_a_list_is_sorted_by_what_is_asked_for(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    found = shell.run("list", "--sort", "active", "--output", "json", check=0).json
    assert [row["name"] for row in found] == ["b", "a", "s"]
    found = shell.run("list", "--sort", "dead", "--output", "json", check=0).json
    assert [(row["name"], row["dead_lettered"]) for row in found] == [("a", 1), ("b", 0), ("s", 0)]
    assert "did you mean active" in shell.run("list", "--sort", "activ", check=1).err


def test_a_store_without_queues_says_so(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.ok("create-queue", "q")
    shell.ok("delete-queue", "q", "--yes")
    assert shell.ok("list", "--stats") == "(no queues)\n"
    assert shell.ok("list", "--stats", "--output", "ndjson") == ""


def test_a_queue_that_is_there_can_be_left_as_it_is(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    words = ("create-queue", "a", "--lock", "9m", "--if-not-exists")
    assert shell.ok(*words) == "ok: action=create-queue queue=a outcome=exists\n"
    assert "lock_duration_ms:      60000\n" in shell.ok("describe", "a")
    line = shell.ok("create-queue", "c", "--lock", "9m", "--if-not-exists")
    assert line == "ok: action=create-queue queue=c outcome=created\n"
    assert "lock_duration_ms:      540000\n" in shell.ok("describe", "c")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("purge-dlq a --all", "action=purge-dlq queue=a would_purge=1"),
        ("purge-dlq a --older-than 1h", "action=purge-dlq queue=a would_purge=0"),
        ("purge-dlq a --older-than 1ms", "action=purge-dlq queue=a would_purge=1"),
        ("redrive a", "action=redrive queue=a would_move=1"),
        ("redrive b --max 5 --to a", "action=redrive queue=b would_move=0"),
        ("purge b", "action=purge queue=b would_purge=3"),
        ("purge b --max 2", "action=purge queue=b would_purge=2"),
        ("purge b --max 2 --older-than 1ms", "action=purge queue=b would_purge=2"),
        (
            "delete-subscription t s --discard",
            "action=delete-subscription subscription=s topic=t would_discard=1",
        ),
    ],
)
def test_a_dry_run_says_what_would_happen_and_does_nothing(
    broker: tuple[Shell, Loopback], words: str, line: str
) -> None:
    shell, server = broker
    assert shell.ok(*words.split(), "--dry-run") == f"dry-run: {line}\n"
    assert writes(server) == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("purge-dlq none --all", "not_found"),
        ("redrive none", "not_found"),
        ("redrive a --to none", "not_found"),
        ("redrive a --to none --seq 1", "not_found"),
        ("redrive a --to none --seq 99", "not_found"),
        ("delete-queue none", "not_found"),
        ("delete-queue a", "queue_not_empty"),
        ("delete-queue a --generation 00000000000000000000000000000000", "generation_conflict"),
        ("delete-subscription t s", "queue_not_empty"),
        ("delete-subscription t b", "not_found"),
    ],
)
def test_a_dry_run_fails_where_the_real_one_would(
    broker: tuple[Shell, Loopback], words: str, code: str
) -> None:
    shell, server = broker
    done = shell.run(*words.split(), "--dry-run", check=1)
    assert done.errors[0].startswith(f"error: {code}: ")
    assert writes(server) == []


def test_an_empty_queue_would_be_deleted(broker: tuple[Shell, Loopback]) -> None:
    shell, server = broker
    shell.ok("create-queue", "c")
    server.requests.clear()
    found = shell.run("delete-queue", "c", "--dry-run", "--output", "json", check=0).json
    assert (found["action"], found["queue"], found["dry_run"]) == ("delete-queue", "c", True)
    assert writes(server) == []
    assert shell.run("purge-dlq", "a", "--dry-run", check=1).errors
    assert shell.ok("redrive", "a", "--seq", "1,2", "--dry-run").endswith(" would_move=1 seq=1\n")
    assert writes(server) == []
