"""The walls on the console's own files: length, a head, and nothing that turns text into markup.

The scripts are plain modules without a build step, so what stands here is what runs.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mqlite_broker import ui

SCRIPT_LINES_MAX = 300
STYLE_LINES_MAX = 400
LINE_CHARACTERS_MAX = 120

MARKUP = re.compile(
    r"\b(innerHTML|outerHTML|insertAdjacentHTML|setHTML|document\.write|eval|Function)\b"
)
"""A queue's name must stay text wherever it is shown (faults B76)."""

FOREIGN = re.compile(r"(?:https?:)?//[a-z][\w.-]*\.[a-z]{2,}")
SVG = "http://www.w3.org"
"""The name of the vocabulary of pictures; nobody asks that address."""

FILES = sorted(path for path in (ui.FOLDER / ui.ASSETS).rglob("*") if path.is_file())
SCRIPTS = [path for path in FILES if path.suffix == ".js"]
STYLES = [path for path in FILES if path.suffix == ".css"]


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def named(path: Path) -> str:
    return path.relative_to(ui.FOLDER).as_posix()


def test_the_console_consists_of_scripts_styles_and_a_picture() -> None:
    assert {path.suffix for path in FILES} <= set(ui.TYPES)
    assert (len(SCRIPTS) > 10, len(STYLES)) == (True, 2)


@pytest.mark.parametrize("path", SCRIPTS, ids=named)
def test_a_script_is_short_and_has_a_head(path: Path) -> None:
    lines = read(path).splitlines()
    assert len(lines) <= SCRIPT_LINES_MAX
    assert [number for number, line in enumerate(lines, 1) if len(line) > LINE_CHARACTERS_MAX] == []
    assert all(line.startswith("//") for line in lines[:2]), "its job, and who uses it"


@pytest.mark.parametrize("path", STYLES, ids=named)
def test_a_style_is_short_and_has_a_head(path: Path) -> None:
    lines = read(path).splitlines()
    assert len(lines) <= STYLE_LINES_MAX
    assert lines[0].startswith("/*")


@pytest.mark.parametrize("path", FILES, ids=named)
def test_no_file_makes_markup_of_text_or_names_another_origin(path: Path) -> None:
    text = read(path)
    assert not MARKUP.search(text)
    assert set(FOREIGN.findall(text)) <= {SVG}


def test_the_page_holds_no_script_no_style_and_no_address() -> None:
    page = read(ui.FOLDER / ui.INDEX)
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bon\w+=|style=|//", page)


@pytest.mark.parametrize("text", ["a.innerHTML = b", "//cdn.example.com/x.js", "eval(x)"])
def test_a_breach_is_found(text: str) -> None:
    assert MARKUP.search(text) or set(FOREIGN.findall(text)) - {SVG}
