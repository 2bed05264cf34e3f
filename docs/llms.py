"""llms.txt and llms-full.txt: the site as one list and as one text, for programs that read.

Used by conf.py at the end of a build. Rule: both hold every page, in the order of nav.py; a page is
described by its own first sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from docs import nav


def texts(folder: Path) -> dict[str, str]:
    """Name of the file and its text."""
    pages = list(_pages(folder))
    return {"llms.txt": _list(folder, pages), "llms-full.txt": _whole(folder, pages)}


def _pages(folder: Path) -> Iterator[tuple[str, Path]]:
    for caption, pages in nav.place(folder).items():
        yield from ((caption, folder / f"{page}.md") for page in pages)


def _list(folder: Path, pages: list[tuple[str, Path]]) -> str:
    index = (folder / "index.md").read_text(encoding="utf-8")
    lines = [f"# {title_of(index)}", "", f"> {first_sentence(index)}"]
    last = ""
    for caption, path in pages:
        if caption != last:
            lines += ["", f"## {caption}", ""]
            last = caption
        text = path.read_text(encoding="utf-8")
        place = path.relative_to(folder).with_suffix(".html").as_posix()
        lines.append(f"- [{title_of(text)}]({place}): {first_sentence(text)}")
    return "\n".join(lines) + "\n"


def _whole(folder: Path, pages: list[tuple[str, Path]]) -> str:
    texts = [path.read_text(encoding="utf-8").strip() for _, path in pages]
    return "\n\n---\n\n".join([(folder / "index.md").read_text("utf-8").strip(), *texts]) + "\n"


def title_of(text: str) -> str:
    """Of a page: its first heading."""
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    assert found, "a page without a heading"
    return found[1]


def first_sentence(text: str) -> str:
    """Of the first paragraph of a page, links and code marks taken off; "" if it has none."""
    below = text.partition("\n# ")[2] if not text.startswith("# ") else text
    for block in below.split("\n\n")[1:]:
        if re.match(r"\s*(#|\||```|<!--|- |\d\. |>|!\[)", block):
            continue
        plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(block.split()))
        plain = plain.replace("`", "").replace("**", "").removeprefix("Problem. ")
        return re.split(r"(?<=[.?!])\s", plain)[0].rstrip(":")
    return ""
