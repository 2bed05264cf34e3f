"""completion: the scripts of the shells, tried in the shells that are here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mqlite_actor import open_embedded_sync
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


TRY_ZSH = """
mqlite() { "$PY" -m mqlite_cli "$@"; }
autoload -U +X compinit && compinit -D
eval "$(mqlite completion zsh)"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
compgen -F _mqlite -- "${@[-1]}"
true
"""

TRY_FISH = """
function mqlite; $PY -m mqlite_cli $argv; end
mqlite completion fish | source
complete -C "$argv" | string replace -r '\\t.*' ''
true
"""

TRIALS = {"bash": ("-c", TRY, "bash"), "zsh": ("-f", "-c", TRY_ZSH, "zsh"),
          "fish": ("-N", "-c", TRY_FISH)}  # fmt: skip


def completed(folder: Path, *words: str, shell: str = "bash", **environ: str) -> list[str]:
    """What a shell offers for the last of these words."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run(
        [shell, *TRIALS[shell], *words], cwd=folder, capture_output=True, text=True,
        env=clean_environ({"PY": sys.executable, "HOME": str(folder), **environ}),
        timeout=BOUND_SECONDS, check=False,
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


FOREIGN = (
    "x$(touch${IFS}PWNED)", "x`touch${IFS}PWNED`", "x;touch PWNED", "x|touch PWNED",
    "x*(e:'touch PWNED':)", "x${HOME}", "x<(touch PWNED)", "x*", "x?", "x[a]", "x{1,2}", "x y",
    "x'", 'x"', "x\\", "x#", "x&", "~x", "=x", "-x", "!x", "x\ny", "x\ty",
)  # fmt: skip
"""Names that somebody else gave to queues."""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("typed", ["x", ""])
def test_a_foreign_name_of_a_queue_is_no_words_of_a_shell(
    tmp_path: Path, shell: str, typed: str
) -> None:
    plain = ["orders.v2", "x", "x-1_2.a/b:c@d%e+f,g=h", "xä"]
    with open_embedded_sync(f"file:{tmp_path}/mq.db") as queue:
        for name in (*FOREIGN, *plain):
            queue.create_queue(name)
    found = completed(tmp_path, "mqlite", "send", typed, shell=shell, LC_ALL="C.UTF-8")
    assert sorted(found) == [each for each in plain if each.startswith(typed)]
    assert not list(tmp_path.rglob("PWNED*"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_context_is_completed_with_the_names_of_contexts(tmp_path: Path, shell: str) -> None:
    etc = {"XDG_CONFIG_HOME": str(tmp_path / "etc")}
    here = Shell(tmp_path, **etc)
    here.ok("create-queue", "not-one")
    assert completed(tmp_path, "mqlite", "context", "use", "", shell=shell, **etc) == []
    here.ok("context", "add", "near", "--endpoint", "http://near")
    for verb in ("use", "remove"):
        assert completed(tmp_path, "mqlite", "context", verb, "n", shell=shell, **etc) == ["near"]


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
