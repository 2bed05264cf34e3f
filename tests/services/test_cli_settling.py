"""The settle verbs and receive-deferred (spec/tools.md 1.3; T46-T49)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.engine.engine import EngineOptions
from tests.sdk.loopback import Loopback, engine_replies, loopback, reply
from tests.services.cli_process import Shell

TOKEN = "0123456789abcdef" * 2
VERBS = ("complete", "abandon", "reject", "defer", "renew")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[tuple[Shell, Loopback, ManualClock]]:
    """A queue `q` of three messages, behind a server, on a clock that only a test moves."""
    clock = ManualClock()
    with (
        engine_replies(options=EngineOptions(clock=clock, background=False)) as answer,
        loopback(answer) as server,
    ):
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        shell.ok("create-queue", "q", "--lock", "10s")
        for body in ("one", "two", "three"):
            shell.ok("send", "q", body)
        yield shell, server, clock


def held(shell: Shell, count: int = 1) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = shell.run(
        "receive", "q", "--max", str(count), "--no-ack", "--output", "json", check=0
    ).json
    return messages


def states(shell: Shell) -> dict[int, str]:
    messages = shell.run("peek", "q", "--output", "json", check=0).json
    return {message["seq_number"]: message["state"] for message in messages}


@pytest.mark.promise("T47")
@pytest.mark.parametrize(
    ("words", "others", "after"),
    [
        (["complete"], [["abandon"], ["defer"]], None),
        (["abandon"], [["abandon", "--delay", "1s"], ["complete"]], "active"),
        (["abandon", "--delay", "1h"], [["abandon"], ["abandon", "--delay", "2h"]], "scheduled"),
        (["reject", "--reason", "bad", "--detail", "line 1"],
         [["reject", "--reason", "worse", "--detail", "line 1"], ["reject"]], "dead_lettered"),
        (["defer"], [["complete"], ["reject"]], "deferred"),
    ],
)  # fmt: skip
def test_the_same_words_again_succeed_and_any_others_have_lost_the_lock(
    broker: tuple[Shell, Loopback, ManualClock],
    words: list[str],
    others: list[list[str]],
    after: str | None,
) -> None:
    shell, _, __ = broker
    (message,) = held(shell)
    lease = ["q", "1", message["lock_token"]]
    for _attempt in range(2):
        assert shell.ok(*words, *lease) == f"ok: action={words[0]} queue=q seq=1\n"
    for other in others:
        assert shell.run(*other, *lease, check=1).err.startswith("error: lock_lost: ")
    wrong_seq = ["q", "2", message["lock_token"]]
    assert shell.run(*words, *wrong_seq, check=1).err.startswith("error: lock_lost: ")
    assert states(shell).get(1) == after


def test_a_rejected_message_says_why(broker: tuple[Shell, Loopback, ManualClock]) -> None:
    shell, _, __ = broker
    first, second = held(shell, 2)
    shell.ok("reject", "q", "1", first["lock_token"], "--reason", "bad", "--detail", "line 1")
    printed = shell.run("reject", "q", "2", second["lock_token"], "--output", "json", check=0)
    assert printed.text == '{\n  "action": "reject",\n  "queue": "q",\n  "seq": 2\n}\n'
    dead = shell.run("peek", "q", "--state", "dead_lettered", "--output", "json", check=0).json
    assert [(each["dead_letter_reason"], each.get("dead_letter_description")) for each in dead] == [
        ("bad", "line 1"),
        ("AppRequested", None),
    ]


@pytest.mark.promise("T48")
@pytest.mark.parametrize("verb", VERBS)
def test_a_lease_ends_at_its_instant_and_not_a_millisecond_before(
    broker: tuple[Shell, Loopback, ManualClock], verb: str
) -> None:
    shell, _, clock = broker
    early, late = held(shell, 2)
    clock.set(early["locked_until_ms"] - 1)
    shell.ok(verb, "q", "1", early["lock_token"])
    clock.set(late["locked_until_ms"])
    done = shell.run(verb, "q", "2", late["lock_token"], check=1)
    assert done.err.startswith("error: lock_lost: ")


@pytest.mark.promise("T49")
@pytest.mark.parametrize("verb", VERBS)
def test_a_word_that_is_no_lease_is_refused_without_a_request(tmp_path: Path, verb: str) -> None:
    with loopback(lambda _: None) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        for words in (["0", TOKEN], ["x", TOKEN], ["1", ""], ["0x1", TOKEN], ["9" * 19, TOKEN]):
            assert len(shell.run(verb, "q", *words, check=1).errors) == 1
        assert "usage: mqlite" in shell.run(verb, "q", "1", check=1).err
        # A negative number reads as a flag.
        assert "unknown flag --1" in shell.run(verb, "q", "-1", TOKEN, check=2).err
        assert server.connections == 0


@pytest.mark.promise("T30")
@pytest.mark.parametrize("delay", ["-1s", "999us", "1ns"])
def test_a_delay_that_would_mean_none_is_refused(tmp_path: Path, delay: str) -> None:
    done = Shell(tmp_path).run("abandon", "q", "1", TOKEN, "--delay", delay, check=1)
    assert done.err.startswith("error: invalid_argument: --delay: ")
    assert list(tmp_path.iterdir()) == []


def test_a_lease_of_a_local_store_says_why_it_cannot_be_settled_later(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.ok("create-queue", "q")
    shell.ok("send", "q", "x")
    (message,) = held(shell)
    done = shell.run("complete", "q", "1", message["lock_token"], check=1)
    assert done.err.startswith("error: lock_lost: ")
    assert "only a broker can settle one later" in done.err


# -- receive-deferred ------------------------------------------------------------------------------


@pytest.mark.promise("T46")
def test_only_deferred_numbers_come_and_they_come_with_tokens(
    broker: tuple[Shell, Loopback, ManualClock],
) -> None:
    shell, _, __ = broker
    for message in held(shell, 2):
        shell.ok("defer", "q", str(message["seq_number"]), message["lock_token"])
    line = shell.ok("receive-deferred", "q", "--seq", " 2 , 3,99,2")
    assert line.startswith("seq=2 deliveries=2 lock-token=")
    assert line.endswith(' body="two"\n')
    assert line.count("\n") == 1
    (message,) = shell.run("receive-deferred", "q", "--seq", "1", "--output", "json", check=0).json
    shell.ok("complete", "q", "1", message["lock_token"])
    assert shell.ok("receive-deferred", "q", "--seq", "1") == "(no messages)\n"
    assert states(shell) == {2: "locked", 3: "active"}


@pytest.mark.promise("T46")
@pytest.mark.parametrize("seqs", ["0", "-1", ",", "", "1,,2", "1;2", "x", "99999999999999999999"])
def test_a_list_of_numbers_that_is_none_is_refused_without_a_request(
    tmp_path: Path, seqs: str
) -> None:
    with loopback(lambda _: None) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        assert "--seq" in shell.run("receive-deferred", "q", "--seq", seqs, check=1).err
        assert "--seq" in shell.run("receive-deferred", "q", check=1).err
        assert server.connections == 0


@pytest.mark.parametrize("redirect", ["1>&-", "1>/dev/null"])
def test_deferred_messages_are_not_fetched_for_nobody(tmp_path: Path, redirect: str) -> None:
    with loopback(lambda _: None) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        done = shell.run("receive-deferred", "q", "--seq", "1", redirect=redirect, check=1)
        assert "nobody can read standard output" in done.err
        assert server.connections == 0


def test_the_request_names_each_number_once(tmp_path: Path) -> None:
    with loopback(lambda _: reply(200, {"messages": []})) as server:
        Shell(tmp_path, MQLITE_ENDPOINT=server.url).ok("receive-deferred", "q", "--seq", "3,1,3")
        assert msgspec.json.decode(server.requests[0].body) == {
            "queue": "q",
            "seq_numbers": [3, 1],
        }
