"""The page on access keys does what it prints: its commands run in one shell, and are compared.

`<id>` stands for 32 hexadecimal digits, `<ms>` for an integer, `<token>` for a managed token. The
exports of the page are replaced by the address of a broker of this test and its token.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.key_calls import spellings
from tests.services.broker_process import START_SECONDS, TOKEN, content, started
from tests.services.cli_process import ROOT, clean_environ

PAGE: Final = ROOT / "docs" / "how-to" / "access-keys.md"
SIGNS: Final = {
    "<id>": "[0-9a-f]{32}",
    "<ms>": r"\d{13}",
    "<token>": "(?P<token>mqk_[0-9a-f]{64})",
}
END: Final = "\x1e\n"
"""Printed behind each command, to tell their outputs apart."""


def steps() -> list[tuple[str, str]]:
    """Each command of the page and what it prints."""
    text = PAGE.read_text(encoding="utf-8")
    shown = "".join(re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    command = r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)"
    return re.findall(command, shown, re.MULTILINE)


def pattern(output: str) -> str:
    parts = re.split(f"({'|'.join(SIGNS)})", output)
    return "".join(SIGNS.get(part) or re.escape(part) for part in parts)


@pytest.fixture
def curl() -> None:
    """Skip without curl; continuous integration must have it."""
    if shutil.which("curl") is None:
        say = pytest.fail if os.environ.get("CI") else pytest.skip
        say("curl is not installed")


@pytest.mark.usefixtures("curl")
def test_the_page_on_access_keys_can_be_followed(tmp_path: Path) -> None:
    exports = [command.split("=")[0] for command, _ in steps() if command.startswith("export ")]
    assert exports == ["export MQLITE_ENDPOINT", "export MQLITE_TOKEN"]
    lines = [step for step in steps() if not step[0].startswith("export ")]
    desk, broker_folder = tmp_path / "desk", tmp_path / "broker"
    desk.mkdir()
    broker_folder.mkdir()
    with started(broker_folder) as broker:
        environ = {"PY": sys.executable, "MQLITE_ENDPOINT": broker.url, "MQLITE_TOKEN": TOKEN}
        script = ["set -e", 'mqlite() { "$PY" -m mqlite_cli "$@"; }']
        for command, _ in lines:
            script += [command, r"printf '\036\n'"]
        done = subprocess.run(
            ["sh", "-c", "\n".join(script)],
            cwd=desk,
            env=clean_environ(environ),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=START_SECONDS,
            check=False,
        )
        said = broker.stop()
    assert (done.returncode, done.stderr) == (0, ""), done
    token = ""
    for (command, output), printed in zip(lines, done.stdout.split(END), strict=False):
        match = re.fullmatch(pattern(output), printed)
        assert match, f"{command}\nprints\n{printed}\nthe page says\n{output}"
        token = match.groupdict().get("token") or token
    assert done.stdout.count(END) == len(lines)
    left = {each.name: each.stat().st_mode & 0o077 for each in desk.iterdir()}
    assert left == {"next.token": 0, "audit.json": 0}
    kept = "\n".join(said).encode() + b"".join(filter(None, content(broker_folder).values()))
    assert token
    assert not [each for each in spellings(token) if each in kept]


def test_the_page_shows_each_output_on_a_line_of_its_own() -> None:
    """What the runner reads is the page: no command is lost between two outputs."""
    text = PAGE.read_text(encoding="utf-8")
    assert len(steps()) == len(re.findall(r"^\$ ", text, re.MULTILINE))
    assert sum(bool(output) for _, output in steps()) >= 9
