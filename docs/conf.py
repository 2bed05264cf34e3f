"""How Sphinx makes the site: sphinx-build -W --keep-going docs OUT

Called by Sphinx alone; tests/docs/test_site.py builds the site and fails on any warning, so on a
link that leads nowhere and on a page that nav.py does not name. The pages stay plain Markdown, to
be read where they lie: headings of the site come from nav.py, the changelog from docs/changes, and
llms.txt and llms-full.txt from the pages themselves.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

HERE: Final = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # Sphinx knows its own folder only

from docs import changelog, llms, nav  # noqa: E402  # after the path
from mqlite_actor.version import __version__  # noqa: E402  # the same

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "mqlite-actor"
version = release = __version__
language = "en"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["changes/*.*.md", "**/__pycache__"]

myst_heading_anchors = 6
suppress_warnings = ["myst.header"]  # a page begins with a note when it is made from a table

html_theme = "furo"
html_title = f"mqlite-actor {__version__}"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False


def contents() -> str:
    """The order of the site, as Sphinx wants it at the end of its first page."""
    parts = []
    for caption, pages in nav.place(HERE).items():
        names = "\n".join(f"/{page}" for page in pages)
        options = f":caption: {caption}\n:hidden:\n:titlesonly:"
        parts.append(f"```{{toctree}}\n{options}\n\n{names}\n```")
    return "\n\n".join(parts)


def read(_app: Sphinx, docname: str, source: list[str]) -> None:
    """What the site shows beyond the file."""
    if docname == "index":
        source[0] += f"\n{contents()}\n"
    if docname == "changelog":
        source[0] += f"\n{changelog.text(HERE / 'changes')}\n"


def finished(app: Sphinx, failure: Exception | None) -> None:
    """The pages as texts for programs that read."""
    if failure is None and app.builder.format == "html":
        for name, text in llms.texts(HERE).items():
            (Path(app.outdir) / name).write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx with itself."""
    app.connect("source-read", read)
    app.connect("build-finished", finished)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
