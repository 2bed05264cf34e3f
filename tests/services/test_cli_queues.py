"""create-queue, list and metrics on a real file, and what reading commands leave alone (T50,
T51)."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.sdk.loopback import Recorded, engine_replies, loopback, reply
from tests.services.cli_process import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.mark.promise("T50")
def test_a_queue_is_created_with_the_defaults_and_listed(shell: Shell) -> None:
    assert shell.ok("create-queue", "q") == "ok: action=create-queue queue=q\n"
    line = shell.ok("list")
    assert line.startswith(
        "q                        kind=queue        lock=30000ms maxdc=10 ttl=0ms dedup=0ms "
        "generation="
    )
    (row,) = shell.run("list", "--output", "json", check=0).json
    assert {key: row[key] for key in row if key != "generation"} == {
        "name": "q", "kind": "queue", "lock_duration_ms": 30_000, "max_delivery_count": 10,
        "default_ttl_ms": 0, "dedup_window_ms": 0,
    }  # fmt: skip
    assert list(row) == sorted(row)


@pytest.mark.promise("T50")
def test_an_empty_list_is_an_empty_array(shell: Shell) -> None:
    shell.run("receive", "q", check=1)  # makes the file
    assert shell.ok("list") == "(no queues)\n"
    assert shell.ok("list", "--output", "json") == "[]\n"


def test_every_setting_reaches_the_queue(shell: Shell) -> None:
    shell.ok(
        "create-queue", "q", "--lock", "1m", "--max-delivery", "0x3", "--ttl", "14d", "--dedup",
        "1.5ms", "--ordering", "group_fifo", "--on-expire", "discard",
    )  # fmt: skip
    assert "lock=60000ms maxdc=3 ttl=1209600000ms dedup=2ms" in shell.ok("list")


@pytest.mark.parametrize(
    ("words", "config"),
    [
        ([], {}),
        (["--on-expire", "discard"], {"dead_letter_on_expire": False}),
        (["--on-expire", "dead-letter"], {"dead_letter_on_expire": True}),
        (["--ordering", "strict_fifo"], {"ordering_mode": "strict_fifo"}),
        (["--dlq-max-age", "unbounded"], {"dlq_max_age_ms": -1}),
        (["--dlq-max-age", "-1"], {"dlq_max_age_ms": -1}),
        (["--dlq-max-age", "-1ns"], {"dlq_max_age_ms": -1}),
        (["--dlq-max-age", "1d"], {"dlq_max_age_ms": 86_400_000}),
        (["--dlq-max-age", "0"], {}),
        (["--dlq-max-count", "-1", "--dlq-max-bytes", "unbounded"],
         {"dlq_max_count": -1, "dlq_max_bytes": -1}),
        (["--ttl", "999999w"], {"default_ttl_ms": 999_999 * 604_800_000}),
        (["--ttl", "99999999999w"], {"default_ttl_ms": 2**53}),
    ],
)  # fmt: skip
def test_flags_become_the_wire_s_configuration(
    tmp_path: Path, words: list[str], config: dict[str, object]
) -> None:
    import msgspec

    with loopback(lambda _: reply(200, {})) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        done = shell.run("create-queue", "q", *words, "--output", "json", check=0)
        assert done.text == '{\n  "action": "create-queue",\n  "queue": "q"\n}\n'
        sent = msgspec.json.decode(server.requests[0].body)
        assert sent == {"name": "q", "config": config} if config else {"name": "q"}


@pytest.mark.promise("T30")
@pytest.mark.parametrize(
    ("words", "mend"),
    [
        (["--lock", "-1s"], "--lock: a negative duration"),
        (["--lock", "999us"], "--lock: shorter than a millisecond"),
        (["--ttl", "-1ms"], "--ttl: a negative duration"),
        (["--ttl", "0.5ns"], "--ttl: shorter than a millisecond"),
        (["--dedup", "1ns"], "--dedup: shorter than a millisecond"),
        (["--dlq-max-age", "1us"], "--dlq-max-age: shorter than a millisecond"),
        (["--max-delivery", "-1"], "--max-delivery: must not be negative"),
        (["--dlq-max-count", "-2"], "--dlq-max-count: must not be negative"),
        (["--ordering", "fifo"], "none of standard, group_fifo, strict_fifo"),
        (["--on-expire", "drop"], "none of dead-letter, discard"),
    ],
)
def test_a_value_that_would_change_its_meaning_is_refused_before_anything_happens(
    shell: Shell, words: list[str], mend: str
) -> None:
    done = shell.run("create-queue", "q", *words, check=1)
    assert done.err.startswith("error: invalid_argument: ")
    assert mend in done.err
    assert list(shell.folder.iterdir()) == []


@pytest.mark.promise("T51")
def test_an_empty_name_is_refused_by_the_engine(shell: Shell) -> None:
    assert shell.run("create-queue", "", check=1).err.startswith("error: invalid_argument: ")


@pytest.mark.parametrize("words", [["list"], ["peek", "q"], ["metrics", "q"]])
def test_a_reading_command_does_not_create_a_missing_file(shell: Shell, words: list[str]) -> None:
    done = shell.run(*words, check=1)
    assert "mq.db does not exist" in done.err
    assert done.out == b""
    assert list(shell.folder.iterdir()) == []


def test_the_database_is_where_the_environment_says(shell: Shell) -> None:
    for dsn in ("file:./a.db", "b.db"):
        shell.with_(MQLITE_DB=dsn).ok("create-queue", "q")
    assert {path.suffix for path in shell.folder.iterdir() if path.stat().st_size} == {".db"}
    assert (shell.folder / "a.db").exists()
    assert (shell.folder / "b.db").exists()
    assert shell.with_(MQLITE_DB=":memory:").ok("list") == "(no queues)\n"


def test_the_environment_of_the_engine_is_checked(shell: Shell) -> None:
    assert "MQLITE_SYNC" in shell.with_(MQLITE_SYNC="FULLL").run("create-queue", "q", check=1).err
    assert not (shell.folder / "mq.db").exists()
    shell.with_(MQLITE_SYNC=" full ").ok("create-queue", "q")
    small = shell.with_(MQLITE_MAX_MESSAGE_BYTES="4")
    assert small.run("send", "q", "12345", check=1).err.startswith("error: message_too_large: ")
    warned = shell.with_(MQLITE_MAX_MESSAGE_BYTES="1MB").run("send", "q", "12345", check=0)
    assert warned.err.startswith("warning: MQLITE_MAX_MESSAGE_BYTES")


def test_a_remote_store_that_nobody_reaches_is_told_clearly(shell: Shell) -> None:
    with socket.socket() as taken:  # bound and never listening: whoever connects is refused
        taken.bind(("127.0.0.1", 0))
        address = f"libsql://127.0.0.1:{taken.getsockname()[1]}?tls=0&authToken=secret"
        done = shell.with_(MQLITE_DB=address).run("list", check=1)
    assert "cannot be reached" in done.err
    assert "secret" not in done.err
    assert list(shell.folder.iterdir()) == []


def test_metrics_counts_by_state(shell: Shell) -> None:
    shell.ok("create-queue", "q")
    shell.ok("send", "q", "x")
    line = shell.ok("metrics", "q")
    assert line.startswith(
        "queue=q active=1 locked=0 deferred=0 scheduled=0 dead=0 total=1 oldest="
    )
    assert line.endswith("ms\n")
    counts = shell.run("metrics", "q", "--output", "json", check=0).json
    assert list(counts) == sorted(counts)
    assert {key: value for key, value in counts.items() if key != "oldest_message_age_ms"} == {
        "queue": "q", "active": 1, "locked": 0, "deferred": 0, "scheduled": 0, "dead_lettered": 0,
        "total": 1,
    }  # fmt: skip
    assert shell.run("metrics", "nope", check=1).err.startswith("error: not_found: ")


def test_names_that_could_mislead_are_quoted(tmp_path: Path) -> None:
    name = "q kind=forged\x1b[2J"

    def answer(_: Recorded) -> bytes:
        return reply(200, {"queues": [{
            "name": name, "kind": "queue", "lock_duration_ms": 1, "max_delivery_count": 1,
            "default_ttl_ms": 0, "dedup_window_ms": 0, "generation": "g",
        }]})  # fmt: skip

    with loopback(answer) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        assert shell.ok("list").startswith('"q kind=forged\\x1b[2J"   kind=queue ')
        assert shell.run("list", "--output", "json", check=0).json[0]["name"] == name


def test_a_lost_standard_output_says_that_the_effect_has_happened(shell: Shell) -> None:
    for redirect, reason in [("1>&-", "it is closed"), ("1>/dev/full", "No space left on device")]:
        for form in ("text", "json"):
            done = shell.run("create-queue", "q", "--output", form, redirect=redirect, check=1)
            assert reason in done.err
            assert "has taken effect (ok: action=create-queue queue=q)" in done.err
    assert shell.run("create-queue", "q", redirect="1>/dev/null", check=0).err == ""


def test_the_same_commands_give_the_same_text_through_a_broker(shell: Shell) -> None:
    with engine_replies() as answer, loopback(answer) as server:
        remote = shell.with_(MQLITE_ENDPOINT=server.url)
        for words in (["create-queue", "q", "--lock", "5s"], ["send", "q", "hello"], ["peek", "q"],
                      ["receive", "q"], ["receive", "q"], ["peek", "q"]):  # fmt: skip
            assert remote.ok(*words) == shell.ok(*words)
