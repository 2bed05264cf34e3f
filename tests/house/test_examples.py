"""The programs of docs/examples run as they stand there, and print what they are meant to.

They are also checked by mypy --strict, with the rest of docs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mqlite_actor as mq
from tests.conformance.broker import Broker
from tests.house.tree import ROOT
from tests.services.cli_process import clean_environ

EXAMPLES = ROOT / "docs" / "examples"
BOUND_SECONDS = 30.0

PRINTED = {
    "embedded_trio_worker": {
        "resized 1 at delivery 1", "resized 3 at delivery 1", "resized 2 at delivery 2", "done",
    },
    "asyncio_consumer": {"mailed to ann", "mailed to bob", "mailed to cid"},
    "topic_fan_out": {"kitchen ['tea', 'salt']", "accounts ['tea']"},
    "transactional_inbox": {
        "undone: the power went off", "accounts: [('ann', 250)]", "receipts: ['250 cents for ann']",
    },
    "flask_worker": {"order 1", "packed tea", "order 2", "packed salt"},
}  # fmt: skip
"""Program → its lines; of two tasks nobody knows which prints first."""


def ran(name: str, folder: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments],
        cwd=folder,
        env=clean_environ({}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_is_meant_to(name: str, tmp_path: Path) -> None:
    lines = ran(name, tmp_path)
    assert set(lines) == PRINTED[name]
    assert len(lines) == len(PRINTED[name])


def test_one_program_runs_embedded_and_remote_by_changing_one_string(
    tmp_path: Path, broker: Broker
) -> None:
    embedded = ran("one_string", tmp_path, f"file:{tmp_path}/mq.db")
    remote = ran("one_string", tmp_path, broker.url.replace("http://", f"mqlite://{broker.token}@"))
    assert embedded == ["sent 1", "got {'cups': 2} {'table': '7'}", "left 0"]
    assert remote[1:] == embedded[1:]


def test_the_graceful_worker_stops_in_order(tmp_path: Path, broker: Broker) -> None:
    dsn = broker.url.replace("http://", f"mqlite://{broker.token}@")
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "graceful_worker.py"), dsn],
        cwd=tmp_path,
        env=clean_environ({}),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == "ready\n"
        with mq.connect_sync(dsn) as q:
            q.send_one("jobs", "a")
        assert said.readline() == "working on a\n"
        os.kill(process.pid, signal.SIGTERM)
        assert said.readline() == "stopped in order\n"
    assert process.wait(BOUND_SECONDS) == 0


def test_the_fastapi_site_stores_order_and_message_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from fastapi.testclient import TestClient\n"
        "from fastapi_outbox import app\n"
        "with TestClient(app) as client:\n"
        "    print(client.post('/orders/tea').json(), client.post('/orders/salt').json())\n"
        "    print(client.get('/waiting').json())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text, str(EXAMPLES)],
        cwd=tmp_path,
        env=clean_environ({}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.splitlines() == ["{'order': 1} {'order': 2}", "{'messages': 2}"], done.stderr


def test_every_example_is_run_and_listed() -> None:
    programs = {path.stem for path in EXAMPLES.glob("*.py")}
    tested = {*PRINTED, "one_string", "graceful_worker", "fastapi_outbox"}
    assert programs == tested
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    assert [name for name in programs if f"({name}.py)" not in listed] == []
