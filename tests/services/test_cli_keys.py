"""Access keys from the command line, and what their rights open (T19, T20, T59-T64)."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract.calls import BY_PATH
from mqlite_cli.commands import COMMANDS
from mqlite_cli.grammar import Command
from mqlite_cli.table_care import CARE
from tests.sdk.loopback import BOUND_SECONDS, Recorded, engine_replies, loopback, refusal, reply
from tests.services.cli_process import Shell, serving

ID = "0123456789abcdef" * 2
TOKEN = re.compile("mqk_[0-9a-f]{64}")
CREATE = ("key", "create", "--name", "billing", "--permissions")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Shell]:
    """A broker that serves `mq.db` of the folder."""
    with engine_replies(f"file:{tmp_path / 'mq.db'}") as answer, loopback(answer) as server:
        yield Shell(tmp_path, MQLITE_ENDPOINT=server.url)


@contextmanager
def guarded(folder: Path) -> Iterator[tuple[Shell, str]]:
    """A broker with authentication: an administrator's shell, and its URL."""
    shell = Shell(folder, MQLITE_TOKENS="admin", MQLITE_MONITOR_TOKENS="watch")
    with serving(shell) as process:
        yield Shell(folder, MQLITE_ENDPOINT=process.url, MQLITE_TOKEN="admin"), process.url
        assert process.stop() == 0


def made(shell: Shell, permissions: str, *words: str) -> tuple[str, str]:
    """Id and token of a new key."""
    found = shell.run(*CREATE, permissions, *words, "--output", "json", check=0).json
    return found["key"]["id"], found["token"]


# -- making ----------------------------------------------------------------------------------------


@pytest.mark.promise("T59")
@pytest.mark.parametrize("is_local", [False, True])
def test_a_token_is_printed_once_and_is_nowhere_in_the_files(
    tmp_path: Path, *, is_local: bool
) -> None:
    shell = Shell(tmp_path)
    dsn = ":memory:" if is_local else f"file:{tmp_path / 'mq.db'}"
    with engine_replies(dsn) as answer, loopback(answer) as server:
        if not is_local:
            shell = shell.with_(MQLITE_ENDPOINT=server.url)
        done = shell.run(*CREATE, "listen,send", "--id", ID, check=0)
        line = re.fullmatch(
            f"ok: action=key-create id={ID} permissions=send,listen expires=never "
            f"token=({TOKEN.pattern})\n", done.text,
        )  # fmt: skip
        assert line is not None, done
        assert done.err == f"key id={ID}\n"
        listed = shell.ok("key", "list") + shell.ok("key", "list", "--output", "json")
        assert "billing" in listed
        assert line[1] not in listed
        assert not TOKEN.search(listed)
        for path in tmp_path.iterdir():
            assert line[1].encode() not in path.read_bytes(), path
            assert line[1].removeprefix("mqk_").encode() not in path.read_bytes(), path


@pytest.mark.promise("T60")
def test_the_id_is_known_even_when_the_answer_is_lost(tmp_path: Path) -> None:
    with engine_replies() as answer:

        def lossy(request: Recorded) -> bytes | None:
            reply = answer(request)
            return None if request.call == "AuthService/CreateKey" else reply

        with loopback(lossy) as server:
            shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
            done = shell.run(*CREATE, "send", check=1)
            first, error = done.err.splitlines()
            key_id = first.removeprefix("key id=")
            assert re.fullmatch("[0-9a-f]{32}", key_id)
            assert error.startswith("error: outcome_unknown: ")
            assert error.endswith(f"mqlite key revoke {key_id}")
            assert shell.ok("key", "revoke", key_id) == f"ok: action=key-revoke id={key_id}\n"
            assert shell.ok("key", "revoke", key_id) == f"ok: action=key-revoke id={key_id}\n"
            unknown = shell.run("key", "revoke", "f" * 32, check=1)
            assert unknown.err.startswith("error: not_found: ")


@pytest.mark.promise("T61")
def test_an_id_cannot_be_used_twice(broker: Shell) -> None:
    broker.ok(*CREATE, "send", "--id", ID)
    done = broker.run(*CREATE, "send", "--id", ID, check=1)
    assert done.out == b""
    assert done.errors[0].startswith("error: key_conflict: ")
    assert not TOKEN.search(done.err)


@pytest.mark.promise("T64")
@pytest.mark.parametrize("redirect", ["1>/dev/null", "1>&-"])
def test_no_key_is_made_for_nobody(broker: Shell, redirect: str) -> None:
    done = broker.run(*CREATE, "send", redirect=redirect, check=1)
    assert "no key was made" in done.err
    assert broker.ok("key", "list") == "(no keys)\n"


