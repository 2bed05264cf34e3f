"""The walls on imports: arrows point down, and each foreign library has its home.

The tables are the floors of the house as docs/internals.md draws them. `lint-imports` (a layer of
`make test`) holds the same floors and also sees indirect ways; these tests name file and line, and
need nothing installed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.house.tree import PRODUCT, ROOT, Source, imports, sources

GROUND = {"version", "logs"}
BASE = {"contract", "clock"} | GROUND

FLOORS: dict[str, set[str]] = {
    "mqlite_actor.version": set(),
    "mqlite_actor.logs": set(),
    "mqlite_actor.clock": GROUND,
    "mqlite_actor.contract": GROUND,
    "mqlite_actor.filters": BASE,
    "mqlite_actor.storage": BASE,
    "mqlite_actor.semantics": BASE | {"storage", "filters"},
    "mqlite_actor.engine": BASE | {"storage", "filters", "semantics"},
    "mqlite_actor.link": BASE | {"engine"},
    "mqlite_actor.sdk": BASE | {"engine", "link", "filters"},
    "mqlite_actor.testing": BASE | {"engine", "sdk", ""},
    "mqlite_actor": BASE | {"engine", "sdk"},
    "mqlite_broker": BASE | {"engine", "link", "sdk", ""},
    "mqlite_cli": BASE | {"engine", "sdk", ""},
    "mqlite_monitor": BASE | {"sdk", ""},
    "mqlite_mcp": BASE | {"sdk", ""},
}
"""Part → the parts of mqlite_actor that it may import; "" is the package's own face."""

FINE_PRINT: dict[str, set[str]] = {
    "mqlite_actor/sdk/exchange.py": BASE | {"sdk"},
    "mqlite_actor/sdk/http_*.py": BASE | {"sdk"},
}
"""Files that may less than their floor: the HTTP clients know nothing of the engine."""

LAUNCHERS = {
    "services/mqlite_cli/launch.py": {"mqlite_broker", "mqlite_monitor"},
    "mqlite_actor/sdk/serve.py": {"mqlite_broker"},
    "mqlite_actor/testing/broker.py": {"mqlite_broker"},
}
"""The three files that reach a front end, resolved when they are called."""

ANY_SERVICE = ("services/",)
HOMES: dict[str, tuple[str, ...]] = {
    "apsw": ("mqlite_actor/storage/",),
    "trio": (
        "mqlite_actor/engine/",
        "mqlite_actor/link/",
        "mqlite_actor/sdk/",
        "mqlite_actor/testing/",
        *ANY_SERVICE,
    ),
    "re2": ("mqlite_actor/filters/",),
    "httpcore": ("mqlite_actor/sdk/", "mqlite_actor/storage/"),
    "quart": ("services/mqlite_broker/",),
    "quart_trio": ("services/mqlite_broker/",),
    "hypercorn": ("services/mqlite_broker/",),
    "werkzeug": ("services/mqlite_broker/",),
    "httptools": ("services/mqlite_broker/",),
    "prometheus_client": ("services/mqlite_broker/",),
    "rich": ("services/mqlite_monitor/", "services/mqlite_cli/"),
    "mcp": ("services/mqlite_mcp/",),
    "mcp_types": ("services/mqlite_mcp/",),
    "pydantic": ("services/mqlite_mcp/",),
    "sqlite3": (),  # a second SQLite in the process loses the file's locks
}
"""Library → the folders that may import it."""

EXTRAS = ("hypercorn", "httpcore", "prometheus_client", "quart", "quart_trio", "rich")


def part_of(module: str) -> str:
    """`mqlite_actor.storage.rows` → `mqlite_actor.storage`; a name of the face → `mqlite_actor`."""
    first, _, rest = module.partition(".")
    second = rest.partition(".")[0]
    return f"{first}.{second}" if f"{first}.{second}" in FLOORS else first


def module_of(source: Source) -> str:
    path = source.path.removeprefix("services/").removesuffix(".py").removesuffix("/__init__")
    return path.replace("/", ".")


def upward_import(source: Source) -> Iterator[str]:
    own = part_of(module_of(source))
    allowed = FLOORS.get(own)
    if allowed is None:
        yield source.at(1, f"{own} has no floor in FLOORS")
        return
    for pattern, fewer in FINE_PRINT.items():
        if fnmatch(source.path, pattern):
            allowed = fewer
    names = {f"mqlite_actor.{part}".rstrip(".") for part in allowed} | {own}
    names |= LAUNCHERS.get(source.path, set())
    for line, module in imports(source):
        target = part_of(module)
        if target.startswith("mqlite_") and target not in names:
            yield source.at(line, f"{own} may not import {module}")


def homeless_import(source: Source) -> Iterator[str]:
    for line, module in imports(source):
        library = module.partition(".")[0]
        if library in HOMES and not source.path.startswith(HOMES[library] or ("nowhere",)):
            yield source.at(line, f"{library} belongs in {', '.join(HOMES[library]) or 'no file'}")


def test_imports_point_down() -> None:
    found = [each for source in sources(PRODUCT) for each in upward_import(source)]
    assert not found, "\n".join(found)


def test_foreign_libraries_stay_in_their_homes() -> None:
    found = [each for source in sources(PRODUCT) for each in homeless_import(source)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("mqlite_actor/contract/x.py", "from mqlite_actor.storage import rows"),
        ("mqlite_actor/storage/x.py", "from mqlite_actor import semantics"),
        ("mqlite_actor/filters/x.py", "import mqlite_actor.storage.rows"),
        ("mqlite_actor/engine/x.py", "from mqlite_actor import connect"),
        ("mqlite_actor/sdk/http_sync.py", "from mqlite_actor.engine.actor import Actor"),
        ("mqlite_actor/sdk/x.py", "import mqlite_broker.serve"),
        ("services/mqlite_cli/x.py", "from mqlite_broker import app"),
        ("services/mqlite_cli/x.py", "from mqlite_actor.storage import rows"),
        ("services/mqlite_broker/x.py", "def f():\n    import mqlite_cli"),
        ("services/mqlite_new/x.py", "import os"),
    ],
)
def test_an_upward_import_is_found(path: str, line: str) -> None:
    assert list(upward_import(Source(path, line)))


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("mqlite_actor/semantics/x.py", "from mqlite_actor.storage import rows"),
        ("mqlite_actor/sdk/embedded.py", "from mqlite_actor.engine.engine import Engine"),
        ("services/mqlite_cli/x.py", "from mqlite_actor import connect"),
        ("services/mqlite_cli/launch.py", "def f():\n    import mqlite_broker.serve"),
        ("services/mqlite_broker/x.py", "from mqlite_broker import auth"),
    ],
)
def test_a_downward_import_is_let_through(path: str, line: str) -> None:
    assert not list(upward_import(Source(path, line)))


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("mqlite_actor/semantics/x.py", "import apsw"),
        ("mqlite_actor/contract/x.py", "from trio import lowlevel"),
        ("mqlite_actor/__init__.py", "import trio"),
        ("services/mqlite_cli/x.py", "from quart import Quart"),
        ("services/mqlite_broker/x.py", "import rich.table"),
        ("mqlite_actor/storage/x.py", "import sqlite3"),
    ],
)
def test_a_library_away_from_home_is_found(path: str, line: str) -> None:
    assert list(homeless_import(Source(path, line)))


def test_importing_the_package_loads_no_extra() -> None:
    code = f"import sys, mqlite_actor; print(*set(sys.modules).intersection({EXTRAS!r}))"
    environment = {"PYTHONPATH": str(ROOT), "PATH": str(Path(sys.executable).parent)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
