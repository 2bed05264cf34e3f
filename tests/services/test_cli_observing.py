"""observe: numbers that could not be had are not zero, and the exit code tells (T65)."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.sdk.loopback import Recorded, engine_replies, loopback, reply
from tests.services.cli_process import BOUND_SECONDS, Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A broker with the queues `a` and `b`."""
    with engine_replies() as answer, loopback(answer) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        shell.ok("create-queue", "a")
        shell.ok("create-queue", "b")
        shell.ok("send", "a", "x")
        yield shell


def snapshot(shell: Shell) -> dict[str, Any]:
    found: dict[str, Any] = shell.run("observe", "--output", "json", check=0).json
    return found


def altered(shell: Shell, **changes: object) -> bytes:
    """The broker's snapshot with other values."""
    return msgspec.json.encode({**snapshot(shell), **changes})


def test_text_has_a_line_for_the_whole_each_queue_each_task_and_the_store(shell: Shell) -> None:
    lines = shell.ok("observe").splitlines()
    assert lines[0].startswith("collected=20")
    assert " success=true age=" in lines[0]
    assert lines[1].startswith(
        "queue=a kind=queue active=1 locked=0 deferred=0 scheduled=0 dead=0 total=1 oldest="
    )
    assert lines[2].startswith("queue=b kind=queue active=0 ")
    assert [line.partition(" ")[0] for line in lines[3:]] == [
        *[f"task={name}" for name in (
            "locks", "scheduled", "ttl", "dedup", "receipts", "retention", "reclaim")],
        "storage=memory",
    ]  # fmt: skip


def test_json_is_the_contract_s_document(shell: Shell) -> None:
    found = snapshot(shell)
    assert {"sampled_at_ms", "runtime", "collection", "queues", "messages", "http"} <= set(found)
    assert [queue["queue"] for queue in found["queues"]] == ["a", "b"]
    assert found["http"]["state"] == "not_applicable"


def test_one_queue_can_be_picked_and_a_missing_one_is_said(shell: Shell) -> None:
    text = shell.ok("observe", "--queue", "b")
    assert "queue=b " in text
    assert "queue=a " not in text
    found = shell.run("observe", "--queue", "a", "--output", "json", check=0).json
    assert {queue["queue"] for queue in found["queues"]} == {"a"}
    assert {each["queue"] for each in found["messages"]} == {"a"}
    both = shell.ok("observe", "--queue", "a", "--queue", "b")
    assert both.count("queue=") == 2
    assert shell.run("observe", "--queue", "c", check=1).err.startswith("error: not_found: ")


@pytest.mark.promise("T65")
def test_queues_that_could_not_be_read_are_null_and_exit_1(shell: Shell) -> None:
    failed = altered(
        shell,
        queues=None,
        queue_count=0,
        sampled_at_ms=0,
        collection={"state": "unavailable", "last_success_at_ms": 0, "duration_seconds": 0.0,
                    "error_code": "io"},
    )  # fmt: skip
    with loopback(lambda _: reply(200, failed)) as server:
        shell = shell.with_(MQLITE_ENDPOINT=server.url)
        done = shell.run("observe", "--output", "json", check=1)
        assert done.json["queues"] is None
        assert done.json["collection"]["error_code"] == "io"
        assert done.errors == ["error: the queues could not be read: io"]
        text = shell.run("observe", check=1).text
        assert text.startswith("collected=n/a success=false age=n/a ")
        assert "\nqueues=n/a\n" in text
        assert shell.run("observe", "--queue", "a", check=1).errors == done.errors


def test_a_part_that_is_missing_is_a_warning_and_n_a(shell: Shell) -> None:
    runtime = {**snapshot(shell)["runtime"], "read_available": False, "db_size_available": False}
    partial = altered(shell, runtime=runtime)
    with loopback(lambda _: reply(200, partial)) as server:
        done = shell.with_(MQLITE_ENDPOINT=server.url).run("observe", check=0)
        assert " success=partial " in done.text
        assert " ping=n/a size=n/a " in done.text
        assert done.err.startswith("warning: ")


def test_hostile_names_stay_on_their_line(shell: Shell) -> None:
    queue = {**snapshot(shell)["queues"][0], "queue": "x\x1b[2J\nqueue=forged"}
    hostile = altered(shell, queues=[queue], messages=[])
    with loopback(lambda _: reply(200, hostile)) as server:
        text = shell.with_(MQLITE_ENDPOINT=server.url).ok("observe")
        assert 'queue="x\\x1b[2J\\nqueue=forged" kind=queue' in text


@pytest.mark.parametrize("watch", ["999ms", "0", "-1s"])
def test_a_watch_is_at_least_a_second(tmp_path: Path, watch: str) -> None:
    done = Shell(tmp_path).run("observe", "--watch", watch, check=1)
    assert "--watch" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_watch_prints_a_line_of_json_each_time_until_it_is_interrupted(shell: Shell) -> None:
    with shell.start("observe", "--watch", "1s", "--output", "json") as process:
        assert process.stdout is not None
        for _ in range(2):
            assert msgspec.json.decode(process.stdout.readline())["queue_count"] == 2
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=BOUND_SECONDS)
    assert (process.returncode, err) == (130, b"")


def test_a_watch_ends_when_nobody_reads_any_more(shell: Shell) -> None:
    asked: list[Recorded] = []
    whole = altered(shell)

    def answer(request: Recorded) -> bytes:
        asked.append(request)
        return reply(200, whole)

    with loopback(answer) as server:
        watching = shell.with_(MQLITE_ENDPOINT=server.url)
        with watching.start("observe", "--watch", "1s") as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"collected=")
            process.stdout.close()
            assert process.wait(BOUND_SECONDS) == 1
        assert len(asked) <= 3
