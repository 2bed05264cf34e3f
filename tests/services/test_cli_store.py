"""status, vacuum and delete-queue (T18, T55, T56, T66)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import trio

import mqlite_actor as mq
from mqlite_actor.contract.wire import ReceiveRequest
from tests.sdk.loopback import Loopback, engine_replies, loopback, refusal
from tests.services.cli_process import Finished, Shell, serving
from tests.warm.process import preparing

pytestmark = pytest.mark.cold  # of each kind of program, some begin as they do for users

SERVED = {"version", "uptime_ms", "auth"}
STORED = {
    "backend", "remote", "location", "schema_version", "ping_ms", "db_size_bytes", "queues",
    "subscriptions",
}  # fmt: skip


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[tuple[Shell, Loopback]]:
    with engine_replies() as answer, loopback(answer) as server:
        yield Shell(tmp_path, MQLITE_ENDPOINT=server.url), server


def prepared(shell: Shell, *words: str) -> Finished:
    """A command that another test is about."""
    with preparing():
        return shell.run(*words, check=0)


# -- status ----------------------------------------------------------------------------------------


@pytest.mark.promise("T56")
def test_a_local_store_has_no_version_uptime_or_auth(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    prepared(shell, "create-queue", "q")
    prepared(shell, "subscribe", "t", "s")
    found = shell.run("status", "--output", "json", check=0).json
    assert set(found) == STORED
    assert list(found) == sorted(found)
    assert (found["backend"], found["queues"], found["subscriptions"]) == ("local file", 1, 1)
    lines = shell.ok("status").splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "backend", "location", "schema", "ping", "size", "queues", "subscriptions",
    ]  # fmt: skip


@pytest.mark.promise("T56")
def test_a_broker_s_status_shows_no_secret(tmp_path: Path) -> None:
    shell = Shell(tmp_path, MQLITE_TOKENS="sesame")
    with serving(shell) as broker:
        client = shell.with_(MQLITE_ENDPOINT=broker.url, MQLITE_TOKEN="sesame")
        prepared(client, "create-queue", "q")
        prepared(client, "subscribe", "t", "s")
        done = client.run("status", "--output", "json", check=0)
        assert set(done.json) == STORED | SERVED
        assert (done.json["queues"], done.json["subscriptions"]) == (1, 1)
        assert done.json["auth"] is True
        text = client.ok("status")
        assert "auth:          on\n" in text
        assert text.startswith("version:       ")
        assert "sesame" not in done.text + text
        assert broker.stop() == 0


# -- vacuum ----------------------------------------------------------------------------------------


@pytest.mark.promise("T18")
@pytest.mark.parametrize("source", ["flag", "environment"])
def test_vacuum_with_a_broker_in_force_touches_no_file(tmp_path: Path, source: str) -> None:
    shell = Shell(tmp_path)
    prepared(shell, "create-queue", "q")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with loopback(lambda _: None) as server:
        url = server.url.replace("http://", "http://sesame@")
        words = ["--endpoint", url] if source == "flag" else []
        environ = {} if source == "flag" else {"MQLITE_ENDPOINT": url}
        done = shell.with_(**environ).run("vacuum", *words, check=1)
        assert "is a broker" in done.err
        assert "sesame" not in done.err
        assert server.connections == 0
        assert shell.with_(MQLITE_ENDPOINT=url).ok("vacuum", "--endpoint=").startswith("ok: ")
    assert {path: path.read_bytes() for path in before}.keys() == before.keys()


@pytest.mark.promise("T18")
def test_vacuum_makes_no_file(tmp_path: Path) -> None:
    assert "does not exist" in Shell(tmp_path).run("vacuum", check=1).err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.promise("T55")
@pytest.mark.parametrize("full", [[], ["--full"]])
def test_a_fresh_store_never_frees_less_than_nothing(tmp_path: Path, full: list[str]) -> None:
    shell = Shell(tmp_path)
    prepared(shell, "create-queue", "q")
    found = shell.run("vacuum", *full, "--output", "json", check=0).json
    assert found["action"] == ("VACUUM" if full else "incremental_vacuum")
    assert found["freed_bytes"] >= 0
    assert found["grew_bytes"] >= 0
    assert (
        found["before_bytes"] - found["freed_bytes"] + found["grew_bytes"] == (found["after_bytes"])
    )
    line = shell.ok("vacuum", *full)
    assert line.startswith(f"ok: {found['action']} \N{EM DASH} ")
    assert "(freed 0.0" in line or "(grew " in line


async def _fill_and_empty(path: Path, count: int) -> None:
    async with mq.open_embedded(f"file:{path}", background=False) as q:
        await q.create_queue("q")
        for _ in range(count // 1000):
            await q.send("q", [b"x" * 200] * 1000)
        request = ReceiveRequest("q", max_messages=256, receive_mode=1)
        while (await q.call(request)).messages:
            pass


@pytest.mark.promise("T55")
def test_after_fifty_thousand_messages_the_file_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "mq.db"
    trio.run(_fill_and_empty, path, 50_000)
    before = path.stat().st_size
    line = Shell(tmp_path).ok("vacuum")
    assert "(freed " in line
    assert path.stat().st_size < before / 4


# -- delete-queue ----------------------------------------------------------------------------------


def generation(shell: Shell, name: str) -> str:
    rows = prepared(shell, "list", "--output", "json").json
    found: str = next(row["generation"] for row in rows if row["name"] == name)
    return found


def put(shell: Shell, state: str) -> None:
    """One message of `q` in this state."""
    if state == "scheduled":
        prepared(shell, "schedule", "q", "x", "--at", "1h")
        return
    prepared(shell, "send", "q", "x")
    if state == "active":
        return
    (message,) = prepared(shell, "receive", "q", "--no-ack", "--output", "json").json
    verb = {"deferred": "defer", "dead_lettered": "reject"}.get(state)
    if verb:
        prepared(shell, verb, "q", "1", message["lock_token"])


@pytest.mark.promise("T66")
@pytest.mark.parametrize("state", ["active", "locked", "deferred", "scheduled", "dead_lettered"])
def test_a_message_in_any_state_keeps_its_queue(broker: tuple[Shell, Loopback], state: str) -> None:
    shell, _ = broker
    prepared(shell, "create-queue", "q")
    put(shell, state)
    assert f"state={state} " in prepared(shell, "peek", "q").text
    done = shell.run("delete-queue", "q", "--yes", check=1)
    assert done.errors[0].startswith("error: queue_not_empty: ")
    assert "q " in prepared(shell, "list").text


@pytest.mark.promise("T66")
def test_a_subscription_a_topic_and_another_generation_stay(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, _ = broker
    prepared(shell, "create-queue", "q")
    prepared(shell, "subscribe", "t", "s")
    for name, given, code in [
        ("q", "f" * 32, "generation_conflict"),
        ("s", generation(shell, "s"), "name_conflict"),
        ("t", "f" * 32, "name_conflict"),
        ("nope", "f" * 32, "not_found"),
    ]:
        done = shell.run("delete-queue", name, "--generation", given, check=1)
        assert done.err.startswith(f"error: {code}: "), name
    assert shell.run("delete-queue", "nope", "--yes", check=1).err.startswith("error: not_found: ")


@pytest.mark.promise("T66")
def test_a_deletion_repeated_never_hits_a_queue_that_was_made_anew(
    broker: tuple[Shell, Loopback],
) -> None:
    shell, _ = broker
    prepared(shell, "create-queue", "q")
    old = generation(shell, "q")
    done = shell.run("delete-queue", "q", "--yes", check=0)
    assert done.text == f"ok: action=delete-queue queue=q generation={old}\n"
    assert done.err == f"queue=q generation={old}\n"
    prepared(shell, "create-queue", "q")
    printed = shell.run("delete-queue", "q", "--generation", old, "--output", "json", check=0).json
    assert printed == {"action": "delete-queue", "queue": "q", "generation": old}
    assert generation(shell, "q") != old


def test_a_deletion_without_a_word_which_is_refused_without_a_request(tmp_path: Path) -> None:
    with loopback(lambda _: None) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        for words in ([], ["--generation="], ["--yes=false"]):
            assert "--generation" in shell.run("delete-queue", "q", *words, check=1).err
        assert server.connections == 0


def test_the_generation_is_on_record_before_the_request_leaves(tmp_path: Path) -> None:
    """The broker drops the connection of the deletion itself."""
    with (
        engine_replies() as answer,
        loopback(
            lambda request: None if request.call.endswith("DeleteQueue") else answer(request)
        ) as server,
    ):
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        prepared(shell, "create-queue", "q")
        done = shell.run("delete-queue", "q", "--yes", check=1)
        assert done.err.startswith(f"queue=q generation={generation(shell, 'q')}\n")
        assert done.errors[0].startswith("error: outcome_unknown: ")


def test_an_old_broker_s_missing_operations_read_differently_from_a_missing_thing(
    tmp_path: Path,
) -> None:
    with loopback(lambda _: refusal(404, "not_found", "no such path: /x")) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        for words in (
            ["delete-queue", "q", "--generation", "g"],
            ["observe"],
            ["key", "revoke", "0" * 32],
        ):
            done = shell.run(*words, check=1)
            assert done.err.startswith("error: unsupported: "), words


def test_a_deletion_names_the_generation_on_the_wire(tmp_path: Path) -> None:
    with loopback(lambda _: refusal(409, "queue_not_empty", "no")) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        shell.run("delete-queue", "q", "--generation", "g", check=1)
        sent = msgspec.json.decode(server.requests[0].body)
        assert sent == {"name": "q", "generation": "g"}
