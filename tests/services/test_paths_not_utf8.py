"""A folder or a store whose name is not UTF-8: one line that says so, and nothing is made."""

from __future__ import annotations

import os
import sys
import tarfile
from pathlib import Path

import pytest

from mqlite_actor.contract.errors import OpenError
from mqlite_actor.storage.files import canonical_path
from mqlite_mcp import main as mcp
from tests.services.cli_inline import Inline

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="other systems have no such names, or another spelling of them"
)

NAME = os.fsdecode(b"caf\xe9")
SAID = "is not UTF-8, as SQLite needs the path of a database; rename the folder or file"

COMMANDS = [
    ["create-queue", "q"], ["send", "q", "x"], ["peek", "q"], ["serve", "--addr", "127.0.0.1:0"],
    ["status"], ["vacuum"], ["check", "mq.db"], ["check", "--mend-counts", "mq.db"],
    ["restore", "snapshot.db", "mq.db"], ["restore", "--dry-run", "snapshot.db", "mq.db"],
    ["backup", "copy.db"], ["observe"], ["top"],
]  # fmt: skip


@pytest.fixture
def mqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Inline:
    folder = tmp_path / NAME
    folder.mkdir()
    return Inline(folder, monkeypatch, capfd)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_says_so_in_one_line_and_makes_nothing(
    mqlite: Inline, words: list[str]
) -> None:
    done = mqlite.run(*words)
    assert done.code == 1
    (line,) = done.errors
    assert SAID in line
    assert [*mqlite.folder.iterdir()] == []


def test_the_name_of_the_store_counts_too(mqlite: Inline) -> None:
    mqlite.environ["MQLITE_DB"] = f"file:{mqlite.folder.parent / NAME}.db"
    assert SAID in mqlite.run("create-queue", "q", check=1).err
    assert [each.name for each in mqlite.folder.parent.iterdir()] == [NAME]


@pytest.mark.parametrize("form", ["text", "json"])
def test_doctor_finds_it_and_the_bundle_is_made(mqlite: Inline, form: str) -> None:
    mqlite.environ |= {"MQLITE_TOKENS_FILE": NAME, "MQLITE_DIAGNOSTICS_DIR": NAME}
    done = mqlite.run("doctor", "--output", form, check=1)
    assert SAID in done.text
    mqlite.ok("support-bundle", "help.tgz")
    with tarfile.open("help.tgz") as archive:
        assert {"help.tgz/doctor.json", "help.tgz/settings.txt"} <= set(archive.getnames())


def test_the_libraries_say_it_before_anything_is_made(mqlite: Inline) -> None:
    for dsn in ("file:mq.db", "mq.db", f"file:{NAME}"):
        with pytest.raises(OpenError, match="is not UTF-8"):
            canonical_path(dsn)
    assert mcp.target_of("mq.db", {}).dsn == "file:mq.db"
    assert [*mqlite.folder.iterdir()] == []
