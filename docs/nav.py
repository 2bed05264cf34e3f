"""The order of the site: what stands under which heading. Used by conf.py, which builds it.

A pattern stands for the pages of a folder. A page that is not here yet is put at the end of the
group of its folder: `place` is the one that everybody asks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

NAV: Final[dict[str, tuple[str, ...]]] = {
    "Begin": ("tutorial", "concepts", "examples/README", "examples/walk-through", "faq"),
    "Write programs": (
        "how-to/README",
        "how-to/workers",
        "how-to/outbox",
        "how-to/topics",
        "how-to/filters",
        "how-to/dead-letters",
        "how-to/serve",
        "how-to/several-processes",
        "how-to/readers",
        "how-to/shell",
        "how-to/migrating",
        "mcp",
        "agents",
    ),
    "Run a broker": (
        "how-to/run-as-a-service",
        "how-to/kubernetes",
        "how-to/secure",
        "how-to/access-keys",
        "how-to/proxies",
        "how-to/durability",
        "how-to/backup",
        "how-to/litestream",
        "how-to/remote-store",
        "how-to/upgrade",
        "how-to/retention",
        "how-to/full-disk",
        "how-to/monitoring",
        "how-to/cloud-monitoring",
        "how-to/console",
        "how-to/live-monitor",
        "how-to/tuning",
        "how-to/sizing",
        "how-to/scaling-out",
    ),
    "Look up": ("reference/*", "glossary", "changelog", "changes/README"),
    "Know why": (
        "internals",
        "security",
        "benchmarks",
        "conformance",
        "dependencies",
        "decisions/README",
        "decisions/*",
        "style",
    ),
}

LEFT: Final = {"how-to": "Run a broker", "": "Know why"}
"""Where a page goes that NAV does not name, by its folder."""


def place(folder: Path) -> dict[str, list[str]]:
    """Caption to pages, by their names without `.md`; each page once, the first one left out."""
    found: dict[str, list[str]] = {caption: [] for caption in NAV}
    named: set[str] = {"index"}

    def add(caption: str, pattern: str) -> None:
        for path in sorted(folder.glob(f"{pattern}.md")):
            page = path.relative_to(folder).with_suffix("").as_posix()
            if page not in named and page.count(".") == 0:  # a fragment of docs/changes has a dot
                named.add(page)
                found[caption].append(page)

    for caption, patterns in NAV.items():
        for pattern in patterns:
            if "*" not in pattern:
                add(caption, pattern)
    for caption, patterns in NAV.items():
        for pattern in patterns:
            add(caption, pattern)
    for part, caption in LEFT.items():
        add(caption, f"{part}/*" if part else "**/*")
    return found
