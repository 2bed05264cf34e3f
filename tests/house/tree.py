"""The project's own files, read once, for the walls of this folder.

Used by every test of tests/house. A `Source` is one Python file with its syntax tree; a planted
snippet is a `Source` too, so that each wall can be shown to find what it forbids.
Which files belong to the project is git's answer: tracked, or new and not ignored.
"""

from __future__ import annotations

import ast
import os
import subprocess
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]

PRODUCT = ("mqlite_actor/", "services/")
"""What is shipped. Walls on tests alone name tests/."""

EVERYWHERE = ("mqlite_actor/", "services/", "tests/", "bench/", "docs/", "deploy/")


@dataclass(frozen=True)
class Source:
    """One Python file: `path` is relative to the root, with forward slashes."""

    path: str
    text: str

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def syntax(self) -> ast.Module:
        return ast.parse(self.text, filename=self.path)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.syntax))

    def at(self, line: int, what: str) -> str:
        """A finding as editors like it: path:line: what."""
        return f"{self.path}:{line}: {what}"


@cache
def project_files() -> list[str]:
    """Paths of all files that belong to the project, sorted.

    Without git, or outside a checkout, the test that asks is skipped; under CI it fails.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=60)
    except (OSError, subprocess.CalledProcessError) as error:
        say = pytest.fail if os.environ.get("CI") else pytest.skip
        say(f"git cannot list the project's files: {error}")
    paths = listed.stdout.decode().split("\0")
    return sorted(path for path in paths if path and (ROOT / path).is_file())


@cache
def sources(folders: tuple[str, ...]) -> list[Source]:
    """Every Python file below `folders`, in order of path."""
    return [
        Source(path, (ROOT / path).read_text(encoding="utf-8"))
        for path in project_files()
        if path.endswith(".py") and path.startswith(folders)
    ]


def dotted(node: ast.AST) -> str:
    """`a.b.c` for a chain of names, and "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def imports(source: Source) -> list[tuple[int, str]]:
    """(line, module) of every import, also those inside functions.

    `from a.b import c` counts as `a.b.c`, because c may be a module.
    """
    found: list[tuple[int, str]] = []
    for node in source.nodes:
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.lineno, f"{node.module or ''}.{alias.name}") for alias in node.names]
    return found
