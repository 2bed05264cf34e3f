"""The commands against a broker that `mqlite serve` started: two real processes and a socket."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.cli_process import BOUND_SECONDS, Shell, clean_environ, serving

TOKEN = "mqk_test"


def test_a_message_goes_through_the_broker_and_the_file_is_whole_afterwards(
    tmp_path: Path,
) -> None:
    shell = Shell(tmp_path, MQLITE_TOKENS=TOKEN)
    with serving(shell) as broker:
        client = shell.with_(MQLITE_ENDPOINT=broker.url, MQLITE_TOKEN=TOKEN)
        assert client.ok("create-queue", "q", "--lock", "1m") == (
            "ok: action=create-queue queue=q\n"
        )
        assert "lock=60000ms maxdc=10" in client.ok("list")
        assert client.ok("send", "q", "-", stdin=b"\x00\xff") == "ok: queue=q seq=1\n"
        assert client.ok("peek", "q") == 'seq=1 state=active deliveries=0 body="\\x00\\xff"\n'
        assert client.ok("receive", "q", "--wait", "20s") == (
            'seq=1 deliveries=1 body="\\x00\\xff"\n'
        )
        assert client.ok("receive", "q") == "(no messages)\n"
        assert "total=0" in client.ok("metrics", "q")
        client.ok("send", "q", "stays")
        assert broker.stop() == 0
    assert shell.ok("peek", "q") == 'seq=2 state=active deliveries=0 body="stays"\n'


@pytest.mark.promise("T13", "T17")
def test_neither_a_stranger_nor_a_second_opener_gets_in(tmp_path: Path) -> None:
    shell = Shell(tmp_path, MQLITE_TOKENS=TOKEN)
    with serving(shell) as broker:
        client = shell.with_(MQLITE_ENDPOINT=broker.url, MQLITE_TOKEN=TOKEN)
        client.ok("create-queue", "q")
        for token in ("", "sesame"):
            done = client.run("send", "q", "x", "--token", token, check=1)
            assert done.err.startswith("error: unauthenticated: ")
            assert "sesame" not in done.err
        assert "in use" in shell.run("send", "q", "x", check=1).err
        assert client.ok("peek", "q") == "(empty)\n"
        assert broker.stop() == 0


@pytest.mark.promise("T25")
def test_a_body_over_the_broker_s_cap_is_refused_with_its_code(tmp_path: Path) -> None:
    shell = Shell(tmp_path, MQLITE_TOKENS="off")
    with serving(shell) as broker:
        client = shell.with_(MQLITE_ENDPOINT=broker.url)
        client.ok("create-queue", "q")
        client.ok("send", "q", "-", stdin=bytes(1024 * 1024))
        done = client.run("send", "q", "-", stdin=bytes(1024 * 1024 + 1), check=1)
        assert done.err.startswith("error: message_too_large: ")
        assert "total=1" in client.ok("metrics", "q")


def test_a_wait_ends_when_the_message_comes(tmp_path: Path) -> None:
    shell = Shell(tmp_path, MQLITE_TOKENS="off")
    with serving(shell) as broker:
        client = shell.with_(MQLITE_ENDPOINT=broker.url)
        client.ok("create-queue", "q")
        waiting = subprocess.Popen(
            [sys.executable, "-m", "mqlite_cli", "receive", "q", "--wait", "20s"],
            stdout=subprocess.PIPE, cwd=tmp_path, env=clean_environ(client.environ),
        )  # fmt: skip
        client.ok("send", "q", "here")
        out, _ = waiting.communicate(timeout=BOUND_SECONDS)
        assert (waiting.returncode, out) == (0, b'seq=1 deliveries=1 body="here"\n')


def test_a_missing_extra_is_answered_with_the_pip_line(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['hypercorn'] = None; sys.argv = ['mqlite', 'serve'];"
        "from mqlite_cli.main import run; sys.exit(run())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path,
        env=clean_environ({}), timeout=BOUND_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(
        "error: serve needs packages that are not installed (hypercorn); "
    )
    assert "pip install 'mqlite-actor[broker]'" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["surplus"], ["--addr", ""], ["--addr", "nonsense"]])
def test_serve_refuses_before_it_makes_a_file(tmp_path: Path, words: list[str]) -> None:
    done = Shell(tmp_path).run("serve", *words, check=1)
    assert len(done.errors) == 1
    assert done.out == b""
    assert list(tmp_path.iterdir()) == []
