"""The commands beyond the contract's: describe, update-queue, delete-subscription, explain, search,
redrive --seq, resubmit, purge, backup (tools.md 8)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqlite_cli.grammar import Command
from mqlite_cli.table_more import MORE
from tests.sdk.loopback import Loopback, engine_replies, loopback, refusal, reply
from tests.services.cli_process import Shell
from tests.services.test_cli_keys import words_for


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[tuple[Shell, Loopback]]:
    """A queue `q` with the dead letters 1 and 2 and the active messages 3 and 4."""
    dsn = f"file:{tmp_path / 'served.db'}"
    with engine_replies(dsn) as answer, loopback(answer) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        shell.ok("create-queue", "q", "--lock", "1m", "--ordering", "group_fifo", "--dedup", "1h")
        for body, tier in [("one", "gold"), ("two", "lead"), ("three", "gold"), ("four", "lead")]:
            shell.ok("send", "q", body, "--prop", f"tier={tier}", "--group", body, "--subject", "s")
        for message in received(shell, 2):
            shell.ok("reject", "q", str(message["seq_number"]), message["lock_token"])
        server.requests.clear()
        yield shell, server


def received(shell: Shell, count: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = shell.run(
        "receive", "q", "--max", str(count), "--no-ack", "--output", "json", check=0
    ).json
    return messages


def states(shell: Shell) -> dict[int, str]:
    messages = shell.run("peek", "q", "--output", "json", check=0).json
    return {message["seq_number"]: message["state"] for message in messages}


def test_describe_shows_every_setting(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    found = shell.run("describe", "q", "--output", "json", check=0).json
    assert found["config"]["ordering_mode"] == "group_fifo"
    assert (found["active"], found["dead_lettered"]) == (2, 2)
    text = shell.ok("describe", "q")
    assert "ordering_mode:         group_fifo\n" in text
    assert "lock_duration_ms:      60000\n" in text
    shell.ok("subscribe", "t", "s", "--expr", "true")
    assert "topic:                 t filter=true\n" in shell.ok("describe", "s")
    assert shell.run("describe", "nope", check=1).err.startswith("error: not_found: ")


def test_an_update_changes_what_is_named_and_nothing_else(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    before = shell.run("describe", "q", "--output", "json", check=0).json["config"]
    line = shell.ok("update-queue", "q", "--lock", "5s", "--dedup", "0", "--on-expire", "discard")
    assert line.startswith("ok: action=update-queue queue=q generation=")
    after = shell.run("describe", "q", "--output", "json", check=0).json["config"]
    assert after == {
        **before, "lock_duration_ms": 5_000, "dedup_window_ms": 0, "dead_letter_on_expire": False,
    }  # fmt: skip
    assert "name a setting" in shell.run("update-queue", "q", check=1).err
    wrong = shell.run("update-queue", "q", "--lock", "9s", "--generation", "f" * 32, check=1)
    assert wrong.err.startswith("error: generation_conflict: ")
    assert "--lock: a negative" in shell.run("update-queue", "q", "--lock", "-1s", check=1).err


def test_a_subscription_with_messages_goes_only_if_they_may(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, _ = broker
    shell.ok("subscribe", "t", "s")
    shell.ok("send", "t", "x")
    kept = shell.run("delete-subscription", "t", "s", check=1)
    assert kept.err.startswith("error: queue_not_empty: ")
    assert shell.ok("delete-subscription", "t", "s", "--discard") == (
        "ok: action=delete-subscription subscription=s topic=t discarded=1\n"
    )
    assert shell.ok("list-subscriptions") == "(no subscriptions)\n"


def test_explain_says_why(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    assert shell.ok("explain", "q").startswith("queue=q reason=deliverable explanation=")
    text = shell.ok("explain", "q", "1")
    assert text.startswith("queue=q reason=dead_lettered ")
    assert "\nmessage seq=1 state=dead_lettered " in text
    found = shell.run("explain", "q", "3", "--output", "json", check=0).json
    assert found["message"]["seq_number"] == 3
    for words in (["q", "0"], ["q", "1", "2"], ["q", "x"]):
        assert len(shell.run("explain", *words, check=1).errors) == 1


def test_search_finds_what_is_all_of_what_is_given(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    assert shell.ok("search", "q", "--prop", "tier=gold", "--state", "active") == (
        'seq=3 state=active deliveries=0 group=three subject=s body="three"\n'
    )
    found = shell.run("search", "q", "--body", "o", "--max", "2", "--output", "json", check=0).json
    assert [message["seq_number"] for message in found] == [1, 2]
    assert shell.ok("search", "q", "--group", "nope") == "(none)\n"
    assert shell.ok("search", "q", "--to", "0x2", "--output", "json", "--subject", "x") == "[]\n"
    assert "did you mean active" in shell.run("search", "q", "--state", "activ", check=1).err


def test_search_follows_its_pages(tmp_path: Path) -> None:
    pages = [
        {"messages": [], "next_page_token": "a"},
        {"messages": [{"message": {"seq_number": 1}, "body_bytes": 0}], "next_page_token": "b"},
        {"messages": [{"message": {"seq_number": 9}, "body_bytes": 0}]},
    ]
    with loopback(lambda _: reply(200, pages[len(server.requests) - 1])) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        assert shell.ok("search", "q", "--max", "5").count("\n") == 2
        asked = [msgspec.json.decode(request.body) for request in server.requests]
        assert [each.get("page_token", "") for each in asked] == ["", "a", "b"]
        assert [each["max"] for each in asked] == [5, 5, 4]


def test_selected_dead_letters_are_moved_and_the_others_named(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, _ = broker
    done = shell.run("redrive", "q", "--seq", "2,3,99", check=1)
    assert done.text == "ok: action=redrive moved=1\n"
    assert done.errors[0] == (
        "error: 2 of 3 message(s) were not moved: seq 3 (not_dead_lettered), 99 (not_found)"
    )
    assert states(shell) == {1: "dead_lettered", 2: "active", 3: "active", 4: "active"}
    found = shell.run("redrive", "q", "--seq", "1", "--output", "json", check=0).json
    assert found == {
        "action": "redrive", "moved": 1,
        "results": [{"seq_number": 1, "outcome": "moved", "new_seq_number": 1}],
    }  # fmt: skip
    assert "give one" in shell.run("redrive", "q", "--seq", "1", "--max", "1", check=1).err


def test_a_dead_letter_is_mended_and_put_back(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    assert shell.ok("resubmit", "q", "1", "mended", "text", "--subject", "") == (
        "ok: action=resubmit queue=q seq=1\n"
    )
    found = shell.run("peek", "q", "--max", "1", "--output", "json", check=0).json[0]
    assert (found["state"], found["body"], found["properties"]) == (
        "active", "bWVuZGVkIHRleHQ=", {"tier": "gold"},
    )  # fmt: skip
    assert "subject" not in found
    shell.ok("create-queue", "r")
    line = shell.ok("resubmit", "q", "2", "--to", "r", "--prop", "a=b")
    assert line.startswith("ok: action=resubmit queue=r seq=")
    assert shell.run("resubmit", "q", "3", check=1).errors[0].startswith("error: ")


def test_active_messages_are_deleted_only_if_they_are_as_many_as_were_seen(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, server = broker
    done = shell.run("purge", "q", check=1)
    assert done.err == (
        "error: q holds 2 active message(s); --expect 2 deletes them, --yes however many there"
        " are\n"
    )
    assert shell.run("purge", "q", "--expect", "1", check=1).errors
    for words in (["--max", "0"], ["--older-than", "0"], ["--expect", "-1"], ["--max", "-1"]):
        server.requests.clear()
        assert shell.run("purge", "q", "--expect", "2", *words, check=1).errors
        assert server.requests == []
    assert len(states(shell)) == 4
    assert shell.ok("purge", "q", "--expect", "2") == "ok: action=purge queue=q purged=2\n"
    assert states(shell) == {1: "dead_lettered", 2: "dead_lettered"}


def test_a_backup_is_a_store_of_its_own(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    path = shell.folder / "copy.db"
    assert shell.ok("backup", str(path)).startswith(f"ok: action=backup path={path} size_bytes=")
    local = shell.with_(MQLITE_ENDPOINT="", MQLITE_DB="file:copy.db")
    assert states(local) == states(shell)
    assert len(shell.run("backup", str(path), check=1).errors) == 1
    assert local.ok("backup", "again.db").startswith("ok: action=backup path=/")
    assert (shell.folder / "again.db").exists()


@pytest.mark.parametrize("command", MORE, ids=lambda command: command.name)
def test_a_broker_of_another_make_is_told_from_a_missing_thing(
    tmp_path: Path, command: Command
) -> None:
    with loopback(lambda r: refusal(404, "not_found", f"no such path: {r.target}")) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        done = shell.run(command.name, *words_for(command), check=1)
        assert done.err.startswith("error: unsupported: the broker does not know this operation")
        assert len(server.requests) == 1