@pytest.mark.promise("T64")
def test_a_secret_file_is_new_private_and_holds_the_token_alone(broker: Shell) -> None:
    path = broker.folder / "token"
    done = broker.run(
        *CREATE, "manage", "--id", ID, "--secret-file", "token", redirect=">/dev/null"
    )
    assert done.code == 0
    assert TOKEN.fullmatch(path.read_text().removesuffix("\n"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = broker.run(*CREATE, "manage", "--secret-file", "token", check=1)
    assert "File exists" in again.err
    assert broker.ok("key", "list").count("\n") == 1
    shown = broker.run(*CREATE, "send", "--secret-file", "b", "--output", "json", check=0)
    assert not TOKEN.search(shown.text)
    assert shown.json["token_file"] == "b"
    refused = broker.run(*CREATE, "send", "--id", ID, "--secret-file", "c", check=1)
    assert refused.errors[0].startswith("error: key_conflict: ")
    assert not (broker.folder / "c").exists()


def test_a_token_that_could_not_be_handed_over_is_named_for_revoking(broker: Shell) -> None:
    done = broker.run(*CREATE, "send", "--id", ID, redirect="1>/dev/full", check=1)
    assert f"revoke it: mqlite key revoke {ID}" in done.err
    assert broker.ok("key", "list").startswith(f"id={ID} ")


@pytest.mark.parametrize(
    ("words", "mend"),
    [
        (["--permissions", "send"], "--name is needed"),
        (["--name", "x"], "--permissions is needed"),
        (["--name", "x", "--permissions", "send", "--id", "ABC"], "--id: 32 hexadecimal digits"),
        (["--name", "x", "--permissions", "send", "--expires", "2020-01-01T00:00:00Z"],
         "--expires: 2020-01-01T00:00:00Z is not in the future"),
        (["--name", "x", "--permissions", "send", "--expires", "-1h"], "--expires: a negative"),
        (["--name", "x", "--permissions", "send", "--secret-file", "none/x"], "cannot make none/x"),
    ],
)  # fmt: skip
def test_a_key_that_cannot_be_meant_is_refused_without_a_request(
    tmp_path: Path, words: list[str], mend: str
) -> None:
    with loopback(lambda _: None) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        done = shell.run("key", "create", *words, check=1)
        assert mend in done.err
        assert server.connections == 0


def test_the_broker_judges_names_and_permissions(broker: Shell) -> None:
    for words in (
        ["--name", "x", "--permissions", "admin"],
        ["--name", " x", "--permissions", "send"],
    ):
        done = broker.run("key", "create", *words, check=1)
        assert done.errors[0].startswith("error: invalid_argument: ")


# -- listing ---------------------------------------------------------------------------------------


@pytest.mark.promise("T63")
def test_pages_follow_each_other_without_repeats(broker: Shell) -> None:
    with engine_replies() as answer, loopback(answer) as server:
        shell = Shell(broker.folder, MQLITE_ENDPOINT=server.url)
        call = next(path for path in BY_PATH if path.endswith("CreateKey"))
        for number in range(250):
            body = {"id": f"{number:032x}", "name": "k", "permissions": ["send"]}
            answer(Recorded(call, [], msgspec.json.encode(body)))
        sizes, seen, after = [], [], ""
        while True:
            page = shell.run("key", "list", "--after", after, "--output", "json", check=0).json
            sizes.append(len(page["keys"]))
            seen += [key["id"] for key in page["keys"]]
            after = page.get("next_after_id", "")
            if not after:
                break
        assert sizes == [100, 100, 50]
        assert seen == sorted(set(seen))
        server.requests.clear()
        assert shell.ok("key", "list", "--all", "--limit", "100").count("\n") == 250
        assert len(server.requests) == 3
        assert shell.ok("key", "list", "--limit", "1").endswith(f"next_after_id={0:032x}\n")
        for limit in ("1001", "0", "-1"):
            assert "--limit" in shell.run("key", "list", "--limit", limit, check=1).err
        assert len(server.requests) == 4


def test_states_are_told_apart(broker: Shell) -> None:
    live, _ = made(broker, "send", "--expires", "90d")
    gone, _ = made(broker, "listen")
    broker.ok("key", "revoke", gone)
    assert broker.ok("key", "list", "--state", "active").startswith(f"id={live} state=active ")
    line = broker.ok("key", "list", "--state", "revoked")
    assert line.startswith(f"id={gone} state=revoked permissions=listen created=20")
    assert " expires=never revoked=20" in line
    assert line.endswith(" name=billing\n")
    assert broker.ok("key", "list", "--state", "expired") == "(no keys)\n"
    assert "did you mean active?" in broker.run("key", "list", "--state", "activ", check=1).err
    newest = broker.run("key", "list", "--sort", "created_desc", "--limit", "1", "--output",
                        "json", check=0).json  # fmt: skip
    assert newest["keys"][0]["state"] in ("active", "revoked")
    assert set(newest["keys"][0]) == {
        "id", "name", "permissions", "created_at_ms", "expires_at_ms", "revoked_at_ms", "state",
    }  # fmt: skip


# -- rights ----------------------------------------------------------------------------------------


@pytest.mark.promise("T62")
def test_a_revoked_and_an_expired_key_are_refused_at_once(tmp_path: Path) -> None:
    with guarded(tmp_path) as (admin, url):
        admin.ok("create-queue", "q")
        key_id, token = made(admin, "send")
        client = Shell(tmp_path, MQLITE_ENDPOINT=url, MQLITE_TOKEN=token)
        client.ok("send", "q", "x")
        admin.ok("key", "revoke", key_id)
        assert client.run("send", "q", "x", check=1).err.startswith("error: unauthenticated: ")
        assert "total=1" in admin.ok("metrics", "q")
        _, brief = made(admin, "send", "--expires", "4s")
        end_ms = SystemClock().now_ms() + 4_000
        client = client.with_(MQLITE_TOKEN=brief)
        while (late := client.run("send", "q", "x")).code == 0:
            assert SystemClock().now_ms() < end_ms + 1_000 * BOUND_SECONDS
        assert late.err.startswith("error: unauthenticated: ")


def test_the_key_in_use_is_revoked_only_when_that_is_said(broker: Shell) -> None:
    own_id, own = made(broker, "manage")
    other_id, _ = made(broker, "send")
    user = broker.with_(MQLITE_TOKEN=own)
    done = user.run("key", "revoke", own_id, check=1)
    assert done.err == (
        f"error: {own_id} is the key that this command uses, and nothing was done; "
        "--yes revokes it\n"
    )
    user.ok("key", "revoke", other_id)
    assert "state=active" in broker.ok("key", "list", "--state", "active")
    user.ok("key", "revoke", own_id, "--yes")
    assert broker.ok("key", "list", "--state", "active") == "(no keys)\n"


def test_a_broker_that_cannot_tell_whose_key_it_is_revokes_it(tmp_path: Path) -> None:
    answers = [refusal(400, "invalid_argument", "unknown field"), reply(200, {"ok": True})]
    with loopback(lambda _: answers.pop(0)) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url, MQLITE_TOKEN=f"mqk_{ID * 2}")
        shell.ok("key", "revoke", ID)
        assert server.calls == ["AuthService/ListKeys", "AuthService/RevokeKey"]


@pytest.mark.promise("T19")
def test_a_key_that_may_send_may_do_nothing_else(tmp_path: Path) -> None:
    with guarded(tmp_path) as (admin, url):
        admin.ok("create-queue", "q")
        _, token = made(admin, "send")
        client = Shell(tmp_path, MQLITE_ENDPOINT=url, MQLITE_TOKEN=token)
        assert client.ok("send", "q", "x") == "ok: queue=q seq=1\n"
        for words in (["receive", "q"], ["list"]):
            done = client.run(*words, check=1)
            assert done.err.startswith("error: permission_denied: ")
            assert done.out == b""


@pytest.mark.promise("T19")
def test_a_refusal_is_asked_for_once(tmp_path: Path) -> None:
    with loopback(lambda _: refusal(403, "permission_denied", "no")) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        for words in (["receive", "q"], ["receive", "q", "--delete"], ["list"], ["peek", "q"]):
            server.requests.clear()
            assert shell.run(*words, check=1).err == "error: permission_denied: no\n"
            assert len(server.requests) == 1


@pytest.mark.promise("T20")
def test_a_monitor_token_may_observe_and_nothing_else(tmp_path: Path) -> None:
    with guarded(tmp_path) as (admin, url):
        admin.ok("create-queue", "q")
        client = Shell(tmp_path, MQLITE_ENDPOINT=url, MQLITE_TOKEN="watch")
        assert "queue=q kind=queue active=0" in client.ok("observe")
        others = [command for command in COMMANDS if command.name not in LOCAL]
        assert len(others) >= 22
        for command in others:
            words = [*command.name.split(), *words_for(command)]
            done = client.run(*words, stdin=b"{}\n", check=1)
            assert done.errors[0].startswith("error: permission_denied: "), command.name


LOCAL = (
    "serve", "observe", "top", "vacuum", "openapi", "completion",
    *(command.name for command in CARE),
)  # fmt: skip
WORDS = {
    "SEQ": "1", "PATH": "/nowhere", "LOCK_TOKEN": ID, "ID": ID, "EXPR": "true", "FILE": "/dev/null",
}  # fmt: skip
EXTRA = {
    "send": ["x"], "schedule": ["x", "--at", "1h"], "receive-deferred": ["--seq", "1"],
    "purge-dlq": ["--all"], "delete-queue": ["--yes"], "update-queue": ["--lock", "1s"],
    "purge": ["--expect", "0"], "consume": ["--exec", "true"],
    "key create": ["--name", "n", "--permissions", "send"],
}  # fmt: skip


def words_for(command: Command) -> list[str]:
    """Words that are complete, for a queue `q`."""
    return [*[WORDS.get(word, "q") for word in command.words], *EXTRA.get(command.name, [])]


def test_a_running_broker_s_keys_are_a_broker_s(tmp_path: Path, broker: Shell) -> None:
    done = Shell(tmp_path).run("key", "list", check=1)
    assert "in use" in done.err
    assert isinstance(broker, Shell)
