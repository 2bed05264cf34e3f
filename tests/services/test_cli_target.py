"""Broker or store, and which credential: the tables of spec/tools.md 1.2 (T11-T17)."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_cli.commands import BY_NAME
from mqlite_cli.grammar import parse
from mqlite_cli.refusals import Refusal
from mqlite_cli.target import BrokerTarget, StoreTarget, choose_target
from tests.sdk.loopback import Loopback, Recorded, engine_replies, loopback, refusal, reply
from tests.services.cli_process import Shell

ENDPOINT, TOKEN, DB = "MQLITE_ENDPOINT", "MQLITE_TOKEN", "MQLITE_DB"


def chosen(*words: str, **environ: str) -> tuple[BrokerTarget | StoreTarget, list[str]]:
    """The target, and the warnings."""
    warnings: list[str] = []
    arguments = parse(BY_NAME["list"], words)
    return choose_target(arguments, environ, warn=warnings.append), warnings


def broker(*words: str, **environ: str) -> tuple[str, str, list[str]]:
    """Base URL, token and warnings of a choice that must be a broker."""
    target, warnings = chosen(*words, **environ)
    assert isinstance(target, BrokerTarget)
    return target.endpoint.base_url, target.token, warnings


@pytest.mark.promise("T11")
def test_the_flag_beats_the_environment_and_empty_means_the_store() -> None:
    environ = {ENDPOINT: "mqlite://env", DB: "file:./x.db"}
    assert broker(**environ)[0] == "http://env:6754"
    assert broker("--endpoint", "http://flag", **environ)[0] == "http://flag"
    target, _ = chosen("--endpoint=", **environ)
    assert isinstance(target, StoreTarget)
    assert target.dsn == "file:./x.db"


def test_without_an_endpoint_the_store_is_the_environment_s_or_the_default() -> None:
    for environ, dsn in [({}, "file:./mq.db"), ({DB: ""}, "file:./mq.db"), ({DB: "a.db"}, "a.db")]:
        target, _ = chosen(**environ)
        assert isinstance(target, StoreTarget)
        assert target.dsn == dsn


def test_a_store_that_is_a_broker_is_refused_with_the_mend() -> None:
    with pytest.raises(InvalidArgument, match="did you mean MQLITE_ENDPOINT"):
        chosen(MQLITE_DB="mqlite://host")


def test_an_endpoint_that_makes_no_sense_is_refused_by_its_source() -> None:
    with pytest.raises(InvalidArgument, match=r"--endpoint: .*write mqlite://127"):
        chosen("--endpoint", "127.0.0.1:6754")
    with pytest.raises(InvalidArgument, match="MQLITE_ENDPOINT: "):
        chosen(MQLITE_ENDPOINT="ftp://x")


@pytest.mark.promise("T13", "T15")
@pytest.mark.parametrize(
    ("words", "environ", "token"),
    [
        (["--token", "X"], {ENDPOINT: "mqlite://own@h", TOKEN: "env"}, "X"),
        (["--token="], {ENDPOINT: "mqlite://own@h", TOKEN: "env"}, ""),
        ([], {ENDPOINT: "mqlite://own@h", TOKEN: "env"}, "env"),
        ([], {ENDPOINT: "mqlite://own@h"}, "own"),
        ([], {ENDPOINT: "http://user@h"}, ""),
        (["--endpoint", "mqlite://h"], {ENDPOINT: "mqlite://h", TOKEN: "env"}, "env"),
        (["--endpoint", "http://h:6754/"], {ENDPOINT: "mqlite://own@h", TOKEN: "env"}, "env"),
        (["--endpoint", "mqlite://o@h"], {ENDPOINT: "http://h:6754", TOKEN: "env"}, "env"),
        (["--endpoint", "mqlite://own@other"], {ENDPOINT: "mqlite://h"}, "own"),
    ],
)
def test_the_credential_follows_the_table(
    words: list[str], environ: dict[str, str], token: str
) -> None:
    _, sent, warnings = broker(*words, **environ)
    assert sent == token
    assert warnings == []


@pytest.mark.promise("T14")
@pytest.mark.parametrize(
    "endpoint",
    [
        "mqlite://other",
        "mqlite://h:1",
        "https://h:6754",
        "http://h:6754/prod",
        "http://H:6754",
        "http://h:6754?x",
        "http://user@h:6754",
    ],
)
@pytest.mark.parametrize("ambient", [{ENDPOINT: "mqlite://h"}, {ENDPOINT: "nonsense"}, {}])
@pytest.mark.parametrize("source", [TOKEN, "MQLITE_TOKEN_FILE"])
def test_another_broker_never_gets_the_environment_s_credential(
    endpoint: str, ambient: dict[str, str], source: str
) -> None:
    _, sent, (warning,) = broker("--endpoint", endpoint, **{**ambient, source: "sesame"})
    assert sent == ""
    assert "--token" in warning
    assert source in warning
    assert "sesame" not in warning


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_token_file_is_read_and_trimmed(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "token"
    path.write_text(f"{mark}  mqk_file\r\n", "utf-8")
    environ = {ENDPOINT: "mqlite://h"}
    assert broker("--token-file", str(path), MQLITE_TOKEN="env", **environ)[1] == "mqk_file"
    assert broker(MQLITE_TOKEN_FILE=str(path), **environ)[1] == "mqk_file"


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe", b"a" * 70_000])
def test_a_token_file_without_one_token_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(Refusal, match="token-file"):
        broker("--token-file", str(path), MQLITE_ENDPOINT="mqlite://h")
    with pytest.raises(Refusal, match="No such file"):
        broker("--token-file", str(tmp_path / "none"), MQLITE_ENDPOINT="mqlite://h")


def test_two_credentials_of_one_rank_are_refused() -> None:
    with pytest.raises(Refusal, match="give one"):
        broker("--token", "a", "--token-file", "b", MQLITE_ENDPOINT="mqlite://h")
    with pytest.raises(Refusal, match="set one"):
        broker(MQLITE_ENDPOINT="mqlite://h", MQLITE_TOKEN="a", MQLITE_TOKEN_FILE="b")


# -- as a process, against a server that records ---------------------------------------------------


def empty_list(_: Recorded) -> bytes:
    return reply(200, {"queues": []})


def authorization(server: Loopback) -> list[str | None]:
    return [request.header("authorization") for request in server.requests]


@pytest.mark.promise("T11")
def test_client_mode_creates_no_file(tmp_path: Path) -> None:
    with loopback(empty_list) as server:
        done = Shell(tmp_path, MQLITE_ENDPOINT=server.url).run("list", check=0)
        assert done.text == "(no queues)\n"
        assert server.calls == ["AdminService/ListQueues"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.promise("T13", "T14", "T15")
def test_the_recorded_credential_is_the_one_of_the_table(tmp_path: Path) -> None:
    with loopback(empty_list) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url, MQLITE_TOKEN="sesame")
        same = f"mqlite://own@127.0.0.1:{server.port}"
        assert shell.run("list", "--endpoint", same, check=0).err == ""
        assert shell.run("list", "--token=", "--endpoint", same, check=0).err == ""
        alias = shell.run("list", "--endpoint", f"http://localhost:{server.port}", check=0)
        assert authorization(server) == ["Bearer sesame", None, None]
        assert alias.err.count("\n") == 1
        assert alias.err.startswith("warning: ")
        assert "--token" in alias.err
        assert "sesame" not in alias.err


def wants_sesame(request: Recorded) -> bytes:
    if request.header("authorization") == "Bearer sesame":
        return empty_list(request)
    return refusal(401, "unauthenticated", "missing credential")


@pytest.mark.promise("T13")
def test_a_refused_credential_exits_1_after_one_request(tmp_path: Path) -> None:
    with loopback(wants_sesame) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=f"mqlite://sesame@127.0.0.1:{server.port}")
        shell.run("list", check=0)
        done = shell.run("list", "--token=", check=1)
        assert done.err == "error: unauthenticated: missing credential\n"
        assert len(server.requests) == 2


@pytest.mark.promise("T16")
def test_no_failing_command_prints_a_credential(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with loopback(lambda _: refusal(403, "permission_denied", "no")) as server:
        runs = [
            ("list", "--endpoint", f"mqlite://sesame@127.0.0.1:{port}"),
            ("list", "--endpoint", f"http://sesame@127.0.0.1:{port}/?t=sesame"),
            ("list", "--endpoint", "ftp://sesame@host"),
            ("list", "--endpoint", "mqlite://sesame@"),
            ("list", "--endpoint", server.url, "--token", "sesame"),
            ("list", "--endpoint", server.url, "--token", "sesame\n"),
            ("list", "--endpoint", server.url, "--tokn=sesame"),
            ("list", "--token=sesame", "--output", "yaml"),
            ("send", "q", "--token=sesame"),
        ]
        shell = Shell(tmp_path, MQLITE_TOKEN="sesame", MQLITE_DB_AUTH_TOKEN="sesame")
        for words in runs:
            done = shell.run(*words)
            assert done.code in {1, 2}
            assert done.err
            assert "sesame" not in done.err + done.text


@pytest.mark.promise("T17")
def test_a_second_opener_fails_at_once_and_the_first_is_unharmed(tmp_path: Path) -> None:
    """The first opener is an engine in this process, behind a server."""
    shell = Shell(tmp_path)
    with engine_replies(f"file:{tmp_path / 'mq.db'}") as answer, loopback(answer) as server:
        done = shell.run("create-queue", "q", check=1)
        assert "in use" in done.err
        assert len(done.errors) == 1
        shell.with_(MQLITE_ENDPOINT=server.url).ok("create-queue", "q")
    assert "q " in shell.ok("list")


def test_an_old_broker_s_unknown_path_reads_differently_from_an_unknown_queue(
    tmp_path: Path,
) -> None:
    with loopback(lambda _: refusal(404, "not_found", "no such path: /x")) as server:
        done = Shell(tmp_path, MQLITE_ENDPOINT=server.url).run("metrics", "q", check=1)
        assert done.err.startswith("error: unsupported: the broker does not know this operation")


def test_errors_of_a_broker_are_one_line_without_terminal_codes(tmp_path: Path) -> None:
    evil = "bad\x1b]52;c;x\x07\nok: queue=forged \u202e"
    with loopback(lambda _: refusal(400, "invalid_argument", evil)) as server:
        done = Shell(tmp_path, MQLITE_ENDPOINT=server.url).run("list", check=1)
        assert done.err == (
            "error: invalid_argument: bad\\x1b]52;c;x\\a\\nok: queue=forged \\u202e\n"
        )
