"""Every block of every page is run, compared, parsed, or says by its language that it is not.

Most pages are followed by a newcomer who has nothing but the wheel (tests/packages/test_pages.py).
What needs more than a shell and an empty folder is run by a test that brings it; a block in the
language `sh` is for a machine that tests do not have, and has a reason here.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Final

import yaml

from tests.house.test_how_to_programs import PAGES as TYPED
from tests.house.tree import ROOT, project_files
from tests.packages.newcomer import blocks as fenced
from tests.packages.test_pages import PAGES as FOLLOWED

FOLLOWED_TOO: Final = {"tutorial", "how-to/access-keys", "how-to/remote-store"}
"""By the newcomer, in tests of their own."""

RUN_ELSEWHERE: Final = {
    "mcp": "tests/services/test_mcp_process.py",
    "how-to/live-monitor": "tests/services/test_monitor_top.py",
}
"""Page → the test that runs its blocks, or does what they do where they need more than that: the
host of an agent, a terminal."""

FOR_ONE_MACHINE: Final = {
    "examples/walk-through": "installs from a registry; tests/packages/test_installed.py installs",
    "how-to/backup": "somebody's bucket; tests/deploy/test_backup_script.py brings one",
    "how-to/kubernetes": "a cluster; tests/deploy/test_cluster.py follows it if asked to",
    "how-to/live-monitor": "installs from a registry; tests/packages/test_installed.py installs",
    "how-to/monitoring": "containers; tests/deploy/test_engine.py follows it if asked to",
    "how-to/remote-store": "installs from registries; the newcomer finds what that starts",
    "how-to/run-as-a-service": "containers; tests/deploy/test_engine.py, if asked to",
}
"""Page → why its `sh` blocks are not run as they stand, and what is."""

SHOWN: Final = {"text", ""}
"""Languages of what is looked at: output, files of other programs."""


def pages() -> Iterator[str]:
    for path in project_files():
        name = path.removeprefix("docs/").removesuffix(".md")
        if re.fullmatch(r"docs/.+\.md", path) and not name.startswith(("reference/", "changes/")):
            yield name


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, text) of each."""
    return fenced(f"docs/{page}.md")


def test_every_command_and_program_of_a_page_is_run_by_somebody() -> None:
    run = {*FOLLOWED, *FOLLOWED_TOO, *RUN_ELSEWHERE}
    with_code = [p for p in pages() if {name for name, _ in blocks(p)} & {"console", "python"}]
    assert sorted(with_code) == sorted(run)
    assert [test for test in RUN_ELSEWHERE.values() if not (ROOT / test).is_file()] == []


def test_every_program_that_is_followed_is_typed() -> None:
    followed = [*FOLLOWED, *FOLLOWED_TOO]
    with_programs = [p for p in followed if any(name == "python" for name, _ in blocks(p))]
    assert sorted(with_programs) == sorted(TYPED)


def test_every_block_for_one_machine_has_a_reason() -> None:
    assert {p for p in pages() if any(name == "sh" for name, _ in blocks(p))} == {*FOR_ONE_MACHINE}


def test_every_other_block_is_of_a_language_that_is_parsed_or_only_shown() -> None:
    for page in pages():
        for language, text in blocks(page):
            match language:
                case "yaml":
                    assert yaml.safe_load(text), page
                case "json":
                    assert json.loads(text), page
                case "toml":
                    assert tomllib.loads(text), page
                case "console" | "python" | "sh":
                    continue
                case _:
                    assert language in SHOWN, (page, language)
