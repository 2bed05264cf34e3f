"""What starting a command costs, told by what it imports (rulings R4, R48; design.md N12)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.sdk.loopback import loopback, reply
from tests.services.cli_process import BOUND_SECONDS, Shell, clean_environ

PROBE = """
import sys
sys.argv = ["mqlite", *sys.argv[1:]]
from mqlite_cli.main import run
code = run()
print(*sorted(sys.modules), sep="\\n", file=sys.stderr)
sys.exit(code)
"""


def modules_of(folder: Path, *words: str, **environ: str) -> set[str]:
    """The modules that a successful run has imported at its end."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words], capture_output=True, text=True, cwd=folder,
        env=clean_environ(environ), timeout=BOUND_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize("word", ["version", "-v", "help"])
def test_version_and_help_import_next_to_nothing(tmp_path: Path, word: str) -> None:
    modules = modules_of(tmp_path, word)
    heavy = {
        "msgspec", "trio", "apsw", "http.client", "socket", "asyncio", "argparse", "dataclasses",
        "json", "pathlib", "importlib.metadata", "mqlite_cli.dispatch",
    }  # fmt: skip
    assert modules & heavy == set()


def test_a_command_to_a_broker_imports_no_event_loop_and_no_database(tmp_path: Path) -> None:
    with loopback(lambda _: reply(200, {"seq_numbers": [1]})) as server:
        modules = modules_of(tmp_path, "send", "q", "x", MQLITE_ENDPOINT=server.url)
    heavy = {
        "trio", "httpcore", "apsw", "h11", "anyio", "asyncio", "quart", "hypercorn", "rich",
        "dataclasses", "inspect", "typing_extensions",
    }  # fmt: skip
    assert modules & heavy == set()
    assert "mqlite_actor.sdk.http_sync" in modules
    assert not any(name.startswith(("mqlite_actor.engine", "mqlite_broker")) for name in modules)


def test_an_embedded_command_imports_no_web_server(tmp_path: Path) -> None:
    modules = modules_of(tmp_path, "create-queue", "q")
    assert "trio" in modules
    assert modules & {"httpcore", "http.client", "quart", "hypercorn", "rich"} == set()


@pytest.mark.parametrize("stdout", ["", ">/dev/full"])
def test_the_short_way_out_keeps_output_and_exit_code(tmp_path: Path, stdout: str) -> None:
    with loopback(lambda _: reply(200, {"seq_numbers": [7]})) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        done = shell.run("send", "q", "x", redirect=stdout)
    assert (done.code, done.text) == ((1, "") if stdout else (0, "ok: queue=q seq=7\n"))
