"""The commands and the Python face on a remote store: same words, and the token nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

import mqlite_actor as mq
from tests.hrana.server import running_hrana
from tests.services.cli_process import Shell

TOKEN = "sesame-of-the-database"


@pytest.mark.promise("T56")
def test_commands_work_on_a_remote_store_and_show_neither_token_nor_host(tmp_path: Path) -> None:
    with running_hrana(tmp_path, token=TOKEN) as server:
        shell = Shell(tmp_path, MQLITE_DB=server.dsn, MQLITE_DB_AUTH_TOKEN=TOKEN)
        done = [
            shell.run(*words)
            for words in (
                ("create-queue", "jobs"),
                ("send", "jobs", "hello"),
                ("receive", "jobs"),
                ("status",),
                ("vacuum",),
            )
        ]
    said = "".join(each.text + each.err for each in done)
    assert [each.code for each in done] == [0, 0, 0, 0, 1], said
    assert 'body="hello"' in done[2].text
    assert "remote libSQL/Turso" in done[3].text
    assert "libsql://***" in done[3].text
    assert "unsupported" in done[4].err
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
