"""Every example of every help text is run: those of a store one after the other, those that hold a
lease or need a dead letter against a broker, the broker's own as a process (T5)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqlite_cli import usage
from mqlite_cli.commands import BY_NAME, COMMANDS
from tests.sdk.loopback import engine_replies, loopback
from tests.services.broker_process import started
from tests.services.cli_inline import Inline
from tests.services.cli_process import Finished

LEASES = ("complete", "abandon", "reject", "defer", "renew")
ON_BROKER = (*LEASES, "resubmit", "top")
TOLD = ("key id=", "queue=", "exported=")
"""What examples say on standard error without anything being wrong."""


@pytest.fixture
def mqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Inline:
    return Inline(tmp_path, monkeypatch, capfd, {"XDG_CONFIG_HOME": str(tmp_path / "etc")})


@pytest.fixture
def served(mqlite: Inline) -> Iterator[Inline]:
    """`orders` of a broker, whose message is called 7 in the examples."""
    with engine_replies("file:served.db") as answer, loopback(answer) as server:
        mqlite.environ["MQLITE_ENDPOINT"] = server.url
        mqlite.ok("create-queue", "orders")
        mqlite.ok("send", "orders", "tea")
        yield mqlite


def run(mqlite: Inline, line: str) -> Finished:
    """One line of a shell, as far as examples go: `[echo WORD |] mqlite WORDS [> FILE]`."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words, stdin, target = list(lexer), None, ""
    if words[0] == "echo":
        assert words[2] == "|", line
        stdin, words = f"{words[1]}\n".encode(), words[3:]
    if words[-2] == ">":
        target, words = words[-1], words[:-2]
    assert words[0] == "mqlite", line
    done = mqlite.run(*words[1:], stdin=stdin)
    if target:
        (mqlite.folder / target).write_bytes(done.out)
    return done


def test_every_command_has_an_example() -> None:
    assert [command.name for command in COMMANDS if not command.examples] == []
    for command in COMMANDS:
        assert all(f"mqlite {command.name}" in line for line in command.examples), command.name


def test_the_examples_of_a_store_work_in_the_order_of_the_help_page(mqlite: Inline) -> None:
    mqlite.ok("create-queue", "parked")
    mqlite.ok("key", "create", "--name", "old", "--permissions", "send",
              "--id", BY_NAME["key revoke"].examples[0].split()[-1])  # fmt: skip
    lines = [
        line
        for command in COMMANDS
        if command.name not in (*ON_BROKER, "serve")
        for line in command.examples
    ]
    shown = ""
    for line in lines:
        done = run(mqlite, line)
        noise = [each for each in done.err.splitlines() if not each.startswith(TOLD)]
        assert (done.code, noise) == (0, []), (line, done)
        shown += done.text
    assert 'body="two coffees"' in shown


def test_the_first_round_of_the_help_page_can_be_followed(mqlite: Inline) -> None:
    assert all(line in usage.page() for line, _ in usage.STEPS)
    for line, _ in usage.STEPS:
        done = run(mqlite, line)
        assert (done.code, done.err) == (0, ""), (line, done)
    assert (mqlite.folder / "snapshot.db").exists()


@pytest.mark.parametrize("name", LEASES)
def test_the_examples_of_leases_work(served: Inline, name: str) -> None:
    (held,) = served.run("receive", "orders", "--no-ack", "--output", "json", check=0).json
    for line in BY_NAME[name].examples:
        numbered = line.replace(" 7 ", f" {held['seq_number']} ")
        assert run(served, numbered.replace("$LOCK_TOKEN", held["lock_token"])).code == 0


def test_the_examples_with_a_broker_work(served: Inline) -> None:
    (held,) = served.run("receive", "orders", "--no-ack", "--output", "json", check=0).json
    served.ok("reject", "orders", str(held["seq_number"]), held["lock_token"])
    for name in set(ON_BROKER) - set(LEASES):
        for line in BY_NAME[name].examples:
            done = run(served, line.replace(" 7 ", f" {held['seq_number']} "))
            assert (done.code, done.err) == (0, ""), line


def test_the_examples_of_serve_work(tmp_path: Path) -> None:
    for line in BY_NAME["serve"].examples:
        words = [word.replace(":6754", ":0") for word in shlex.split(line)[2:]]
        with started(tmp_path, *words, MQLITE_TOKENS="") as broker:
            assert broker.url
            broker.stop()
    assert (tmp_path / "admin.token").stat().st_mode & 0o777 == 0o600
