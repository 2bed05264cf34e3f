"""Every block of every page is run, compared, parsed, or says by its language that it is not.

Commands run in the order of the page, in one folder, against a broker of the test; what they print
must be what the page prints. `<ms>` and `<n>` stand for a number, `<id>` for 32 hexadecimal digits,
`<path>` for a folder, `<any>` for whatever is printed. Programs of pages are the business of
tests/house/test_how_to_programs.py.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.house.test_how_to_programs import PAGES as PROGRAMS
from tests.house.test_readme import Step, steps
from tests.house.tree import ROOT, project_files
from tests.services.broker_process import START_SECONDS, TOKEN, started
from tests.services.cli_process import clean_environ

BLOCK: Final = re.compile(r"^```([a-z]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SIGNS: Final = {
    "<ms>": r"\d+",
    "<n>": r"\d+",
    "<id>": "[0-9a-f]{32}",
    "<path>": r"/\S*?",
    "<any>\n": "(?:.*\n)*",
}

RUN: Final = ("agents", "examples/walk-through", "how-to/retention")
"""Pages whose commands run here."""

RUN_ELSEWHERE: Final = {
    "tutorial": "tests/house/test_readme.py",
    "mcp": "tests/services/test_mcp_process.py",
    "how-to/backup": "tests/services/test_shell_page.py",
    "how-to/access-keys": "tests/services/test_keys_page.py",
    "how-to/shell": "tests/services/test_shell_page.py",
    "how-to/cloud-monitoring": "tests/deploy/test_units.py",
    "how-to/litestream": "tests/deploy/test_litestream.py",
    "how-to/monitoring": "tests/deploy/test_monitoring.py",
    "how-to/run-as-a-service": "tests/deploy/test_image.py",
    "how-to/live-monitor": "tests/services/test_monitor_top.py",
    "how-to/secure": "tests/services/test_broker_tls.py",
    "how-to/readers": "tests/sdk/test_reader.py",
    "how-to/remote-store": "tests/remote/test_opening.py",
    "how-to/several-processes": "tests/services/test_link_socket.py",
    "conformance": "tests/conformance/test_catalogue.py",
}
"""Page → the test that runs its blocks, or does what they do where they need more than that."""

SHOWN: Final = {"text", "sh", ""}
"""Languages of what is looked at: output, files of other programs, commands for one machine."""


def pages() -> Iterator[str]:
    for path in project_files():
        name = path.removeprefix("docs/").removesuffix(".md")
        if re.fullmatch(r"docs/.+\.md", path) and not name.startswith(("reference/", "changes/")):
            yield name


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, text) of each."""
    return BLOCK.findall((ROOT / f"docs/{page}.md").read_text("utf-8"))


def test_every_command_and_program_of_a_page_is_run_by_somebody() -> None:
    idle = [
        page
        for page in pages()
        if {language for language, _ in blocks(page)} & {"console", "python"}
        and page not in {*RUN, *RUN_ELSEWHERE, *PROGRAMS}
    ]
    assert idle == []
    assert [test for test in RUN_ELSEWHERE.values() if not (ROOT / test).is_file()] == []


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
                case "console" | "python":
                    continue
                case _:
                    assert language in SHOWN, (page, language)


def pattern(output: str) -> str:
    parts = re.split(f"({'|'.join(SIGNS)})", output)
    return "".join(SIGNS.get(part) or re.escape(part) for part in parts)


def program_of(page: str, folder: Path) -> None:
    """Run the program of a page whose commands look at what it left."""
    program = folder / "program.py"
    code = "\n\n".join(text for language, text in blocks(page) if language == "python")
    program.write_text(code, "utf-8")
    subprocess.run(
        [sys.executable, program.name],
        cwd=folder, env=clean_environ({}), capture_output=True, timeout=60, check=True,
    )  # fmt: skip


@pytest.mark.parametrize("page", RUN)
def test_the_commands_of_the_page_print_what_the_page_says(page: str, tmp_path: Path) -> None:
    lines = [
        step for language, text in blocks(page) if language == "console" for step in steps(text)
    ]
    assert lines
    if page in PROGRAMS:
        program_of(page, tmp_path)
    with started(tmp_path) as broker:
        for step in lines:
            check(step, tmp_path, broker.url)
        broker.stop()


def check(step: Step, folder: Path, url: str) -> None:
    environ = {"PY": sys.executable, "MQLITE_ENDPOINT": url, "MQLITE_TOKEN": TOKEN}
    if "MQLITE_DB=" in step.command:
        environ["MQLITE_ENDPOINT"] = ""
    # A function takes variables before its name for longer than one command; `env` does not.
    command = re.sub(r"^((?:MQLITE_\w+=\S* )+)mqlite ", r'env \1"$PY" -m mqlite_cli ', step.command)
    done = subprocess.run(
        ["sh", "-c", f'mqlite() {{ "$PY" -m mqlite_cli "$@"; }}\n{command}'],
        cwd=folder,
        env=clean_environ(environ),
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )
    assert done.returncode == 0, (step, done)
    assert re.fullmatch(pattern(step.output), done.stdout), (step.command, done.stdout, step.output)
