"""Other people's clients are served: our server and our client cannot share a misreading.

Two from PyPI, two from npm, pinned; each runs in a process of its own against one server (foreign/)
and prints what it saw.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from tests.hrana.server import HranaServer, running_hrana
from tests.hrana.values import Json
from tests.npm.packages import command, missing, node_modules

FOREIGN: Final = Path(__file__).with_name("foreign")
TOKEN: Final = "a token"
BOUND_SECONDS: Final = 60.0
"""For a few dozen requests and the start of a program on a loaded machine."""

ROW: Final = [5, "00ff01", 1.5, "ä\U0001f600", None]

ON_PYTHON: Final = {
    "inserted": [1, 5],
    "row": ROW,
    "constraint": True,
    "syntax": True,
    "in a transaction": [2, True],
    "rolled back": [1, False],
    "many": 4,
    "script": 6,
    "updated": 2,
    "returned": [[10, ";"]],
    "columns": ["id", "t"],
    "stranger": True,
}

LIBSQL: Final = {
    "inserted": [1, 5],
    "row": ROW,
    "named": [1, "two"],
    "large": "9007199254740993",
    "constraint": True,
    "syntax": True,
    "two statements": True,
    "batch": [[1, 1], 3],
    "failed batch": 3,
    "in a transaction": 4,
    "rolled back": 3,
    "committed": 5,
    "script": 7,
    "stranger": True,
}

SERVERLESS: Final = {
    "inserted": [1, 5],
    "row": ROW,
    "columns": ["id", "t"],
    "constraint": True,
    "syntax": True,
    "batch": 3,
    "half a batch": True,
    "failed batch": 3,
    "in a transaction": [4, True],
    "rolled back": [3, False],
    "script": 5,
    "all": ["b", "d", "ä\U0001f600"],
    "stranger": True,
}

JAVASCRIPT: Final = {"libsql": LIBSQL, "serverless": SERVERLESS}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HranaServer]:
    """As sqld, with a token."""
    with running_hrana(tmp_path, token=TOKEN) as server:
        yield server


def saw(server: HranaServer, *program: str | Path) -> Json:
    """What a client printed."""
    done = subprocess.run(
        [*program, server.url, TOKEN],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("client", ["libsql", "turso_serverless"])
def test_a_client_for_python_is_served(server: HranaServer, client: str) -> None:
    if find_spec(client) is None:
        missing(f"{client} is not installed")
    found = saw(server, sys.executable, FOREIGN / "python_clients.py", client)
    assert found == ON_PYTHON


@pytest.mark.parametrize(("client", "expected"), JAVASCRIPT.items(), ids=JAVASCRIPT)
def test_a_client_for_javascript_is_served(
    server: HranaServer, client: str, expected: Json
) -> None:
    packages = node_modules()
    found = saw(server, command("node"), FOREIGN / f"{client}.mjs", packages)
    assert found == expected
