"""Contexts: a broker's name stands for its address and credential, and for nothing else's
(tools.md 8, 13)."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from mqlite_cli import contexting
from mqlite_cli.commands import BY_NAME
from mqlite_cli.grammar import parse
from mqlite_cli.refusals import Refusal
from mqlite_cli.target import BrokerTarget, StoreTarget, choose_target
from tests.sdk.loopback import loopback, reply
from tests.services.cli_inline import Inline
from tests.services.cli_process import Shell

pytestmark = pytest.mark.cold  # of each kind of program, some begin as they do for users

SECRETS = ("sesame", "in-url", "piped")


@pytest.fixture
def mqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Inline:
    """`near` with a token, `far` with a token file and an authority, `open` with none."""
    mqlite = Inline(tmp_path, monkeypatch, capfd, {"XDG_CONFIG_HOME": str(tmp_path / "etc")})
    (tmp_path / "far.token").write_text("from-file\n")
    mqlite.ok("context", "add", "near", "--endpoint", "http://near", "--token", "sesame")
    mqlite.ok("context", "add", "far", "--endpoint", "https://far", "--token-file", "far.token",
              "--ca-file", "ca.pem")  # fmt: skip
    mqlite.ok("context", "add", "open", "--endpoint", "mqlite://open")
    return mqlite


def kept(mqlite: Inline) -> Path:
    return mqlite.folder / "etc" / "mqlite" / "contexts.json"


def chosen(mqlite: Inline, *words: str, **environ: str) -> tuple[str, str]:
    """Address and token of a `list`; of a store its string."""
    arguments = parse(BY_NAME["list"], words)
    target = choose_target(arguments, {**mqlite.environ, **environ}, warn=lambda _: None)
    if isinstance(target, StoreTarget):
        return target.dsn, ""
    assert isinstance(target, BrokerTarget)
    return target.endpoint.base_url, target.token


def test_the_order_of_who_decides(mqlite: Inline) -> None:
    mqlite.ok("context", "use", "near")
    flag, context = ("--endpoint", "http://flag"), ("--context", "far")
    endpoint, named, db = (
        {"MQLITE_ENDPOINT": "http://env"}, {"MQLITE_CONTEXT": "open"}, {"MQLITE_DB": "file:x.db"},
    )  # fmt: skip
    everything = endpoint | named | db
    assert chosen(mqlite, *flag, **everything)[0] == "http://flag"
    assert chosen(mqlite, *context, **everything)[0] == "https://far"
    assert chosen(mqlite, **everything)[0] == "http://env"
    assert chosen(mqlite, **named, **db)[0] == "http://open:6754"
    assert chosen(mqlite, **db)[0] == "file:x.db"
    assert chosen(mqlite)[0] == "http://near"
    assert chosen(mqlite, "--endpoint=")[0] == "file:./mq.db"
    mqlite.ok("context", "use", "--none")
    assert chosen(mqlite)[0] == "file:./mq.db"
    with pytest.raises(Refusal, match="--endpoint and --context"):
        chosen(mqlite, *flag, *context)
    with pytest.raises(Refusal, match=r"no context nar; did you mean near\?"):
        chosen(mqlite, "--context", "nar")


def test_a_credential_stays_with_its_broker(mqlite: Inline) -> None:
    ours = {"MQLITE_TOKEN": "env-token", "MQLITE_ENDPOINT": "http://open:6754"}
    assert chosen(mqlite, "--context", "near", **ours) == ("http://near", "sesame")
    assert chosen(mqlite, "--context", "far", **ours) == ("https://far", "from-file")
    assert chosen(mqlite, "--context", "open", **ours) == ("http://open:6754", "env-token")
    assert chosen(mqlite, "--context", "open", MQLITE_TOKEN="other")[1] == ""
    assert chosen(mqlite, "--context", "near", "--token", "flag")[1] == "flag"
    assert chosen(mqlite, "--context", "near", "--token=")[1] == ""
    assert chosen(mqlite, "--endpoint", "http://near")[1] == ""


def test_no_credential_is_ever_shown(mqlite: Inline) -> None:
    mqlite.ok("context", "add", "url", "--endpoint", "mqlite://in-url@host")
    text = mqlite.ok("context", "list") + str(mqlite.run("context", "list", "--output", "json"))
    assert not [secret for secret in SECRETS if secret in text]
    far = str(mqlite.folder / "far.token")
    assert mqlite.ok("context", "list").splitlines()[:2] == [
        f"{'far':<20} https://far token={far}", f"{'near':<20} http://near token=stored",
    ]  # fmt: skip
    mqlite.ok("context", "use", "url")
    assert "http://host:6754 token=stored current" in mqlite.ok("context", "list")
    assert "token=none" in mqlite.ok("context", "list")


def test_the_file_is_its_owner_s_alone_or_is_not_read(mqlite: Inline) -> None:
    path = kept(mqlite)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["contexts.json"]
    path.chmod(0o640)
    for words in (["context", "list"], ["list", "--context", "near"], ["list"]):
        assert f"chmod 600 {path}" in mqlite.run(*words, check=1).err
    path.chmod(0o600)
    for content in ("{", '{"contexts": {"a": {}}}', '{"contexts": {"a": {"endpoint": 5}}}'):
        path.write_text(content)
        assert "is no file of contexts" in mqlite.run("context", "list", check=1).err


def test_names_are_added_replaced_and_removed(mqlite: Inline) -> None:
    before = kept(mqlite).read_bytes()
    refused = {
        ("add", "near", "--endpoint", "http://x"): "--replace replaces it",
        ("add", "x"): "--endpoint is needed",
        ("add", "x", "--endpoint", "x"): "no scheme",
        ("add", "a b", "--endpoint", "http://x"): "is no name",
        ("add", "x", "--endpoint", "http://x", "--token", "a", "--token-file", "b"): "two credent",
        ("use", "nobody"): "there is no context nobody",
        ("use",): "a NAME, or --none",
        ("use", "near", "--none"): "a NAME, or --none",
        ("remove", "nobody"): "there is no context nobody",
    }
    for words, reason in refused.items():
        assert reason in mqlite.run("context", *words, check=1).err
    assert kept(mqlite).read_bytes() == before
    mqlite.ok("context", "use", "near")
    mqlite.ok("context", "add", "near", "--endpoint", "http://new", "--replace")
    assert chosen(mqlite) == ("http://new", "")
    mqlite.ok("context", "remove", "near")
    assert chosen(mqlite)[0] == "file:./mq.db"
    mqlite.environ.clear()
    assert "no place" in mqlite.run("context", "add", "x", "--endpoint", "http://x", check=1).err


def test_of_two_commands_at_once_none_undoes_the_other(
    mqlite: Inline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def typed(*_: object, **__: object) -> bytes:
        """While somebody types a token, other commands run."""
        mqlite.ok("context", "add", "other", "--endpoint", "http://other")
        return b"piped\n"

    with monkeypatch.context() as patch:
        patch.setattr(contexting, "read_body", typed)
        mqlite.ok("context", "add", "typed", "--endpoint", "http://typed", "--token-stdin")
    assert chosen(mqlite, "--context", "typed") == ("http://typed", "piped")
    assert chosen(mqlite, "--context", "other") == ("http://other", "")

    before = kept(mqlite).read_bytes()
    monkeypatch.setattr(contexting, "_LOCK_SECONDS", 0.0)
    descriptor = os.open(kept(mqlite).parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for words in (
            ["add", "late", "--endpoint", "http://late"], ["use", "other"], ["remove", "other"],
        ):  # fmt: skip
            assert "another command" in mqlite.run("context", *words, check=1).err
    finally:
        os.close(descriptor)
    assert kept(mqlite).read_bytes() == before
    mqlite.ok("context", "use", "other")


def test_a_whole_command_goes_by_a_context(tmp_path: Path) -> None:
    with loopback(lambda _: reply(200, {"queues": []})) as server:
        shell = Shell(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "etc"))
        words = ["context", "add", "c", "--endpoint", server.url, "--token-stdin"]
        assert shell.run(*words, stdin=b"piped\n", check=0).text.startswith(
            "ok: action=context-add"
        )
        assert shell.ok("list", "--context", "c") == "(no queues)\n"
        assert server.requests[0].header("Authorization") == "Bearer piped"
        shell.ok("context", "use", "c")
        shell.ok("list")
        assert "is a broker" in shell.run("vacuum", check=1).err
        assert [path.name for path in tmp_path.iterdir()] == ["etc"]
