"""The fragments of docs/changes as the notes of the coming version. Used by conf.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

KINDS: Final = {
    "behaviour": "What behaves differently",
    "feature": "What is new",
    "fix": "What was wrong",
}
"""By the middle part of a fragment's name, in the order in which they are to be read."""


def text(folder: Path) -> str:
    """All fragments, by kind and name."""
    return "\n".join(_lines(folder))


def _lines(folder: Path) -> Iterator[str]:
    for kind, title in KINDS.items():
        fragments = sorted(folder.glob(f"*.{kind}.md"))
        if fragments:
            yield from (f"### {title}", "")
        for fragment in fragments:
            topic = fragment.name.removesuffix(f".{kind}.md").replace("-", " ")
            words = " ".join(fragment.read_text(encoding="utf-8").split())
            words = words.replace("](../", "](")  # a fragment lies one folder deeper
            yield from (f"- **{topic}**: {words}", "")
