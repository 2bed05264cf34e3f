"""What `mqlite --help` promises: all commands, and examples that work (T3, T4, T5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqlite_cli import usage
from mqlite_cli.commands import ALIASES, BY_NAME, GROUPS
from mqlite_cli.table_care import CARE
from mqlite_cli.table_more import MORE
from mqlite_cli.table_topology import TOPOLOGY
from mqlite_cli.table_work import WORK
from tests.services.cli_process import Shell

CONTRACT = """
serve create-queue subscribe list list-subscriptions send schedule cancel receive receive-deferred
complete abandon reject defer renew peek metrics status test-filter redrive purge-dlq vacuum observe
key
"""


@pytest.mark.promise("T5")
def test_help_lists_all_commands_of_the_contract() -> None:
    lines = [line.split() for line in usage.page().splitlines()]
    listed = {line[0] for line in lines if len(line) > 1}
    contract = CONTRACT.split()
    assert len(contract) == 24
    assert set(contract) <= listed
    assert {name.partition(" ")[0] for name in BY_NAME} - set(contract) == {
        "delete-queue", "openapi", "completion", "top",
        *(each.name.partition(" ")[0] for each in (*MORE, *WORK, *TOPOLOGY, *CARE)),
    }  # fmt: skip
    assert {"version", "help"} <= listed


@pytest.mark.promise("T3")
@pytest.mark.parametrize("name", [name for name, each in BY_NAME.items() if each.words])
def test_a_command_that_is_too_short_dials_and_makes_nothing(tmp_path: Path, name: str) -> None:
    shell = Shell(tmp_path, MQLITE_ENDPOINT="http://127.0.0.1:1")
    done = shell.run(*name.split(), *BY_NAME[name].words[1:], check=1)
    assert done.err == f"error: usage: {BY_NAME[name].usage}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.promise("T3", "T4")
@pytest.mark.parametrize("group", GROUPS)
def test_a_group_says_what_may_follow(tmp_path: Path, group: str) -> None:
    shell = Shell(tmp_path)
    words = "|".join(GROUPS[group])
    assert f"usage: mqlite {group} {words}" in shell.run(group, check=1).err
    wrong = shell.run(group, "lst", check=2)
    assert wrong.err == f"error: {group}: lst is none of {words}; did you mean list?\n"
    assert wrong.out == b""
    for word in ("-h", "--help", "help"):
        assert f"{group} {GROUPS[group][-1]}" in shell.ok(group, word)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.promise("T4")
@pytest.mark.parametrize("name", [*BY_NAME, *ALIASES])
def test_every_command_explains_itself(name: str) -> None:
    command = BY_NAME[ALIASES.get(name, name)]
    text = usage.of(command)
    assert text.startswith(f"usage: mqlite {command.name} [flags]")
    assert all(f"--{flag}" in text for flag in command.flags)
    assert all(example in text for example in command.examples)
