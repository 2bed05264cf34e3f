"""Servers in processes of their own: tursodb through a kill, and the reference server alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conformance.broker import ROOT
from tests.hrana.real_server import BOUND_SECONDS, pipeline
from tests.hrana.recording import Spoken, transaction
from tests.hrana.talking import execute, outcomes, rows, talking
from tests.hrana.tursodb import Tursodb


def test_tursodb_comes_back_from_a_kill_with_what_it_committed(tursodb: Tursodb) -> None:
    pipeline(tursodb.url, execute("CREATE TABLE t (id INTEGER PRIMARY KEY)"))
    (done,) = pipeline(tursodb.url, transaction([Spoken("INSERT INTO t VALUES (1)", (), [])]))
    assert outcomes(done) == ["ok", "ok", "ok", "skipped"]
    pipeline(tursodb.url, execute("BEGIN"), execute("INSERT INTO t VALUES (2)"))
    killed = tursodb.pid
    tursodb.kill()
    tursodb.restart()
    assert tursodb.pid != killed
    assert rows(pipeline(tursodb.url, execute("SELECT id FROM t"))[0]) == [(1,)]


def test_the_reference_server_stands_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.hrana", str(tmp_path), "--latency-ms", "1"]
    with subprocess.Popen(
        [*command, "--manners", "tursodb", "--token", "t"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        with talking(process.stdout.readline().strip(), "t") as talk:
            talk.version = 2
            assert rows(talk.ask(execute("SELECT 1"))[0]) == [(1,)]
        process.stdin.close()
        assert process.wait(BOUND_SECONDS) == 0
