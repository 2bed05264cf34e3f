"""The script of docs/how-to/backup.md that carries a snapshot away each night, run as it stands.

Only its addresses are changed, and the bucket is a folder. Whatever goes wrong on the way, the
script says so by its exit code, which is all that cron has, and nothing that is broken arrives.
"""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.house.tree import ROOT
from tests.packages.newcomer import blocks
from tests.services.broker_process import TOKEN, started
from tests.services.cli_process import BOUND_SECONDS, Shell, clean_environ

MQLITE: Final = f'{sys.executable} -m mqlite_cli "$@"'
AWS: Final = 'test "$1 $2 $4" = "s3 cp s3://example-backups/mqlite/" && cp "$3" "$BUCKET"'

SOUND: Final = {"mqlite": MQLITE, "aws": AWS}
BROKEN: Final = {
    "the broker is not there": {"mqlite": f"MQLITE_ENDPOINT=http://127.0.0.1:1 {MQLITE}"},
    "the snapshot is gone": {"mqlite": f'{MQLITE} && rm -f "$FOLDER"/nightly*'},
    "no snapshot is named": {"mqlite": "echo done"},
    "the snapshot cannot be read": {"gzip": "exit 1"},
    "the disk of the copy is full": {"gzip": "head -c 20 /dev/zero; exit 1"},
    "there is no room for a copy": {"mktemp": "exit 1"},
    "the bucket refuses": {"aws": "exit 255"},
}
"""What goes wrong → the program that does it."""


class Night:
    """One run of the script, on a machine that has these programs."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.bucket, self.temporary = folder, folder / "bucket", folder / "tmp"
        self._url = url
        for each in (self.bucket, self.temporary, folder / "bin"):
            each.mkdir()
        (folder / "token").write_text(f"{TOKEN}\n", "utf-8")
        (folder / "token").chmod(0o600)

    def run(self, **programs: str) -> int:
        """Its exit code."""
        with self.begun(**programs) as process:
            return process.wait(BOUND_SECONDS)

    def begun(self, **programs: str) -> subprocess.Popen[bytes]:
        """It runs, with these programs, in a group of its own."""
        for name, text in {**SOUND, **programs}.items():
            program = self.folder / "bin" / name
            program.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
            program.chmod(0o755)
        script = self.folder / "mqlite-backup"
        script.write_text(self._script(), "utf-8")
        script.chmod(0o755)
        environ = clean_environ({
            "PATH": f"{self.folder}/bin{os.pathsep}{os.environ['PATH']}",
            "TMPDIR": str(self.temporary), "BUCKET": str(self.bucket), "FOLDER": str(self.folder),
        })  # fmt: skip
        return subprocess.Popen(
            [script], env=environ, cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def _script(self) -> str:
        (text,) = (text for language, text in blocks("docs/how-to/backup.md") if language == "sh")
        for there, here in (
            ("http://127.0.0.1:6754", self._url),
            ("/etc/mqlite/token", f"{self.folder}/token"),
            ("/var/lib/mqlite", str(self.folder)),
        ):
            assert there in text
            text = text.replace(there, here)
        return text


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    with started(tmp_path) as broker:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=broker.url, MQLITE_TOKEN=TOKEN)
        shell.ok("create-queue", "orders")
        shell.ok("send", "orders", "two coffees")
        yield Night(tmp_path, broker.url)
        broker.stop()


def test_what_arrives_is_the_store(night: Night) -> None:
    assert night.run() == 0
    (arrived,) = night.bucket.iterdir()
    assert arrived.suffix == ".gz"
    opened = night.folder / "opened.db"
    opened.touch(mode=0o600)
    opened.write_bytes(gzip.decompress(arrived.read_bytes()))
    Shell(night.folder).ok("check", "opened.db")
    assert [*night.temporary.iterdir()] == []


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_night_that_is_stopped_leaves_no_copy(night: Night, number: signal.Signals) -> None:
    reached = night.folder / "reached"
    os.mkfifo(reached)
    with night.begun(aws=f"echo > {reached}; exec sleep {BOUND_SECONDS:.0f}") as process:
        reached.read_bytes()  # the upload has begun
        assert [*night.temporary.iterdir()] != []
        os.killpg(process.pid, number)
        assert process.wait(BOUND_SECONDS) != 0
    assert [*night.temporary.iterdir()] == []


@pytest.mark.parametrize("what", BROKEN)
def test_a_night_that_fails_says_so_and_carries_nothing_away(night: Night, what: str) -> None:
    assert night.run(**BROKEN[what]) != 0
    assert [*night.bucket.iterdir()] == []
    assert [*night.temporary.iterdir()] == []
    for name in BROKEN[what].keys() - SOUND.keys():
        (night.folder / "bin" / name).unlink()
    assert night.run() == 0  # the night after
    assert len([*night.bucket.iterdir()]) == 1
