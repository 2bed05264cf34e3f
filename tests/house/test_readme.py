"""The README and the tutorial do what they print: their blocks are run and compared, word by word.

A console block is a list of commands with the output that follows each. `<ms>` in an output stands
for any integer; `<token>`, and a beginning like `9670b58b…`, for 32 hexadecimal digits that later
commands may use. Only the port is changed, and `mqlite` is the one of this checkout. `make` is not
run: it installs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.house.tree import ROOT
from tests.services.broker_process import START_SECONDS, started
from tests.services.cli_process import clean_environ

README = "README.md"
TUTORIAL = "docs/tutorial.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PORT = "127.0.0.1:6754"
TOKEN_SIGN = re.compile(r"<token>|[0-9a-f]{8}…")
SIGNS = re.compile(f"<ms>|{TOKEN_SIGN.pattern}")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language and its text."""

    language: str
    text: str


@dataclass
class Step:
    """One command and what is printed behind it."""

    command: str
    output: str = ""


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [Block(*match) for match in FENCE.findall(text)]


def console(page: str, word: str) -> list[Step]:
    """The steps of the one console block that holds `word`."""
    (block,) = (b for b in blocks(page) if b.language == "console" and word in b.text)
    return steps(block.text)


def steps(text: str) -> list[Step]:
    found: list[Step] = []
    is_command = False
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Step(line.removeprefix("$ ")))
            is_command = True
        elif is_command and found[-1].command.endswith("\\"):
            found[-1].command += f"\n{line}"
        else:
            is_command = False
            found[-1].output += f"{line}\n"
    return found


@dataclass
class Shell:
    """Runs steps one after the other in one folder."""

    folder: Path
    port: int = 0
    environ: dict[str, str] = field(default_factory=dict)
    token: str = ""
    definitions: list[str] = field(
        default_factory=lambda: ['mqlite() { "$PY" -m mqlite_cli "$@"; }']
    )

    def run(self, step: Step) -> str:
        """What the step printed; a step that defines a function is kept for the later ones."""
        command = TOKEN_SIGN.sub(self.token, step.command)
        command = command.replace(PORT, f"127.0.0.1:{self.port}")
        if re.match(r"\w+\(\) \{", command):
            self.definitions.append(command)
            return ""
        done = subprocess.run(
            ["sh", "-c", "\n".join([*self.definitions, command])],
            cwd=self.folder,
            env=clean_environ({"PY": sys.executable, **self.environ}),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=START_SECONDS,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), (step, done)
        return done.stdout

    def check(self, step: Step) -> None:
        """Run the step; what it prints must be what the page prints."""
        printed = self.run(step)
        match = re.fullmatch(pattern(step.output), printed)
        assert match is not None, f"{step.command}\nprints\n{printed}\nthe page says\n{step.output}"
        self.token = match.groupdict().get("token") or self.token


def pattern(output: str) -> str:
    """A page's output as a regular expression."""
    parts, end = [], 0
    for sign in SIGNS.finditer(output):
        parts.append(re.escape(output[end : sign.start()]))
        parts.append(r"\d+" if sign[0] == "<ms>" else "(?P<token>[0-9a-f]{32})")
        end = sign.end()
    return "".join([*parts, re.escape(output[end:])])


def run_python(folder: Path, text: str) -> str:
    """What a page's program prints."""
    file = folder / "program.py"
    file.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, file.name],
        cwd=folder,
        env=clean_environ({}),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=START_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


@pytest.fixture
def curl() -> None:
    """Skip without curl; continuous integration must have it."""
    if shutil.which("curl") is None:
        say = pytest.fail if os.environ.get("CI") else pytest.skip
        say("curl is not installed")


# -- the README ------------------------------------------------------------------------------------


def test_the_embedded_program_prints_what_follows_it(tmp_path: Path) -> None:
    page = blocks(README)
    (place,) = (n for n, block in enumerate(page) if block.language == "python")
    assert page[place + 1].language == "text"
    assert run_python(tmp_path, page[place].text) == page[place + 1].text


@pytest.mark.usefixtures("curl")
def test_the_curl_lines_print_what_follows_them(tmp_path: Path) -> None:
    lines = console(README, "curl")
    assert [bool(step.output) for step in lines] == [False, True, True, True, True]
    with started(tmp_path, MQLITE_TOKENS="dev") as broker:
        shell = Shell(tmp_path, broker.port)
        for step in lines:
            shell.check(step)
        assert shell.token
        broker.stop()


def test_the_command_lines_print_what_follows_them(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    for step in console(README, "mqlite create-queue"):
        assert step.output
        shell.check(step)
    assert (tmp_path / "mq.db").exists()


@pytest.mark.parametrize("page", [README, TUTORIAL])
def test_the_make_commands_of_a_page_are_targets(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = (ROOT / page).read_text(encoding="utf-8")
    code = re.findall(r"`[^`\n]+`|^\$ .*", text, re.MULTILINE)
    named = set(re.findall(r"(?<!install )\bmake ([a-z]+)", "\n".join(code)))
    assert named >= ({"run", "test"} if page == README else {"run"})
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def named_paths(page: str) -> Iterator[str]:
    """Paths in backticks and in links, and the folders of the map."""
    text = (ROOT / page).read_text(encoding="utf-8")
    prose = FENCE.sub("", text)
    yield from re.findall(r"`((?:[\w-]+/)+[\w.-]*)`", prose)
    yield from re.findall(r"\]\(((?!https?:)[^)#]+)\)", prose)
    (tree,) = (block.text for block in blocks(page) if "services/  " in block.text)
    folder = ""
    for line in tree.splitlines():
        if top := re.match(r"[\w]+/", line):
            folder = top[0]
        yield folder
        yield from (f"{folder}{name}" for name in re.findall(r"^ +(\w+) {2,}", line))
        yield from re.findall(r"; (\w+/)", line)


def test_every_file_that_the_readme_names_is_there() -> None:
    named = list(named_paths(README))
    assert {"tests/catalogue.py", "services/mqlite_broker/rpc.py", "docs/style.md"} <= set(named)
    assert [path for path in named if not (ROOT / path).exists()] == []


# -- the tutorial ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("curl")
def test_the_tutorial_can_be_followed(tmp_path: Path) -> None:
    texts = [b.text for b in blocks(TUTORIAL) if b.language == "console"]
    lines = [step for text in texts for step in steps(text)]
    assert [step.command for step in lines[:1]] == ["make run"]
    exports = [step.command for step in lines if step.command.startswith("export ")]
    assert [command.split("=")[0] for command in exports] == [
        "export PATH", "export MQLITE_ENDPOINT", "export MQLITE_TOKEN",
    ]  # fmt: skip
    with started(tmp_path, MQLITE_TOKENS="dev") as broker:
        environ = {"MQLITE_ENDPOINT": broker.url, "MQLITE_TOKEN": "dev"}
        shell = Shell(tmp_path, broker.port, environ)
        for step in lines[1:]:
            if step.command in exports:
                continue
            if step.output:
                shell.check(step)
            else:
                shell.run(step)
        broker.stop()
    (program,) = (block.text for block in blocks(TUTORIAL) if block.language == "python")
    assert "three waters" in run_python(tmp_path, program)
