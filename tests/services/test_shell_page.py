"""The pages on the shell and on backups do what they print: their commands run in order against a
broker.

`<ms>` stands for an integer, `<path>` for a path, `<id>` and `<token>` for 32 hexadecimal digits; a
token of the output is the one that later commands name.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.house.test_readme import steps
from tests.services.broker_process import TOKEN, started
from tests.services.cli_process import BOUND_SECONDS, ROOT, clean_environ

PAGES: Final = ROOT / "docs" / "how-to"
SIGNS: Final = {
    "<ms>": r"\d+",
    "<path>": r"/\S+",
    "<id>": "[0-9a-f]{32}",
    "<token>": "(?P<token>[0-9a-f]{32})",
}


def pattern(output: str) -> str:
    parts = re.split(f"({'|'.join(SIGNS)})", output)
    return "".join(SIGNS.get(part) or re.escape(part) for part in parts)


@pytest.mark.parametrize("page", ["shell", "backup"])
def test_the_page_can_be_followed(tmp_path: Path, page: str) -> None:
    page_text = (PAGES / f"{page}.md").read_text("utf-8")
    texts = re.findall(r"^```console\n(.*?)^```$", page_text, re.MULTILINE | re.DOTALL)
    lines = [step for text in texts for step in steps(text)]
    assert len(lines) >= 6
    token = ""
    with started(tmp_path) as broker:
        environ = {
            "PY": sys.executable,
            "MQLITE_ENDPOINT": broker.url,
            "MQLITE_TOKEN": TOKEN,
            "XDG_CONFIG_HOME": str(tmp_path / "etc"),
        }
        for step in lines:
            command = step.command.replace("<token>", token)
            done = subprocess.run(
                ["sh", "-c", f'mqlite() {{ "$PY" -m mqlite_cli "$@"; }}\n{command}'],
                cwd=tmp_path,
                env=clean_environ(environ),
                capture_output=True,
                text=True,
                timeout=BOUND_SECONDS,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, ""), (command, done)
            match = re.fullmatch(pattern(step.output), done.stdout)
            assert match is not None, (command, done.stdout, step.output)
            token = match.groupdict().get("token") or token
        broker.stop()
