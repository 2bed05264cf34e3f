"""What the archives hold: everything that their readers need, no test in the wheel, no secret."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from tests.house.tree import ROOT, project_files
from tests.packages.installed import Built, closure

PRIVATE = re.compile(
    r"(^|/)\.(git|venv|env|env\.local|ssh|netrc|pypirc)(/|$)"
    r"|\.(pem|key|db|db-wal|db-shm|pyc)$|tokens?\.txt$"
)
"""Names of what may lie beside the source and belongs to one machine."""

SOURCE = (
    ".ci/", ".dockerignore", ".env.example", ".gitignore", "Dockerfile", "LICENSE", "Makefile",
    "README.md", "bench/", "deploy/", "docs/", "mqlite_actor/", "pyproject.toml", "services/",
    "tests/",
)  # fmt: skip

CORE = {
    "anyio", "apsw", "attrs", "google-re2", "idna", "msgspec", "outcome", "sniffio",
    "sortedcontainers", "trio", "typing-extensions", "tzdata",
}  # fmt: skip
"""What `pip install mqlite-actor` may bring, on any Python that it supports."""


def test_the_source_archive_holds_the_project_and_nothing_of_the_machine(packages: Built) -> None:
    names = packages.archive_names()
    assert set(names) - set(project_files()) == {"PKG-INFO"}
    missing = [path for path in project_files() if path.startswith(SOURCE) and path not in names]
    assert missing == []
    assert [name for name in names if PRIVATE.search(name)] == []


def test_the_wheel_of_the_archive_is_the_wheel_of_the_tree(packages: Built, tmp_path: Path) -> None:
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(path) as tree:
        assert sorted(tree.namelist()) == packages.wheel_names()


def test_the_wheel_holds_no_test_no_page_and_no_secret(packages: Built) -> None:
    names = packages.wheel_names()
    tops = {name.partition("/")[0] for name in names}
    assert not tops & {"tests", "docs", "bench", "deploy", ".ci"}
    assert [name for name in names if PRIVATE.search(name) or "/test_" in name] == []


def test_the_core_brings_no_more_than_it_says(packages: Built) -> None:
    assert closure(packages.requirements()).keys() <= CORE
