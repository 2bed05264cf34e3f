"""Pages and program agree: reference pages equal their tables, links lead somewhere, names fit.

What a page claims in prose is a reviewer's business; what can be compared is compared here.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from docs import make, promises_page
from mqlite_actor.contract import limits
from mqlite_actor.contract.calls import CALLS
from tests.house.tree import ROOT, project_files

LINK = re.compile(r"(?<!\!)\[[^\]]+\]\(([^)\s]+)\)")
FRAGMENT = re.compile(r"docs/changes/[a-z0-9]+(-[a-z0-9]+)*\.(behaviour|feature|fix)\.md")
DECISION = re.compile(r"docs/decisions/\d{4}-[a-z0-9-]+\.md")


def pages() -> list[str]:
    return [path for path in project_files() if path.endswith(".md")]


def headings(text: str) -> set[str]:
    """The anchors of a page, spelled as the usual Markdown renderers do."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(path: str, text: str) -> list[str]:
    found: list[str] = []
    for target in LINK.findall(text):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = target.partition("#")
        place = (ROOT / PurePosixPath(path).parent / name) if name else ROOT / path
        if not place.exists():
            found.append(f"{path}: {target} leads nowhere")
        elif anchor and anchor not in headings(text if not name else place.read_text("utf-8")):
            found.append(f"{path}: {target} has no such heading")
    return found


def test_reference_pages_equal_their_tables() -> None:
    done = subprocess.run(
        [sys.executable, "docs/make.py", "--check"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_a_stale_page_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(make, "REFERENCE", tmp_path)
    assert make.main(["--check"]) == 1
    assert "docs/reference/errors.md is stale" in capsys.readouterr().err
    assert make.main([]) == 0
    assert make.main(["--check"]) == 0


def test_the_page_of_promises_is_what_the_marks_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert promises_page.main(["--check"]) == 0, capsys.readouterr().err
    old = tmp_path / "promises.md"
    old.write_text("# Promises\n", "utf-8")
    monkeypatch.setattr(promises_page, "PROMISES_PAGE", old)
    assert promises_page.main(["--check"]) == 1
    assert "promises.md is stale" in capsys.readouterr().err
    assert promises_page.main([]) == 0
    assert promises_page.main(["--check"]) == 0


def test_every_call_has_its_section() -> None:
    text = (ROOT / "docs/reference/calls.md").read_text("utf-8")
    assert {call.name.lower().replace("/", "") for call in CALLS} <= headings(text)


def test_every_link_leads_somewhere() -> None:
    found = [
        each for path in pages() for each in broken_links(path, (ROOT / path).read_text("utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("link", ["[a](nowhere.md)", "[a](index.md#no-such)", "[a](#no-such)"])
def test_a_broken_link_is_found(link: str) -> None:
    assert broken_links("docs/planted.md", f"# Planted\n\n{link}\n")


def test_every_page_can_be_reached_from_the_index() -> None:
    reached: set[str] = set()
    waiting = ["docs/index.md"]
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        reached.add(path)
        for target in LINK.findall((ROOT / path).read_text("utf-8")):
            name = target.partition("#")[0]
            place = ROOT / PurePosixPath(path).parent / name
            if name and "://" not in target and place.suffix == ".md" and place.is_file():
                waiting.append(place.resolve().relative_to(ROOT).as_posix())
    fragments = {path for path in pages() if FRAGMENT.fullmatch(path)}
    assert {path for path in pages() if path.startswith("docs/")} - fragments <= reached


def test_fragments_and_decisions_are_named_by_their_rules() -> None:
    for path in pages():
        if PurePosixPath(path).name == "README.md":
            continue
        if path.startswith("docs/changes/"):
            assert FRAGMENT.fullmatch(path), path
        if path.startswith("docs/decisions/"):
            assert DECISION.fullmatch(path), path


def example_variables() -> dict[str, str]:
    """Name → default, from .env.example."""
    lines = (ROOT / ".env.example").read_text("utf-8").splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: default for name, _, default in pairs}


def test_every_variable_of_the_example_is_an_assignment_with_a_reason_above() -> None:
    lines = (ROOT / ".env.example").read_text("utf-8").splitlines()
    for number, line in enumerate(lines):
        if line and not line.startswith("#"):
            assert re.fullmatch(r"MQLITE_[A-Z_]+=\S*", line), line
            assert lines[number - 1], f"{line} has nothing above it"


def test_the_example_shows_the_defaults_of_the_program() -> None:
    assert example_variables()["MQLITE_MAX_MESSAGE_BYTES"] == str(limits.MESSAGE_BYTES_DEFAULT)


def test_every_variable_of_the_example_stands_on_the_settings_page() -> None:
    text = (ROOT / "docs/reference/settings.md").read_text("utf-8")
    assert [name for name in example_variables() if f"| `{name}` |" not in text] == []
