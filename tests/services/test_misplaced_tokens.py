"""A token put where a path or an address is wanted is shown by no program and in no report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.sdk.address import Endpoint, masked, parse_store, without_tokens
from mqlite_actor.sdk.token_file import environ_token
from mqlite_broker import __main__ as broker
from mqlite_broker import tls, tokens
from mqlite_broker.settings import VARIABLES
from mqlite_cli.commands import BY_NAME
from mqlite_cli.grammar import parse
from mqlite_cli.invocation import Invocation
from mqlite_cli.output import Form, Output
from mqlite_cli.streams import Streams
from mqlite_cli.terminal import Terminal
from mqlite_mcp import main as mcp
from tests.services.cli_inline import Inline
from tests.services.cli_process import BOUND_SECONDS

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


STARTS = """
import json, os, socket, sys
from mqlite_broker import __main__ as broker
from mqlite_cli import main as command_line
table, kept, codes = json.loads(sys.argv[1]), dict(os.environ), []
with socket.socket() as taken:  # so that each start ends, with all that it has to say before
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    for name, text in table:
        for form in "text", "json":
            os.environ.clear()
            os.environ |= kept | {
                "MQLITE_ADDR": "127.0.0.1:%d" % taken.getsockname()[1], "MQLITE_LOG_FORMAT": form,
                "MQLITE_DB": "mq.db", name: text,
            }
            if name.startswith("MQLITE_TLS"):
                os.environ |= {"MQLITE_TLS_CERT": text, "MQLITE_TLS_KEY": text}
            for words, main in (["mqlite", "serve"], command_line.run), (["b"], broker.main):
                sys.argv = words
                print("start", name, text, file=sys.stderr, flush=True)
                codes.append(main())
print(json.dumps(codes))
"""
SHOWN = ["MQLITE_DB", "MQLITE_LINK_SOCKET", "MQLITE_DIAGNOSTICS_DIR", "MQLITE_DLQ_MAX_AGE",
         "MQLITE_DLQ_RETENTION", "MQLITE_MAX_MESSAGE_BYTES", "MQLITE_CORS", "MQLITE_WORKERS",
         "MQLITE_SYNC", "MQLITE_LOG_LEVEL", "MQLITE_TLS_KEY", "MQLITE_TOKENS_FILE"]  # fmt: skip
"""What a start repeats, in an error, a warning or the line about itself."""


def test_no_start_of_a_broker_shows_a_token_whatever_the_setting(tmp_path: Path) -> None:
    tokens_ = {"MQLITE_TOKENS", "MQLITE_MONITOR_TOKENS", "MQLITE_DB_AUTH_TOKEN"}
    table = [
        (name, text)
        for name in sorted({*VARIABLES} - tokens_)
        for text in (TOKEN, f"/proc/{TOKEN}/x")
    ]
    done = subprocess.run(
        [sys.executable, "-c", STARTS, json.dumps(table)],
        cwd=tmp_path, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [1] * (4 * len(table))
    shown = set()
    for part in done.stderr.split("start ")[1:]:
        head, _, said = part.partition("\n")
        assert SECRET not in said, part
        if "mqk_***" in said:
            shown.add(head.split()[0])
    assert shown >= {*SHOWN}


def test_the_brokers_own_command_line_shows_none(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["mqlite_broker", TOKEN])
    with pytest.raises(SystemExit):
        broker.main()
    assert "mqk_***" in (said := capfd.readouterr().err)
    assert SECRET not in said


def test_no_warning_of_a_command_shows_one(capfd: pytest.CaptureFixture[str]) -> None:
    command, streams = BY_NAME["ping"], Streams()
    output = Output(streams, form=Form.TEXT, terminal=Terminal(streams, {}))
    run = Invocation(command, parse(command, []), environ={}, streams=streams, output=output)
    run.warn(f"cannot open {TOKEN}")
    assert capfd.readouterr().err == "warning: cannot open mqk_***\n"


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
