"""Topics and filters: subscribe, list-subscriptions, test-filter (T26, T51, T52, T57)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.sdk.loopback import engine_replies, loopback, reply
from tests.services.cli_process import Shell

as_users_do = pytest.mark.cold  # of each kind of program, some begin so

GOLD = 'properties.tier == "gold"'


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A broker."""
    with engine_replies() as answer, loopback(answer) as server:
        yield Shell(tmp_path, MQLITE_ENDPOINT=server.url)


@as_users_do
@pytest.mark.promise("T26")
def test_a_publish_reaches_the_subscriptions_whose_filter_matches(shell: Shell) -> None:
    assert shell.ok("subscribe", "sales", "gold", "--expr", GOLD) == (
        "ok: action=subscribe subscription=gold topic=sales\n"
    )
    assert shell.ok("send", "sales", "x", "--prop", "tier=lead") == "ok: queue=sales seq=0\n"
    assert shell.ok("send", "sales", "y", "--prop", "tier=gold") == "ok: queue=sales seq=1\n"
    assert shell.ok("receive", "gold") == 'seq=1 deliveries=1 body="y"\n'


@pytest.mark.promise("T52")
@as_users_do
def test_subscribing_again_changes_the_filter_and_nothing_else(shell: Shell) -> None:
    shell.ok("subscribe", "sales", "gold", "--expr", GOLD)
    before = shell.ok("list")
    assert shell.ok("list-subscriptions") == (
        f"gold                 topic=sales                filter={GOLD}\n"
    )
    printed = shell.run("create-subscription", "sales", "gold", "--output", "json", check=0).text
    assert printed == (
        '{\n  "action": "subscribe",\n  "subscription": "gold",\n  "topic": "sales"\n}\n'
    )
    assert shell.ok("list-subscriptions") == (
        "gold                 topic=sales                (match all)\n"
    )
    assert shell.ok("list") == before


def test_an_empty_list_of_subscriptions_is_an_empty_array(shell: Shell) -> None:
    assert shell.ok("list-subscriptions") == "(no subscriptions)\n"
    assert shell.ok("list-subscriptions", "--output", "json") == "[]\n"
    shell.ok("subscribe", "sales", "gold", "--expr", GOLD)
    shell.ok("subscribe", "sales", "all")
    assert shell.run("list-subscriptions", "--output", "json", check=0).json == [
        {"name": "all", "topic": "sales"},
        {"expr": GOLD, "name": "gold", "topic": "sales"},
    ]


@pytest.mark.promise("T51")
def test_a_bad_ordering_an_empty_name_and_a_live_topic_are_refused(shell: Shell) -> None:
    shell.ok("subscribe", "sales", "gold")
    for words, code in [
        (["create-queue", "q", "--ordering", "fifo"], "invalid_argument"),
        (["create-queue", ""], "invalid_argument"),
        (["create-queue", "sales"], "name_conflict"),
        (["create-queue", "gold"], "name_conflict"),
        (["subscribe", "sales", "bad", "--expr", "subject =="], "invalid_argument"),
    ]:
        assert shell.run(*words, check=1).err.startswith(f"error: {code}: "), words


def test_a_hostile_filter_is_shown_on_one_line(tmp_path: Path) -> None:
    row = {"topic": "t", "name": "s", "expr": 'subject == "a\x1b[2J\nforged"'}
    with loopback(lambda _: reply(200, {"subscriptions": [row]})) as server:
        text = Shell(tmp_path, MQLITE_ENDPOINT=server.url).ok("list-subscriptions")
        assert text.count("\n") == 1
        assert "\x1b" not in text


# -- test-filter -----------------------------------------------------------------------------------


@pytest.mark.promise("T57")
@pytest.mark.parametrize("is_local", [False, True])
@pytest.mark.parametrize(
    ("words", "line", "result"),
    [
        ([GOLD], "ok: valid=true", (True, False, False)),
        ([GOLD, "--prop", "tier=gold"], "ok: valid=true matched=true", (True, True, True)),
        ([GOLD, "--prop", "tier=lead"], "ok: valid=true matched=false", (True, True, False)),
        (["body_json.n > 1", '{"n": 2}'], "ok: valid=true matched=true", (True, True, True)),
        (["group_id == subject", "--group", "x", "--subject", "x"],
         "ok: valid=true matched=true", (True, True, True)),
    ],
)  # fmt: skip
def test_a_filter_is_tried_on_the_sample_that_is_described(
    shell: Shell, *, is_local: bool, words: list[str], line: str, result: tuple[bool, bool, bool]
) -> None:
    if is_local:
        shell = shell.with_(MQLITE_ENDPOINT="")
    assert shell.ok("test-filter", *words) == f"{line}\n"
    found = shell.run("test-filter", *words, "--output", "json", check=0).json
    assert found == dict(zip(("valid", "ran", "matched"), result, strict=True))
    assert list(shell.folder.iterdir()) == []


@pytest.mark.promise("T57")
@pytest.mark.parametrize("is_local", [False, True])
def test_a_filter_that_does_not_compile_exits_1_after_its_json(
    shell: Shell, *, is_local: bool
) -> None:
    if is_local:
        shell = shell.with_(MQLITE_ENDPOINT="")
    done = shell.run("test-filter", "subject ==", check=1)
    assert done.out == b""
    assert len(done.errors) == 1
    assert "line 1, column" in done.err
    done = shell.run("test-filter", "subject ==", "--output", "json", check=1)
    assert (done.json["valid"], done.json["ran"], done.json["matched"]) == (False, False, False)
    assert done.json["error"] in done.err
    failed = shell.run("test-filter", "body_json.a.b == 1", "x", "--output", "json", check=1)
    assert (failed.json["valid"], failed.json["ran"]) == (True, True)
    assert "failed on the sample" in failed.err
    assert list(shell.folder.iterdir()) == []


def test_a_sample_is_sent_only_if_something_describes_it(tmp_path: Path) -> None:
    answer = reply(200, {"valid": True, "ran": False, "matched": False})
    with loopback(lambda _: answer) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        for words in ([], [""], ["--subject="], ["-"]):
            shell.ok("test-filter", "true", *words)
        sent = [msgspec.json.decode(request.body) for request in server.requests]
        assert sent == [{"expr": "true"}, *[{"expr": "true", "message": {}}] * 3]
