"""redrive of what is chosen, and mended; a purge that asks; what a dry run says (tools.md 8)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqlite_cli import redriving
from mqlite_cli.commands import COMMANDS
from tests.sdk.loopback import Loopback, Recorded, engine_replies, loopback, refusal, reply
from tests.services.cli_inline import Inline
from tests.services.cli_process import Shell
from tests.services.on_terminal import at_terminal

SELECT = "/mqlite.ext.v1.AdminService/RedriveSelected"


@pytest.fixture
def mqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[tuple[Inline, Loopback]]:
    """`q` with the dead letters 1 to 5, of which 2 and 4 are rotten, and 5 has no number."""
    with engine_replies(f"file:{tmp_path / 'served.db'}") as answer, loopback(answer) as server:
        inline = Inline(tmp_path, monkeypatch, capfd, {"MQLITE_ENDPOINT": server.url})
        inline.ok("create-queue", "q")
        inline.ok("create-queue", "other")
        lines = "".join(
            msgspec.json.encode({"text": f"body {n}", "properties": {"n": text, "k": "v"}}).decode()
            + "\n"
            for n, text in enumerate(("1", "2", "3", "4", "x"), 1)
        )
        inline.run("send", "q", "--ndjson", stdin=lines.encode(), check=0)
        held = inline.run("receive", "q", "--max", "5", "--no-ack", "--output", "json").json
        for message in held:
            seq = message["seq_number"]
            reason = "rotten" if seq in (2, 4) else "old"
            inline.ok("reject", "q", str(seq), message["lock_token"], "--reason", reason)
        server.requests.clear()
        yield inline, server


def alive(inline: Inline, queue: str = "q") -> list[int]:
    found = inline.run("peek", queue, "--state", "active", "--output", "ndjson", check=0).text
    return [json.loads(line)["seq_number"] for line in found.splitlines()]


def messages(inline: Inline, queue: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = inline.run("peek", queue, "--output", "json", check=0).json
    return found


@pytest.mark.parametrize(
    ("words", "moved"),
    [
        (["--reason", "rotten"], [2, 4]),
        (["--filter", 'properties.n in ["1", "4"]'], [1, 4]),
        (["--body", "3"], [3]),
        (["--reason", "rotten", "--max", "1"], [2]),
        (["--reason", "old", "--rate", "1000"], [1, 3, 5]),
        (["--seq", "1,2,4,99", "--reason", "rotten"], [2, 4]),
        (["--seq", "4", "--since", "1h"], [4]),
        (["--reason", "rotten", "--older-than", "1h"], []),
        (["--reason", "rotten", "--until", "1h"], []),
        (["--reason", "nothing"], []),
    ],
)
def test_what_is_chosen_is_moved_as_a_dry_run_has_said(
    mqlite: tuple[Inline, Loopback], words: list[str], moved: list[int]
) -> None:
    inline, server = mqlite
    said = inline.ok("redrive", "q", *words, "--dry-run")
    named = f" seq={','.join(map(str, moved))}" if moved else ""
    assert said == f"dry-run: action=redrive queue=q would_move={len(moved)}{named}\n"
    assert alive(inline) == []
    assert not any(request.target == SELECT for request in server.requests)
    done = inline.run("redrive", "q", *words, check=0)
    assert done.text == f"ok: action=redrive moved={len(moved)}\n"
    assert done.err == ""
    assert alive(inline) == moved


def test_a_rate_moves_so_many_at_a_time(
    mqlite: tuple[Inline, Loopback], monkeypatch: pytest.MonkeyPatch
) -> None:
    inline, server = mqlite
    monkeypatch.setattr(redriving, "PACE_SECONDS", 0)
    inline.ok("redrive", "q", "--filter", "true", "--rate", "2", "--max", "5")
    asked = [msgspec.json.decode(each.body) for each in server.requests if each.target == SELECT]
    assert [each["seq_numbers"] for each in asked] == [[1, 2], [3, 4], [5]]


def test_a_filter_that_fails_leaves_its_letters_and_says_so(
    mqlite: tuple[Inline, Loopback],
) -> None:
    inline, _ = mqlite
    done = inline.run("redrive", "q", "--filter", "int(properties.n) > 3", check=0)
    assert done.text == "ok: action=redrive moved=1\n"
    assert done.err.startswith("warning: the filter failed on 1 message(s)")
    assert alive(inline) == [4]


def test_the_chosen_are_mended_and_moved_in_one_step(mqlite: tuple[Inline, Loopback]) -> None:
    inline, _ = mqlite
    inline.ok("redrive", "q", "--reason", "rotten", "--to", "other", "--set", "prop.n=9", "--set",
              "prop.new=a=b", "--drop-prop", "k", "--set", "subject=fresh")  # fmt: skip
    found = messages(inline, "other")
    assert [(each["properties"], each["subject"]) for each in found] == [
        ({"n": "9", "new": "a=b"}, "fresh")
    ] * 2
    (inline.folder / "body").write_bytes(b"\x00new")
    inline.ok("redrive", "q", "--seq", "3", "--file", "body")
    (put,) = [each for each in messages(inline, "q") if each["seq_number"] == 3]
    assert (put["state"], put["body"], put["properties"]) == (
        "active", "AG5ldw==", {"k": "v", "n": "3"},
    )  # fmt: skip
    done = inline.run("redrive", "q", "--seq", "1,3", "--set", "body=x", check=1)
    assert done.text == "ok: action=redrive moved=1\n"
    assert done.err == "error: 1 of 2 message(s) were not moved: seq 3 (not_dead_lettered)\n"


def test_what_cannot_be_meant_is_refused_before_a_request(mqlite: tuple[Inline, Loopback]) -> None:
    inline, server = mqlite
    for words, mend in [
        (["--reason", ""], "--reason is empty"),
        (["--set", "subject"], "write KEY=VALUE"),
        (["--set", "subjec=x"], "did you mean subject"),
        (["--set", "prop.=x"], "prop.NAME"),
        (["--set", "body=x", "--file", "y"], "given twice"),
        (["--seq", "1", "--max", "1"], "give one"),
        (["--seq", "1", "--rate", "1"], "give one"),
        (["--reason", "x", "--max", "-1"], "must not be negative"),
        (["--reason", "x", "--rate", "-1"], "must not be negative"),
    ]:
        assert mend in inline.run("redrive", "q", *words, check=1).err, words
    assert server.requests == []


def test_what_was_moved_before_a_failure_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Two pages; the second cannot be moved. Nothing beyond the newest of the beginning is
    sought."""
    found = [{"message": {"seq_number": 7}, "body_bytes": 0}]

    def answer(request: Recorded) -> bytes:
        asked = msgspec.json.decode(request.body)
        if request.target != SELECT:
            return reply(200, {"messages": found, "next_page_token": "8"})
        if sum(each.target == SELECT for each in server.requests) > 1:
            return refusal(503, "unavailable", "it is closing")
        results = [{"seq_number": seq, "outcome": "moved"} for seq in asked["seq_numbers"]]
        return reply(200, {"moved": 1, "results": results})

    with loopback(answer) as server:
        inline = Inline(tmp_path, monkeypatch, capfd, {"MQLITE_ENDPOINT": server.url})
        done = inline.run("redrive", "q", "--reason", "x", check=1)
        asked = [msgspec.json.decode(each.body) for each in server.requests]
    assert done.err == ("error: unavailable: it is closing; 1 before it are moved and stay so\n")
    assert asked[0] == {"queue": "q", "state": "dead_lettered", "max": 1, "newest_first": True}
    assert [each["to_seq"] for each in asked if "dead_letter_reason" in each] == [7, 7]


