"""What the README and the tutorial name is there: targets, files, folders of the map.

That their lines print what they say is shown by tests/packages/test_pages.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.house.tree import ROOT

README = "README.md"
TUTORIAL = "docs/tutorial.md"
FENCE = re.compile(r"^```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


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
    (tree,) = (block for block in FENCE.findall(text) if "services/  " in block)
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
