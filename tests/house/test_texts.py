"""The walls on every text file of the project, and on what stands at its top level.

A text of ours names no path of the machine it was written on and no package registry: both would be
wrong on the next machine. Unfinished work is looked for in every file, since it hides in pages too.
"""

from __future__ import annotations

import re

import pytest

from tests.house.tree import ROOT, project_files

TOP_LEVEL = {
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "bench",
    "deploy",
    "docs",
    "mqlite_actor",
    "pyproject.toml",
    "services",
    "tests",
}
"""What may stand at the root, beside files and folders that begin with a dot."""

# Character classes of one letter keep this file from holding what it looks for.
FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.~-])/([w]ork|[r]oot)/"),
    "a package registry": re.compile(
        r"[p]ypi\.org|[p]ythonhosted|[r]egistry\.npm|[d]eb\.debian", re.IGNORECASE
    ),
    "unfinished work": re.compile(r"\b([T]ODO|[F]IXME|[X]XX)\b"),
}


def forbidden_words(path: str, text: str) -> list[str]:
    return [
        f"{path}:{number}: {what}"
        for number, line in enumerate(text.splitlines(), 1)
        for what, pattern in FORBIDDEN.items()
        if pattern.search(line)
    ]


def test_texts_name_no_machine_and_no_registry() -> None:
    found: list[str] = []
    for path in project_files():
        content = (ROOT / path).read_bytes()
        if b"\0" not in content:
            found += forbidden_words(path, content.decode())
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    ["see /wo" + "rk/tmp", "cd /ro" + "ot/x", "https://py" + "pi.org/simple", "# TO" + "DO"],
)
def test_a_forbidden_word_is_found(line: str) -> None:
    assert forbidden_words("planted.md", line)


@pytest.mark.parametrize("line", ["a network/work/rest split", "https://host/x/root/y", "todo"])
def test_harmless_words_are_left_alone(line: str) -> None:
    assert not forbidden_words("planted.md", line)


def test_texts_end_with_one_line_break_and_use_no_carriage_return() -> None:
    texts = ((path, (ROOT / path).read_bytes()) for path in project_files())
    found = [
        path
        for path, content in texts
        if content and b"\0" not in content
        if b"\r" in content or content[-1:] != b"\n" or content[-2:] == b"\n\n"
    ]
    assert not found


def test_only_known_names_stand_at_the_top_level() -> None:
    found = {path.partition("/")[0] for path in project_files()}
    assert {name for name in found if not name.startswith(".")} <= TOP_LEVEL
