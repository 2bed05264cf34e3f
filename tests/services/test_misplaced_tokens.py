"""A token put where a path or an address is wanted is shown by no program and in no report."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.sdk.address import Endpoint, masked, parse_store, without_tokens
from mqlite_actor.sdk.token_file import environ_token
from mqlite_broker import tls, tokens
from mqlite_mcp import main as mcp
from tests.services.cli_inline import Inline

SECRET = "0123456789abcdef" * 4
TOKEN = f"mqk_{SECRET}"

NAMES = ["MQLITE_TOKEN_FILE", "MQLITE_TOKENS_FILE", "MQLITE_MONITOR_TOKENS_FILE", "MQLITE_TLS_KEY",
         "MQLITE_TLS_CERT", "MQLITE_ENDPOINT", "MQLITE_DB", "MQLITE_CONTEXT", "MQLITE_BACKUP_DIR",
         "MQLITE_DIAGNOSTICS_DIR", "MQLITE_ADDR"]  # fmt: skip


@pytest.fixture
def mqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Inline:
    return Inline(tmp_path, monkeypatch, capfd)


@pytest.mark.parametrize("name", NAMES)
def test_no_report_shows_what_a_variable_of_another_kind_holds(mqlite: Inline, name: str) -> None:
    mqlite.environ |= {"MQLITE_DB": "mq.db", name: TOKEN}
    for form in ("text", "json"):
        done = mqlite.run("doctor", "--output", form)
        assert SECRET not in done.text + done.err
    mqlite.ok("support-bundle", "help.tar.gz")
    with tarfile.open(mqlite.folder / "help.tar.gz") as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            assert SECRET.encode() not in file.read(), member.name


@pytest.mark.parametrize(
    "words",
    [
        ["peek", "q", "--token-file", TOKEN],
        ["peek", "q", "--endpoint", TOKEN],
        ["peek", "q", "--endpoint", f"mqlite://{TOKEN}"],
        ["peek", "q", "--endpoint", "http://127.0.0.1:1", "--token-file", f"./{TOKEN}"],
        ["peek", "q", "--endpoint", "https://127.0.0.1:1", "--ca-file", TOKEN],
        ["peek", "q", "--context", TOKEN],
        ["import", "q", "--file", TOKEN],
        ["peek", "q", "--" + TOKEN],
        [TOKEN],
        ["key", TOKEN],
        ["context", TOKEN],
    ],
)
def test_no_error_shows_a_token_among_the_words(mqlite: Inline, words: list[str]) -> None:
    done = mqlite.run(*words)
    assert done.code
    assert "error: " in done.err
    assert SECRET not in done.text + done.err


def test_the_libraries_own_errors_show_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for read in (
        lambda: environ_token({"MQLITE_TOKEN_FILE": TOKEN}),
        lambda: tokens.read_list(TOKEN, source="MQLITE_TOKENS_FILE"),
        lambda: parse_store(TOKEN),
        lambda: tls.server_context(TOKEN, TOKEN),
    ):
        with pytest.raises(InvalidArgument) as caught:
            read()
        assert SECRET not in str(caught.value)
    assert mcp._fail(f"cannot open {TOKEN}") == 1
    assert capfd.readouterr().err == "error: cannot open mqk_***\n"
    with pytest.raises(SystemExit):
        mcp._parser().parse_args([TOKEN])
    assert SECRET not in capfd.readouterr().err
    assert SECRET not in repr(Endpoint(f"http://{TOKEN}:6754"))
    assert masked(TOKEN) == "mqk_***"


def test_only_the_token_is_taken_out_of_a_text() -> None:
    said = f"cannot read '{os.sep}etc{os.sep}{TOKEN}': gone, {TOKEN}, and amqk_1"
    assert without_tokens(said) == (
        f"cannot read '{os.sep}etc{os.sep}mqk_***': gone, mqk_***, and amqk_1"
    )