# -- purge -----------------------------------------------------------------------------------------


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[tuple[Shell, Loopback]]:
    with engine_replies(f"file:{tmp_path / 'served.db'}") as answer, loopback(answer) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        shell.ok("create-queue", "q")
        shell.run("send", "q", "--lines", stdin=b"1\n2\n3\n", check=0)
        yield shell, server


def test_a_purge_at_a_terminal_wants_the_name_typed(shell: tuple[Shell, Loopback]) -> None:
    mqlite, _ = shell
    about = "This deletes 3 active message(s) of q for good. Type its name to go on:"
    for typed in (b"y\n", b"Q\n", b"\n", b"\x04"):
        code, shown = at_terminal(mqlite, "purge", "q", typed=typed)
        assert (code, about in shown, "nothing was deleted" in shown) == (1, True, True), shown
    code, shown = at_terminal(mqlite, "purge", "q", "--max", "2", typed=b"q\n")
    assert (code, "purged=2" in shown) == (0, True), shown
    assert "This deletes 2 active" in shown
    code, shown = at_terminal(mqlite, "purge", "q", stdin=b"q\n")
    assert (code, "--yes however many" in shown) == (1, True), "a pipe is nobody at a terminal"


def test_a_purge_in_a_script_takes_a_word_for_it(shell: tuple[Shell, Loopback]) -> None:
    mqlite, server = shell
    server.requests.clear()
    assert mqlite.ok("purge", "q", "--yes") == "ok: action=purge queue=q purged=3\n"
    assert "generation" in msgspec.json.decode(server.requests[-1].body)
    for words in (["--yes"], []):
        assert mqlite.ok("purge", "q", *words) == "ok: action=purge queue=q purged=0\n"


# -- dry runs --------------------------------------------------------------------------------------

DESTRUCTIVE = {
    "cancel", "redrive", "purge-dlq", "purge", "delete-queue", "delete-subscription", "key revoke",
    "context remove", "apply", "restore",
}  # fmt: skip


def test_every_command_that_deletes_or_moves_has_a_dry_run() -> None:
    assert {command.name for command in COMMANDS if "dry-run" in command.flags} == DESTRUCTIVE


def test_a_dry_run_says_what_would_be_and_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    etc = {"XDG_CONFIG_HOME": str(tmp_path / "etc")}
    inline = Inline(tmp_path, monkeypatch, capfd, etc)
    inline.ok("create-queue", "q")
    inline.ok("schedule", "q", "x", "--at", "1h")
    assert inline.ok("cancel", "q", "1", "--dry-run") == "dry-run: action=cancel queue=q seq=1\n"
    wrong = inline.run("cancel", "q", "2", "--dry-run", check=1).err
    assert wrong == inline.run("cancel", "q", "2", check=1).err
    inline.ok("cancel", "q", "1")

    key_id = "0" * 32
    inline.ok("key", "create", "--name", "k", "--permissions", "send", "--id", key_id)
    for _ in range(2):
        assert inline.ok("key", "revoke", key_id, "--dry-run") == (
            f"dry-run: action=key-revoke id={key_id} state=active\n"
        )
    wrong = inline.run("key", "revoke", "1" * 32, "--dry-run", check=1).err
    assert wrong == inline.run("key", "revoke", "1" * 32, check=1).err

    inline.ok("context", "add", "far", "--endpoint", "http://127.0.0.1:1")
    for _ in range(2):
        shown = inline.ok("context", "remove", "far", "--dry-run")
        assert shown == "dry-run: action=context-remove name=far\n"
    assert inline.run("context", "remove", "near", "--dry-run", check=1).errors
