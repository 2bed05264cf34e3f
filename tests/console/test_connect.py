"""The page Connect: its lines run as they stand there, for any name, and hold no token."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import expect

from tests.console.browser import missing
from tests.console.scene import Scene
from tests.services.cli_process import clean_environ

HOSTILE: Final = 'it\'s "$(touch pwned)" `id` \\ \u202e\x07 ü 😀 -x'
LANGUAGES: Final = ("curl", "Python", "Command line")


def listing(scene: Scene, label: str) -> str:
    return scene.page.get_by_role("region", name=label).inner_text()


def chosen(scene: Scene, language: str, task: str) -> str:
    """The lines that are shown for this."""
    scene.press(language)
    scene.page.get_by_label("What to do").select_option(task)
    return listing(scene, "Lines to copy")


def run(scene: Scene, folder: Path, language: str, lines: str) -> str:
    """What the lines print, in a shell that was told the lines above them first."""
    setup = listing(scene, "Lines for each shell").replace("YOUR_TOKEN", scene.token)
    if language == "Python":
        (folder / "program.py").write_text(lines, encoding="utf-8")
        lines = f"{sys.executable} program.py"
    commands = folder / "bin"
    commands.mkdir(exist_ok=True)
    mqlite = commands / "mqlite"
    mqlite.write_text(f'#!/bin/sh\nexec {sys.executable} -m mqlite_cli "$@"\n', encoding="utf-8")
    mqlite.chmod(0o755)
    path = os.pathsep.join((str(commands), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-euc", f"{setup}\n{lines}"],
        cwd=folder,
        env=clean_environ({"PATH": path}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(autouse=True, scope="module")
def shell() -> None:
    """Skip without bash or curl; continuous integration must have them."""
    for program in ("bash", "curl"):
        if shutil.which(program) is None:
            missing(f"{program} is not installed")


def test_lines_run_as_they_stand_for_any_name(scene: Scene, tmp_path: Path) -> None:
    queue = scene.queue(HOSTILE)
    scene.enter("#/connect")
    scene.fill("Queue or topic", queue)
    for language in LANGUAGES:
        sending = chosen(scene, language, "Send a message")
        assert "\u202e" not in sending
        run(scene, tmp_path, language, sending)
        assert scene.stats(queue)["active"] == 1
        receive(scene, tmp_path, language)
        assert scene.stats(queue)["total"] == 0
    assert not (tmp_path / "pwned").exists()


def receive(scene: Scene, folder: Path, language: str) -> None:
    receiving = chosen(scene, language, "Receive and complete one")
    if language != "curl":
        assert "hello" in run(scene, folder, language, receiving)
        return
    received, completing = receiving.split("# Done", 1)
    answer = run(scene, folder, language, received)
    number, token = (
        re.findall(f'"{key}":"?([^,"]+)', answer)[0] for key in ("seq_number", "lock_token")
    )
    completing = completing.replace('"seq_number":0', f'"seq_number":{number}')
    run(scene, folder, language, "# Done" + completing.replace("LOCK_TOKEN", token))


def test_lines_name_this_broker_and_hold_no_token(scene: Scene, tmp_path: Path) -> None:
    scene.enter("#/connect")
    setup = listing(scene, "Lines for each shell")
    assert setup == f"export MQLITE_ENDPOINT='{scene.base}'\nexport MQLITE_TOKEN='YOUR_TOKEN'"
    assert scene.token not in scene.page.locator("body").inner_text()
    watching = [chosen(scene, language, "Watch the broker") for language in LANGUAGES]
    expect(scene.page.get_by_label("Queue or topic")).to_be_hidden()
    assert watching[2] == "mqlite top"
    scene.queue("watched-lines")
    assert '"sampled_at_ms"' in run(scene, tmp_path, "curl", watching[0])
    assert "watched-lines 0 0" in run(scene, tmp_path, "Python", watching[1])


def test_a_copied_line_is_in_the_clipboard(scene: Scene) -> None:
    scene.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    scene.enter("#/connect")
    scene.page.get_by_role("button", name="Copy").first.click()
    expect(scene.page.get_by_role("button", name="Copied")).to_be_visible()
    assert scene.page.evaluate("navigator.clipboard.readText()").startswith(
        "export MQLITE_ENDPOINT"
    )
