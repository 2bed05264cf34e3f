"""The commands and the Python face on a remote store: same words, and the token nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mqlite_actor as mq
from tests.hrana.server import HranaServer, running_hrana

TOKEN = "sesame-of-the-database"
BOUND_SECONDS = 60.0
"""Generous for one command; reaching it is a failure."""


def ran(server: HranaServer, *words: str) -> subprocess.CompletedProcess[str]:
    """One command on the store, with its token in the environment."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("MQLITE_")}
    return subprocess.run(
        [sys.executable, "-m", "mqlite_cli", *words],
        env={**ours, "MQLITE_DB": server.dsn, "MQLITE_DB_AUTH_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )


@pytest.mark.promise("T56")
def test_commands_work_on_a_remote_store_and_show_neither_token_nor_host(tmp_path: Path) -> None:
    with running_hrana(tmp_path, token=TOKEN) as server:
        done = [
            ran(server, *words)
            for words in (
                ("create-queue", "jobs"),
                ("send", "jobs", "hello"),
                ("receive", "jobs"),
                ("status",),
                ("vacuum",),
            )
        ]
    said = "".join(each.stdout + each.stderr for each in done)
    assert [each.returncode for each in done] == [0, 0, 0, 0, 1], said
    assert 'body="hello"' in done[2].stdout
    assert "remote libSQL/Turso" in done[3].stdout
    assert "libsql://***" in done[3].stdout
    assert "unsupported" in done[4].stderr
    assert TOKEN not in said
    assert "127.0.0.1" not in said


async def test_one_string_opens_it_from_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_hrana(tmp_path, token=TOKEN) as server:
        async with mq.connect(server.dsn, auth_token=TOKEN) as q:
            await q.create_queue("q")
            await q.send_one("q", b"a")
        monkeypatch.setenv("MQLITE_DB_AUTH_TOKEN", TOKEN)
        async with mq.open_embedded(server.url, background=True) as q:
            (message,) = await q.receive("q")
            await message.complete()
            assert (await q.observe()).backend == "remote"
        monkeypatch.setenv("MQLITE_DB_AUTH_TOKEN", "another")
        with pytest.raises(mq.MqliteError, match="MQLITE_DB_AUTH_TOKEN"):
            async with mq.open_embedded(server.url):
                raise AssertionError("refused before")
