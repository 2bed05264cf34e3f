"""The site of docs/ is built as it is for its readers, and any warning of that fails.

So a link or a heading that leads nowhere, a page twice and a picture that is missing are found,
in the pages themselves and in what is made of them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from docs import changelog, nav
from tests.house.tree import ROOT, project_files

DOCS = ROOT / "docs"


def pages() -> set[str]:
    """Every page of docs/ but fragments and the first one, by its name without `.md`."""
    paths = [path for path in project_files() if re.fullmatch(r"docs/.+\.md", path)]
    names = {path.removeprefix("docs/").removesuffix(".md") for path in paths}
    return {name for name in names if "." not in name} - {"index"}


def built(folder: Path) -> Path:
    """The site, made anew; the test fails on any warning of that."""
    done = subprocess.run(
        [
            sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(folder / "work"),
            str(DOCS), str(folder / "html"),
        ],
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"


def test_the_site_is_built_without_a_warning_and_holds_what_it_should(tmp_path: Path) -> None:
    """One test, because building takes seconds and workers share nothing."""
    site = built(tmp_path)
    holds_every_page_once_in_an_order(site)
    lets_programs_that_read_find_every_page(site)
    tells_every_change_with_what_behaves_differently_first(site)


def holds_every_page_once_in_an_order(site: Path) -> None:
    placed = [page for group in nav.place(DOCS).values() for page in group]
    assert sorted(placed) == sorted(pages())
    assert all((site / f"{page}.html").is_file() for page in placed)


def test_every_page_that_the_order_names_is_there() -> None:
    named = {page for group in nav.NAV.values() for page in group if "*" not in page}
    assert named <= pages()


def lets_programs_that_read_find_every_page(site: Path) -> None:
    listed = re.findall(r"\]\(([\w/.-]+)\.html\)", (site / "llms.txt").read_text("utf-8"))
    assert sorted(listed) == sorted(pages())
    whole = (site / "llms-full.txt").read_text("utf-8")
    for page in pages():
        assert (DOCS / f"{page}.md").read_text("utf-8").strip() in whole, page


def tells_every_change_with_what_behaves_differently_first(site: Path) -> None:
    html = (site / "changelog.html").read_text("utf-8")
    titles = [title for title in changelog.KINDS.values() if f">{title}<" in html]
    assert titles == sorted(titles, key=html.index)
    for path in (DOCS / "changes").glob("*.*.md"):
        assert f"<strong>{path.name.split('.')[0].replace('-', ' ')}</strong>" in html
