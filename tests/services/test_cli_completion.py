"""completion: the scripts of the shells, tried in the shells that are here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mqlite_cli.commands import BY_NAME
from tests.services.cli_process import BOUND_SECONDS, Shell, clean_environ

TRY = """
mqlite() { "$PY" -m mqlite_cli "$@"; }
source <(mqlite completion bash)
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_mqlite
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(folder: Path, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    done = subprocess.run(
        ["bash", "-c", TRY, "bash", *words], cwd=folder, capture_output=True, text=True,
        env=clean_environ({"PY": sys.executable}), timeout=BOUND_SECONDS, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["mqlite", "sen"], ["send"]),
        (["mqlite", "list"], ["list", "list-subscriptions"]),
        (["mqlite", "ver"], ["version"]),
        (["mqlite", "create-"], ["create-queue", "create-subscription"]),
        (["mqlite", "key", ""], ["create", "list", "revoke"]),
        (["mqlite", "key", "create", "--perm"], ["--permissions"]),
        (["mqlite", "receive", "q", "--no"], ["--no-ack"]),
        (["mqlite", "create-subscription", "--ex"], ["--expr"]),
        (["mqlite", "nonsense", "--x"], []),
        (["mqlite", "receive", "or"], []),
    ],
)
def test_bash_offers_commands_and_flags(
    tmp_path: Path, words: list[str], offered: list[str]
) -> None:
    assert completed(tmp_path, *words) == offered
    assert list(tmp_path.iterdir()) == []


def test_bash_offers_the_queues_that_are_there(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.ok("create-queue", "orders")
    shell.ok("create-queue", "jobs")
    assert completed(tmp_path, "mqlite", "receive", "o") == ["orders"]
    assert completed(tmp_path, "mqlite", "receive", "") == ["jobs", "orders"]
    assert completed(tmp_path, "mqlite", "send", "orders", "j") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_names_every_command_and_parses(tmp_path: Path, shell: str) -> None:
    text = Shell(tmp_path).ok("completion", shell)
    assert all(word in text for name in BY_NAME for word in name.split())
    if shutil.which(shell) is not None:
        done = subprocess.run(
            [shell, "-n"], input=text, capture_output=True, text=True, timeout=BOUND_SECONDS,
            check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")


def test_another_shell_is_refused(tmp_path: Path) -> None:
    done = Shell(tmp_path).run("completion", "tcsh", check=1)
    assert done.err == "error: no completion for tcsh; there is one for bash, zsh, fish\n"
