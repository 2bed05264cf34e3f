"""`mqlite serve` refuses: one `error:` line, exit 1, nothing on stdout, nothing changed on disk."""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.services.broker_process import READY, SERVE, START_SECONDS, content, environment, started
from tests.storage import foreign
from tests.warm.process import run

NOBODY = 65534


@dataclass(frozen=True)
class Refusal:
    """A start that must fail. `words` stand in the line; `is_early`: before anything is said."""

    words: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)
    is_early: bool = True


REFUSALS = {
    "a blank address": Refusal(("MQLITE_ADDR",), environ={"MQLITE_ADDR": ""}),
    "a blank address flag": Refusal(("--addr",), ("--addr=",)),
    "a port that is none": Refusal(("--addr", "65536"), ("--addr", "127.0.0.1:65536")),
    "an address of nobody": Refusal(("192.0.2.1",), ("--addr", "192.0.2.1:0"), is_early=False),
    "no usable token": Refusal(("MQLITE_TOKENS",), environ={"MQLITE_TOKENS": ","}),
    "a token with a space": Refusal(("MQLITE_TOKENS",), environ={"MQLITE_TOKENS": "a b"}),
    "open to the network": Refusal(
        ("MQLITE_TOKENS", "--insecure-allow-remote"),
        environ={"MQLITE_ADDR": ":0", "MQLITE_TOKENS": "off"},
    ),
    "a typo in the durability": Refusal(("FULLL", "MQLITE_SYNC"), environ={"MQLITE_SYNC": "FULLL"}),
    "a typo in the level": Refusal(("MQLITE_LOG_LEVEL",), environ={"MQLITE_LOG_LEVEL": "loud"}),
    "a line break in the origin": Refusal(("MQLITE_CORS",), environ={"MQLITE_CORS": "a\nb: c"}),
    "a positional argument": Refusal(("serve",), ("extra",)),
    "a missing folder": Refusal(("does not exist",), environ={"MQLITE_DB": "file:./no/such/mq.db"}),
    "a line break in the store": Refusal(
        ("does not exist",), environ={"MQLITE_DB": "file:./no\nsuch/mq.db"}
    ),
    "a folder as store": Refusal(("folder",), environ={"MQLITE_DB": "file:."}),
    "a remote store": Refusal((), environ={"MQLITE_DB": "libsql://db.example"}),
    "a broker as store": Refusal((), environ={"MQLITE_DB": "http://127.0.0.1:6754"}),
}


@dataclass(frozen=True)
class Ended:
    """A start that has failed."""

    code: int
    out: str
    err: str


def start(folder: Path, /, *words: str, **environ: str) -> Ended:
    return start_by(SERVE, folder, *words, **environ)


def start_by(program: Sequence[str], folder: Path, /, *words: str, **environ: str) -> Ended:
    done = run([*program, *words], cwd=folder, env=environment(environ), timeout=START_SECONDS)
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def the_error(ended: Ended, *, is_early: bool = True) -> str:
    """The one error line of a start that failed as it should."""
    assert (ended.code, ended.out) == (1, ""), ended
    lines = ended.err.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert len(errors) == 1, ended
    assert lines[-1] == errors[0]
    assert not is_early or lines == errors
    assert not any(READY.search(line) for line in lines)
    return errors[0]


@pytest.mark.promise("W32", "W34", "T67", "T68", "T69")
@pytest.mark.parametrize("name", REFUSALS)
def test_a_refused_start_is_one_line_and_leaves_the_folder_as_it_was(
    tmp_path: Path, name: str
) -> None:
    refusal = REFUSALS[name]
    error = the_error(
        start(tmp_path, *refusal.arguments, **refusal.environ), is_early=refusal.is_early
    )
    assert not [word for word in refusal.words if word not in error], error
    if refusal.is_early:
        assert content(tmp_path) == {}


@pytest.mark.promise("T68")
def test_a_busy_port_is_said_and_nothing_gets_ready(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        error = the_error(start(tmp_path, "--addr", address), is_early=False)
    assert address in error
    assert "in use" in error


def test_a_second_broker_on_a_file_is_refused_and_the_first_serves_on(tmp_path: Path) -> None:
    with started(tmp_path) as first:
        assert first.port
        before = content(tmp_path)
        for spelling in (
            "file:./mq.db",
            str(tmp_path / "mq.db"),
            "file:../" + tmp_path.name + "/mq.db",
        ):
            error = the_error(start(tmp_path, MQLITE_DB=spelling))
            assert "mq.db" in error
            assert "in use" in error
        assert content(tmp_path) == before
        first.stop()


@pytest.mark.promise("T74")
@pytest.mark.parametrize(
    "name", ["the original's file", "another format number", "a text", "a table of our name"]
)
def test_a_foreign_file_is_refused_and_keeps_every_byte(tmp_path: Path, name: str) -> None:
    foreign.MAKERS[name](tmp_path / "mq.db")
    before = content(tmp_path)
    error = the_error(start(tmp_path))
    assert "mq.db" in error
    assert content(tmp_path) == before


@pytest.fixture
def sealed() -> Iterator[Path]:
    """An empty folder, reachable for every user and writable for none."""
    with TemporaryDirectory() as name:
        Path(name).chmod(stat.S_IRUSR | stat.S_IXUSR | stat.S_IRGRP | stat.S_IXGRP | 0o005)
        yield Path(name)
        Path(name).chmod(stat.S_IRWXU)


WITHOUT_RIGHTS = """
import os, sys
import mqlite_cli.launch, mqlite_cli.main, mqlite_broker.serve
from mqlite_actor.storage import schema
schema.layout()  # the last file of ours that is read
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({nobody})
    os.setuid({nobody})
sys.argv = ["mqlite", "serve"]
sys.exit(mqlite_cli.main.run())
"""


@pytest.mark.skipif(os.name != "posix", reason="rights of files are POSIX's")
def test_a_folder_without_write_access_is_refused_for_an_ordinary_user(sealed: Path) -> None:
    program = (sys.executable, "-c", WITHOUT_RIGHTS.format(nobody=NOBODY))
    error = the_error(start_by(program, sealed))
    assert "not writable" in error
    assert content(sealed) == {}


@pytest.mark.parametrize(
    ("environ", "word"),
    [({"MQLITE_TOKENS": ","}, "MQLITE_TOKENS"), ({"MQLITE_SYNC": "FULLL"}, "MQLITE_SYNC")],
)
def test_the_broker_without_the_command_line_refuses_the_same(
    tmp_path: Path, environ: dict[str, str], word: str
) -> None:
    program = (sys.executable, "-m", "mqlite_broker")
    assert word in the_error(start_by(program, tmp_path, **environ))
    assert content(tmp_path) == {}
