"""Words of any make on the command line: an exit code and lines that steer no terminal.

Every command is asked with random flags and arguments, right and wrong ones, where it can reach
nothing but a store of its own. MQLITE_CLI_FUZZ says how many lines are tried, MQLITE_CLI_FUZZ_SEED
repeats a run. What serves, watches or waits for ever is left out.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqlite_cli.commands import BY_NAME
from mqlite_cli.grammar import Command
from tests.figures import record
from tests.services.cli_inline import Inline

LINES = int(os.environ.get("MQLITE_CLI_FUZZ", "250"))
SEED = int(os.environ.get("MQLITE_CLI_FUZZ_SEED") or random.SystemRandom().randrange(2**32))

LEFT_OUT = {"serve", "top", "mcp", "openapi", "consume", "exec", "tail", "watch", "--watch"}
"""Processes that go on until they are told to end, and the flag that makes one of a command."""

WORDS = [
    "", "-", "--", "---", "-h", "q", "no-such", "a b", "1", "0", "-1", "99999999999999999999",
    "1e9", "5s", "1h30m", "0.1ms", "-5s", "nan", "inf", "∞", "NaN", "true", "null", "{}", '{"a":',
    "[1", "@file", "@/dev/null", "@", "/dev/null", "../../etc/passwd", "file:", "file::memory:",
    "%s%n", "é", "\U0001f600", "\x1b[2J\x1b]0;x\x07", "a\nb", "a\tb", "\u202e", "\x7f", "'; --",
    "x" * 5000,
    "q=", "=q", "a=b", "--output", "--output=json", "--output=nothing", "--db", "json", "text",
]  # fmt: skip

HANG_SECONDS = 120
"""No line waits longer than a few seconds; a machine can be slow."""

CONTROLS = [chr(code) for code in range(32) if chr(code) not in "\n\t"] + ["\x7f", "\u202e"]


def line(dice: random.Random, command: Command) -> list[str]:
    """Words behind a command: its own flags, others', values and nonsense."""
    words: list[str] = []
    for _ in range(dice.choice((0, 1, 1, 2, 3, 5, 8))):
        if command.flags and dice.random() < 0.5:
            flag = dice.choice(sorted(command.flags))
            value = dice.choice(WORDS)
            words += dice.choice(([f"--{flag}", value], [f"--{flag}={value}"], [f"--{flag}"]))
        else:
            words.append(dice.choice(WORDS))
    return words


@contextmanager
def in_time() -> Iterator[None]:
    """A line that hangs fails, with its words, instead of hanging the run."""

    def hangs(*_: object) -> None:
        raise TimeoutError(f"it has not ended after {HANG_SECONDS} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(HANG_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def names() -> list[str]:
    return [name for name in sorted(BY_NAME) if not LEFT_OUT & set(name.split())]


def test_any_words_get_an_exit_code_and_harmless_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    cli = Inline(tmp_path, monkeypatch, capfd, {"MQLITE_DB": "file:mq.db", "HOME": str(tmp_path)})
    monkeypatch.setattr("sys.stdin", None)  # nothing is piped into it
    cli.ok("create-queue", "q")
    for number in range(LINES):
        dice = random.Random(f"{SEED} {number}")
        name = dice.choice(names())
        words = [*name.split(), *line(dice, BY_NAME[name])]
        if dice.random() < 0.1:
            words = [word for word in words if dice.random() < 0.7] or [dice.choice(WORDS)]
        if LEFT_OUT & {word.partition("=")[0] for word in words}:
            continue
        try:
            with in_time():
                finished = cli.run(*words)
            assert finished.code in (0, 1, 2)
            differs = words[:1] == ["diff"] and finished.out  # which is 1, and no failure
            assert finished.code == 0 or finished.err or differs, "it failed, and said nothing"
            assert "Traceback" not in finished.err
            shown = finished.text + finished.err
            assert not [each for each in CONTROLS if each in shown], "it steers a terminal"
        except BaseException as error:
            error.add_note(f"{words} is line {number} of MQLITE_CLI_FUZZ_SEED={SEED}")
            raise
    record("command lines", seed=SEED, lines=LINES)
